//! What the thread that writes requests asks of a file.

use crate::error::{Error, Result};
use crate::export::ExperimentEnd;
use crate::record::RawRecord;
use crate::result::summary::LevelLoad;

/// What a file of requests needs of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// What they and their responses carried.
    pub contents: bool,
    /// Those that failed, too.
    pub failures: bool,
}

impl Needs {
    /// Where there is no file.
    pub const NOTHING: Self = Self { contents: false, failures: false };
}

/// A file of requests, written while they come: experiments one after the other.
pub trait RequestFile: Send {
    /// What it holds of requests.
    fn needs(&self) -> Needs;

    /// Starts the experiment of a level; ends the open one, if there is one, as one that nobody has reported.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn begin_experiment(&mut self, load: LevelLoad) -> Result<()>;

    /// Adds a request to the open experiment; requests between experiments are left out.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn record(&mut self, record: &RawRecord) -> Result<()>;

    /// Ends the open experiment, if there is one.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn end_experiment(&mut self, end: &ExperimentEnd) -> Result<()>;

    /// Says that the experiment that has just ended stands in place of an earlier one, by the number with which that began, from 1:
    /// what the earlier one measured does not count.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn replace_experiment(&mut self, earlier: u64) -> Result<()>;

    /// Takes the open experiment back, if there is one, as far as what was written can be.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn discard_experiment(&mut self) -> Result<()>;

    /// Completes the file and moves it to its path.
    ///
    /// # Errors
    /// If it cannot be written or renamed.
    fn finish(self: Box<Self>) -> Result<()>;

    /// Completes the file after an error; a file without any request is removed, and the previous file stays.
    ///
    /// # Errors
    /// As [`RequestFile::finish`].
    fn give_up(self: Box<Self>) -> Result<()>;

    /// Completes the file with what could be written of it before `error`, notes that in it, and moves it to its path.
    /// Returns the number of requests that it holds; `None` if nothing could be kept.
    fn keep(self: Box<Self>, error: &Error) -> Option<u64>;
}
