//! Section "Load": when requests leave.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;

use crate::parsers::{StageForm, SweepForm, parameter_name, stage, stages, sweep, token_input, warm_up};
use crate::plan::{Calls, Given, LoadPlan, SequencePlan, Wait};
use crate::range::{concurrency, periodic, rate};
use crate::ranks::RanksArgs;
use crate::terms::{GapDistribution, LoadMode, Periodic, Range, Recording, StageEdges, TokenInput, TokenUse};
use crate::values::{MS, Processors, decimal, file, integer, number, one_of, period, processors, whole};

/// Default number of issuing threads for a concurrency, without `--max-threads`.
const CONCURRENCY_THREADS: usize = 16;
/// The same, for loads that follow a schedule.
const SCHEDULE_THREADS: usize = 4;
/// The same, for synchronous concurrencies without an end, which grow up to it.
const ENDLESS_THREADS: usize = 1024;

/// When requests leave.
#[derive(Args, Debug)]
#[command(next_help_heading = "Load (one of concurrency, rate, schedule and others)")]
pub struct LoadArgs {
    /// Keeps this many requests outstanding, one level after another. Without END: one level; END 0: grows until
    /// --latency-threshold is exceeded; STEP `*2`: doubles. Or a list, such as `1,2,4:8`
    #[arg(long, value_name = "START[:END[:STEP]]", default_value = "1:1:1", value_parser = concurrency)]
    concurrency_range: Range<u32>,

    /// Real-time streams: each of the --concurrency-range streams, which are sequences where the model takes them, sends a
    /// request every TIME (`100ms`), answered or not. With --latency-threshold: how many streams keep it. Default: off
    #[arg(long, value_name = "TIME", value_parser = period(MS, Duration::from_micros(1)))]
    paced: Option<Duration>,

    /// Sends this many requests a second, one level after another, whether or not the server keeps up. Range as in
    /// --concurrency-range; fractions allowed. Default: off
    #[arg(long, value_name = "START[:END[:STEP]]", value_parser = rate)]
    request_rate_range: Option<Range<f64>>,

