//! [`HostMonitor`]: the state of the machine at a moment, and our share of it.

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

/// Limit on threads whose waiting is read: each costs two files, together some 20 us.
const MAX_THREADS: usize = 256;

/// The state of the machine at a moment. What the kernel does not report is empty, or absent.
#[derive(Clone, Debug)]
pub struct Reading {
    /// When it was read.
    pub at: Stamp,
    /// The processors that our processes may run on.
    pub processors: BTreeMap<usize, Times>,
    /// Processor time of our processes, by number.
    pub busy: HashMap<i32, Duration>,
    /// Processor time of this process, whoever the others are.
    pub own: Duration,
    /// Processor time of processes on this machine that measure together with this one: it is no disturbance.
    pub beside: Duration,
    /// Waiting and preemptions of our threads.
    pub waits: HashMap<i32, Waits>,
    /// How long control groups have throttled us.
    pub throttled: Option<Duration>,
    /// The highest frequency of a processor, if the governor should keep it constant.
    pub khz: Option<u64>,
}

/// Reads the state of the machine.
pub trait HostMonitor {
    /// Updates the list of our processes, because models may have started some. Called before each level's first
    /// reading.
    fn look_around(&self);

    /// Reads. Takes about a millisecond, so it must not run on threads that issue requests.
    fn read(&self) -> Reading;
}

/// What the names of servers' programs begin with, of which the kernel keeps 15 bytes.
const SERVERS: [&str; 4] = [TRITON, "tensorflow_mode", "ollama", "llama-server"];
const TRITON: &str = "tritonserver";
/// Programs that pass on to a container what arrives at one of its ports.
const FORWARDERS: [&str; 4] = ["docker-proxy", "rootlessport", "slirp4netns", "pasta"];

/// Where the server is among the processes of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// In this process, or on another machine.
    NotAmongOthers,
    /// It listens on this port of this machine. If nobody can see which process does (it is in another container, or another
    /// user's), it is the only `tritonserver`. If there are several, or another program listens (a proxy), its time
    /// cannot be separated from that of others, which are then not judged.
    ListensOn {
        /// The port.
        port: u16,
        /// Whether the server is a Triton.
        is_triton: bool,
    },
    /// It may be on this machine, but invisible. Others are not judged.
    OutOfSight,
}

impl Server {
    /// Its processes; `None` if they cannot be distinguished from others.
    fn processes(self, all: &[Process]) -> Option<Vec<Pid>> {
        let (port, is_triton) = match self {
            Self::NotAmongOthers => return Some(Vec::new()),
            Self::OutOfSight => return None,
            Self::ListensOn { port, is_triton } => (port, is_triton),
        };
        let listeners = listener::processes(port);
        listening_server(&listeners, all).or_else(|| is_triton.then(|| server_behind(&listeners, all)).flatten())
    }
}

/// Those of `listeners` that are servers, if there are any.
fn listening_server(listeners: &[Pid], all: &[Process]) -> Option<Vec<Pid>> {
    let is_server = |process: &&Process| SERVERS.iter().any(|name| process.name.starts_with(name));
    let listening = all.iter().filter(|process| listeners.contains(&process.pid));
    let found: Vec<Pid> = listening.filter(is_server).map(|process| process.pid).collect();
    (!found.is_empty()).then_some(found)
}

