//! Taking shared memory back from a server.

use std::fmt::Display;
use std::thread;
use std::time::Duration;

use crate::clock::Stamp;

/// How long a server may go on using a region of a request that it has answered.
const LIMIT: Duration = Duration::from_secs(1);
/// How often it is asked again.
const PAUSE: Duration = Duration::from_millis(2);
/// What Triton says of a region that a request still holds: its answer leaves before it lets go of the request.
const IN_USE: &str = "currently in use";

/// Asks a server to forget a region, again for as long as it says that it uses it.
///
/// # Errors
/// What it said last.
pub fn unregister<E: Display>(mut ask: impl FnMut() -> Result<(), E>) -> Result<(), E> {
    let started = Stamp::now();
    loop {
        match ask() {
            Err(error) if error.to_string().contains(IN_USE) && Stamp::now() - started < LIMIT => thread::sleep(PAUSE),
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::unregister;

    #[test]
    fn a_region_in_use_is_asked_for_again_and_other_refusals_are_final() {
        let mut answers = vec![Ok(()), Err("it is currently in use."), Err("it is currently in use.")];
        assert_eq!(unregister(|| answers.pop().unwrap()), Ok(()));
        assert!(answers.is_empty());
        let mut asked = 0;
        let refused = unregister(|| {
            asked += 1;
            Err("no such region")
        });
        assert_eq!((refused, asked), (Err("no such region"), 1));
    }
}