    /// Distribution of the gaps between sends at a given rate: equal, exponential, or gamma with --burstiness
    #[arg(long, value_name = "constant|poisson|gamma", default_value = "constant",
        value_parser = one_of(&[("constant", Gaps::Constant), ("poisson", Gaps::Poisson), ("gamma", Gaps::Gamma)]))]
    request_distribution: Gaps,

    /// Shape of the gamma distribution: 1 is Poisson, below 1 is bursty, above 1 is more even
    #[arg(long, value_name = "SHAPE", default_value = "1", value_parser = shape_factor)]
    burstiness: f64,

    /// Reads the gaps between sends from a file, one per line, in microseconds, and repeats them. Default: off
    #[arg(long, value_name = "FILE", value_parser = file)]
    request_intervals: Option<PathBuf>,

    /// Takes the send times from the input data: the UINT64 input `timestamp`, in milliseconds. Default: off
    #[arg(long)]
    fixed_schedule: bool,

    /// Takes the send times from a recorded trace: CSV with a column `TIMESTAMP` or `offset_ms`. Default: off
    #[arg(long, value_name = "FILE", value_parser = file)]
    trace_replay: Option<PathBuf>,

    /// Replays the trace this many times faster than recorded
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    trace_speed: f64,

    /// Takes token counts for --trace-input and --trace-parameter from this trace, row by row, while another load sets
    /// the send times. Default: off
    #[arg(long, value_name = "FILE", value_parser = file)]
    trace_lengths: Option<PathBuf>,

    /// Sizes this input by the trace: its one free dimension is the row's ContextTokens, at most LONGEST (default
    /// 131072). Needs generated input data. Default: off
    #[arg(long, value_name = "NAME[:LONGEST]", value_parser = token_input)]
    trace_input: Option<TokenInput>,

    /// Sends the row's GeneratedTokens as this request parameter, an integer. Default: off
    #[arg(long, value_name = "NAME", value_parser = parameter_name)]
    trace_parameter: Option<String>,

    /// For decoupled models and other answers in several parts: sends START requests, then STEP more whenever every
    /// request of the latest batch has had --request-period responses, END in total. Default: off
    #[arg(long, value_name = "START:END[:STEP]", value_parser = periodic)]
    periodic_concurrency_range: Option<Periodic>,

    /// Responses that each request must have had before a periodic load sends more
    #[arg(long, value_name = "N", default_value = "10", value_parser = whole::<u32>(1, u64::from(u32::MAX)))]
    request_period: u32,

    /// One stage of a load, such as `rate:100:30s`, `ramp:100-1000:60s` (a rate that changes evenly) or
    /// `concurrency:8:500req`; repeat it for further stages. `pause:5s` before a stage leaves the server idle for that
    /// long. `sessions:4:20` plays the next 20 conversations, 4 at a time; `sessions:0:all:2` all that are left, at once
    /// but 2 a second. `replay:2` plays the trace of --trace-replay, twice as fast as recorded. Default: off
    #[arg(long, value_name = "KIND:VALUE:LENGTH", value_parser = stage)]
    stage: Vec<StageForm>,

    /// A load of its own before the first level, not measured, as in --stage: `rate:50:10s`, `concurrency:4:500req`; repeat
    /// it for more, one after the other. --warmup-duration and --warmup-request-count are for each level, and of its load.
    /// Default: none
    #[arg(long, value_name = "KIND:VALUE:LENGTH", value_parser = warm_up)]
    warm_up: Vec<StageForm>,

    /// Between stages without a pause: `overlap` starts the next load while requests of the last are still outstanding,
    /// so the server sees no gap; `drain` waits for them first, so it never has more than one stage's load
    #[arg(long, value_name = "overlap|drain", default_value = "overlap",
        value_parser = one_of(&[("overlap", StageEdges::Overlap), ("drain", StageEdges::Drain)]))]
    stage_edges: StageEdges,

    /// Finds the highest rate that the server sustains, then measures N rates (default 8) up to it and just past it.
    /// Default: off
    #[arg(long, value_name = "linear|geometric[:N]", value_parser = sweep)]
    sweep: Option<SweepForm>,

    /// Issues requests without waiting for answers, from a few threads. Default: off, except for sequence models
    #[arg(short = 'a', long = "async")]
    asynchronous: bool,

    /// Waits for each answer, on one thread per outstanding request, for sequence models too. In open loops (rates and
    /// schedules) no thread waits. Default: on
    #[arg(long)]
    sync: bool,

    /// Maximum threads that issue requests; no more are started than the load needs: over HTTP and gRPC, one for every
    /// two processors, or one for each of --worker-cpus. A synchronous closed loop always has one per outstanding
    /// request; a range without an end stops at this many. Default: 16; in open loops 4; for a synchronous range
    /// without an end 1024
    #[arg(long, value_name = "N", value_parser = whole::<usize>(1, 100_000))]
    max_threads: Option<usize>,

    /// Maximum outstanding requests in open loops (rates and schedules); requests that find no free slot are sent late,
    /// and the report says so. Default: 65536, or fewer where the outputs of that many would not fit into memory
    #[arg(long, value_name = "N", value_parser = whole::<usize>(1, 100_000))]
    max_outstanding: Option<usize>,

    /// Maximum connections to a server on the network. A request that finds none free waits for one, and that wait is
    /// part of its latency. Over gRPC each thread has one connection, which many requests share, so this limits the
    /// threads. Needs --async if more requests are outstanding. Default: one per outstanding request, over gRPC one per
    /// thread
    #[arg(long, value_name = "N", value_parser = whole::<usize>(1, 100_000))]
    max_connections: Option<usize>,

    /// Pins the whole process, including an embedded server, to these processors, such as `0,2-5`. Default: all
    #[arg(long, value_name = "LIST", value_parser = processors)]
    cpus: Option<Processors>,

    /// Pins the threads that issue requests to these processors. Default: as --cpus
    #[arg(long, value_name = "LIST", value_parser = processors)]
    worker_cpus: Option<Processors>,

    /// How a synchronous thread waits for its answer: sleeping, spinning, or spinning briefly and then sleeping
    #[arg(long, value_name = "park|spin|hybrid", default_value = "park",
        value_parser = one_of(&[("park", Wait::Park), ("spin", Wait::Spin), ("hybrid", Wait::Hybrid)]))]
    wait: Wait,

    /// Seed of every random draw: gaps, data, sequences, mixes. The same seed and flags give the same load; `time`
    /// draws a new seed for each run and prints it
    #[arg(long, value_name = "N|time", default_value = "1", value_parser = seed)]
    seed: u64,

    #[arg(short = 't', long = "old-start-concurrency", hide = true, value_parser = whole::<u32>(1, 100_000))]
    start_concurrency: Option<u32>,

    #[arg(short = 'c', long = "old-end-concurrency", hide = true, value_parser = whole::<u32>(0, 100_000))]
    end_concurrency: Option<u32>,

    #[arg(short = 'd', long = "old-dynamic-concurrency", hide = true)]
    dynamic_concurrency: bool,

    #[command(flatten)]
    ranks: RanksArgs,
}

