//! The processes below this one, and the shared memory that the python backend leaves behind if it is not unloaded.
//! Exits that do not wait for the server clean up both.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};

use crate::clock::Stamp;
use crate::machine::{processes, read};
use crate::shm;

/// Prefix of the names of the python backend's regions, unless a setting changes it.
const PYTHON_REGION: &str = "triton_python_backend_shm_region_";
/// Prefixes that settings chose in this process.
static OTHER_REGIONS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// The program that runs a python model; its second argument is the name of its region.
const STUB: &str = "triton_python_backend_stub";
const SHARED_MEMORY: &str = "/dev/shm/";
/// How long killed processes may take to be gone.
const KILL_LIMIT: Duration = Duration::from_secs(1);
const EXIT_POLL: Duration = Duration::from_millis(1);

/// Notes that the names of this process' python models' regions begin with `prefix`.
pub fn expect_regions(prefix: &str) {
    OTHER_REGIONS.lock().push(prefix.trim_start_matches('/').to_owned());
}

/// Kills every process below this one and removes the regions of their python models. The caller makes sure that this
/// process starts no more of them.
pub fn end_all() {
    let mut regions = HashSet::new();
    end_below(getpid(), &mut regions);
    regions.iter().for_each(|name| unlink(name));
}

/// Kills a child with everything below it, and removes the regions of their python models.
pub fn end_tree(child: Pid) {
    let mut regions = HashSet::new();
    // A stopped process starts no more.
    send(&[child], Signal::STOP);
    regions_of(child, &mut regions);
    end_below(child, &mut regions);
    send(&[child], Signal::KILL);
    await_ends(&[child]);
    regions.iter().for_each(|name| unlink(name));
}

fn end_below(root: Pid, regions: &mut HashSet<String>) {
    let mut found: Vec<Pid> = Vec::new();
    // A stopped process starts no others, so once a pass finds no new process, none is left.
    loop {
        let new: Vec<Pid> =
            processes::below(root, &processes::all()).into_iter().filter(|pid| !found.contains(pid)).collect();
        if new.is_empty() {
            break;
        }
        send(&new, Signal::STOP);
        found.extend(new);
    }
    found.iter().for_each(|pid| regions_of(*pid, regions));
    send(&found, Signal::KILL);
    await_ends(&found);
}

fn send(processes: &[Pid], signal: Signal) {
    for pid in processes {
        // A process that has ended meanwhile does not matter.
        let _ = kill_process(*pid, signal);
    }
}

/// Waits until killed processes are gone; children are reaped.
fn await_ends(killed: &[Pid]) {
    let limit = Stamp::now().plus_duration(KILL_LIMIT);
    for pid in killed {
        while processes::find(*pid).is_some() && Stamp::now() < limit {
            thread::sleep(EXIT_POLL);
        }
        // Processes that are not our children are reaped by others.
        let _ = waitpid(Some(*pid), WaitOptions::NOHANG);
    }
}

/// Adds the regions of a stub, or of a server with stubs, to `regions`.
fn regions_of(pid: Pid, regions: &mut HashSet<String>) {
    region_of_stub(pid, regions);
    regions_in(&String::from_utf8_lossy(&file(pid, "maps")), regions);
}

/// Adds the region that a stub was started with.
fn region_of_stub(pid: Pid, regions: &mut HashSet<String>) {
    let command = file(pid, "cmdline");
    let words: Vec<_> = command.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    if let [program, _, region, ..] = &words[..]
        && program.ends_with(STUB)
    {
        regions.insert(region.trim_start_matches('/').to_owned());
    }
}

fn file(pid: Pid, name: &str) -> Vec<u8> {
    fs::read(format!("/proc/{}/{name}", pid.as_raw_nonzero())).unwrap_or_default()
}

/// Adds the regions of python models that a process has mapped.
fn regions_in(maps: &str, regions: &mut HashSet<String>) {
    regions.extend(maps.lines().filter_map(region));
}

/// The python model's region that a line of `/proc/PID/maps` or a link in `/proc/PID/fd` is about.
fn region(line: &str) -> Option<String> {
    let (_, name) = line.split_once(SHARED_MEMORY)?;
    let is_ours = name.starts_with(PYTHON_REGION) || OTHER_REGIONS.lock().iter().any(|prefix| name.starts_with(prefix));
    (is_ours && !name.ends_with(" (deleted)")).then(|| name.to_owned())
}

