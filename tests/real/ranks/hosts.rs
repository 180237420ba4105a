//! Network namespaces as machines: two processes in two of them, each with a network, a name and a monotonic clock of its own, and the
//! server and the launcher in a third, in the middle. Wires between them are as long as a test wants.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::joint::{requests, rows, summary};
use super::mpi::Mpi;
use super::separate::two;
use crate::support::{Export, Model, Program, Repository, TritonServer, Wire, skip};

/// So far apart are the clocks of the machines, in seconds.
pub const APART: u64 = 100;
/// From a machine to the middle, where it does not matter.
const NEAR: Duration = Duration::from_millis(1);

/// Two machines and what connects them; gone when dropped.
pub struct Hosts {
    /// Names of the namespaces: that of the server, and one for each machine.
    names: [String; 3],
    /// What all addresses begin with.
    network: String,
    wires: Vec<Wire>,
}

fn ip(words: &str) -> Result<(), String> {
    let run = Command::new("ip").args(words.split_whitespace()).output();
    outcome(words, run)
}

fn within(namespace: &str, words: &str) -> Result<(), String> {
    let run = Command::new("ip").args(["netns", "exec", namespace]).args(words.split_whitespace()).output();
    outcome(words, run)
}

fn outcome(words: &str, run: std::io::Result<Output>) -> Result<(), String> {
    match run {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{words}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{words}: {error}")),
    }
}

impl Hosts {
    /// Makes them, where that is allowed, so far from the middle.
    pub fn make(each_way: Duration) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let tag = format!("{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let names = [0, 1, 2].map(|number| format!("bench{tag}-{number}"));
        let mut hosts = Self { names, network: "10.213".to_owned(), wires: Vec::new() };
        match hosts.connect(each_way) {
            Ok(()) => Some(hosts),
            Err(why) => {
                skip(&format!(
                    "network namespaces cannot be made here ({why}); run as root, with iproute2, util-linux and /dev/net/tun"
                ));
                None
            }
        }
    }

    fn connect(&mut self, each_way: Duration) -> Result<(), String> {
        let Self { names: [middle, machines @ ..], network, wires } = self;
        let time = format!("unshare --uts --time --monotonic {APART} --fork --kill-child true");
        outcome(&time, Command::new("unshare").args(time.split_whitespace().skip(1)).output())?;
        ip(&format!("netns add {middle}"))?;
        ip(&format!("-n {middle} link set lo up"))?;
        within(middle, "sysctl -qw net.ipv4.ip_forward=1")?;
        for (number, machine) in machines.iter().enumerate() {
            let (net, to) = (format!("{network}.{}", number + 1), format!("to{number}"));
            ip(&format!("netns add {machine}"))?;
            let wire = Wire::connect([(middle, &to), (machine, "eth0")], each_way);
            wires.push(wire.map_err(|error| format!("/dev/net/tun: {error}"))?);
            ip(&format!("-n {middle} addr add {net}.1/24 dev {to}"))?;
            ip(&format!("-n {middle} link set {to} up"))?;
            ip(&format!("-n {machine} addr add {net}.2/24 dev eth0"))?;
            ip(&format!("-n {machine} link set eth0 up"))?;
            ip(&format!("-n {machine} link set lo up"))?;
            ip(&format!("-n {machine} route add default via {net}.1"))?;
        }
        Ok(())
    }

    /// The address of a machine, as seen from all.
    fn address(&self, machine: usize) -> String {
        format!("{}.{}.2", self.network, machine + 1)
    }

    /// The address of the server, as seen from all.
    fn server(&self) -> String {
        format!("{}.1.1", self.network)
    }

