//! Loads that files define: intervals, schedules, traces. Read before the server is started, so that a bad file ends
//! the run at once.

use std::fs::File;
use std::path::Path;

use crate::data::{Blocks, PromptLength, PromptSpec, TokenCounts};
use crate::error::{Error, Result};
use crate::payloads::timestamps;
use crate::plan::{DataSource, Plan};
use crate::schedule::{Arrivals, Lengths, Trace, parse_lengths, read_intervals, read_trace};
use crate::terms::{LoadMode, Recording, TokenUse};

/// The recorded load of a file.
#[derive(Default)]
pub struct Recorded {
    /// When requests are due.
    pub arrivals: Option<Arrivals>,
    /// Token counts, if they are used.
    pub rows: Vec<TokenCounts>,
    /// Lengths of prompts, if they come from a recording.
    pub lengths: Vec<TokenCounts>,
    /// What these prompts have in common, if that was recorded.
    pub blocks: Option<Blocks>,
}

impl Recorded {
    /// Reads what the plan's mode needs; empty if that is not a file.
    ///
    /// # Errors
    /// If the file cannot be read or used, or the warm-up leaves nothing of it to measure.
    pub fn read(plan: &Plan) -> Result<Self> {
        let from_arrivals = |arrivals| Self { arrivals: Some(arrivals), ..Self::default() };
        let recorded = match (&plan.load.mode, &plan.data.source) {
            (LoadMode::Intervals(file), _) => from_arrivals(read_intervals(file)?),
            (LoadMode::FixedSchedule, DataSource::Files(files)) => from_arrivals(timestamps::read(files)?),
            (LoadMode::TraceReplay { file, speed, tokens }, _) => Self::of_file(file, *speed, tokens)?,
            (LoadMode::Stages { trace: Some(Recording { file, tokens }), .. }, _) => Self::of_file(file, 1.0, tokens)?,
            _ => Self::default(),
        };
        let length = recorded.arrivals.as_ref().and_then(Arrivals::len).map(|length| length as u64);
        let warmup = plan.measurement.warmup_requests;
        match length {
            Some(length) if warmup >= length => Err(Error::usage(format!(
                "--warmup-request-count {warmup}: warm-up requests are the first of the schedule, which has {length}; \
                 leave at least one to be measured"
            ))),
            _ => {
                let rows = if recorded.rows.is_empty() { rows(plan)? } else { recorded.rows };
                let (lengths, blocks) = lengths(plan)?;
                Ok(Self { lengths, blocks, rows, ..recorded })
            }
        }
    }

    fn of_file(file: &Path, speed: f64, tokens: &TokenUse) -> Result<Self> {
        let named = |error: Error| error.context(format_args!("--trace-replay {}", file.display()));
        Self::of_trace(read_trace(file, speed)?, tokens).map_err(named)
    }

    fn of_trace(trace: Trace, tokens: &TokenUse) -> Result<Self> {
        if tokens.is_any() && trace.tokens.is_empty() {
            return Err(Error::input(
                "--trace-input and --trace-parameter need token counts, such as the columns ContextTokens and \
                 GeneratedTokens, which the trace lacks",
            ));
        }
        check_answers(tokens, &trace.tokens)?;
        Ok(Self { arrivals: Some(trace.arrivals), rows: trace.tokens, ..Self::default() })
    }
}

/// The lengths of prompts that the plan takes from a trace, and what these have in common.
fn lengths(plan: &Plan) -> Result<(Vec<TokenCounts>, Option<Blocks>)> {
    let DataSource::Prompts(PromptSpec { prompt: PromptLength::Recorded(file), .. }) = &plan.data.source else {
        return Ok((Vec::new(), None));
    };
    counts(file).map_err(|error| error.context(format_args!("--prompt-tokens trace:{}", file.display())))
}

/// The token counts that inputs and parameters take from a trace under another load than its own.
fn rows(plan: &Plan) -> Result<Vec<TokenCounts>> {
    let Some((file, tokens)) = &plan.load.lengths else { return Ok(Vec::new()) };
    let counted = counts(file).and_then(|(counts, _)| check_answers(tokens, &counts).map(|()| counts));
    counted.map_err(|error| error.context(format_args!("--trace-lengths {}", file.display())))
}

/// Refuses rows without the tokens of their answers where a parameter is made of these.
fn check_answers(tokens: &TokenUse, rows: &[TokenCounts]) -> Result<()> {
    match (&tokens.parameter, rows.iter().position(|row| row.generated.is_none())) {
        (Some(name), Some(row)) => Err(Error::input(format!(
            "--trace-parameter {name} needs the tokens of answers (output_length), which row {} lacks",
            row + 1
        ))),
        _ => Ok(()),
    }
}

fn counts(file: &Path) -> Result<(Vec<TokenCounts>, Option<Blocks>)> {
    let opened = File::open(file).map_err(|error| Error::input(format!("cannot open the file: {error}")))?;
    let Lengths { tokens, blocks } = parse_lengths(opened)?;
    match tokens.is_empty() {
        true => Err(Error::input("it has no token counts, such as the columns ContextTokens and GeneratedTokens")),
        false => Ok((tokens, blocks)),
    }
}
