//! Traces in the format of Triton's own trace files (24.10): a list with an object that names each model, and one per
//! moment.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::backend::{ModelTrace, Moment};
use crate::error::Result;
use crate::partial::unwritten;
use crate::record::KeptTrace;
use crate::{Interrupts, SafeFile, inert};

/// Writes the traces of a run.
///
/// # Errors
/// If the file cannot be written; the message names it.
pub fn write(path: &Path, interrupts: Interrupts, traces: &[KeptTrace]) -> Result<()> {
    write_file(path, interrupts, traces)
        .map_err(|error| unwritten(format_args!("--trace-file {}", path.display()), &error))
}

fn write_file(path: &Path, interrupts: Interrupts, traces: &[KeptTrace]) -> io::Result<()> {
    let mut file = BufWriter::new(SafeFile::create(path, interrupts)?);
    file.write_all(b"[")?;
    let entries = traces.iter().flat_map(|trace| &trace.models).flat_map(entries);
    for (number, entry) in entries.enumerate() {
        file.write_all(if number == 0 { b"" } else { b"," })?;
        inert::write(&mut file, &entry)?;
    }
    file.write_all(b"]\n")?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.finish()
}

/// A model's name, and its moments in order of time.
fn entries(model: &ModelTrace) -> Vec<Value> {
    let mut name = json!({"id": model.id, "model_name": model.name.text(), "model_version": model.version});
    if model.parent > 0 {
        name["parent_id"] = model.parent.into();
    }
    let times = Moment::ALL.into_iter().filter_map(|moment| Some((model.at(moment)?, moment.name())));
    let moments = times.map(|(at, name)| json!({"id": model.id, "timestamps": [{"name": name, "ns": at}]}));
    [name].into_iter().chain(moments).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::ModelName;

    #[test]
    fn what_was_not_told_is_left_out() {
        let model =
            ModelTrace { id: 4, parent: 2, name: ModelName::new(b"m"), version: 1, moments: [5, 6, 0, 0, 0, 0, 9] };
        let entries: Vec<String> = entries(&model).iter().map(ToString::to_string).collect();
        assert_eq!(
            entries,
            [
                r#"{"id":4,"model_name":"m","model_version":1,"parent_id":2}"#,
                r#"{"id":4,"timestamps":[{"name":"REQUEST_START","ns":5}]}"#,
                r#"{"id":4,"timestamps":[{"name":"QUEUE_START","ns":6}]}"#,
                r#"{"id":4,"timestamps":[{"name":"REQUEST_END","ns":9}]}"#
            ]
        );
    }
}
