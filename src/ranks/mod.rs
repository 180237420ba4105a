//! The processes of a run that measures from several of them: their identities, their parts of a load, their
//! communication, and their clocks.
//!
//! All ranks take the same steps in the same order, because each decides from the same data. A step is a collective
//! *exchange*, in which every rank contributes a value and receives everybody's. A rank that cannot continue sends its
//! reason in place of its next value. Every wait has a limit; ranks that are missing after it are identified by name.

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

pub mod clocks;
mod messages;
mod over_mpi;
mod part;
mod peers;
mod relay;
#[cfg(any(test, feature = "testing"))]
pub mod threads;

use ::mpi;
#[cfg(test)]
use ::stats::seed;
use base::{clock, error, exit, interrupt};

use std::cell::{Cell, RefCell};
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock::Stamp;
use crate::clocks::{Comparison, Offset, ROUNDS, RoundTimes};
use crate::error::{Error, Result};
use crate::messages::Message;

pub use over_mpi::OverMpi;
pub use part::Part;
pub use peers::Peers;
pub use relay::{Left, OverParent, Relay};

/// Version of the protocol between ranks; any other is refused.
const PROTOCOL: u32 = 3;

/// Time limit of steps without a running load: a server may be started, models loaded, files read.
pub const STEP_LIMIT: Duration = Duration::from_secs(600);
/// Time limit for a rank that only has to answer, on a busy or paging machine.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How often a waiting rank polls.
const POLL: Duration = Duration::from_millis(1);

/// How the ranks of a run work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One load, of which each rank has a part, and one report.
    Joint,
    /// Each rank has its own load and report; all begin and end together.
    Separate,
}

/// The identity of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    protocol: u32,
    version: String,
    /// The name of its machine.
    pub host: String,
    /// Its process there.
    pub pid: i32,
    /// The clock that it reads: that of one boot of a kernel, shifted by a time namespace.
    pub clock: String,
    /// What it was asked to do.
    pub task: String,
    /// Which server it measures.
    pub server: String,
    /// Processors that it may use.
    pub processors: Vec<usize>,
    /// Number of processors of its machine.
    pub online: usize,
}

impl Member {
    /// A rank on the machine `host` that reads `clock`.
    pub fn new(host: String, clock: String) -> Self {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let (task, server) = (String::new(), format!("in process {pid} on {host}"));
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let (processors, online) = (Vec::new(), 0);
        Self { protocol: PROTOCOL, version, host, pid, clock, task, server, processors, online }
    }
}

/// Size of the message that carries this value, in bytes.
#[cfg(any(test, feature = "testing"))]
pub fn message_bytes<T: Serialize>(value: &T) -> usize {
    messages::encode(&Message::This(value)).unwrap().len()
}

/// All ranks, seen from one of them.
pub struct Ranks {
    peers: Box<dyn Peers>,
    members: Vec<Member>,
    offsets: RefCell<Vec<Offset>>,
    mode: Cell<Mode>,
    /// Deadline of the current exchange.
    limit: Cell<Stamp>,
    under_way: Cell<bool>,
    /// Why there are no further exchanges, if that is so.
    over: RefCell<Option<Error>>,
    /// Whether a rank no longer answers.
    lost: Cell<bool>,
    first_is_lost: Cell<bool>,
    /// Whether rank 0 prints the error for this rank, too, if only because it has the same.
    first_speaks: Cell<bool>,
}

impl Ranks {
    /// All ranks, after each has introduced itself.
    ///
    /// # Errors
    /// One does not answer, or has another version.
    pub fn meet(peers: Box<dyn Peers>, local: &Member) -> Result<Self> {
        let size = peers.part().size;
        let nobody = Member { host: "?".to_owned(), ..local.clone() };
        let ranks = Self {
            peers,
            members: vec![nobody; size],
            offsets: RefCell::new(vec![Offset::default(); size]),
            mode: Cell::new(Mode::Separate),
            limit: Cell::new(Stamp::NEVER),
            under_way: Cell::new(false),
            over: RefCell::default(),
            lost: Cell::new(false),
            first_is_lost: Cell::new(false),
            first_speaks: Cell::new(false),
        };
        let members: Vec<Member> = ranks.exchange(local, STEP_LIMIT)?;
        let other =
            members.iter().position(|member| (member.protocol, &member.version) != (local.protocol, &local.version));
        if let Some(rank) = other {
            let Member { host, version, protocol, .. } = &members[rank];
            return Err(Error::machine(format!(
                "rank {rank} ({host}) is triton-bench {version} (protocol {protocol}), and this one is {} (protocol {}); \
                 start the same program everywhere",
                local.version, local.protocol
            )));
        }
        let all_equal = members.iter().all(|member| member.task == local.task);
        ranks.mode.set(if all_equal { Mode::Joint } else { Mode::Separate });
        Ok(Self { members, ..ranks })
    }