/// Kind of gaps, before the shape is known.
#[derive(Clone, Copy, Debug)]
enum Gaps {
    Constant,
    Poisson,
    Gamma,
}

impl LoadArgs {
    /// The load, with the sequences of another section and its number of conversations at a time, if that is the load; no
    /// thread waits for an answer if it `is_asynchronous`.
    pub fn plan(
        &self,
        sequences: SequencePlan,
        conversations: Option<u32>,
        is_asynchronous: bool,
        given: &Given,
    ) -> LoadPlan {
        let mode = conversations.map_or_else(|| self.mode(), LoadMode::Sessions);
        let waits = matches!(mode, LoadMode::Concurrency(_) | LoadMode::Stages { .. }) && !mode.follows_schedule();
        let synchronous = waits && !self.asynchronous && !is_asynchronous;
        LoadPlan {
            max_threads: self.threads(&mode, synchronous),
            mode,
            calls: match (synchronous, given.has("--sync")) {
                (false, _) => Calls::Asynchronous,
                (true, true) => Calls::Synchronous,
                (true, false) => Calls::ByModel,
            },
            max_outstanding: self.max_outstanding,
            max_connections: self.max_connections,
            wait: self.wait,
            cpus: self.cpus.clone().map(|list| list.0),
            worker_cpus: self.worker_cpus.clone().map(|list| list.0),
            sequences,
            warm_up: stages(&self.warm_up),
            ranks: self.ranks.plan(),
            lengths: self.trace_lengths.clone().map(|file| (file, self.tokens())),
        }
    }

    fn recording(&self) -> Option<Recording> {
        self.trace_replay.clone().map(|file| Recording { file, tokens: self.tokens() })
    }

    fn tokens(&self) -> TokenUse {
        TokenUse { input: self.trace_input.clone(), parameter: self.trace_parameter.clone() }
    }

    /// Notes on the load that are not errors.
    pub fn notes(&self, given: &Given) -> Vec<String> {
        let by_time = given.value("--seed").is_some_and(|seed| seed.eq_ignore_ascii_case("time"));
        let seed =
            by_time.then(|| format!("--seed {}: drawn from the clock; pass it to repeat the same load", self.seed));
        self.note().into_iter().chain(seed).collect()
    }

    fn note(&self) -> Option<String> {
        (self.sync && self.mode().follows_schedule()).then(|| {
            "--sync: in an open loop requests are sent when they are due, answered or not; no thread waits for \
                an answer"
                .into()
        })
    }

