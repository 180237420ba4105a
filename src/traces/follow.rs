//! Trace files that a server is still writing: reads what was added since the last poll.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::objects::Objects;
use crate::trace::{Joined, Trace};

/// The files of a server: `FILE`, which it appends to, and `FILE.0`, `FILE.1` and so on, each of which it writes at
/// once.
#[derive(Debug)]
pub struct TraceFiles {
    path: PathBuf,
    /// How far each file has been read.
    read: BTreeMap<PathBuf, u64>,
    /// Limit on the bytes read at once.
    most: u64,
}

/// If a server has written more than this since the last poll, over all of its files, only the end is read: 100 000 traces or so, which take
/// twice that in memory.
const MAX_BYTES: u64 = 128 << 20;

impl TraceFiles {
    /// The files of `path`. Their present content is skipped.
    pub fn from_now(path: &Path) -> Self {
        let mut files = Self { path: path.to_owned(), read: BTreeMap::new(), most: MAX_BYTES };
        files.read = files.sizes().unwrap_or_default();
        files
    }

    /// The server's name for them.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length of each existing file.
    ///
    /// # Errors
    /// If the folder, or a file in it, cannot be examined; it is not an error if none exists, as before the server
    /// has written any.
    pub fn sizes(&self) -> io::Result<BTreeMap<PathBuf, u64>> {
        let mut sizes = BTreeMap::new();
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name().and_then(|name| name.to_str()))
        else {
            return Ok(sizes);
        };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let found = entry.file_name();
            let suffix = found.to_str().and_then(|found| found.strip_prefix(name));
            let is_one = suffix.is_some_and(|suffix| {
                suffix.is_empty() || suffix.strip_prefix('.').is_some_and(|number| number.parse::<u64>().is_ok())
            });
            if is_one {
                sizes.insert(entry.path(), fs::metadata(entry.path())?.len());
            }
        }
        Ok(sizes)
    }

    /// Which of the files it is, in the order in which they are written: the one that is added to comes last.
    fn number(&self, path: &Path) -> u64 {
        let number = path.extension().and_then(|number| number.to_str()?.parse().ok());
        if path == self.path { u64::MAX } else { number.unwrap_or(u64::MAX) }
    }

    /// Whether there is more than has been read.
    ///
    /// # Errors
    /// As [`TraceFiles::sizes`].
    pub fn has_more(&self) -> io::Result<bool> {
        Ok(self.sizes()?.iter().any(|(path, size)| self.read.get(path).copied().unwrap_or(0) != *size))
    }

    /// The traces added since the last call, of requests whose id `wants` accepts. If a file ends within an object,
    /// because the server is writing, that trace is left to the next call.
    ///
    /// # Errors
    /// If a file cannot be read, or does not contain traces.
    pub fn take(&mut self, wants: impl Fn(&str) -> bool) -> io::Result<Vec<Trace>> {
        let mut joined = Joined::default();
        let mut files: Vec<(PathBuf, u64)> = self.sizes()?.into_iter().collect();
        files.sort_by_key(|(path, _)| std::cmp::Reverse(self.number(path)));
        let mut left = self.most;
        for (path, size) in files {
            let from = self.read.entry(path.clone()).or_default();
            if *from > size {
                // The server was restarted, and began its file again.
                *from = 0;
            }
            // An object that is cut off by this does not belong to a complete trace.
            *from = (*from).max(size.saturating_sub(left));
            left -= size - *from;
            if *from < size {
                let mut file = File::open(&path)?;
                file.seek(SeekFrom::Start(*from))?;
                *from += Objects::default().read(&mut file.take(size - *from), &mut joined)?.bytes;
            }
        }
        let mut traces = joined.traces();
        traces.retain(|trace| trace.request.as_deref().is_some_and(&wants));
        Ok(traces)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn add(path: &Path, text: &str) {
        fs::OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn request(id: i64, request: &str) -> String {
        format!(
            r#"{{"id":{id},"model_name":"a}}\"","model_version":1,"request_id":"{request}"}},{{"id":{id},"timestamps":[{{"name":"REQUEST_START","ns":{id}0}}]}}"#
        )
    }

    fn ids(traces: &[Trace]) -> Vec<i64> {
        traces.iter().filter_map(|trace| trace.id).collect()
    }

    #[test]
    fn what_is_added_is_read_once_and_what_is_torn_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        add(&path, &format!("[{}", request(1, "r")));
        let mut files = TraceFiles::from_now(&path);
        assert!(!files.has_more().unwrap());
        assert_eq!(files.take(|_| true).unwrap(), [], "what was there before is of others");
        let third = request(3, "r");
        let half = third.find("},{").unwrap() + 4;
        add(&path, &format!(",{},{}", request(2, "r"), &third[..half]));
        assert!(files.has_more().unwrap());
        let traces = files.take(|_| true).unwrap();
        assert_eq!((ids(&traces), traces[0].model.as_str(), traces[0].moments[0].ns), (vec![2], "a}\"", 20));
        assert_eq!(files.take(|_| true).unwrap(), []);
        add(&path, &third[half..]);
        let traces = files.take(|_| true).unwrap();
        assert_eq!((ids(&traces), traces[0].moments[0].ns), (vec![3], 30), "both of its objects");
        add(&path, "]");
        assert_eq!(files.take(|_| true).unwrap(), []);
        fs::write(&path, format!("[{}", request(4, "r"))).unwrap();
        assert_eq!(ids(&files.take(|_| true).unwrap()), [4], "a new server's file begins anew");
    }

    #[test]
    fn files_with_numbers_are_read_and_requests_of_others_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json");
        let mut files = TraceFiles::from_now(&path);
        assert!(files.take(|_| true).unwrap().is_empty(), "none is there yet");
        for (name, text) in
            [("t.json.0", request(1, "ours")), ("t.json.10", request(3, "ours")), ("t.json.x", request(9, "ours"))]
        {
            add(&folder.path().join(name), &format!("[{text}]"));
        }
        add(&folder.path().join("t.json.1"), &format!("[{},{}]", request(2, "theirs"), r#"{"id":5,"timestamps":[]}"#));
        assert_eq!(ids(&files.take(|id| id == "ours").unwrap()), [1, 3]);
        assert!(!files.has_more().unwrap());
    }

    #[test]
    fn wherever_a_file_ends_while_it_is_written_no_trace_is_lost_or_torn() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("[{},{},{}]", request(1, "r"), request(2, "r"), request(3, "r"));
        for end in (0..text.len()).filter(|end| !text[..*end].ends_with(['}', ','])) {
            let path = folder.path().join(format!("{end}.json"));
            let mut files = TraceFiles::from_now(&path);
            add(&path, &text[..end]);
            let mut traces = files.take(|_| true).unwrap();
            add(&path, &text[end..]);
            traces.extend(files.take(|_| true).unwrap());
            let whole = traces.iter().filter(|trace| !trace.moments.is_empty() && !trace.model.is_empty()).count();
            assert_eq!((ids(&traces), whole), (vec![1, 2, 3], 3), "{end}");
        }
    }

    #[test]
    fn of_very_much_the_latest_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json");
        let all: Vec<String> = (1..=9).map(|id| request(id, "r")).collect();
        let whole = all[0].len() as u64;
        for most in 0..4 * whole {
            let mut files = TraceFiles { most, ..TraceFiles::from_now(&path) };
            add(&path, &format!("[{}]", all.join(",")));
            let traces = files.take(|_| true).unwrap();
            let wanted = (most / (whole + 1)) as usize;
            assert!(ids(&traces).ends_with(&(1..=9).collect::<Vec<_>>()[9 - wanted..]), "{most}: {traces:?}");
            assert!(!files.has_more().unwrap(), "what is left out does not come later");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn of_many_files_the_latest_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json");
        let texts: Vec<String> = (1..=4).map(|id| format!("[{}]", request(id, "r"))).collect();
        let whole = texts[0].len() as u64;
        for (name, text) in ["t.json.2", "t.json.10", "t.json", "t.json.9"].into_iter().zip(&texts) {
            add(&folder.path().join(name), text);
        }
        for (most, expected) in
            [(0, &[][..]), (whole, &[3]), (2 * whole, &[2, 3]), (3 * whole, &[2, 3, 4]), (9 * whole, &[1, 2, 3, 4])]
        {
            let mut files = TraceFiles { path: path.clone(), read: BTreeMap::new(), most };
            assert_eq!(ids(&files.take(|_| true).unwrap()), expected, "{most}");
            assert!(!files.has_more().unwrap(), "what is too much is not read later, either");
        }
    }

    #[test]
    fn what_is_no_file_of_traces_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json");
        let mut files = TraceFiles::from_now(&path);
        add(&path, "[{nonsense}]");
        assert!(files.take(|_| true).is_err());
        assert!(TraceFiles::from_now(&folder.path().join("none/t.json")).take(|_| true).is_err(), "no such folder");
    }
}