    /// This rank's number, and the number of ranks.
    pub fn part(&self) -> Part {
        self.peers.part()
    }

    /// Whether the ranks share one load.
    pub fn is_joint(&self) -> bool {
        self.mode.get() == Mode::Joint
    }

    /// Sets how the ranks work together, if the user decides that.
    pub fn set_mode(&self, mode: Mode) {
        self.mode.set(mode);
    }

    /// Their identities, in the order of ranks.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Whether this is rank 0.
    pub fn is_first(&self) -> bool {
        self.part().rank == 0
    }

    /// Whether no rank before this one measures the same server.
    pub fn owns_server(&self) -> bool {
        let rank = self.part().rank;
        self.members.iter().position(|member| member.server == self.members[rank].server) == Some(rank)
    }

    /// A rank's name in messages.
    pub fn name(&self, rank: usize) -> String {
        format!("rank {rank} ({})", self.members[rank].host)
    }

    /// Processes of this run on this machine, other than this one.
    pub fn neighbours(&self) -> Vec<i32> {
        let local = &self.members[self.part().rank];
        let here =
            |member: &&Member| member.host == local.host && member.clock == local.clock && member.pid != local.pid;
        self.members.iter().filter(here).map(|member| member.pid).collect()
    }

    /// Sends `value` to all ranks, and waits for every rank's value.
    ///
    /// # Errors
    /// A rank cannot continue, does not answer within the limit, or sends a value of another step.
    pub fn exchange<T: Serialize + DeserializeOwned>(&self, value: &T, within: Duration) -> Result<Vec<T>> {
        self.begin(value, within)?;
        self.wait()
    }

    /// Starts to send `value` to all ranks; [`Ranks::poll`] returns every rank's value.
    ///
    /// # Errors
    /// There are no further exchanges.
    pub fn begin<T: Serialize>(&self, value: &T, within: Duration) -> Result<()> {
        self.begin_with(messages::encode(&Message::This(value))?, within)
    }

    fn begin_with(&self, message: Vec<u8>, within: Duration) -> Result<()> {
        self.check()?;
        self.limit.set(Stamp::now().plus_duration(within));
        self.under_way.set(true);
        self.peers.begin(message).map_err(|error| self.end_with(error))
    }

    /// Everybody's values, once they have arrived.
    ///
    /// # Errors
    /// As [`Ranks::exchange`].
    pub fn poll<T: DeserializeOwned>(&self) -> Result<Option<Vec<T>>> {
        let Some(bytes) = self.poll_bytes()? else { return Ok(None) };
        messages::decode(&bytes, |rank| self.name(rank)).map(Some).map_err(|error| self.end_with(error))
    }

    fn poll_bytes(&self) -> Result<Option<Vec<Vec<u8>>>> {
        self.check()?;
        match self.peers.poll() {
            Ok(None) if Stamp::now() >= self.limit.get() => Err(self.end_with(self.lost())),
            polled => {
                self.under_way.set(matches!(polled, Ok(None)));
                polled.map_err(|error| self.end_with(error))
            }
        }
    }

