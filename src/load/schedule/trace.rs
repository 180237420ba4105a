//! `--trace-replay FILE`: the times, and optionally the token counts, of recorded traffic.
//!
//! The file is CSV with a header. Its times are in a column `TIMESTAMP` (dates with clock times, as in the
//! AzurePublicDataset's traces of language models) or `offset_ms` (milliseconds, fractions allowed); only differences
//! matter: the first row is due at offset 0. Columns `ContextTokens` and `GeneratedTokens` are optional. Column names
//! are case-insensitive.

use std::io::Read;
use std::path::Path;

use crate::data::TokenCounts;
use crate::error::{Error, Result};
use crate::load::schedule::{Arrivals, datetime};

const NS_PER_MS: f64 = 1e6;
/// Times beyond this are refused: 100 years in nanoseconds.
const MAX_SPAN_NS: f64 = 100.0 * 365.25 * 86_400e9;

/// Recorded traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// When each row is due, divided by the speed.
    pub arrivals: Arrivals,
    /// Sizes, one per row; empty if the file has no such columns.
    pub tokens: Vec<TokenCounts>,
}

/// Reads a trace from a file and plays it `speed` times as fast; see [`parse_trace`].
///
/// # Errors
/// As [`parse_trace`], and where the file cannot be read. Messages name the file.
pub fn read_trace(path: &Path, speed: f64) -> Result<Trace> {
    let file = std::fs::File::open(path)
        .map_err(|error| Error::input(format!("--trace-replay {}: cannot open the file: {error}", path.display())))?;
    parse_trace(file, speed).map_err(|error| error.context(format_args!("--trace-replay {}", path.display())))
}

/// Reads a trace; `speed` 2 halves every gap.
///
/// # Errors
/// If the speed is not a number above 0, no column holds times, a row is malformed or earlier than the row before it, or
/// there is no row. Messages name the line.
pub fn parse_trace(source: impl Read, speed: f64) -> Result<Trace> {
    if !(speed > 0.0 && speed.is_finite()) {
        return Err(Error::usage(format!("--trace-speed {speed} is not usable: it must be a number above 0")));
    }
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(source);
    let header = reader.headers().map_err(|error| Error::input(format!("the header cannot be read: {error}")))?;
    let columns = Columns::find(header)?;
    let mut offsets = Vec::new();
    let mut tokens = Vec::new();
    let mut origin = None;
    for record in reader.records() {
        let record = record.map_err(|error| Error::input(format!("a row cannot be read: {error}")))?;
        let line = record.position().map_or(0, csv::Position::line);
        let time = columns.time(&record, line)?;
        let offset = (time - *origin.get_or_insert(time)) as f64 / speed;
        if offset < 0.0 || offsets.last().is_some_and(|&last| offset.round() < last as f64) {
            return Err(Error::input(format!(
                "line {line} is earlier than the line before it: sort the trace by time"
            )));
        }
        if offset > MAX_SPAN_NS {
            return Err(Error::input(format!(
                "line {line} is due more than 100 years after the first: raise --trace-speed"
            )));
        }
        offsets.push(offset.round() as u64);
        tokens.extend(columns.tokens(&record, line)?);
    }
    Ok(Trace { arrivals: Arrivals::once(offsets)?, tokens })
}

struct Columns {
    time: TimeColumn,
    tokens: Option<(usize, usize)>,
}

enum TimeColumn {
    DateTime(usize),
    OffsetMs(usize),
}

impl Columns {
    fn find(header: &csv::StringRecord) -> Result<Self> {
        // A byte order mark would become part of the first name.
        let find = |name: &str| {
            header.iter().position(|column| column.trim_start_matches('\u{feff}').eq_ignore_ascii_case(name))
        };
        let time = match (find("timestamp"), find("offset_ms")) {
            (_, Some(at)) => TimeColumn::OffsetMs(at),
            (Some(at), None) => TimeColumn::DateTime(at),
            (None, None) => {
                let names: Vec<&str> = header.iter().collect();
                return Err(Error::input(format!(
                    "no column holds times: the header is '{}'; name one TIMESTAMP (2023-11-16 18:17:03.97) or offset_ms",
                    names.join(",")
                )));
            }
        };
        Ok(Self { time, tokens: find("contexttokens").zip(find("generatedtokens")) })
    }

