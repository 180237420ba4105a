//! `--trace-replay FILE`: the times, and optionally the token counts, of recorded traffic.
//!
//! The file is CSV with a header, or JSON lines. In CSV, times are in a column `TIMESTAMP` (dates with clock times, as in the
//! AzurePublicDataset's traces of language models, or seconds, as in BurstGPT's), `arrived_at` (the same, as in Vidur's) or
//! `offset_ms` (milliseconds, fractions allowed). Token counts are optional, under any of the names in [`COUNTS`]. Names are case-insensitive. A file that begins with
//! a date has no header: its columns are time, tokens of the prompt and of the answer, as in Azure's. In JSON lines each
//! has `timestamp`, `input_length`, `output_length` and perhaps `hash_ids` (Mooncake's traces: milliseconds, blocks of 512
//! tokens; with `chat_id` Bailian's: seconds, blocks of 16). Only differences of times matter: the first row is due at
//! offset 0.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;
use serde_json::Number;

use crate::data::{Blocks, MAX_TOKENS, TokenCounts, fault_in_line, plain_text, whole_number};
use crate::error::{Error, Result};
use crate::schedule::{Arrivals, datetime};

const NS_PER_MS: f64 = 1e6;
const NS_PER_S: f64 = 1e9;
/// Names of the columns with token counts of prompts and answers.
const COUNTS: &[(&str, &str)] = &[
    ("contexttokens", "generatedtokens"),
    ("num_prefill_tokens", "num_decode_tokens"),
    ("request tokens", "response tokens"),
    ("input_length", "output_length"),
    ("input_tokens", "output_tokens"),
    ("prompt_tokens", "completion_tokens"),
];
/// Names of the columns with dates, or seconds.
const STAMPS: [&str; 2] = ["timestamp", "arrived_at"];
/// Times beyond this are refused: 100 years in nanoseconds.
const MAX_SPAN_NS: f64 = 100.0 * 365.25 * 86_400e9;

/// Recorded traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// When each row is due, divided by the speed.
    pub arrivals: Arrivals,
    /// Sizes, one per row; empty if the file has no such columns.
    pub tokens: Vec<TokenCounts>,
    /// What the prompts have in common, if that was recorded.
    pub blocks: Option<Blocks>,
}

/// What the rows of a trace have beside their times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lengths {
    /// Sizes, one per row; empty if the file has none.
    pub tokens: Vec<TokenCounts>,
    /// What the prompts have in common, if that was recorded.
    pub blocks: Option<Blocks>,
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
/// If the speed is not a number above 0, no column holds times, a row is malformed or earlier than the row before it or has more
/// tokens than there can be, or there is no row. Messages name the line.
pub fn parse_trace(source: impl Read, speed: f64) -> Result<Trace> {
    if !(speed > 0.0 && speed.is_finite()) {
        return Err(Error::usage(format!("--trace-speed {speed} is not usable: it must be a number above 0")));
    }
    let mut times = Times::new(speed);
    let Lengths { tokens, blocks } = parse(source, Some(&mut times))?;
    Ok(Trace { arrivals: Arrivals::once(times.offsets)?, tokens, blocks })
}

/// Reads the lengths of a trace, whose rows need no times.
///
/// # Errors
/// If a row is malformed or has more tokens than there can be. Messages name the line.
pub fn parse_lengths(source: impl Read) -> Result<Lengths> {
    parse(source, None)
}

fn parse(source: impl Read, times: Option<&mut Times>) -> Result<Lengths> {
    let mut source = BufReader::new(source);
    let begun = source.fill_buf().map_err(|error| Error::input(format!("it cannot be read: {error}")))?;
    let text = plain_text(begun).map_err(Error::input)?;
    let first = text.iter().copied().find(|byte| !byte.is_ascii_whitespace());
    let mark = begun.len() - text.len();
    source.consume(mark);
    match first {
        None => Err(Error::input("it is empty: a trace is CSV with a header, or JSON with an object a line")),
        Some(b'[') => Err(Error::input(
            "it is a list of JSON, and a trace in JSON has an object a line: rewrite it with `jq -c '.[]'`",
        )),
        Some(b'{') => parse_lines(source, times),
        Some(_) => parse_csv(source, times),
    }
}

