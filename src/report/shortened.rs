//! Texts that are longer than there is room for.

/// What stands for the letters that are left out.
const MARK: char = '…';

/// The beginning of a text, of at most so many letters with the mark.
pub fn beginning(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    text.chars().take(letters.saturating_sub(1)).chain([MARK]).collect()
}

/// Its end: those of file names differ more often than their beginnings.
pub fn ending(text: &str, letters: usize) -> String {
    let count = text.chars().count();
    if count <= letters {
        return text.to_owned();
    }
    let shown = letters.saturating_sub(1);
    [MARK].into_iter().chain(text.chars().skip(count - shown)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_as_many_letters_as_there_is_room_for() {
        assert_eq!((beginning("größer", 6), ending("größer", 6)), ("größer".to_owned(), "größer".to_owned()));
        assert_eq!((beginning("größer", 4), ending("größer", 4)), ("grö…".to_owned(), "…ßer".to_owned()));
        assert_eq!((beginning("größer", 1), ending("größer", 0)), ("…".to_owned(), "…".to_owned()));
    }
}
