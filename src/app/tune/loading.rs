//! Loads of a model that a search waits for: they may take minutes, and a server that hangs never answers.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::backend::{LOAD_LIMIT, ModelControl};
use crate::clock::Stamp;
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
/// Returns whether it has answered by then.
///
/// # Errors
/// The server's reason.
pub fn own(control: &dyn ModelControl, model: &str, configuration: Option<&Value>, slowest: Duration) -> Result<bool> {
    let limit = RESTORE_LIMIT.max(slowest.saturating_mul(SLOWER)).min(LOAD_LIMIT);
    own_within(limit, model, || control.load(model, configuration, limit))
}

/// What was found does not depend on a server that hangs after it, so that is said and no error.
fn own_within(limit: Duration, model: &str, load: impl FnOnce() -> Result<()>) -> Result<bool> {
    let started = Stamp::now();
    match told(model, limit, load) {
        Err(error) if Stamp::now() >= started.plus_duration(limit) => {
            note!(
                "the server was asked for the own configuration of '{model}', and has not confirmed it: {error}; if it \
                 keeps another, load the model without one (POST v2/repository/models/NAME/load)"
            );
            Ok(false)
        }
        loaded => loaded.map(|()| true),
    }
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
    use crate::error::Error;
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
    fn a_server_that_hangs_at_the_end_is_no_error() {
        let limit = Duration::from_millis(20);
        let failed = || Err(Error::server("it did not answer in time"));
        let late = || {
            thread::sleep(limit);
            failed()
        };
        assert!(!own_within(limit, "m", late).unwrap());
        assert!(own_within(Duration::from_secs(60), "m", failed).is_err(), "it refused");
        assert!(own_within(Duration::ZERO, "m", || Ok(())).unwrap());
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