fn parse_csv(source: impl Read, mut times: Option<&mut Times>) -> Result<Lengths> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).trim(csv::Trim::All).from_reader(source);
    let mut records = reader.records().peekable();
    let columns = match records.peek() {
        Some(Ok(first)) if datetime::parse(&first[0]).is_some() => Columns::by_place(first),
        _ => {
            let header = records.next().transpose();
            let header = header.map_err(|error| Error::input(format!("the header cannot be read: {error}")))?;
            Columns::find(&header.unwrap_or_default(), times.is_some())?
        }
    };
    let mut tokens = Vec::new();
    for record in records {
        let record = record.map_err(|error| Error::input(format!("a row cannot be read: {error}")))?;
        let line = record.position().map_or(0, csv::Position::line);
        if let Some(times) = &mut times {
            times.add(columns.time(&record, line)?, line)?;
        }
        tokens.extend(columns.tokens(&record, line)?);
    }
    Ok(Lengths { tokens, blocks: None })
}

/// A line of a trace in JSON lines.
#[derive(Deserialize)]
struct Line {
    timestamp: Option<f64>,
    input_length: Option<Number>,
    output_length: Option<Number>,
    #[serde(default)]
    hash_ids: Vec<u64>,
    /// Bailian's traces number their conversations.
    chat_id: Option<serde_json::Value>,
}

impl Line {
    /// When it was sent, in nanoseconds.
    fn time(&self, number: u64) -> Result<i128> {
        let unit = if self.chat_id.is_some() { NS_PER_S } else { NS_PER_MS };
        let Some(timestamp) = self.timestamp else {
            return Err(Error::input(format!("line {number}: missing field `timestamp`, which says when it is due")));
        };
        ns(timestamp * unit)
            .ok_or_else(|| Error::input(format!("line {number}: {timestamp} is not a time from 0 to 100 years")))
    }

    /// Its token counts, if it has any.
    fn tokens(&self, number: u64) -> Result<Option<TokenCounts>> {
        let count = |written: &Number| {
            let wrong = || Error::input(format!("line {number}: '{written}' is not a number of tokens"));
            whole_number(&written.to_string()).ok_or_else(wrong)
        };
        let Some(context) = self.input_length.as_ref().map(count).transpose()? else { return Ok(None) };
        let generated = self.output_length.as_ref().map(count).transpose()?;
        within(TokenCounts { context, generated }, number).map(Some)
    }
}

/// Tokens of a block in Mooncake's traces, and in Bailian's.
const BLOCK_TOKENS: (u32, u32) = (512, 16);

fn parse_lines(source: impl BufRead, mut times: Option<&mut Times>) -> Result<Lengths> {
    let mut tokens = Vec::new();
    let mut blocks = Blocks { each: Vec::new(), tokens: BLOCK_TOKENS.0 };
    for (number, text) in (1..).zip(source.lines()) {
        let text = text.map_err(|error| Error::input(format!("line {number} cannot be read: {error}")))?;
        if text.trim().is_empty() {
            continue;
        }
        let rule = "it must be an object with a timestamp, and perhaps input_length, output_length and hash_ids";
        let broken =
            |error: serde_json::Error| Error::input(format!("line {number}: {}; {rule}", fault_in_line(&error)));
        let line: Line = serde_json::from_str(&text).map_err(broken)?;
        if line.chat_id.is_some() {
            blocks.tokens = BLOCK_TOKENS.1;
        }
        if let Some(times) = &mut times {
            times.add(line.time(number)?, number)?;
        }
        tokens.extend(line.tokens(number)?);
        blocks.each.push(line.hash_ids.into());
    }
    if !tokens.is_empty() && tokens.len() < blocks.each.len() {
        return Err(Error::input("some lines have an input_length, and others have not"));
    }
    let has_blocks = blocks.each.iter().any(|block| !block.is_empty());
    let blocks = (has_blocks && !tokens.is_empty()).then_some(blocks);
    Ok(Lengths { tokens, blocks })
}

