//! The export's file on its way to the disk, which may become full.

use std::io::{self, Write};

use crate::report::SafeFile;

/// So much is gathered before it is written.
const BLOCK: usize = 1 << 16;

/// A place at which the file could end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    /// Bytes before it.
    pub at: u64,
    /// Whether an experiment is open there.
    pub open: bool,
    /// Requests before it.
    pub requests: u64,
}

/// A file that is written in blocks, and that can be closed at the last mark that is in it.
#[derive(Debug)]
pub struct Gathered {
    file: SafeFile,
    block: Vec<u8>,
    /// Bytes that are in the file.
    written: u64,
    latest: Mark,
    /// The last two marks that were in the file when a block of it had been written, the later one first: where no byte has room
    /// behind that, there is some behind the other.
    safe: [Mark; 2],
}

impl Gathered {
    /// Nothing yet.
    pub fn new(file: SafeFile) -> Self {
        Self {
            file,
            block: Vec::with_capacity(2 * BLOCK),
            written: 0,
            latest: Mark::default(),
            safe: [Mark::default(); 2],
        }
    }

    /// The file could end here, in that state.
    pub fn mark(&mut self, state: Mark) {
        self.latest = Mark { at: self.written + self.block.len() as u64, ..state };
    }

    /// Writes what was gathered.
    ///
    /// # Errors
    /// Where the file does not take it.
    pub fn pass_on(&mut self) -> io::Result<()> {
        self.file.write_all(&self.block)?;
        self.written += self.block.len() as u64;
        self.block.clear();
        if self.latest.at > self.safe[0].at {
            self.safe = [self.latest, self.safe[0]];
        }
        Ok(())
    }

    /// The file; what was gathered is not in it.
    pub fn into_file(self) -> SafeFile {
        self.file
    }

    /// Completes a file that takes no more with `ending`, as near to its end as there is room for that. Returns how many requests
    /// are in it; `None` where none could be kept.
    pub fn close_early(mut self, ending: impl Fn(&Mark) -> Vec<u8>) -> Option<u64> {
        let file = &mut self.file;
        let mut close = |mark: &Mark| file.cut(mark.at).and_then(|()| file.write_all(&ending(mark))).is_ok();
        let mark = self.safe.into_iter().filter(|mark| mark.requests > 0).find(|mark| close(mark))?;
        self.file.finish().is_ok().then_some(mark.requests)
    }
}

impl Write for Gathered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.block.extend_from_slice(bytes);
        if self.block.len() >= BLOCK {
            self.pass_on()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on()
    }
}