/// The only Triton of this machine, where `listeners` do no more than forward to a container, or nobody can see them.
fn server_behind(listeners: &[Pid], all: &[Process]) -> Option<Vec<Pid>> {
    let mut listening = all.iter().filter(|process| listeners.contains(&process.pid));
    let is_forwarded = listening.all(|process| FORWARDERS.contains(&process.name.as_str()));
    let tritons: Vec<&Process> = all.iter().filter(|process| process.name.starts_with(TRITON)).collect();
    let is_below = |process: &Process| tritons.iter().any(|other| Some(other.pid) == process.parent);
    let roots: Vec<Pid> = tritons.iter().filter(|process| !is_below(process)).map(|process| process.pid).collect();
    (is_forwarded && roots.len() == 1).then_some(roots)
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

/// The processes that are read.
#[derive(Default)]
struct Scope {
    processes: Vec<Pid>,
    /// The processes that measure together with this one, and all below them.
    beside: Vec<Pid>,
    others_are_known: bool,
    processors: Vec<usize>,
    keeps_frequency: bool,
}

impl Machine {
    /// This machine, with what is known about the server; threads may be pinned to processors `pinned` that the process
    /// as a whole does not use.
    pub fn new(server: Server, pinned: &[usize]) -> Self {
        let groups = cgroup::folders("cpu");
        Self { server, pinned: pinned.to_vec(), groups, neighbours: Vec::new(), scope: Mutex::default() }
    }

    /// The same, with other processes that measure together with this one.
    #[must_use]
    pub fn beside(self, neighbours: &[i32]) -> Self {
        Self { neighbours: neighbours.iter().copied().filter_map(Pid::from_raw).collect(), ..self }
    }

    /// Processor time of our processes so far, by process id, if it can be separated from that of others.
    pub fn busy(&self) -> HashMap<i32, Duration> {
        self.scope.lock().busy()
    }
}

impl Scope {
    fn busy(&self) -> HashMap<i32, Duration> {
        let pids = self.processes.iter().filter(|_| self.others_are_known);
        pids.filter_map(|pid| Some((pid.as_raw_nonzero().get(), processes::find(*pid)?.busy))).collect()
    }
}

impl HostMonitor for Machine {
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
        let own_time = processes::find(getpid()).map(|process| process.busy).unwrap_or_default();
        let beside = scope.beside.iter().filter_map(|pid| Some(processes::find(*pid)?.busy)).sum();
        let mut waits = HashMap::new();
        // How long our own threads wait is known, whoever is at work.
        let ours = if scope.others_are_known { &scope.processes[..] } else { &[getpid()] };
        for pid in ours {
            waits.extend(threads::waits(*pid, MAX_THREADS - waits.len().min(MAX_THREADS)));
        }
        let khz = if scope.keeps_frequency { frequency::highest_khz(&scope.processors) } else { None };
        Reading { at, processors, busy, own: own_time, beside, waits, throttled: cgroup::throttled(&self.groups), khz }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    /// A process with its parent's number; 0 if that is outside.
    fn process(number: i32, parent: i32, name: &str) -> Process {
        Process { pid: pid(number), parent: Pid::from_raw(parent), name: name.to_owned(), busy: Duration::ZERO }
    }

    #[test]
    fn a_server_is_known_by_its_port_and_name() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let server = Server::ListensOn { port: listener.local_addr().unwrap().port(), is_triton: true };
        assert_eq!(server.processes(&processes::all()), None, "it is called otherwise");
        let renamed = |process: Process| match process.pid == getpid() {
            true => Process { name: TRITON.into(), ..process },
            false => process,
        };
        let all: Vec<Process> = processes::all().into_iter().map(renamed).collect();
        assert_eq!(server.processes(&all), Some(vec![getpid()]));
        assert_eq!(Server::OutOfSight.processes(&all), None);
        assert_eq!(Server::NotAmongOthers.processes(&all), Some(Vec::new()));
    }

    #[test]
    fn a_server_in_a_container_is_the_only_one_of_its_name() {
        let container = [process(1, 0, "systemd"), process(5, 1, "docker-proxy"), process(7, 1, "tritonserver")];
        let behind = |listeners: &[i32], further: &[Process]| {
            let listeners: Vec<Pid> = listeners.iter().copied().map(pid).collect();
            server_behind(&listeners, &[&container, further].concat())
        };
        let only = Some(vec![pid(7)]);
        assert_eq!(behind(&[5], &[]), only, "behind docker's proxy");
        assert_eq!(behind(&[], &[]), only, "another user's, or behind the kernel's own forwarding");
        assert_eq!(behind(&[5], &[process(8, 7, "tritonserver")]), only, "one of its own children");
        assert_eq!(behind(&[5], &[process(8, 1, "tritonserver")]), None, "it may be either");
        assert_eq!(behind(&[9], &[process(9, 1, "nginx")]), None, "who knows where that leads");
        let idle = [process(1, 0, "systemd"), process(5, 1, "docker-proxy"), process(7, 1, "ollama")];
        assert_eq!(server_behind(&[pid(5)], &idle), None, "that one idles");
        assert_eq!(listening_server(&[pid(7)], &container), Some(vec![pid(7)]), "it listens itself");
    }

    #[test]
    fn this_machine_is_read() {
        let machine = Machine::new(Server::NotAmongOthers, &[]);
        machine.look_around();
        let reading = machine.read();
        assert!(!reading.processors.is_empty() && !reading.waits.is_empty(), "{reading:?}");
        assert!(reading.busy.contains_key(&getpid().as_raw_nonzero().get()));
        let unknown = Machine::new(Server::OutOfSight, &[]);
        unknown.look_around();
        let reading = unknown.read();
        assert!(reading.busy.is_empty(), "the server's time would be that of others");
        assert!(!reading.waits.is_empty(), "our threads' waiting is known all the same");
    }
}