/// The token counts of a line, which are no more than there can be.
fn within(counts: TokenCounts, line: u64) -> Result<TokenCounts> {
    let most = u64::from(MAX_TOKENS);
    let parts = [("a prompt", counts.context), ("an answer", counts.generated.unwrap_or(0))];
    match parts.into_iter().find(|(_, tokens)| *tokens > most) {
        None => Ok(counts),
        Some((part, tokens)) => {
            Err(Error::input(format!("line {line}: {part} of {tokens} tokens, and at most {most} are possible")))
        }
    }
}

/// When rows are due, in nanoseconds after the first.
struct Times {
    speed: f64,
    origin: Option<i128>,
    offsets: Vec<u64>,
}

impl Times {
    fn new(speed: f64) -> Self {
        Self { speed, origin: None, offsets: Vec::new() }
    }

    /// Adds the row of a line.
    fn add(&mut self, time: i128, line: u64) -> Result<()> {
        let offset = (time - *self.origin.get_or_insert(time)) as f64 / self.speed;
        if offset < 0.0 || self.offsets.last().is_some_and(|&last| offset.round() < last as f64) {
            return Err(Error::input(format!(
                "line {line} is earlier than the line before it: sort the trace by time"
            )));
        }
        if offset > MAX_SPAN_NS {
            return Err(Error::input(format!(
                "line {line} is due more than 100 years after the first: raise --trace-speed"
            )));
        }
        self.offsets.push(offset.round() as u64);
        Ok(())
    }
}

struct Columns {
    /// Absent only where no times are needed.
    time: Option<TimeColumn>,
    tokens: Option<(usize, usize)>,
}

enum TimeColumn {
    /// Dates, or seconds.
    Stamp(usize),
    OffsetMs(usize),
}

impl Columns {
    fn find(header: &csv::StringRecord, needs_times: bool) -> Result<Self> {
        let find = |name: &str| header.iter().position(|column| column.eq_ignore_ascii_case(name));
        let stamp = || STAMPS.iter().find_map(|name| find(name)).map(TimeColumn::Stamp);
        let time = find("offset_ms").map(TimeColumn::OffsetMs).or_else(stamp);
        if time.is_none() && needs_times {
            let names: Vec<&str> = header.iter().collect();
            return Err(Error::input(format!(
                "no column holds times: the header is '{}'; name one TIMESTAMP (2023-11-16 18:17:03.97, or seconds) or offset_ms",
                names.join(",")
            )));
        }
        let tokens = COUNTS.iter().find_map(|(context, generated)| find(context).zip(find(generated)));
        Ok(Self { time, tokens })
    }

    /// Those of a file without a header.
    fn by_place(row: &csv::StringRecord) -> Self {
        Self { time: Some(TimeColumn::Stamp(0)), tokens: (row.len() > 2).then_some((1, 2)) }
    }

    /// Time of a row in nanoseconds from an origin that all rows share.
    fn time(&self, record: &csv::StringRecord, line: u64) -> Result<i128> {
        let (at, parsed, form) = match self.time {
            Some(TimeColumn::OffsetMs(at)) => {
                (at, offset_ns(&record[at], NS_PER_MS), "a number of milliseconds from 0 to 100 years")
            }
            Some(TimeColumn::Stamp(at)) => {
                let parsed = datetime::parse(&record[at]).or_else(|| offset_ns(&record[at], NS_PER_S));
                (at, parsed, "a time such as 2023-11-16 18:17:03.9799600, or a number of seconds")
            }
            None => return Ok(0),
        };
        parsed.ok_or_else(|| Error::input(format!("line {line}: '{}' is not {form}", &record[at])))
    }

    fn tokens(&self, record: &csv::StringRecord, line: u64) -> Result<Option<TokenCounts>> {
        let Some((context, generated)) = self.tokens else { return Ok(None) };
        let count = |at: usize| {
            let wrong = || Error::input(format!("line {line}: '{}' is not a number of tokens", &record[at]));
            whole_number(&record[at]).ok_or_else(wrong)
        };
        within(TokenCounts { context: count(context)?, generated: Some(count(generated)?) }, line).map(Some)
    }
}

