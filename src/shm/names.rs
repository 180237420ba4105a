//! Names of the POSIX shared memory that this process owns, so that none outlives it.
//!
//! A region unlinks its name when it is dropped. Exits that leave regions behind (a signal, `process::exit`, an abort
//! after a panic, requests that never came back) call [`unlink_all`]; mapped memory stays usable until the process is
//! gone.
//!
//! A name is created and recorded under one lock, and removed under it, too. So [`unlink_all`] finds all existing
//! names, and none that were only tried, because these belong to somebody else.

use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

/// The existing names.
struct Names {
    live: Vec<String>,
    /// The process is about to end: no more names may be created.
    ending: bool,
}

static NAMES: Mutex<Names> = Mutex::new(Names { live: Vec::new(), ending: false });
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// What the names of this program begin with.
const PROGRAM: &str = "triton-bench-";

/// What names of this process' shared memory begin with: its number, and the namespace in which it has that number, for containers
/// may share `/dev/shm`.
pub fn own_prefix() -> String {
    format!("{PROGRAM}{}-{}-", std::process::id(), namespace())
}

/// The number of the process that has given its memory this name, if it has that number here.
pub fn owner(name: &str) -> Option<i32> {
    let mut parts = name.strip_prefix(PROGRAM)?.splitn(3, '-');
    let (pid, space) = (parts.next()?.parse().ok()?, parts.next()?);
    parts.next().filter(|_| space == namespace() && space != UNKNOWN).map(|_| pid)
}

/// The namespace where the system does not tell: two of them may be different ones.
const UNKNOWN: &str = "0";

/// The namespace of process numbers.
fn namespace() -> &'static str {
    static NAMESPACE: OnceLock<String> = OnceLock::new();
    NAMESPACE.get_or_init(|| {
        let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let digits: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
        if digits.is_empty() { UNKNOWN.to_owned() } else { digits }
    })
}

/// A name that this process has not used yet, with the leading slash that `shm_open` requires.
pub(super) fn next() -> String {
    format!("/{}{}", own_prefix(), COUNTER.fetch_add(1, Ordering::Relaxed))
}

/// Creates shared memory called `name` by calling `create`, which must not touch it, and records the name. `None` if
/// the process is about to end: a name created now might stay.
///
/// # Errors
/// Those of `create`, after which no memory of ours has the name.
pub(super) fn make<T, E>(name: &str, create: impl FnOnce() -> Result<T, E>) -> Result<Option<T>, E> {
    let mut names = NAMES.lock();
    if names.ending {
        return Ok(None);
    }
    let made = create()?;
    names.live.push(name.to_owned());
    Ok(Some(made))
}

/// Unlinks the name of memory that is dropped, unless [`unlink_all`] has done it.
pub(super) fn remove(name: &str) {
    let mut names = NAMES.lock();
    if let Some(index) = names.live.iter().position(|live| live == name) {
        let _ = rustix::shm::unlink(name);
        names.live.swap_remove(index);
    }
}

/// Unlinks every shared memory name that this process still owns, and lets no further one be created, because other
/// threads may continue until the process is gone. To be called on the way out, from any thread that is not inside a
/// signal handler; calling it twice does no harm.
pub fn unlink_all() {
    // A panic inside this module may hold the lock on this very thread; leaving a name is then better than a deadlock.
    let Some(mut names) = NAMES.try_lock_for(Duration::from_secs(1)) else { return };
    names.ending = true;
    for name in names.live.drain(..) {
        let _ = rustix::shm::unlink(name.as_str());
    }
}

/// How often a signal handler tries to get the lock, and how long it sleeps in between: creating a name takes a few
/// microseconds.
const SIGNAL_ATTEMPTS: usize = 20;
const SIGNAL_PAUSE: Duration = Duration::from_micros(500);

/// Like [`unlink_all`], for a signal handler: waits only a moment, because its own thread may hold the lock, and frees
/// nothing.
pub(super) fn unlink_in_signal() {
    for _ in 0..SIGNAL_ATTEMPTS {
        let Some(mut names) = NAMES.try_lock() else {
            thread::sleep(SIGNAL_PAUSE);
            continue;
        };
        names.ending = true;
        for name in &names.live {
            let _ = rustix::shm::unlink(name.as_str());
        }
        return;
    }
}

/// Makes every panic of this process unlink its names before anything else happens, because a panic at the border to
/// the server ends in an abort that runs no destructors. To be called once, by the program.
pub fn unlink_on_panic() {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        unlink_all();
        previous(info);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_whose_it_is_where_that_has_a_meaning() {
        let name = next();
        let pid = i32::try_from(std::process::id()).ok();
        assert_eq!((owner(name.trim_start_matches('/')), owner(&format!("{}python-x-y", own_prefix()))), (pid, pid));
        for other in ["triton-bench-12-1-5", "triton-bench-12", "other-12-1-5", "triton-bench-x-1-5"] {
            assert_eq!(owner(other), None, "{other}");
        }
    }
}
