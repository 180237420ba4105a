//! Loads of a model that a search waits for: they may take minutes, and a server that hangs never answers.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::backend::{LOAD_LIMIT, ModelControl};
use crate::error::Result;
use crate::stdio::note;

/// Whoever waits longer than this is told what for.
const TOLD_AFTER: Duration = Duration::from_secs(10);
/// The shortest time that a server has to load a model as it was found.
const RESTORE_LIMIT: Duration = Duration::from_secs(60);
/// How many times as long as any load before that may take.
const SLOWER: u32 = 4;

/// Loads `model` with the configuration of a candidate.
///
/// # Errors
/// The server's reason, or that it has not answered.
pub fn candidate(control: &dyn ModelControl, model: &str, configuration: &Value) -> Result<()> {
    told(model, LOAD_LIMIT, || control.load(model, Some(configuration), LOAD_LIMIT))
}

/// Loads `model` as it was found, with the configuration of its file if there is none. A server that was asked goes on
/// loading, so the search does not wait for one that takes much longer than the `slowest` load before.
///
/// # Errors
/// The server's reason, or that it has not answered.
pub fn own(control: &dyn ModelControl, model: &str, configuration: Option<&Value>, slowest: Duration) -> Result<()> {
    let limit = RESTORE_LIMIT.max(slowest.saturating_mul(SLOWER)).min(LOAD_LIMIT);
    told(model, limit, || control.load(model, configuration, limit))
}

/// Does `act`, and says what it waits for if that takes long.
fn told<T>(model: &str, limit: Duration, act: impl FnOnce() -> T) -> T {
    let (over, ended) = mpsc::channel::<()>();
    let tell = move || {
        if ended.recv_timeout(TOLD_AFTER) == Err(RecvTimeoutError::Timeout) {
            let (waited, limit) = (TOLD_AFTER.as_secs(), limit.as_secs());
            note!("model '{model}' has been loading for {waited} s; a server over the network has {limit} s to answer");
        }
    };
    thread::scope(|scope| {
        // Without the thread nothing is said, and nothing else changes.
        let _ = thread::Builder::new().name("loading".to_owned()).spawn_scoped(scope, tell);
        let done = act();
        drop(over);
        done
    })
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::model::ModelId;

    /// Notes how long it would have had.
    struct Server(Mutex<Vec<u64>>);

    impl ModelControl for Server {
        fn configuration(&self, _: &ModelId) -> Result<Value> {
            Ok(Value::Null)
        }

        fn load(&self, _: &str, _: Option<&Value>, limit: Duration) -> Result<()> {
            self.0.lock().push(limit.as_secs());
            Ok(())
        }
    }

    #[test]
    fn what_a_search_gives_back_is_waited_for_as_long_as_its_own_loads_suggest() {
        let server = Server(Mutex::new(Vec::new()));
        candidate(&server, "m", &Value::Null).unwrap();
        for slowest in [0, 14, 30, 400] {
            own(&server, "m", None, Duration::from_secs(slowest)).unwrap();
        }
        assert_eq!(*server.0.lock(), [600, 60, 60, 120, 600]);
    }
}