fn offset_ns(text: &str, unit_ns: f64) -> Option<i128> {
    ns(text.parse::<f64>().ok()? * unit_ns)
}

fn ns(ns: f64) -> Option<i128> {
    (0.0..=MAX_SPAN_NS).contains(&ns).then(|| ns.round() as i128)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Schedule;

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
        assert_eq!(trace.tokens[1], TokenCounts { context: 3180, generated: Some(8) });
        assert_eq!(trace.tokens.len(), 3);
        assert_eq!(offsets(text, 1.0), [0, 52_000_000, 1_020_040_000]);
        assert_eq!(offsets(text, 2.0), [0, 26_000_000, 510_020_000]);
    }

    #[test]
    fn a_trace_that_begins_with_a_date_has_no_header() {
        let text = "2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n";
        let trace = parse_trace(text.as_bytes(), 1.0).unwrap();
        let counts: Vec<(u64, Option<u64>)> = trace.tokens.iter().map(|row| (row.context, row.generated)).collect();
        assert_eq!((counts, offsets(text, 1.0)), (vec![(4808, Some(10)), (3180, Some(8))], vec![0, 52_000_000]));
        let bare = "2023-11-16 18:17:03\n2023-11-16 18:17:05\n";
        assert_eq!(offsets(bare, 1.0), [0, 2_000_000_000]);
        assert!(parse_trace(bare.as_bytes(), 1.0).unwrap().tokens.is_empty());
        assert!(message("2023-11-16 18:17:03,5,x\n").contains("line 1: 'x' is not a number of tokens"));
        assert!(message("0,472,18\n").contains("no column holds times"), "numbers may be of any column");
    }

    #[test]
    fn other_forms_are_told_apart_by_what_they_have() {
        let burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                     5,ChatGPT,472,18,490,Conversation log\n5,GPT-4,10,20,30,API log\n45.5,ChatGPT,1087,230,1317,Conversation log\n";
        assert_eq!(offsets(burst, 1.0), [0, 0, 40_500_000_000], "seconds");
        let trace = parse_trace(burst.as_bytes(), 1.0).unwrap();
        assert_eq!(trace.tokens[2], TokenCounts { context: 1087, generated: Some(230) });
        let mooncake = "{\"timestamp\": 1000, \"input_length\": 6755, \"output_length\": 500, \"hash_ids\": [0, 1, 2]}\n\
                        {\"timestamp\": 3052, \"input_length\": 7319, \"output_length\": 490, \"hash_ids\": [0, 7]}\n\n";
        assert_eq!(offsets(mooncake, 1.0), [0, 2_052_000_000], "milliseconds");
        let trace = parse_trace(mooncake.as_bytes(), 1.0).unwrap();
        assert_eq!(
            parse_trace(format!("\u{feff}{mooncake}").as_bytes(), 1.0).unwrap(),
            trace,
            "with a byte order mark"
        );
        let blocks = trace.blocks.unwrap();
        assert_eq!((&*blocks.each[1], blocks.tokens, trace.tokens[0].context), (&[0, 7][..], 512, 6755));
        let bailian = "{\"chat_id\": 1, \"parent_chat_id\": -1, \"timestamp\": 61.5, \"input_length\": 30, \"output_length\": 5, \
                       \"type\": \"text\", \"turn\": 1, \"hash_ids\": [3, 4]}\n";
        let trace = parse_trace(bailian.as_bytes(), 1.0).unwrap();
        assert_eq!((trace.blocks.unwrap().tokens, offsets(bailian, 1.0)), (16, vec![0]));
        let bare = parse_trace("{\"timestamp\": 1}\n".as_bytes(), 1.0).unwrap();
        assert_eq!((bare.tokens.len(), bare.blocks), (0, None));
        assert!(message("{\"timestamp\": 1}\n{\"time\": 2}\n").contains("line 2: missing field `timestamp`"));
        assert!(message("{\"timestamp\": 2}\n{\"timestamp\": 1}\n").contains("line 2 is earlier"));
        assert!(message("{\"timestamp\": -2}\n").contains("line 1: -2 is not a time"));
        let mixed = "{\"timestamp\": 1, \"input_length\": 3, \"output_length\": 3}\n{\"timestamp\": 1}\n";
        assert!(message(mixed).contains("some lines have"));
    }

    #[test]
    fn lengths_need_no_times_and_prompts_no_answers() {
        let counts = |text: &str| -> Vec<(u64, Option<u64>)> {
            let tokens = parse_lengths(text.as_bytes()).unwrap().tokens;
            tokens.into_iter().map(|row| (row.context, row.generated)).collect()
        };
        let lines = "{\"input_length\": 655, \"hash_ids\": [0, 1]}\n{\"input_length\": 3, \"output_length\": 26, \"timestamp\": null}\n";
        assert_eq!(counts(lines), [(655, None), (3, Some(26))]);
        assert!(message(lines).contains("line 1: missing field `timestamp`"), "{}", message(lines));
        assert_eq!(counts("prompt_tokens,completion_tokens\n5,7\n"), [(5, Some(7))]);
        let unsorted = "{\"timestamp\": 9, \"input_length\": 1}\n{\"timestamp\": 2, \"input_length\": 4}\n";
        assert_eq!(counts(unsorted), [(1, None), (4, None)]);
    }

    #[test]
    fn counts_may_be_written_by_table_tools() {
        let text = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,374.0,44\n4.5,396,1e2\n";
        let trace = parse_trace(text.as_bytes(), 1.0).unwrap();
        assert_eq!(trace.tokens[0], TokenCounts { context: 374, generated: Some(44) });
        assert_eq!((trace.tokens[1].generated, offsets(text, 1.0)), (Some(100), vec![0, 4_000_000_000]));
        assert!(message("offset_ms,input_tokens,output_tokens\n5,1.5,2\n").contains("'1.5' is not a number of tokens"));
        let lines = "{\"timestamp\": 0, \"input_length\": 374.0, \"output_length\": 44}\n\
                     {\"timestamp\": 9, \"input_length\": 396, \"output_length\": 1e2}\n";
        let trace = parse_trace(lines.as_bytes(), 1.0).unwrap();
        assert_eq!(trace.tokens[0], TokenCounts { context: 374, generated: Some(44) });
        assert_eq!(trace.tokens[1].generated, Some(100));
        for wrong in ["1.5", "-1"] {
            let error = message(&format!("{{\"timestamp\": 0, \"input_length\": {wrong}}}\n"));
            assert!(error.contains(&format!("line 1: '{wrong}' is not a number of tokens")), "{error}");
        }
    }

    #[test]
    fn plain_offsets_start_at_zero() {
        assert_eq!(offsets("offset_ms\n10\n10.5\n12\n", 1.0), [0, 500_000, 2_000_000]);
        assert_eq!(offsets("\u{feff}OFFSET_MS , other\n0, x\n3, y", 1.0), [0, 3_000_000]);
    }

    #[test]
    fn unusable_traces_are_refused_with_the_line() {
        for empty in ["", "\u{feff}", "\n \n"] {
            assert!(message(empty).contains("it is empty: a trace is CSV"), "{empty:?}");
        }
        assert!(message("[{\"timestamp\": 1}]").contains("it is a list of JSON"));
        let unpacked = parse_trace(&b"\x1f\x8b\x08"[..], 1.0).unwrap_err().to_string();
        assert!(unpacked.contains("compressed with gzip"), "{unpacked}");
        let broken = message("{\"timestamp\": 1}\n{\"timestamp\": x}\n");
        assert!(broken.contains("line 2: expected value (column 15);"), "{broken}");
        let long = "{\"timestamp\": 1, \"input_length\": 99999999999, \"output_length\": 1}\n";
        assert!(message(long).contains("line 1: a prompt of 99999999999 tokens, and at most 10000000 are possible"));
        let long = "offset_ms,ContextTokens,GeneratedTokens\n5,1,2\n6,1,10000001\n";
        assert!(message(long).contains("line 3: an answer of 10000001 tokens"), "{}", message(long));
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