/// What runs of this program have left that were killed, and that was removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Their numbers.
    pub runs: BTreeSet<i32>,
    /// Names of shared memory.
    pub names: usize,
    /// Processes of python models.
    pub processes: usize,
}

/// Removes what runs have left that were killed: shared memory, and processes that wait for a server that is gone.
pub fn remove_leftovers() -> Leftovers {
    let is_dead = |pid: &i32| Pid::from_raw(*pid).is_some_and(processes::has_ended);
    let entries = fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let dead: Vec<(i32, String)> = named.filter_map(|name| Some((shm::owner(&name).filter(is_dead)?, name))).collect();
    let mut left = Leftovers::default();
    if dead.is_empty() {
        return left;
    }
    for process in processes::all() {
        let mut regions = HashSet::new();
        region_of_stub(process.pid, &mut regions);
        if regions.iter().any(|name| dead.iter().any(|(_, other)| other == name)) {
            end_tree(process.pid);
            left.processes += 1;
        }
    }
    for (run, name) in dead {
        // Another user's stay.
        if rustix::shm::unlink(name.as_str()).is_ok() {
            left.names += 1;
            left.runs.insert(run);
        }
    }
    left
}

fn unlink(name: &str) {
    let _ = rustix::shm::unlink(name);
}

/// Removes the regions of this process' python models, whether they are mapped yet or only open.
pub fn unlink_regions() {
    let mut regions = HashSet::new();
    regions_in(&read("/proc/self/maps").unwrap_or_default(), &mut regions);
    let links = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let links = links.filter_map(|entry| fs::read_link(entry.path()).ok());
    regions.extend(links.filter_map(|link| region(&link.to_string_lossy())));
    regions.iter().for_each(|name| unlink(name));
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_tree_of_processes_ends_down_to_its_leaves() {
        let script = "sleep 60 & sh -c 'sleep 60 & wait' & echo up; wait";
        let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut up = [0; 3];
        child.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
        let pid = Pid::from_child(&child);
        let mut leaves = processes::below(pid, &processes::all());
        let started = Stamp::now();
        while leaves.len() < 3 {
            assert!(Stamp::now() - started < Duration::from_secs(20), "{leaves:?}");
            leaves = processes::below(pid, &processes::all());
        }
        end_tree(pid);
        leaves.push(pid);
        let alive: Vec<&Pid> = leaves.iter().filter(|pid| processes::find(**pid).is_some()).collect();
        assert!(alive.is_empty(), "{alive:?}");
        drop(child.wait());
    }

    #[test]
    fn what_a_dead_run_has_left_is_removed_and_nothing_else() {
        let mut dead = Command::new("true").spawn().unwrap();
        let prefix = shm::own_prefix();
        let theirs = prefix.replace(&format!("-{}-", std::process::id()), &format!("-{}-", dead.id()));
        let elsewhere = format!("triton-bench-{}-1-7", dead.id());
        let pid = i32::try_from(dead.id()).unwrap();
        dead.wait().unwrap();
        let names = [format!("{prefix}leftover"), format!("{theirs}7"), format!("{theirs}python-1-x"), elsewhere];
        names.iter().for_each(|name| fs::write(format!("{SHARED_MEMORY}{name}"), "x").unwrap());
        let left = remove_leftovers();
        let there = names.each_ref().map(|name| fs::remove_file(format!("{SHARED_MEMORY}{name}")).is_ok());
        assert_eq!(there, [true, false, false, true]);
        assert!(left.names >= 2 && left.runs.contains(&pid), "{left:?}");
    }

    #[test]
    fn only_regions_of_python_models_that_have_a_name_are_found() {
        let maps = "7f 00 /dev/shm/triton_python_backend_shm_region_1-a\n\
                    7f 00 /dev/shm/triton_python_backend_shm_region_1-b (deleted)\n\
                    7f 00 /dev/shm/other\n7f 00 /tmp/triton_python_backend_shm_region_2\n";
        let mut found = HashSet::new();
        regions_in(maps, &mut found);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["triton_python_backend_shm_region_1-a"]);
    }
}
