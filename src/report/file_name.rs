//! File names made from a server's words: harmless, short, and unique.

use std::path::{Path, PathBuf};

/// Longest name that file systems accept, in bytes.
const LONGEST: usize = 255;
/// Bytes of it that a model's name and version may have.
const MODEL: usize = 100;
const VERSION: usize = 20;

/// Names of the files beside a result, one for each of several models: `MODEL_vVERSION.RESULT`.
///
/// In model and version, letters, digits, `-`, `_` and `.` stay (except a leading dot), everything else becomes `_`. A
/// name is cut after 100 bytes, a version after 20, and the result's name at its front if the whole would exceed 255
/// bytes. If a name is already taken, its version gets the suffix `~2`, `~3` and so on.
pub struct FileNames {
    result: PathBuf,
    taken: Vec<String>,
}

impl FileNames {
    /// Names beside `result`.
    pub fn beside(result: &Path) -> Self {
        Self { result: result.to_owned(), taken: Vec::new() }
    }

    /// The file of a model.
    pub fn of_model(&mut self, name: &str, version: &str) -> PathBuf {
        let stem = format!("{}_v{}", harmless(name, MODEL), harmless(version, VERSION));
        let again = (2..).map(|number| format!("{stem}~{number}"));
        let stem =
            std::iter::once(stem.clone()).chain(again).find(|stem| !self.taken.contains(stem)).unwrap_or_default();
        let file = self.result.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let capacity = LONGEST - stem.len() - 1;
        let name = format!("{stem}.{}", &file[file.ceil_char_boundary(file.len().saturating_sub(capacity))..]);
        self.taken.push(stem);
        self.result.with_file_name(name)
    }
}

/// A plain file name of at most `longest` bytes.
pub fn harmless(text: &str, longest: usize) -> String {
    let kept = |ch: char| ch.is_alphanumeric() || matches!(ch, '-' | '_' | '.');
    let name: String = text.chars().map(|ch| if kept(ch) { ch } else { '_' }).collect();
    let name = name.strip_prefix('.').map_or_else(|| name.clone(), |tail| format!("_{tail}"));
    name[..name.floor_char_boundary(longest)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(result: &str, models: &[(&str, &str)]) -> Vec<String> {
        let mut names = FileNames::beside(Path::new(result));
        models.iter().map(|(name, version)| names.of_model(name, version).to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn usual_names_stay() {
        assert_eq!(
            names("out/x.csv", &[("ns/part", "1"), ("Modell-ä_1.2", "3")]),
            ["out/ns_part_v1.x.csv", "out/Modell-ä_1.2_v3.x.csv"]
        );
    }

    #[test]
    fn none_leaves_the_folder_or_is_hidden() {
        let bad = [("../../x", "1"), ("p", "1/../../../outside/p"), ("a\0\n\u{202e}b", "1"), ("..", "..")];
        assert_eq!(
            names("out/x.csv", &bad),
            ["out/_._.._x_v1.x.csv", "out/p_v1_.._.._.._outside_p.x.csv", "out/a___b_v1.x.csv", "out/_._v_..x.csv"]
        );
    }

    #[test]
    fn long_names_fit_and_equal_ones_are_told_apart() {
        let (long, result) = ("é".repeat(300), format!("{}.csv", "r".repeat(250)));
        let all = names(&result, &[(&long, &long), (&format!("{long}2"), &long), ("a/b", "1"), ("a_b", "1")]);
        assert!(all.iter().all(|name| name.len() <= LONGEST && name.ends_with("r.csv")), "{all:?}");
        assert!(all[1].contains("~2.") && all[3].starts_with("a_b_v1~2."), "{all:?}");
    }
}