    /// Time of a row in nanoseconds from an origin that all rows share.
    fn time(&self, record: &csv::StringRecord, line: u64) -> Result<i128> {
        let (at, parsed) = match self.time {
            TimeColumn::DateTime(at) => (at, datetime::parse(&record[at])),
            TimeColumn::OffsetMs(at) => (at, offset_ns(&record[at])),
        };
        parsed.ok_or_else(|| {
            let form = match self.time {
                TimeColumn::DateTime(_) => "a time such as 2023-11-16 18:17:03.9799600",
                TimeColumn::OffsetMs(_) => "a number of milliseconds from 0 to 100 years",
            };
            Error::input(format!("line {line}: '{}' is not {form}", &record[at]))
        })
    }

    fn tokens(&self, record: &csv::StringRecord, line: u64) -> Result<Option<TokenCounts>> {
        let Some((context, generated)) = self.tokens else { return Ok(None) };
        let count = |at: usize| {
            record[at]
                .parse()
                .map_err(|_| Error::input(format!("line {line}: '{}' is not a number of tokens", &record[at])))
        };
        Ok(Some(TokenCounts { context: count(context)?, generated: count(generated)? }))
    }
}

fn offset_ns(text: &str) -> Option<i128> {
    let ns = text.parse::<f64>().ok()? * NS_PER_MS;
    (0.0..=MAX_SPAN_NS).contains(&ns).then(|| ns.round() as i128)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::schedule::Schedule;

    fn offsets(text: &str, speed: f64) -> Vec<u64> {
        Schedule::new(&parse_trace(text.as_bytes(), speed).unwrap().arrivals, 1).collect()
    }

    fn message(text: &str) -> String {
        parse_trace(text.as_bytes(), 1.0).unwrap_err().to_string()
    }

    #[test]
    fn azure_form_with_token_counts() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
                    2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n2023-11-16 18:17:05.0000000,110,27\n";
        let trace = parse_trace(text.as_bytes(), 1.0).unwrap();
        assert_eq!(trace.tokens[1], TokenCounts { context: 3180, generated: 8 });
        assert_eq!(trace.tokens.len(), 3);
        assert_eq!(offsets(text, 1.0), [0, 52_000_000, 1_020_040_000]);
        assert_eq!(offsets(text, 2.0), [0, 26_000_000, 510_020_000]);
    }

    #[test]
    fn plain_offsets_start_at_zero() {
        assert_eq!(offsets("offset_ms\n10\n10.5\n12\n", 1.0), [0, 500_000, 2_000_000]);
        assert_eq!(offsets("\u{feff}OFFSET_MS , other\n0, x\n3, y", 1.0), [0, 3_000_000]);
    }

    #[test]
    fn unusable_traces_are_refused_with_the_line() {
        assert!(message("").contains("no column holds times"));
        assert!(message("time,tokens\n1,2\n").contains("the header is 'time,tokens'"));
        assert!(message("offset_ms\n").contains("schedule is empty"));
        assert!(message("offset_ms\n5\nfive\n").contains("line 3: 'five'"));
        assert!(message("offset_ms\nNaN\n").contains("line 2: 'NaN'"));
        assert!(message("offset_ms\n5\n4\n").contains("line 3 is earlier"));
        assert!(message("offset_ms\n5\n6\n5.5\n").contains("line 4 is earlier"));
        assert!(message("TIMESTAMP\n16.11.2023 18:17\n").contains("line 2: '16.11.2023 18:17'"));
        assert!(
            message("offset_ms,ContextTokens,GeneratedTokens\n5,-1,2\n").contains("'-1' is not a number of tokens")
        );
        assert!(message("offset_ms,b\n5\n").contains("row"));
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(parse_trace("offset_ms\n1\n".as_bytes(), speed).is_err());
        }
        assert!(parse_trace("offset_ms\n0\n1e6\n".as_bytes(), 1e-12).unwrap_err().to_string().contains("100 years"));
    }
}
