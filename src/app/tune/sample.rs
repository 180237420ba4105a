//! Plans for tests.

use crate::cli::{Command, parse};
use crate::exit::Codes;
use crate::plan::TunePlan;

/// The plan of these flags on top of one model's.
pub fn plan(flags: &str) -> TunePlan {
    let words = ["triton-bench", "tune", "-m", "m", "--model-repository", "/r"].into_iter();
    match parse(words.chain(flags.split_whitespace()).map(Into::into), Codes::Own) {
        Ok(Command::Tune(plan)) => *plan,
        other => panic!("{flags}: {other:?}"),
    }
}
