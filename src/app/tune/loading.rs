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
/// The shortest time that a server has to load a model.
const LEAST_LIMIT: Duration = Duration::from_secs(60);
/// How many times as long as any load before that may take.
const SLOWER: u32 = 4;

/// How long a load may take where so much is `left` of the search: one that hangs must not hold it for long, and one that takes
/// as long as the `slowest` before, or somewhat longer, does not hang.
pub fn limit(left: Duration, slowest: Duration) -> Duration {
    left.max(LEAST_LIMIT).max(slowest.saturating_mul(SLOWER)).min(LOAD_LIMIT)
}

/// Loads `model` with the configuration of a candidate.
///
/// # Errors
/// The server's reason, or that it has not answered.
pub fn candidate(control: &dyn ModelControl, model: &str, configuration: &Value, limit: Duration) -> Result<()> {
    let least = LEAST_LIMIT.as_secs();
    let shown = format!("{} s to answer: what is left of --budget, or {least} s, if that is more", limit.as_secs());
    let started = Stamp::now();
    let loaded = told(model, &shown, || control.load(model, Some(configuration), limit));
    let is_late = limit < LOAD_LIMIT && Stamp::now() >= started.plus_duration(limit);
    loaded.map_err(|error| if is_late { error.advice("a longer --budget gives a load more time") } else { error })
}

/// Loads `model` as it was found, with the configuration of its file if there is none. A server that was asked goes on
/// loading, so the search does not wait for one that takes much longer than the `slowest` load before.
///
/// Returns whether it has answered by then.
///
/// # Errors
/// The server's reason.
pub fn own(control: &dyn ModelControl, model: &str, configuration: Option<&Value>, slowest: Duration) -> Result<bool> {
    let limit = limit(Duration::ZERO, slowest);
    own_within(limit, model, || control.load(model, configuration, limit))
}

/// What was found does not depend on a server that hangs after it, so that is said and no error.
fn own_within(limit: Duration, model: &str, load: impl FnOnce() -> Result<()>) -> Result<bool> {
    let started = Stamp::now();
    match told(model, &format!("{} s to answer", limit.as_secs()), load) {
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

/// Does `act`, and says what it waits for, and for how long at most, if that takes long.
fn told<T>(model: &str, limit: &str, act: impl FnOnce() -> T) -> T {
    let (over, ended) = mpsc::channel::<()>();
    let tell = move || {
        if ended.recv_timeout(TOLD_AFTER) == Err(RecvTimeoutError::Timeout) {
            let waited = TOLD_AFTER.as_secs();
            note!("model '{model}' has been loading for {waited} s; a server over the network has {limit}");
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
        candidate(&server, "m", &Value::Null, limit(Duration::from_secs(300), Duration::ZERO)).unwrap();
        for slowest in [0, 14, 30, 400] {
            own(&server, "m", None, Duration::from_secs(slowest)).unwrap();
        }
        assert_eq!(*server.0.lock(), [300, 60, 60, 120, 600]);
    }

    #[test]
    fn a_load_that_hangs_ends_with_the_budget() {
        let limits = [(5, 0), (400, 0), (900, 0), (5, 40), (300, 40), (5, 200)]
            .map(|(left, slowest)| limit(Duration::from_secs(left), Duration::from_secs(slowest)).as_secs());
        assert_eq!(limits, [60, 400, 600, 160, 300, 600]);
    }

    #[test]
    fn whoever_has_too_little_time_for_a_load_is_told_what_gives_more() {
        struct Hung;
        impl ModelControl for Hung {
            fn configuration(&self, _: &ModelId) -> Result<Value> {
                Ok(Value::Null)
            }
            fn load(&self, _: &str, _: Option<&Value>, limit: Duration) -> Result<()> {
                thread::sleep(limit);
                Err(Error::server("it did not answer"))
            }
        }
        let error = candidate(&Hung, "m", &Value::Null, Duration::from_millis(5)).unwrap_err().to_string();
        assert_eq!(error, "it did not answer; a longer --budget gives a load more time");
    }
}