    fn wait<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        loop {
            if let Some(all) = self.poll()? {
                return Ok(all);
            }
            thread::sleep(POLL);
        }
    }

    /// Broadcasts rank 0's value to all.
    ///
    /// # Errors
    /// As [`Ranks::exchange`].
    pub fn receive_first<T: Serialize + DeserializeOwned>(&self, value: Option<&T>, within: Duration) -> Result<T> {
        let bytes = value.map(|value| messages::encode(&Message::This(value))).transpose()?;
        self.begin_with(bytes.unwrap_or_default(), within)?;
        loop {
            if let Some(all) = self.poll_bytes()? {
                let found = messages::first(&all, |rank| self.name(rank));
                return found.map_err(|error| self.end_with(error));
            }
            thread::sleep(POLL);
        }
    }

    /// Tells the others, in place of the next exchange, that this rank cannot continue. They may be past the last one.
    pub fn give_up(&self, reason: &Error) {
        let outcome = self.check().and_then(|()| {
            // The current exchange comes first.
            while self.under_way.get() && self.poll_bytes()?.is_none() {
                thread::sleep(POLL);
            }
            let failure = messages::encode(&Message::<()>::Failed(reason.to_string()))?;
            self.begin_with(failure.clone(), ANSWER_LIMIT)?;
            loop {
                if let Some(bytes) = self.poll_bytes()? {
                    self.first_speaks.set(bytes[0] == failure);
                    return Ok(());
                }
                thread::sleep(POLL);
            }
        });
        // A rank that does not receive it notices on its own.
        drop(outcome);
        self.fall_silent(reason);
    }

    /// Takes part in no further exchange, and tells the others why, unless the launcher is ending this process: then there is
    /// no time for that.
    pub fn break_off(&self, reason: &Error) {
        match interrupt::is_terminated() {
            true => self.fall_silent(reason),
            false => self.give_up(reason),
        }
    }

    /// Whether rank 0 is still there to report for this rank, too.
    pub fn first_speaks(&self) -> bool {
        let is_there = self.is_joint() && !self.first_is_lost.get();
        !self.is_first() && (is_there || self.first_speaks.get())
    }

    /// Takes part in no further exchange.
    pub fn fall_silent(&self, reason: &Error) {
        self.over.borrow_mut().get_or_insert_with(|| reason.clone());
    }

    /// Why there are no further exchanges, where there are none.
    pub fn over(&self) -> Option<Error> {
        self.over.borrow().clone()
    }

    /// Whether a rank no longer answers: the others cannot be left in order.
    pub fn is_lost(&self) -> bool {
        self.lost.get()
    }

    /// Compares the clocks of all ranks, unless they are the same. Takes some milliseconds, in which processors are
    /// busy.
    ///
    /// # Errors
    /// As [`Ranks::exchange`].
    pub fn compare_clocks(&self) -> Result<()> {
        if self.members.iter().all(|member| member.clock == self.members[0].clock) {
            return Ok(());
        }
        let (mut comparison, mut over) = (Comparison::new(self.members.len()), 0);
        for _ in 0..ROUNDS {
            self.begin(&RoundTimes { begun: Stamp::now().0, over }, ANSWER_LIMIT)?;
            let times = loop {
                // Without a sleep, because the arrival time is what is measured.
                if let Some(times) = self.poll()? {
                    break times;
                }
                thread::yield_now();
            };
            over = Stamp::now().0;
            comparison.round(times);
        }
        *self.offsets.borrow_mut() = comparison.offsets();
        Ok(())
    }

    /// How far rank 0's clock is ahead of each rank's.
    pub fn offsets(&self) -> Vec<Offset> {
        self.offsets.borrow().clone()
    }

    /// How far it is ahead of this rank's.
    pub fn offset(&self) -> Offset {
        self.offsets.borrow()[self.part().rank]
    }

    /// Ends all ranks at once.
    pub fn abort(&self, code: u8) {
        self.peers.abort(code);
    }

    /// Leaves the others, who all do.
    ///
    /// # Errors
    /// They cannot be left in order.
    pub fn leave(&self) -> Result<()> {
        self.peers.leave()
    }

    fn check(&self) -> Result<()> {
        self.over().map_or(Ok(()), Err)
    }

    fn end_with(&self, error: Error) -> Error {
        self.over.borrow_mut().get_or_insert_with(|| error.clone());
        error
    }

    /// The error about lost ranks.
    fn lost(&self) -> Error {
        self.lost.set(true);
        let missing = self.peers.missing();
        self.first_is_lost.set(missing.contains(&0));
        let missing: Vec<String> = missing.into_iter().map(|rank| self.name(rank)).collect();
        Error::machine(match missing.as_slice() {
            [] => "another rank was lost: it did not answer in time".to_owned(),
            [name] => format!("{name} was lost: it does not answer"),
            several => format!("{} were lost: they do not answer", several.join(", ")),
        })
    }
}
