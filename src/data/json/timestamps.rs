//! The times of a fixed schedule, read before the model is known.

use std::path::PathBuf;

use crate::error::Result;
use crate::json::lexer::{Fault, Kind, Lexer};
use crate::json::tensor::read_tensor;
use crate::json::{expect, located, named, other_format};
use crate::model::TensorSpec;
use crate::shm::{RegionBuilder, map_text};

/// The values of the UINT64 input `spec` of every step of JSON files, in order. All other tensors are skipped, because
/// the model is not known yet.
///
/// # Errors
/// Names file, line, step and rule: not JSON, no steps, several streams, a step without that input or with a value
/// other than one integer, steps that are out of order.
pub fn timestamps(files: &[PathBuf], spec: &TensorSpec) -> Result<Vec<u64>> {
    let mut reader = Reader { spec, memory: RegionBuilder::new()?, times: Vec::new() };
    for path in files {
        let text = map_text(path)?;
        reader.document(&text).map_err(|fault| named(path, &text, &fault))?;
    }
    Ok(reader.times)
}

struct Reader<'a> {
    spec: &'a TensorSpec,
    memory: RegionBuilder,
    times: Vec<u64>,
}

impl Reader<'_> {
    fn document(&mut self, text: &[u8]) -> Result<(), Fault> {
        const NO_DATA: &str = "The json file doesn't contain data field: it must be {\"data\": [...]}";
        // NumPy's formats are valid for input data, but not here.
        if let Some((problem, _)) = other_format(text) {
            let form = r#"{"data": [{"INPUT": [...], "timestamp": [MILLISECONDS]}, ...]}"#;
            return Err(Fault::syntax(0, format!("{problem}; a schedule and its data are JSON in UTF-8: {form}")));
        }
        let mut lexer = Lexer::new(text);
        expect(&mut lexer, Kind::Object, NO_DATA)?;
        let (mut first, before) = (true, self.times.len());
        while lexer.more(b'}', &mut first)? {
            if lexer.key()? == "data" {
                self.data(&mut lexer)?;
            } else {
                lexer.skip()?;
            }
        }
        lexer.end()?;
        if self.times.len() == before { Err(lexer.breach(NO_DATA)) } else { Ok(()) }
    }

    fn data(&mut self, lexer: &mut Lexer<'_>) -> Result<(), Fault> {
        expect(lexer, Kind::Array, "\"data\" must be an array of steps")?;
        let mut first = true;
        while lexer.more(b']', &mut first)? {
            if lexer.peek()? == Kind::Array {
                return Err(lexer.breach("a schedule is one stream, so \"data\" must be an array of steps (objects)"));
            }
            let (at, step) = (lexer.offset(), self.times.len());
            let time = self.step(lexer).map_err(|fault| located(fault, 0, step))?;
            if let Some(last) = self.times.last().filter(|last| time < **last) {
                let rule =
                    format!("it is due at {time} ms, and the step before it at {last} ms: sort the steps by time");
                return Err(located(Fault::rule(at, rule), 0, step));
            }
            self.times.push(time);
        }
        if self.times.is_empty() { Err(lexer.breach("\"data\" is empty; give at least one step")) } else { Ok(()) }
    }

    fn step(&mut self, lexer: &mut Lexer<'_>) -> Result<u64, Fault> {
        expect(lexer, Kind::Object, "a step must be an object of tensors")?;
        let (mut first, mut time) = (true, None);
        while lexer.more(b'}', &mut first)? {
            if lexer.key()? == self.spec.name.as_str() {
                time = Some(self.time(lexer)?);
            } else {
                lexer.skip()?;
            }
        }
        time.ok_or_else(|| lexer.breach(format!("missing tensor {}, which says when the step is due", self.spec.name)))
    }

    fn time(&mut self, lexer: &mut Lexer<'_>) -> Result<u64, Fault> {
        self.memory.truncate(0);
        read_tensor(lexer, self.spec, &mut self.memory)?;
        let bytes = <[u8; 8]>::try_from(self.memory.since(0));
        let wrong = || lexer.breach(format!("tensor {} must hold one value: milliseconds", self.spec.name));
        bytes.map(u64::from_le_bytes).map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DataType;

    fn read(texts: &[&str]) -> Result<Vec<u64>> {
        let folder = tempfile::tempdir().unwrap();
        let write = |(number, text): (usize, &&str)| {
            let path = folder.path().join(format!("{number}.json"));
            std::fs::write(&path, text).unwrap();
            path
        };
        let files: Vec<PathBuf> = texts.iter().enumerate().map(write).collect();
        let (name, datatype) = ("timestamp".to_owned(), DataType::Uint64);
        timestamps(&files, &TensorSpec { name, datatype, shape: vec![1], optional: false, shape_tensor: true })
    }

    #[test]
    fn times_are_read_past_other_tensors_and_over_files() {
        let first =
            r#"{"data": [{"X": [1, {"b64": ""}], "timestamp": [5]}, {"timestamp": {"content": [7], "shape": [1]}}]}"#;
        assert_eq!(read(&[first, r#"{"other": 1, "data": [{"timestamp": [9]}]}"#]).unwrap(), [5, 7, 9]);
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_its_place() {
        for (text, rule) in [
            ("", "0.json"),
            ("[]", "doesn't contain data"),
            ("PK\x03\x04", "it is a zip archive; a schedule and its data are JSON"),
            (r#"{"x": []}"#, "doesn't contain data"),
            (r#"{"data": []}"#, "is empty"),
            (r#"{"data": [[{"timestamp": [1]}]]}"#, "one stream"),
            (r#"{"data": [{"timestamp": [1]}, {"X": [1]}]}"#, "missing tensor timestamp"),
            (r#"{"data": [{"timestamp": [1, 2]}]}"#, "one value"),
            (r#"{"data": [{"timestamp": [-1]}]}"#, "timestamp"),
            (r#"{"data": [{"timestamp": [0.5]}]}"#, "timestamp"),
            (r#"{"data": [{"timestamp": ["a"]}]}"#, "timestamp"),
            (r#"{"data": [{"timestamp": [1]}"#, "line 1"),
            (
                "{\"data\": [{\"timestamp\": [50]},\n {\"timestamp\": [30]}]}",
                "line 2, column 2: it is due at 30 ms, and the step before it at 50 ms: sort the steps by time",
            ),
        ] {
            let error = read(&[text]).expect_err(text).to_string();
            assert!(error.contains(rule), "{text}: {error}");
        }
    }
}
