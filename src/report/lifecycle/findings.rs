//! `validation.json`: what is wrong with the figures of each file, in the form of inference-perf's own checks. There an error is
//! a mistake of the program that wrote the files; what the measurement itself finds odd is a warning.

use serde_json::{Value, json};

use crate::result::reasons::Verdict;
use crate::result::summary::LevelSummary;

/// The findings about files, of which some are those of a level.
pub fn findings<'a>(files: impl IntoIterator<Item = (String, Option<&'a LevelSummary>)>) -> Value {
    let group = |(file, level): (String, Option<&LevelSummary>)| {
        let warnings: Vec<Value> =
            level.map(reasons).unwrap_or_default().iter().map(|text| warning(&file, text)).collect();
        (file, json!({ "warnings": warnings, "errors": [] }))
    };
    json!({
        "global": { "warnings": [], "errors": [] },
        "reports": files.into_iter().map(group).collect::<serde_json::Map<_, _>>(),
    })
}

fn reasons(level: &LevelSummary) -> Vec<String> {
    match &level.verdict {
        Verdict::Invalid(reasons) => reasons.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}

fn warning(file: &str, text: &str) -> Value {
    json!({ "check": "level.validity", "severity": "warning", "message": text, "report": file })
}
