//! Sentences in lines that fit the terminal.

use crate::stdio;

/// Columns of a line where there is no terminal, or a wider one.
pub const WIDTH: usize = 80;
/// A terminal narrower than this breaks lines itself.
const NARROWEST: usize = 40;

/// Columns of the terminal on standard output, if it is one.
pub fn terminal() -> Option<usize> {
    if cfg!(test) { None } else { stdio::columns() }
}

/// Columns of a line: a narrower terminal would break it a second time, in the middle of a word.
fn columns() -> usize {
    terminal().map_or(WIDTH, |columns| columns.clamp(NARROWEST, WIDTH))
}

/// A text in lines, of which those after the first are indented further.
pub fn wrapped(text: &str) -> String {
    within(text, 4, columns())
}

/// The same of an item of a list, whose lines begin behind its dash.
pub fn item(text: &str) -> String {
    within(text, 2, columns())
}

/// Lines of `width` letters at most, of which those after the first are indented by `further` more letters than it.
fn within(text: &str, further: usize, width: usize) -> String {
    let indent = text.len() - text.trim_start().len();
    let (mut lines, mut line) = (String::new(), " ".repeat(indent));
    let mut words = 0;
    // Blanks within a line are kept: they align columns.
    for word in text.trim_start().split(' ') {
        let used = line.chars().count() + usize::from(words > 0) + word.chars().count();
        if words > 0 && used > width {
            lines.push_str(line.trim_end());
            lines.push('\n');
            line = " ".repeat(indent + further);
            words = 0;
        }
        if words > 0 {
            line.push(' ');
        }
        line.push_str(word);
        words += 1;
    }
    lines.push_str(line.trim_end());
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_wide_as_there_is_room_for() {
        let text = format!("  {}", "word ".repeat(40).trim_end());
        for width in [NARROWEST, 60, WIDTH] {
            let lines = within(&text, 4, width);
            let longest = lines.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= width && longest > width - "word ".len() - 4, "{width}: {lines}");
            assert!(
                lines.starts_with("  word") && lines.lines().skip(1).all(|line| line.starts_with("      word")),
                "{lines}"
            );
            assert_eq!(lines.split_whitespace().count(), 40, "{lines}");
        }
        assert_eq!(within("a verylongword", 4, 5), "a\n    verylongword\n", "a word is never broken");
    }
}
