//! The command `doctor`: checks the machine, and says what makes it unfit for measuring.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::app::screen::Screen;
use crate::app::signals;
use crate::clock::Stamp;
use crate::error::Result;
use crate::exit;
use crate::machine::fitness::{Finding, Grade, gpu, limits, memory, processors, time};
use crate::machine::host_monitor::{Machine, Server};
use crate::machine::processors::{allowed, times};
use crate::machine::{cgroup, processes, read};
use crate::measure::disturbance::sample;
use crate::plan::{Checkup, Plan};

/// How long the load of others is observed.
const SAMPLE_TIME: Duration = Duration::from_secs(1);
/// A driver tool that takes longer than this is considered stuck.
const PATIENCE: Duration = Duration::from_secs(10);
const INTERRUPT_POLL: Duration = Duration::from_millis(5);
/// Share of the processors that other processes may use on a machine that counts as idle.
const IDLE: f64 = 0.05;

/// Runs all checks and prints a line on each. Returns the exit code (see [`crate::exit`]).
///
/// # Errors
/// If standard output is closed or full.
pub fn examine(wanted: &Checkup) -> Result<u8> {
    signals::survive_file_limits()?;
    let screen = Screen::new();
    let (mut notes, mut warnings) = (0, 0);
    for group in [of_processors, of_time, of_others, of_memory, of_limits, of_gpus] {
        for finding in group(wanted) {
            notes += usize::from(finding.grade == Grade::Note);
            warnings += usize::from(finding.grade == Grade::Warning);
            screen.print(&format!("{finding}\n"))?;
        }
    }
    screen.print(&format!("warnings: {warnings}, notes: {notes}\n"))?;
    Ok(exit::OK)
}

/// The line above a run's levels if a quick check finds a problem; `None` if all is well.
pub fn remark(plan: &Plan) -> Option<String> {
    let pinned = |cpus: &Option<Vec<usize>>| cpus.clone().unwrap_or_default();
    let wanted = Checkup { cpus: pinned(&plan.load.cpus), worker_cpus: pinned(&plan.load.worker_cpus) };
    let [governor, siblings, quota] = cheap(&wanted);
    line(&[governor, siblings, quota, time::source(&time::current_source())])
}

fn line(findings: &[Finding]) -> Option<String> {
    let off =
        findings.iter().filter(|finding| finding.grade == Grade::Warning).map(|finding| finding.observation.as_str());
    let off: Vec<&str> = off.collect();
    (!off.is_empty()).then(|| format!("Machine: {} (see triton-bench doctor)\n\n", off.join(", ")))
}

/// The checks of processors that take no time.
fn cheap(wanted: &Checkup) -> [Finding; 3] {
    let (pinned, cpus) = (wanted.pinned(), own_processors());
    let used = if pinned.is_empty() { &cpus } else { &pinned };
    [
        processors::governor(&processors::governors(used)),
        processors::siblings(&pinned, &processors::cores(used)),
        processors::quota(cgroup::quota()),
    ]
}

fn of_processors(wanted: &Checkup) -> Vec<Finding> {
    let cpus = own_processors();
    let mut found = vec![processors::count(cpus.len())];
    let absent: Vec<String> = wanted.pinned().iter().filter(|cpu| !cpus.contains(cpu)).map(usize::to_string).collect();
    if !absent.is_empty() {
        let observation = format!("processors {} of --cpus or --worker-cpus", absent.join(", "));
        found.push(Finding::warning(
            observation,
            "this process may not use them, so a run would be refused; see taskset -p $$",
        ));
    }
    found.extend(cheap(wanted));
    found
}

fn own_processors() -> Vec<usize> {
    read("/proc/self/status").map(|status| allowed(&status)).unwrap_or_default()
}

fn of_time(_: &Checkup) -> Vec<Finding> {
    vec![time::source(&time::current_source()), time::price(time::current_price())]
}

