//! Trace files of Triton, in the old and the new format.
//!
//! A file is a JSON list. In the old format it has one object per trace; newer servers write one object per moment, and
//! one with the model's name, all with the trace's `id`. Both read alike once objects of one `id` are merged.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use crate::error::{Error, Result};
use crate::traces::objects::Objects;
use crate::traces::trace::{Entry, Joined, Trace};

/// The traces of a file, ordered by `id`, and whether the file lacks its end: a server writes whole traces whenever its
/// settings change, and the end of the list when it stops. A server that was killed may
/// leave a half-written object, which is left out with the trace before it, to which it may belong.
///
/// # Errors
/// If the file cannot be read, or is not a list of traces; the message names the file and the place in it.
pub fn read(path: &Path) -> Result<(Vec<Trace>, bool)> {
    let refused = |what: String| Error::input(format!("trace file '{}': {what}", path.display()));
    let open = || File::open(path).map(BufReader::new).map_err(|error| refused(error.to_string()));
    match serde_json::from_reader(open()?) {
        Ok(entries) => Ok((joined(entries), false)),
        Err(error) => {
            let so_far = if error.is_eof() { unended(open()?, open()?) } else { None };
            let traces =
                so_far.ok_or_else(|| refused(format!("{error}; it must be a JSON list as Triton writes it")))?;
            Ok((traces, true))
        }
    }
}

/// The traces of a file that ends too early, between two objects or, if it has whole ones before that, within one.
fn unended(file: impl Read, mut again: impl Read) -> Option<Vec<Trace>> {
    if let Ok(entries) = serde_json::from_reader(file.chain(&b"]"[..])) {
        return Some(joined(entries));
    }
    let mut so_far = Joined::default();
    Objects::default().read(&mut again, &mut so_far).ok()?;
    Some(so_far.traces()).filter(|traces| !traces.is_empty())
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
        let one = |id: i64| {
            let first = format!(r#"{{"id":{id},"model_name":"a]}}\"","model_version":1}}"#);
            (first.len(), format!(r#"{first},{{"id":{id},"timestamps":[{{"name":"A","ns":{id}}}]}}"#))
        };
        let ((_, one), (begun, other)) = (one(1), one(2));
        let all = format!("[{one},{other}]");
        // That it is whole shows where another one has begun.
        let (ended, next) = (one.len() + 1, one.len() + 2 + begun);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json");
        for end in 1..all.len() {
            std::fs::write(&path, &all[..end]).unwrap();
            let (traces, lacks_end) = read(&path).unwrap_or_else(|error| {
                assert!(error.to_string().contains("EOF"), "{error}");
                (Vec::new(), true)
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
