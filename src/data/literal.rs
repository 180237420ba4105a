//! The Python literal in the header of a `.npy` file.

/// The members of the header's Python dictionary.
pub(super) struct Fields {
    /// Type of the elements, such as `<f4`.
    pub descr: String,
    /// Whether elements are stored column by column.
    pub fortran_order: bool,
    /// Dimensions.
    pub shape: Vec<i64>,
}

impl Fields {
    /// Parses the dictionary; `None` if it is malformed.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut text = Literal(text.trim_end());
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        text.take('{')?;
        while !text.ends('}') {
            let key = text.string()?;
            text.take(':')?;
            match key {
                "descr" => descr = Some(text.string()?.to_owned()),
                "fortran_order" => fortran_order = Some(text.boolean()?),
                "shape" => shape = Some(text.tuple()?),
                _ => return None,
            }
            if !text.ends(',') && !text.0.trim_start().starts_with('}') {
                return None;
            }
        }
        let whole = text.0.trim().is_empty();
        Some(Self { descr: descr?, fortran_order: fortran_order?, shape: shape? }).filter(|_| whole)
    }
}

/// The rest of a Python literal.
struct Literal<'a>(&'a str);

impl<'a> Literal<'a> {
    fn ends(&mut self, sign: char) -> bool {
        self.take(sign).is_some()
    }

    fn take(&mut self, sign: char) -> Option<()> {
        self.0 = self.0.trim_start().strip_prefix(sign)?;
        Some(())
    }

    fn string(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let quote = text.chars().next().filter(|&sign| sign == '\'' || sign == '"')?;
        let (string, tail) = text[1..].split_once(quote)?;
        self.0 = tail;
        Some(string)
    }

    fn boolean(&mut self) -> Option<bool> {
        let text = self.0.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(tail) = text.strip_prefix(word) {
                self.0 = tail;
                return Some(value);
            }
        }
        None
    }

    fn tuple(&mut self) -> Option<Vec<i64>> {
        self.take('(')?;
        let (inside, tail) = self.0.split_once(')')?;
        self.0 = tail;
        let mut items: Vec<_> = inside.split(',').map(str::trim).collect();
        if items.last().is_some_and(|last| last.is_empty()) {
            items.pop();
        }
        items.into_iter().map(|item| item.trim_end_matches('L').parse().ok().filter(|&dim: &i64| dim >= 0)).collect()
    }
}
