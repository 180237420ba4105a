//! Regions that runs which were killed have left with a server: it keeps their memory for as long as they are registered, although
//! their names are gone from `/dev/shm`.

use base::debug;
use rustix::process::Pid;

use crate::engine::is_unanswered;
use crate::kserve::regions::{Kind, RegionCalls};
use crate::machine::processes;
use crate::shm;
use crate::stdio::note;

/// A region that a server knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRegion {
    /// The name that it is registered under.
    pub name: String,
    /// The name for `shm_open`, with its slash.
    pub key: String,
}

/// Unregisters them, from a server that has opened memory of ours: only on the same system do processes of these names have these
/// numbers. A server that does not tell its regions keeps them.
pub(super) fn forget(calls: &dyn RegionCalls) {
    let listed = match calls.listed() {
        Ok(listed) => listed,
        Err(error) => return debug!("the server does not tell its regions: {error}"),
    };
    let mut count = 0;
    // Without a name, the server would be rid of all regions.
    for region in listed.iter().filter(|region| !region.name.is_empty() && is_left(&region.key)) {
        match calls.unregister(&region.name, Kind::System) {
            Ok(()) => count += 1,
            // It would be waited for with each of them.
            Err(error) if is_unanswered(&error) => break,
            Err(error) => debug!("region '{}' stays with the server: {error}", region.name),
        }
    }
    if count > 0 {
        let server = calls.server();
        note!(
            "the server at {server} still held {count} regions of shared memory of runs that were killed; it is rid of them"
        );
    }
}

/// Whether the process has certainly ended that has given its memory this name.
fn is_left(key: &str) -> bool {
    shm::owner(key.trim_start_matches('/')).and_then(Pid::from_raw).is_some_and(processes::has_ended)
}

#[cfg(test)]
pub(super) mod tests {
    use std::process::Command;
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::*;
    use crate::backend::{ConnectionFault, InferError};
    use crate::kserve::regions::Handle;

    struct Server {
        listed: Result<Vec<ListedRegion>, InferError>,
        unregistered: Mutex<Vec<String>>,
        silent: bool,
    }

    impl RegionCalls for Server {
        fn protocol(&self) -> &'static str {
            "test"
        }

        fn server(&self) -> String {
            "here:1".to_owned()
        }

        fn register(&self, _: &str, _: Handle<'_>, _: u64, _: Duration) -> Result<(), InferError> {
            unreachable!("nothing is registered")
        }

        fn unregister(&self, name: &str, kind: Kind) -> Result<(), InferError> {
            assert_eq!(kind, Kind::System);
            self.unregistered.lock().push(name.to_owned());
            let late = InferError::new(ConnectionFault::TimedOut, "the server did not answer in time");
            if self.silent { Err(late) } else { Ok(()) }
        }

        fn listed(&self) -> Result<Vec<ListedRegion>, InferError> {
            self.listed.clone()
        }
    }

    /// The number of a process that has ended.
    fn ended() -> u32 {
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        ended.id()
    }

    /// A region of a run with that number of its process.
    fn region_of(name: &str, process: u32) -> ListedRegion {
        let key = format!("/{}0", shm::own_prefix()).replacen(&std::process::id().to_string(), &process.to_string(), 1);
        ListedRegion { name: name.to_owned(), key }
    }

    /// A region that a run has left.
    pub fn left(name: &str) -> ListedRegion {
        region_of(name, ended())
    }

    #[test]
    fn regions_of_runs_that_have_ended_are_unregistered_and_no_others() {
        let elsewhere = format!("/triton-bench-{}-1-0", ended());
        let other = |name: &str, key| ListedRegion { name: name.to_owned(), key };
        let listed = vec![
            region_of("own", std::process::id()),
            left(""),
            left("theirs"),
            region_of("another user's, or not to be seen", 1),
            other("elsewhere", elsewhere),
            other("other", "/other".to_owned()),
        ];
        let mut server = Server { listed: Ok(listed), unregistered: Mutex::default(), silent: false };
        forget(&server);
        assert_eq!(*server.unregistered.lock(), ["theirs"]);
        server.listed = Err(InferError::new("No", "not told"));
        forget(&server);
        assert_eq!(server.unregistered.lock().len(), 1);
    }

    #[test]
    fn a_silent_server_is_waited_for_once() {
        let listed = vec![left("one"), left("two")];
        let server = Server { listed: Ok(listed), unregistered: Mutex::default(), silent: true };
        forget(&server);
        assert_eq!(*server.unregistered.lock(), ["one"]);
    }
}
