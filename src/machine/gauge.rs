//! [`Gauge`]: how the machine is doing at a moment, and what of it is ours.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, getpid};

use crate::clock::Stamp;
use crate::machine::processes::Process;
use crate::machine::processors::{Times, allowed, times};
use crate::machine::threads::Waits;
use crate::machine::{cgroup, frequency, listener, processes, read, threads};

/// Of more threads the waiting is not read: each costs two files, together some 20 us.
const MOST_THREADS: usize = 256;

/// The machine at a moment. What the kernel does not tell is empty, or absent.
#[derive(Clone, Debug)]
pub struct Reading {
    /// When it was read.
    pub at: Stamp,
    /// Those that our processes may run on.
    pub processors: BTreeMap<usize, Times>,
    /// Processor time of our processes, by number.
    pub busy: HashMap<i32, Duration>,
    /// That of processes on this machine that measure together with this one: theirs is no disturbance.
    pub beside: Duration,
    /// What our threads have met.
    pub waits: HashMap<i32, Waits>,
    /// How long control groups have stopped us.
    pub throttled: Option<Duration>,
    /// The highest frequency of a processor, where the governor is to keep it.
    pub khz: Option<u64>,
}

/// Tells how the machine is doing.
pub trait Gauge {
    /// Finds out anew which processes are ours: models come with some. Called before each level's first reading.
    fn look_around(&self);

    /// Reads. Takes a millisecond or so, so it is nothing for threads that issue requests.
    fn read(&self) -> Reading;
}

/// What the program of a server is called.
const SERVER: &str = "tritonserver";

/// Where the server is, as far as other processes of this machine go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// In this process, or on another machine.
    NotAmongOthers,
    /// It listens on this port of this machine. Where nobody is to be seen there that is called like a server (it is in another
    /// container, behind a proxy, or another user's), its time cannot be told from that of others, which are not judged then.
    ListensOn(u16),
    /// It may be on this machine, out of sight. Others are not judged.
    OutOfSight,
}

impl Server {
    /// Its processes; `None` where they cannot be told from others.
    fn processes(self, all: &[Process]) -> Option<Vec<Pid>> {
        let port = match self {
            Self::NotAmongOthers => return Some(Vec::new()),
            Self::OutOfSight => return None,
            Self::ListensOn(port) => port,
        };
        let listeners = listener::processes(port);
        let is_server = |process: &&Process| listeners.contains(&process.pid) && process.name.starts_with(SERVER);
        let found: Vec<Pid> = all.iter().filter(is_server).map(|process| process.pid).collect();
        (!found.is_empty()).then_some(found)
    }
}

/// The machine that this process runs on.
pub struct Machine {
    server: Server,
    /// Processors that threads of ours are pinned to.
    pinned: Vec<usize>,
    groups: Vec<PathBuf>,
    neighbours: Vec<Pid>,
    scope: Mutex<Scope>,
}

/// What is read.
#[derive(Default)]
struct Scope {
    processes: Vec<Pid>,
    /// Those that measure together with this one, and all below them.
    beside: Vec<Pid>,
    others_are_known: bool,
    processors: Vec<usize>,
    keeps_frequency: bool,
}

impl Machine {
    /// This machine, with what is known of the server; threads may be pinned to processors `pinned` that the process as a whole
    /// is not on.
    pub fn new(server: Server, pinned: &[usize]) -> Self {
        let groups = cgroup::folders("cpu");
        Self { server, pinned: pinned.to_vec(), groups, neighbours: Vec::new(), scope: Mutex::default() }
    }

    /// The same, where other processes on it measure together with this one.
    #[must_use]
    pub fn beside(self, neighbours: &[i32]) -> Self {
        Self { neighbours: neighbours.iter().copied().filter_map(Pid::from_raw).collect(), ..self }
    }

    /// Processor time of our processes so far, by number, where it can be told from that of others.
    pub fn busy(&self) -> HashMap<i32, Duration> {
        self.scope.lock().busy()
    }
}

impl Scope {
    fn known(&self) -> &[Pid] {
        if self.others_are_known { &self.processes } else { &[] }
    }

    fn busy(&self) -> HashMap<i32, Duration> {
        let each = self.known().iter();
        each.filter_map(|pid| Some((pid.as_raw_nonzero().get(), processes::find(*pid)?.busy))).collect()
    }
}

impl Gauge for Machine {
    fn look_around(&self) {
        let all = processes::all();
        let servers = self.server.processes(&all);
        let others_are_known = servers.is_some();
        let roots = servers.unwrap_or_default().into_iter().chain([getpid()]);
        let family = roots.flat_map(|root| processes::below(root, &all).into_iter().chain([root]));
        let mut family: Vec<Pid> = family.collect();
        family.sort_unstable_by_key(|pid| pid.as_raw_nonzero());
        family.dedup();
        let beside = self.neighbours.iter().flat_map(|root| processes::below(*root, &all).into_iter().chain([*root]));
        let beside: Vec<Pid> = beside.filter(|pid| !family.contains(pid)).collect();
        let allowed = |pid: &Pid| read(format!("/proc/{}/status", pid.as_raw_nonzero())).map(|text| allowed(&text));
        let mut processors: Vec<usize> =
            family.iter().filter_map(allowed).flatten().chain(self.pinned.clone()).collect();
        processors.sort_unstable();
        processors.dedup();
        // Any other governor follows the load.
        let keeps_frequency =
            processors.first().and_then(|first| frequency::governor(*first)).as_deref() == Some("performance");
        *self.scope.lock() = Scope { processes: family, beside, others_are_known, processors, keeps_frequency };
    }

    fn read(&self) -> Reading {
        let scope = self.scope.lock();
        let ticks = rustix::param::clock_ticks_per_second();
        let mut processors = times(&read("/proc/stat").unwrap_or_default(), ticks);
        let at = Stamp::now();
        processors.retain(|number, _| scope.processors.contains(number));
        let busy = scope.busy();
        let beside = scope.beside.iter().filter_map(|pid| Some(processes::find(*pid)?.busy)).sum();
        let mut waits = HashMap::new();
        for pid in scope.known() {
            waits.extend(threads::of(*pid, MOST_THREADS - waits.len().min(MOST_THREADS)));
        }
        let khz = if scope.keeps_frequency { frequency::highest_khz(&scope.processors) } else { None };
        Reading { at, processors, busy, beside, waits, throttled: cgroup::throttled(&self.groups), khz }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_its_port_and_name() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let server = Server::ListensOn(listener.local_addr().unwrap().port());
        assert_eq!(server.processes(&processes::all()), None, "it is called otherwise");
        let all: Vec<Process> = processes::all()
            .into_iter()
            .map(|process| Process {
                name: if process.pid == getpid() { SERVER.into() } else { process.name },
                ..process
            })
            .collect();
        assert_eq!(server.processes(&all), Some(vec![getpid()]));
        assert_eq!(Server::OutOfSight.processes(&all), None);
        assert_eq!(Server::NotAmongOthers.processes(&all), Some(Vec::new()));
    }

    #[test]
    fn this_machine_is_read() {
        let machine = Machine::new(Server::NotAmongOthers, &[]);
        machine.look_around();
        let reading = machine.read();
        assert!(!reading.processors.is_empty() && !reading.waits.is_empty(), "{reading:?}");
        assert!(reading.busy.contains_key(&getpid().as_raw_nonzero().get()));
        // Port 9 is that of "discard", which is no server of ours.
        let unknown = Machine::new(Server::ListensOn(9), &[]);
        unknown.look_around();
        assert!(unknown.read().busy.is_empty(), "the server's time would be that of others");
    }
}
