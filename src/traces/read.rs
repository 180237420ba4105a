//! Trace files of Triton, in the old and the new format.
//!
//! A file is a JSON list. In the old format it has one object per trace; newer servers write one object per moment, and
//! one with the model's name, all with the trace's `id`. Both read alike once objects of one `id` are merged.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use crate::error::{Error, Result};
use crate::objects::{Extent, Objects};
use crate::trace::{Entry, Joined, Trace};

/// What was read of a file.
#[derive(Debug, Default)]
pub struct TraceFile {
    /// Its traces, ordered by `id`.
    pub traces: Vec<Trace>,
    /// Whether the file lacks its end: a server writes whole traces whenever its settings change, and the end of the list when
    /// it stops. A server that was killed may leave a half-written object, which is left out with the trace before it,
    /// to which it may belong.
    pub is_unended: bool,
    /// Tensors that were left out: Triton does not escape quotes in their data, so that these are no JSON.
    pub damaged: u64,
}

/// Reads a file.
///
/// # Errors
/// If the file cannot be read, or is not a list of traces; the message names the file and the place in it.
pub fn read(path: &Path) -> Result<TraceFile> {
    let refused = |reason: String| Error::input(format!("trace file '{}': {reason}", path.display()));
    let open = || File::open(path).map(BufReader::new).map_err(|error| refused(error.to_string()));
    match serde_json::from_reader(open()?) {
        Ok(entries) => Ok(TraceFile { traces: joined(entries), ..TraceFile::default() }),
        Err(error) => {
            let so_far = if error.is_eof() { unended(open()?) } else { None };
            let so_far = so_far.or_else(|| by_object(&mut open().ok()?, &mut open().ok()?, error.is_eof()));
            so_far.ok_or_else(|| refused(format!("{error}; it must be a JSON list as Triton writes it")))
        }
    }
}

/// The traces of a file that ends too early, between two objects.
fn unended(file: impl Read) -> Option<TraceFile> {
    let entries = serde_json::from_reader(file.chain(&b"]"[..])).ok()?;
    Some(TraceFile { traces: joined(entries), is_unended: true, damaged: 0 })
}

/// The traces of a file that ends within an object, if it has whole ones before that, or has tensors that are no JSON.
fn by_object(file: &mut impl Read, again: &mut impl Read, is_cut: bool) -> Option<TraceFile> {
    let mut so_far = Joined::default();
    let Extent { damaged, .. } = Objects::default().read(file, &mut so_far).ok()?;
    let is_unended = if damaged > 0 { !has_end(again)? } else { is_cut };
    let traces = so_far.traces();
    (!traces.is_empty() && (is_cut || damaged > 0)).then_some(TraceFile { traces, is_unended, damaged })
}

/// Whether the last byte that is no blank ends a list.
fn has_end(file: &mut impl Read) -> Option<bool> {
    let (mut piece, mut last) = (vec![0; 1 << 16], 0);
    loop {
        let length = file.read(&mut piece).ok()?;
        if length == 0 {
            return Some(last == b']');
        }
        last = piece[..length].iter().copied().rfind(|byte| !byte.is_ascii_whitespace()).unwrap_or(last);
    }
}

fn joined(entries: Vec<Entry>) -> Vec<Trace> {
    let mut all = Joined::default();
    entries.into_iter().for_each(|entry| all.add(entry));
    all.traces()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wherever_a_file_was_cut_off_the_whole_traces_in_it_are_read() {
        let object = |id: i64| {
            let first = format!(r#"{{"id":{id},"model_name":"a]}}\"","model_version":1}}"#);
            (first.len(), format!(r#"{first},{{"id":{id},"timestamps":[{{"name":"A","ns":{id}}}]}}"#))
        };
        let ((_, entry), (begun, other)) = (object(1), object(2));
        let all = format!("[{entry},{other}]");
        // That it is whole shows where another one has begun.
        let (ended, next) = (entry.len() + 1, entry.len() + 2 + begun);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json");
        for end in 1..all.len() {
            std::fs::write(&path, &all[..end]).unwrap();
            let TraceFile { traces, is_unended: lacks_end, .. } = read(&path).unwrap_or_else(|error| {
                assert!(error.to_string().contains("EOF"), "{error}");
                TraceFile { is_unended: true, ..TraceFile::default() }
            });
            let whole = traces.iter().filter(|trace| !trace.moments.is_empty() && !trace.model.is_empty()).count();
            let expected =
                usize::from(end == ended || end == ended + 1 || end >= next) + usize::from(end + 1 == all.len());
            assert_eq!((whole, lacks_end), (expected, true), "{}", &all[..end]);
        }
        for none in ["", " ", "{", "\"", "null"] {
            std::fs::write(&path, none).unwrap();
            let error = read(&path).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("t.json") && error.contains("it must be a JSON list"), "{none}: {error}");
        }
    }

    #[test]
    fn tensors_that_are_no_json_are_left_out_and_counted() {
        let tensor = |data: &str| {
            format!(
                r#"{{"id":1,"activity":"TENSOR_QUEUE_INPUT","tensor":{{"name":"X","data":"{data}","shape":"1,2","dtype":"BYTES"}}}}"#
            )
        };
        let text = |data: &[&str]| {
            let tensors: Vec<String> = data.iter().map(|data| tensor(data)).collect();
            format!(
                r#"[{{"id":1,"model_name":"m","model_version":1}},{},{{"id":1,"timestamps":[{{"name":"A","ns":5}}]}}]"#,
                tensors.join(",")
            )
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json");
        for (data, damaged) in [
            (&[r#"\"a\""#][..], 0),
            (&[r#"\"so it is "no"\""#, r#"\"a\""#], 1),
            (&[r#"""#, r#"}},{"id":7"#, r"\", r#"{"{"[","shape":"x"}}"#], 4),
            (&["line\nend \u{1}"], 1),
        ] {
            std::fs::write(&path, text(data)).unwrap();
            let file = read(&path).unwrap();
            assert_eq!((file.damaged, file.is_unended, file.traces.len()), (damaged, false, 1), "{data:?}");
            assert_eq!((file.traces[0].model.as_str(), file.traces[0].moments.len()), ("m", 1), "{data:?}");
        }
        let cut = text(&[r#"a "b" c"#]);
        std::fs::write(&path, &cut[..cut.len() - 1]).unwrap();
        let file = read(&path).unwrap();
        assert_eq!((file.damaged, file.is_unended, file.traces.len()), (1, true, 1));
    }

    #[test]
    fn objects_of_one_id_are_one_trace() {
        let text = r#"[{"id":2,"timestamps":[{"name":"B","ns":7}]},{"id":1,"model_name":"a","model_version":1,"parent_id":2},
            {"id":2,"model_name":"e","model_version":"-1"},{"id":2,"timestamps":[{"name":"A","ns":5}]},
            {"id":2,"activity":"TENSOR_QUEUE_INPUT","tensor":{"name":"X"}}]"#;
        let traces = joined(serde_json::from_str(text).expect("the test's data are JSON"));
        assert_eq!((traces[0].id, traces[0].parent, traces[0].version.as_str()), (Some(1), Some(2), "1"));
        let names: Vec<&str> = traces[1].moments.iter().map(|moment| moment.name.as_str()).collect();
        assert_eq!((traces[1].model.as_str(), traces[1].version.as_str(), &names[..]), ("e", "-1", &["A", "B"][..]));
    }
}