    /// What starts a program where the server is.
    pub fn in_the_middle(&self) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[0]]);
        command
    }

    /// A launcher that starts a process on each machine.
    pub fn launcher(&self, mpi: Mpi, repository: &Repository, processes: usize) -> Command {
        let agent = repository.file("agent");
        fs::write(&agent, self.agent()).unwrap();
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = self.in_the_middle();
        let launcher = mpi.launcher(processes);
        command.envs(launcher.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.arg(launcher.get_program());
        let hosts = format!("{},{}", self.address(0), self.address(1));
        match mpi {
            Mpi::Open => {
                command.args(["--prtemca", "plm_ssh_agent"]).arg(agent).args(["-H", &hosts, "--bind-to", "none"])
            }
            Mpi::Mpich => {
                // UCX takes machines that share a kernel for one, and would pass by the network.
                command.env("UCX_TLS", "tcp");
                command.args(["-localhost", &self.server(), "-launcher", "ssh", "-launcher-exec"]);
                command.arg(agent).args(["-hosts", &hosts])
            }
        };
        command.args(["-n", &processes.to_string()]);
        command
    }

    /// What stands for ssh: `agent [FLAG]... ADDRESS COMMAND...`.
    fn agent(&self) -> String {
        let cases: String = (0..2)
            .map(|machine| {
                let (address, name, ahead) =
                    (self.address(machine), &self.names[machine + 1], (machine as u64 + 1) * APART);
                format!("{address}) name={name} ahead={ahead} ;;\n")
            })
            .collect();
        format!(
            "#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nhost=$1\nshift\ncase $host in\n{cases}*) exit 1 ;;\nesac\n\
             exec ip netns exec \"$name\" unshare --uts --time --monotonic \"$ahead\" --fork --kill-child -- \\\n\
             bash -c \"hostname $name; $*\"\n"
        )
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.wires.clear();
        for name in &self.names {
            // One that was not made is not there.
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

/// The server that tests start, on an address that machines can reach, within the namespace in the middle.
pub fn serve(hosts: &Hosts, repository: &Repository) -> Option<TritonServer> {
    TritonServer::start_within(&["ip", "netns", "exec", &hosts.names[0]], &hosts.server(), repository)
}

#[test]
fn two_machines_send_what_one_sends_and_know_each_others_clock() {
    let Some(hosts) = Hosts::make(NEAR) else { return };
    let repository = Repository::of(&[Model::identity("m")]);
    fs::write(repository.file("data.json"), rows(60, 16)).unwrap();
    let Some(server) = serve(&hosts, &repository) else { return };
    let flags = "--request-rate-range 100 --request-count 120 --request-distribution poisson --seed 4";
    let program = |name: &str| {
        Program::new()
            .args(&format!("--on-disturbance mark -i grpc -u {} -m m {flags} --input-data", server.url("grpc")))
            .arg(repository.file("data.json"))
            .args("--profile-export-file")
            .arg(repository.file(&format!("{name}.json")))
            .args("--summary-file")
            .arg(repository.file(&format!("{name}.result.json")))
    };
    program("one").through(hosts.in_the_middle()).run().report_even_if_late();
    let single = requests(&[Export::read(&repository.file("one.json"))]);
    for mpi in Mpi::all() {
        let name = format!("{mpi:?}");
        let run = program(&name).args("--enable-mpi").through(hosts.launcher(mpi, &repository, 2)).run();
        run.report_even_if_late();
        let exports = [0, 1].map(|rank| Export::read(&repository.file(&format!("{name}.rank{rank}.json"))));
        assert_eq!(requests(&exports), single, "{mpi:?}");
        let level = &summary(&repository.file(&format!("{name}.result.json")))["levels"][0];
        assert_eq!(level["client"]["requests"], 120);
        let ranks = level["ranks"].as_array().unwrap();
        let host_names: Vec<&str> = ranks.iter().map(|rank| rank["host"].as_str().unwrap()).collect();
        assert_eq!(host_names, [&hosts.names[1], &hosts.names[2]], "{}", run.stdout);
        // Rank 1's clock is that much ahead of rank 0's.
        let offset = ranks[1]["clock_offset_ns"].as_i64().unwrap();
        let error = ranks[1]["clock_error_ns"].as_i64().unwrap();
        assert!((offset + APART as i64 * 1_000_000_000).abs() <= error && error < 20_000_000, "{offset} +-{error}");
    }
}

#[test]
fn two_machines_measure_a_model_each() {
    let Some(hosts) = Hosts::make(NEAR) else { return };
    let repository = Repository::of(&[Model::identity("a"), Model::identity("b")]);
    let Some(server) = serve(&hosts, &repository) else { return };
    for mpi in Mpi::all() {
        let program = |model: &str| {
            Program::new()
                .quick()
                .args(&format!("--enable-mpi -i http -u {} -m {model} --concurrency-range 1 -v -f", server.url("http")))
                .arg(repository.file(&format!("{model}.csv")))
                .named_perf_analyzer()
        };
        let run = two(hosts.launcher(mpi, &repository, 1), &program("a"), &program("b")).run();
        assert_eq!(run.code(), 0, "{mpi:?}: {}\n{}", run.stdout, run.stderr);
        assert_eq!(run.stdout.matches("All models on all MPI ranks are stable").count(), 2, "{}", run.stdout);
        let lines: BTreeMap<&str, usize> = ["a", "b"]
            .map(|model| (model, fs::read_to_string(repository.file(&format!("{model}.csv"))).unwrap().lines().count()))
            .into();
        assert!(lines.values().all(|lines| *lines == 2), "{lines:?}");
    }
}
