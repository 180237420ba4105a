//! The names in docs/walks.md.

use crate::Functions;
use crate::source::Source;

/// Whether the walks name files and functions that there are: a name like `a/b.rs` is a file below `src`, one like `c()` a
/// function in the file named last.
pub(crate) fn the_walks_are_true(sources: &[Source]) {
    let text = include_str!("../../../docs/walks.md");
    let mut file: Option<&Source> = None;
    let (mut functions, mut missing) = (0, Vec::new());
    for name in text.split('`').skip(1).step_by(2) {
        if name.ends_with(".rs") {
            file = sources.iter().find(|source| source.path == name);
            missing.extend(file.is_none().then(|| name.to_owned()));
        } else if let Some(function) = name.strip_suffix("()") {
            functions += 1;
            let is_there =
                file.is_some_and(|file| Functions::of(file).iter().any(|candidate| candidate.name == function));
            missing.extend((!is_there).then(|| format!("{function} in {}", file.map_or("no file", |file| &file.path))));
        }
    }
    assert!(functions > 20, "the walks are found");
    assert!(missing.is_empty(), "docs/walks.md names what is not there: {missing:?}");
}
