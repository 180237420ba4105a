//! Loads that files hold: intervals, schedules, traces. Read before the server is started, so that a bad file ends the run
//! at once.

use crate::error::{Error, Result};
use crate::load::payloads::timestamps;
use crate::load::schedule::{Arrivals, TokenCounts, Trace, read_intervals, read_trace};
use crate::plan::{DataSource, LoadMode, Plan, TokenUse};

/// What was recorded of the load in a file.
#[derive(Default)]
pub struct Recorded {
    /// When requests are due.
    pub arrivals: Option<Arrivals>,
    /// Token counts, where their use is asked for.
    pub rows: Vec<TokenCounts>,
}

impl Recorded {
    /// Reads what the plan's mode needs; nothing where that is no file.
    ///
    /// # Errors
    /// Where the file cannot be read or used, or the warm-up leaves nothing of it to measure.
    pub fn read(plan: &Plan) -> Result<Self> {
        let of = |arrivals| Self { arrivals: Some(arrivals), rows: Vec::new() };
        let recorded = match (&plan.load.mode, &plan.data.source) {
            (LoadMode::Intervals(file), _) => of(read_intervals(file)?),
            (LoadMode::FixedSchedule, DataSource::Files(files)) => of(timestamps::read(files)?),
            (LoadMode::TraceReplay { file, speed, tokens }, _) => {
                let named = |error: Error| error.context(format_args!("--trace-replay {}", file.display()));
                Self::of_trace(read_trace(file, *speed)?, tokens).map_err(named)?
            }
            _ => Self::default(),
        };
        let length = recorded.arrivals.as_ref().and_then(Arrivals::len).map(|length| length as u64);
        let warmup = plan.measurement.warmup_requests;
        match length {
            Some(length) if warmup >= length => Err(Error::usage(format!(
                "--warmup-request-count {warmup}: warm-up requests are the first of the schedule, which has {length}; \
                 leave at least one to be measured"
            ))),
            _ => Ok(recorded),
        }
    }

    fn of_trace(trace: Trace, tokens: &TokenUse) -> Result<Self> {
        if tokens.is_any() && trace.tokens.is_empty() {
            return Err(Error::input(
                "--trace-input and --trace-parameter need the columns ContextTokens and GeneratedTokens, which the trace \
                 lacks",
            ));
        }
        Ok(Self { arrivals: Some(trace.arrivals), rows: trace.tokens })
    }
}
