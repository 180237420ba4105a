//! The regions registered with servers, so that a program that leaves at once can unregister them.

use std::collections::HashMap;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::backends::kserve::refusals::Refusal;
use crate::backends::kserve::regions::{Kind, RegionCalls};
use crate::clock::Stamp;

/// By a region's name: its kind, and the calls to unregister it.
type Known = HashMap<String, (Kind, Arc<dyn RegionCalls>)>;

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// Pause between two attempts for regions that are still in use.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) fn add(name: &str, kind: Kind, calls: &Arc<dyn RegionCalls>) {
    KNOWN.lock().get_or_insert_default().insert(name.to_owned(), (kind, Arc::clone(calls)));
}

pub(super) fn remove(name: &str) {
    KNOWN.lock().as_mut().and_then(|known| known.remove(name));
}

/// Unregisters every region, within `limit`: a server that is gone would take longer.
pub fn forget_all(limit: Duration) {
    if KNOWN.lock().as_ref().is_none_or(HashMap::is_empty) {
        return;
    }
    let (done, wait) = mpsc::channel();
    let until = Stamp::now().plus_duration(limit);
    let ask = move || {
        while Stamp::now() < until {
            let known: Vec<_> =
                KNOWN.lock().iter().flatten().map(|(name, asked)| (name.clone(), asked.clone())).collect();
            if known.is_empty() {
                break;
            }
            for (name, (kind, calls)) in known.into_iter().take_while(|_| Stamp::now() < until) {
                let refused = calls.unregister(&name, kind);
                if !refused.is_err_and(|error| Refusal::RegionInUse.is_said_in(&error.message)) {
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