fn of_others(wanted: &Checkup) -> Vec<Finding> {
    let ticks = rustix::param::clock_ticks_per_second();
    let since_start = processors::steal(&times(&read("/proc/stat").unwrap_or_default(), ticks));
    let (others, stolen) = sample(&Machine::new(Server::NotAmongOthers, &wanted.pinned()), SAMPLE_TIME);
    vec![since_start, load(others, stolen)]
}

/// The processors' load by others, and steal time of the hypervisor: shares from 0 to 1.
fn load(others: f64, stolen: f64) -> Finding {
    let percent = |share: f64| (share * 100.0).round();
    let observation =
        format!("load now: other processes use {}% of the processors, steal {}%", percent(others), percent(stolen));
    if others <= IDLE && stolen <= IDLE {
        return Finding::good(observation);
    }
    Finding::warning(
        observation,
        "they take time from the server and the client; see top, and measure when nothing else runs",
    )
}

fn of_memory(_: &Checkup) -> Vec<Finding> {
    let space = rustix::fs::statvfs("/dev/shm").ok();
    let bytes = |blocks: u64, size: u64| blocks.saturating_mul(size);
    let space =
        space.map(|fs| memory::Space { all: bytes(fs.f_blocks, fs.f_frsize), free: bytes(fs.f_bavail, fs.f_frsize) });
    vec![
        memory::shared(space),
        memory::locked(&own_limits()),
        memory::huge_pages(&read("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default()),
    ]
}

fn own_limits() -> String {
    read("/proc/self/limits").unwrap_or_default()
}

fn of_limits(_: &Checkup) -> Vec<Finding> {
    let number = |path: &str| read(path)?.parse().ok();
    let group = cgroup::folders("pids").iter().filter_map(|folder| read(folder.join("pids.max"))?.parse().ok()).min();
    let user = limits::soft(&own_limits(), "Max processes").flatten();
    vec![
        limits::threads([user, group, number("/proc/sys/kernel/threads-max")]),
        limits::mappings(number("/proc/sys/vm/max_map_count")),
        limits::files(&own_limits()),
    ]
}

fn of_gpus(_: &Checkup) -> Vec<Finding> {
    let Some(version) = read("/proc/driver/nvidia/version") else {
        return vec![Finding::good("GPU: no NVIDIA driver here")];
    };
    let names: Vec<String> = processes::all().into_iter().map(|process| process.name).collect();
    let mut found = vec![gpu::driver(&version), gpu::sharing(names.iter().map(String::as_str))];
    let query = format!("--query-gpu={}", gpu::QUERY);
    match output("nvidia-smi", &[&query, "--format=csv,noheader,nounits"]) {
        Some(text) => found.extend(text.lines().flat_map(gpu::gpu)),
        None => found
            .push(Finding::note("nvidia-smi: no answer", "whether GPUs are shared, busy or in MIG mode is not known")),
    }
    found
}

/// The output of a tool, if it exists and succeeds.
fn output(tool: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(tool);
    let mut child =
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let until = Stamp::now().plus_duration(PATIENCE);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Stamp::now() < until => thread::sleep(INTERRUPT_POLL),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    let mut text = String::new();
    child.stdout.take()?.read_to_string(&mut text).ok()?;
    status.success().then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_says_only_what_is_off() {
        let quota = || processors::quota(Some(1.5));
        assert_eq!(line(&[Finding::good("a"), Finding::note("b", "c")]), None);
        assert_eq!(
            line(&[quota(), Finding::good("a"), time::source("hpet")]).as_deref(),
            Some("Machine: processor quota: 1.50 processors, clock source: hpet (see triton-bench doctor)\n\n")
        );
    }

    #[test]
    fn load_is_told() {
        assert_eq!(load(0.02, 0.0).grade, Grade::Good);
        assert_eq!(load(0.5, 0.0).grade, Grade::Warning);
        assert_eq!(load(0.0, 0.1).observation, "load now: other processes use 0% of the processors, steal 10%");
    }

    #[test]
    fn tools_are_asked_and_not_waited_for_where_they_are_not() {
        assert_eq!(output("echo", &["7"]).as_deref(), Some("7\n"));
        assert_eq!(output("false", &[]), None);
        assert_eq!(output("no-such-tool-here", &[]), None);
    }
}
