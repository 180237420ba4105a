//! The regions registered with servers, so that a program that leaves at once can unregister them.

use std::collections::HashMap;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Stamp;
use crate::kserve::refusals::Refusal;
use crate::kserve::regions::{Kind, RegionCalls};

/// By a region's name: its kind, and the calls to unregister it.
type Registered = HashMap<String, (Kind, Arc<dyn RegionCalls>)>;

static REGISTERED: Mutex<Option<Registered>> = Mutex::new(None);

/// Pause between two attempts for regions that are still in use.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) fn add(name: &str, kind: Kind, calls: &Arc<dyn RegionCalls>) {
    REGISTERED.lock().get_or_insert_default().insert(name.to_owned(), (kind, Arc::clone(calls)));
}

pub(super) fn remove(name: &str) {
    REGISTERED.lock().as_mut().and_then(|regions| regions.remove(name));
}

/// Unregisters every region, within `limit`: a server that is gone would take longer.
pub fn forget_all(limit: Duration) {
    if REGISTERED.lock().as_ref().is_none_or(HashMap::is_empty) {
        return;
    }
    let (done, wait) = mpsc::channel();
    let until = Stamp::now().plus_duration(limit);
    let ask = move || {
        while Stamp::now() < until {
            let regions: Vec<_> =
                REGISTERED.lock().iter().flatten().map(|(name, asked)| (name.clone(), asked.clone())).collect();
            if regions.is_empty() {
                break;
            }
            for (name, (kind, calls)) in regions.into_iter().take_while(|_| Stamp::now() < until) {
                let refused = calls.unregister(&name, kind);
                if !refused.is_err_and(|error| Refusal::RegionInUse.is_in(&error.message)) {
                    remove(&name);
                }
            }
            thread::sleep(PAUSE);
        }
        let _ = done.send(());
    };
    if thread::Builder::new().name("unregister".to_owned()).spawn(ask).is_ok() {
        let _ = wait.recv_timeout(limit);
    }
}
