//! Regions that runs which were killed have left with a server: it keeps their memory for as long as they are registered, although
//! their names are gone from `/dev/shm`.

use base::debug;
use rustix::process::Pid;

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

/// Unregisters them. A server that does not tell its regions keeps them.
pub(super) fn forget(calls: &dyn RegionCalls) {
    let listed = match calls.listed() {
        Ok(listed) => listed,
        Err(error) => return debug!("the server does not tell its regions: {error}"),
    };
    let left = listed.iter().filter(|region| is_left(&region.key));
    let count = left.filter(|region| calls.unregister(&region.name, Kind::System).is_ok()).count();
    if count > 0 {
        let server = calls.server();
        note!(
            "the server at {server} still held {count} regions of shared memory of runs that were killed; it is rid of them"
        );
    }
}

/// Whether the process has ended that has given its memory this name.
fn is_left(key: &str) -> bool {
    let owner = shm::owner(key.trim_start_matches('/')).and_then(Pid::from_raw);
    owner.is_some_and(|owner| processes::find(owner).is_none())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::*;
    use crate::backend::InferError;
    use crate::kserve::regions::Handle;

    struct Server {
        listed: Result<Vec<ListedRegion>, InferError>,
        unregistered: Mutex<Vec<String>>,
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
            Ok(())
        }

        fn listed(&self) -> Result<Vec<ListedRegion>, InferError> {
            self.listed.clone()
        }
    }

    #[test]
    fn regions_of_runs_that_have_ended_are_unregistered_and_no_others() {
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let own = format!("/{}0", shm::own_prefix());
        let theirs = own.replacen(&std::process::id().to_string(), &ended.id().to_string(), 1);
        let elsewhere = format!("/triton-bench-{}-1-0", ended.id());
        let regions = [("own", own), ("theirs", theirs), ("elsewhere", elsewhere), ("other", "/other".to_owned())];
        let listed = regions.map(|(name, key)| ListedRegion { name: name.to_owned(), key }).to_vec();
        let mut server = Server { listed: Ok(listed), unregistered: Mutex::default() };
        forget(&server);
        assert_eq!(*server.unregistered.lock(), ["theirs"]);
        server.listed = Err(InferError::new("No", "not told"));
        forget(&server);
        assert_eq!(server.unregistered.lock().len(), 1);
    }
}