    /// Seed of every random draw.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The requested load; of contradictory ones the first, because a rule refuses them.
    fn mode(&self) -> LoadMode {
        let distribution = self.distribution();
        if let Some(range) = self.request_rate_range.clone() {
            LoadMode::RequestRate { range, distribution }
        } else if let Some(file) = &self.request_intervals {
            LoadMode::Intervals(file.clone())
        } else if self.fixed_schedule {
            LoadMode::FixedSchedule
        } else if let Some(Recording { file, tokens }) = self.recording().filter(|_| self.stage.is_empty()) {
            LoadMode::TraceReplay { file, speed: self.trace_speed, tokens }
        } else if let Some(periodic) = self.periodic_concurrency_range {
            LoadMode::Periodic(Periodic { request_period: self.request_period, ..periodic })
        } else if !stages(&self.stage).is_empty() {
            let trace = self.recording();
            LoadMode::Stages { stages: stages(&self.stage), distribution, edges: self.stage_edges, trace }
        } else if let Some(SweepForm { spacing, points }) = self.sweep {
            LoadMode::Sweep { spacing, points, distribution }
        } else if let Some(interval) = self.paced {
            LoadMode::Paced { range: self.concurrency(), interval }
        } else {
            LoadMode::Concurrency(self.concurrency())
        }
    }

    /// `--concurrency-range`, or its older equivalents: `-t` for the start of a load, `-d` for growing from there, `-c`
    /// for the end, which is unlimited if absent.
    fn concurrency(&self) -> Range<u32> {
        let Range { start, end, step, listed } = self.concurrency_range.clone();
        if self.start_concurrency.is_none() && !self.dynamic_concurrency {
            return Range { start, end, step, listed };
        }
        let (start, end) = self.start_concurrency.map_or((start, end), |start| (start, Some(start)));
        let end = if self.dynamic_concurrency { self.end_concurrency.filter(|&end| end > 0) } else { end };
        Range::with_step(start, end, step)
    }

    fn distribution(&self) -> GapDistribution {
        match self.request_distribution {
            Gaps::Constant => GapDistribution::Constant,
            Gaps::Poisson => GapDistribution::Poisson,
            Gaps::Gamma => GapDistribution::Gamma(self.burstiness),
        }
    }

    fn threads(&self, mode: &LoadMode, synchronous: bool) -> usize {
        let usual = match mode {
            LoadMode::Concurrency(Range { end: None, .. }) if synchronous => ENDLESS_THREADS,
            LoadMode::Concurrency(_) | LoadMode::Periodic(_) | LoadMode::Sessions(_) => CONCURRENCY_THREADS,
            _ => SCHEDULE_THREADS,
        };
        let asked = self.max_threads.unwrap_or(usual);
        match mode {
            LoadMode::Concurrency(range) if synchronous => asked.max(range.end.unwrap_or(range.start) as usize),
            LoadMode::Stages { .. } if synchronous => asked.max(mode.peak_concurrency().unwrap_or(0) as usize),
            // Each thread has at least one connection.
            _ => asked.min(self.max_connections.unwrap_or(asked)),
        }
    }
}

/// A number, or `time`: milliseconds since the Unix epoch, the same on every parse.
fn seed(text: &str) -> Result<u64, String> {
    static NOW: LazyLock<u64> = LazyLock::new(|| Timestamp::now().as_millisecond().unsigned_abs());
    if text.eq_ignore_ascii_case("time") { Ok(*NOW) } else { integer(text, 0, u64::MAX) }
}

/// A shape of gamma gaps.
fn shape_factor(text: &str) -> Result<f64, String> {
    decimal(text, 0.001, 1000.0)
}

/// A speed of replay.
fn speed(text: &str) -> Result<f64, String> {
    number(0.000_001, 1_000_000.0)(text)
}
