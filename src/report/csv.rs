//! The CSV files of `-f`: a row per level, ascending by throughput, and a file per composing model of an ensemble.
//!
//! Columns, their order and their units (whole microseconds) are upstream's. Columns of our own come last, and only
//! with `--verbose-csv`, with four exceptions: the last column gives the outcome in a word, unless the program is called
//! perf_analyzer; stages, which upstream does not have, start with their number and kind; a mix has the server's
//! columns for each of its models; and several servers have their figures. Text that a spreadsheet would take for a formula
//! begins with an apostrophe.

mod metrics;
mod shares;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::file_name::FileNames;
use crate::number::{significant, whole_us};
use crate::partial::unwritten;
use crate::result::outcome::Outcome;
use crate::result::reasons::Verdict;
use crate::result::summary::{DecoupledSummary, Distribution, LevelSummary, OpenLoopSummary, ServerSummary};
use crate::result::{RunResult, Setup};
use crate::stdio::{acts, shown};
use crate::terms::{FAR_TAIL, FEW_PERCENTILES};
use crate::{
    Interrupts, SafeFile, Table, breakdown, generation, has_several_batch_sizes, load_name, load_value, percentiles,
    periodic, restarts, sequences, sessions, variants,
};

/// Writes every file that can be written. Levels in which nothing succeeded have no row.
///
/// # Errors
/// All files that cannot be written.
pub fn write(path: &Path, interrupts: Interrupts, result: &RunResult) -> Result<()> {
    let files = match (&result.periodic, &result.variants) {
        (Some(periodic), _) => vec![(path.to_owned(), periodic::rows(&periodic.batches))],
        (None, Some(variants)) => variants::files(path, variants),
        (None, None) => files(path, &result.setup, &result.levels),
    };
    let written = files.iter().map(|(path, table)| write_file(path, interrupts, table));
    written.fold(Ok(()), Error::both)
}

/// Writes one file; the wait for the reader of a pipe ends with an interrupt.
fn write_file(path: &Path, interrupts: Interrupts, table: &Table) -> Result<()> {
    write_table(path, interrupts, table).map_err(|error| unwritten(format_args!("-f {}", path.display()), &error))
}

fn write_table(path: &Path, interrupts: Interrupts, table: &Table) -> std::io::Result<()> {
    let mut writer = csv::Writer::from_writer(SafeFile::create(path, interrupts)?);
    for row in table {
        writer.write_record(row.iter().map(|cell| inert(cell).into_owned()))?;
    }
    writer.into_inner().map_err(csv::IntoInnerError::into_error)?.finish()
}

/// Spreadsheets evaluate whatever looks like a formula, and names come from the command line and from servers. A
/// leading apostrophe makes it text. Numbers stay as they are; characters that a terminal interprets are escaped.
pub(super) fn inert(cell: &str) -> Cow<'_, str> {
    if cell.contains(|ch| acts(ch) && !matches!(ch, '\t' | '\r' | '\n')) {
        return Cow::Owned(inert(&shown(cell)).into_owned());
    }
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) && cell.parse::<f64>().is_err();
    if is_formula { Cow::Owned(format!("'{cell}")) } else { Cow::Borrowed(cell) }
}

/// The files and their content, the main one first.
fn files(path: &Path, setup: &Setup, levels: &[LevelSummary]) -> Vec<(PathBuf, Table)> {
    let mut rows: Vec<_> = levels.iter().enumerate().filter(|(_, level)| level.client.requests > 0).collect();
    let staged = !setup.mode.stages().is_empty();
    if !staged {
        rows.sort_by(|(_, a), (_, b)| a.client.throughput().total_cmp(&b.client.throughput()));
    }
    let levels: Vec<_> = rows.iter().map(|(_, level)| *level).collect();
    let numbers: Vec<_> = rows.iter().filter(|_| staged).map(|(number, _)| number + 1).collect();
    let finished = |columns: Columns<'_>| {
        let mut table = columns.table(&levels);
        if staged {
            number_stages(&mut table, &numbers, &levels);
        }
        table
    };
    let mut files = vec![(path.to_owned(), finished(main_columns(setup, &levels)))];
    let mut names = FileNames::beside(path);
    for (name, version) in composing(&levels) {
        files.push((names.of_model(&name, &version), finished(composing_columns(&name, &version, &levels))));
    }
    files
}

/// Puts the stage's number and kind in front: one column holds the values of both kinds.
fn number_stages(table: &mut Table, numbers: &[usize], levels: &[&LevelSummary]) {
    let Some((header, rows)) = table.split_first_mut() else { return };
    header.splice(0..1, ["Stage", "Load", "Value"].map(str::to_owned));
    for ((row, number), level) in rows.iter_mut().zip(numbers).zip(levels) {
        row.splice(0..0, [number.to_string(), load_name(level.load).to_owned()]);
    }
}

/// Models that the measured one calls directly, without repeats.
fn composing(levels: &[&LevelSummary]) -> Vec<(String, String)> {
    let parts = levels.iter().filter_map(|level| level.server.as_ref()).flat_map(|server| &server.composing);
    let mut names: Vec<_> = parts.map(|part| (part.name.clone(), part.version.clone())).collect();
    names.sort();
    names.dedup();
    names
}

/// The columns of a table, each with a function for its cells.
struct Columns<'a> {
    columns: Vec<Column<'a>>,
}

type Column<'a> = (String, Box<dyn Fn(&LevelSummary) -> String + 'a>);

impl<'a> Columns<'a> {
    fn add(&mut self, name: impl Into<String>, value: impl Fn(&LevelSummary) -> String + 'a) {
        self.columns.push((name.into(), Box::new(value)));
    }

    fn table(&self, levels: &[&LevelSummary]) -> Table {
        let header = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let row = |level: &&LevelSummary| self.columns.iter().map(|(_, value)| value(level)).collect();
        std::iter::once(header).chain(levels.iter().map(row)).collect()
    }
}

fn main_columns<'a>(setup: &'a Setup, levels: &[&LevelSummary]) -> Columns<'a> {
    let mut columns = Columns { columns: Vec::new() };
    let name = levels.first().map_or("Concurrency", |level| load_name(level.load));
    columns.add(name, |level| load_value(level.load));
    if has_several_batch_sizes(setup, levels.iter().copied()) {
        columns.add("Batch Size", |level| level.client.batch_size.to_string());
    }
    columns.add("Inferences/Second", |level| significant(level.client.throughput()));
    if setup.decoupled {
        columns.add("Response Throughput", |level| significant(level.client.response_throughput()));
    }
    columns.add("Client Send", |level| send_us(setup, level).to_string());
    if setup.entries.is_empty() {
        server_columns(&mut columns, levels, |level| {
            let client_us = transport_us(setup, level);
            level.server.as_ref().map(|server| ServerCells::new(server, client_us))
        });
    } else {
        mix_columns(&mut columns, levels);
    }
    columns.add("Client Recv", |level| receive_us(setup, level).to_string());
    for percentile in percentiles(&setup.measurement) {
        columns.add(format!("p{percentile} latency"), move |level| at(&level.client.latency, percentile));
    }
    if setup.detail.verbose_csv {
        verbose_columns(&mut columns, setup, levels);
    }
    breakdown::columns(levels).into_iter().for_each(|(name, cell)| columns.add(name, cell));
    generation::columns(levels, setup.detail.as_upstream).into_iter().for_each(|(name, cell)| columns.add(name, cell));
    let of_starts = restarts::columns(levels);
    let of_sequences = sequences::columns(setup);
    let further = sessions::columns(levels).into_iter().chain(of_sequences).chain(of_starts);
    further.for_each(|(name, cell)| columns.add(name, cell));
    shares::servers(&mut columns, setup);
    if setup.detail.verbose_csv || !setup.detail.as_upstream {
        columns.add("Outcome", |level| Outcome::new(level).to_string());
    }
    columns
}

fn composing_columns<'a>(name: &'a str, version: &'a str, levels: &[&LevelSummary]) -> Columns<'a> {
    let part = move |level: &LevelSummary| -> Option<ServerSummary> {
        let parts = &level.server.as_ref()?.composing;
        parts.iter().find(|part| part.name == name && part.version == version).cloned()
    };
    let mut columns = Columns { columns: Vec::new() };
    columns.add(levels.first().map_or("Concurrency", |level| load_name(level.load)), |level| load_value(level.load));
    columns.add("Inferences/Second", move |level| {
        let whole = level.server.as_ref().map_or(0, |server| server.delta.success.count);
        let calls = part(level).map_or(0, |part| part.delta.success.count);
        let ratio = if whole == 0 { 0.0 } else { calls as f64 / whole as f64 };
        significant(level.client.throughput() * ratio)
    });
    columns.add("Client Send", |_| "0".to_owned());
    server_columns(&mut columns, levels, move |level| {
        let part = part(level)?;
        let whole = part.delta.success.average_us();
        Some(ServerCells::new(&part, whole))
    });
    columns.add("Client Recv", |_| "0".to_owned());
    columns
}

/// The server's cells of a row, in microseconds, from the model's own counters (not an ensemble's leaves).
#[derive(Clone, Copy)]
struct ServerCells {
    network: u64,
    queue: u64,
    compute: [u64; 3],
    cache: [u64; 2],
}

impl ServerCells {
    /// `outside_us` is the time that includes the server's parts; what they do not account for is the network.
    fn new(server: &ServerSummary, outside_us: u64) -> Self {
        let delta = &server.delta;
        let queue = delta.queue.average_us();
        let cache = [delta.cache_hit.average_us(), delta.cache_miss.average_us()];
        let accounted = queue + delta.compute().average_us() + cache.iter().sum::<u64>();
        Self {
            network: outside_us.saturating_sub(accounted),
            queue,
            compute: [delta.compute_input, delta.compute_infer, delta.compute_output].map(|part| part.average_us()),
            cache,
        }
    }
}

/// A column of the server's and how its cells fill it.
type ServerColumn = (&'static str, fn(&ServerCells) -> u64);

const SERVER_COLUMNS: [ServerColumn; 5] = [
    ("Network+Server Send/Recv", |cells| cells.network),
    ("Server Queue", |cells| cells.queue),
    ("Server Compute Input", |cells| cells.compute[0]),
    ("Server Compute Infer", |cells| cells.compute[1]),
    ("Server Compute Output", |cells| cells.compute[2]),
];

const CACHE_COLUMNS: [ServerColumn; 2] =
    [("Server Cache Hit", |cells| cells.cache[0]), ("Server Cache Miss", |cells| cells.cache[1])];

fn server_columns<'a>(
    columns: &mut Columns<'a>,
    levels: &[&LevelSummary],
    cells: impl Fn(&LevelSummary) -> Option<ServerCells> + Clone + 'a,
) {
    let servers: Vec<_> = levels.iter().filter_map(|level| level.server.as_ref()).collect();
    if servers.is_empty() {
        return;
    }
    let cached = servers.iter().any(|server| server.cached);
    for (name, part) in SERVER_COLUMNS.iter().chain(CACHE_COLUMNS.iter().filter(|_| cached)) {
        let cells = cells.clone();
        columns.add(*name, move |level| cells(level).map_or_else(String::new, |cells| part(&cells).to_string()));
    }
}

/// The server's columns of every model of a mix. The time between client and server is not counted by model.
fn mix_columns(columns: &mut Columns<'_>, levels: &[&LevelSummary]) {
    let servers = |level: &LevelSummary| -> Vec<ServerSummary> {
        level.server.iter().chain(&level.further_servers).cloned().collect()
    };
    let mut models: Vec<(String, String, bool)> = Vec::new();
    for server in levels.iter().flat_map(|level| servers(level)) {
        match models.iter_mut().find(|(name, version, _)| *name == server.name && *version == server.version) {
            Some((.., cached)) => *cached |= server.cached,
            None => models.push((server.name, server.version, server.cached)),
        }
    }
    for (name, version, cached) in models {
        for (title, part) in SERVER_COLUMNS[1..].iter().chain(CACHE_COLUMNS.iter().filter(|_| cached)) {
            let (model, model_version) = (name.clone(), version.clone());
            columns.add(format!("{name}:{version} {title}"), move |level| {
                let server = servers(level)
                    .into_iter()
                    .find(|server| (&server.name, &server.version) == (&model, &model_version));
                server.map_or_else(String::new, |server| part(&ServerCells::new(&server, 0)).to_string())
            });
        }
    }
}

fn verbose_columns<'a>(columns: &mut Columns<'a>, setup: &'a Setup, levels: &[&LevelSummary]) {
    let percentile = setup.measurement.percentile;
    if percentile.is_none() {
        columns.add("Avg latency", |level| whole_us(level.client.latency.mean_ns()).to_string());
    }
    columns.add("request/response", |level| (send_us(setup, level) + receive_us(setup, level)).to_string());
    columns.add("response wait", |level| {
        let wait = if setup.hides_times() { 0 } else { transport_us(setup, level) };
        wait.to_string()
    });
    // perf_analyzer has these columns wherever metrics are collected, and empty without a GPU.
    if levels.iter().flat_map(|level| &level.gpus).any(|gpus| setup.detail.as_upstream || !gpus.is_empty()) {
        metrics::gpus(columns, setup);
    }
    own_columns(columns, setup, levels);
}

/// Columns that upstream's file does not have.
fn own_columns(columns: &mut Columns<'_>, setup: &Setup, levels: &[&LevelSummary]) {
    columns.add("Failed Requests", |level| level.client.failed.to_string());
    if levels.iter().any(|level| level.client.cancelled > 0) {
        columns.add("Cancelled Requests", |level| level.client.cancelled.to_string());
    }
    columns.add("Client Overhead Percent", |level| format!("{:.2}", 100.0 * level.client.overhead_share));
    if levels.iter().any(|level| level.client.wakeup.is_some()) {
        let wakeup = |level: &LevelSummary, cell: fn(&Distribution) -> String| {
            level.client.wakeup.as_ref().map(cell).unwrap_or_default()
        };
        columns.add("Avg wake-up", move |level| wakeup(level, |times| whole_us(times.mean_ns()).to_string()));
        columns.add("p99 wake-up", move |level| wakeup(level, |times| at(times, 99.0)));
    }
    if levels.iter().any(|level| level.client.open_loop.is_some()) {
        columns.add("Requested Rate", |level| open_loop(level, |times| significant(times.requested_rate)));
        columns.add("Achieved Rate", |level| open_loop(level, |times| significant(times.achieved_rate)));
        columns.add("Delayed Requests", |level| level.client.delayed.to_string());
        for p in FEW_PERCENTILES.into_iter().chain([FAR_TAIL]) {
            let mut add = |name: &str, times: fn(&OpenLoopSummary) -> &Distribution| {
                columns.add(format!("p{p} {name}"), move |level| open_loop(level, |all| at(times(all), p)));
            };
            add("response time", |all| &all.response_time);
            add("service time", |all| &all.service_time);
            add("schedule delay", |all| &all.schedule_delay);
        }
    }
    if levels.iter().any(|level| level.client.decoupled.is_some()) {
        for p in FEW_PERCENTILES {
            let mut add = |name: &str, times: fn(&DecoupledSummary) -> &Distribution| {
                columns.add(format!("p{p} {name}"), move |level| decoupled(level, |all| at(times(all), p)));
            };
            add("first response", |all| &all.first_response);
            add("response gap", |all| &all.gap);
            add("last response", |all| &all.last_response);
        }
    }
    shares::entries(columns, setup);
    metrics::hosts(columns, setup, levels);
    columns.add("Verdict", |level| match &level.verdict {
        Verdict::Valid => "valid".to_owned(),
        Verdict::Invalid(reasons) => {
            let reasons: Vec<_> = reasons.iter().map(ToString::to_string).collect();
            format!("invalid: {}", reasons.join("; "))
        }
    });
}

fn open_loop(level: &LevelSummary, cell: impl Fn(&OpenLoopSummary) -> String) -> String {
    level.client.open_loop.as_ref().map(cell).unwrap_or_default()
}

fn decoupled(level: &LevelSummary, cell: impl Fn(&DecoupledSummary) -> String) -> String {
    level.client.decoupled.as_ref().map(cell).unwrap_or_default()
}

fn at(times: &Distribution, percentile: f64) -> String {
    whole_us(times.percentile_ns(percentile) as f64).to_string()
}

/// Send time; a decoupled model has no separate one.
fn send_us(setup: &Setup, level: &LevelSummary) -> u64 {
    if setup.hides_times() { 0 } else { whole_us(level.client.send_ns) }
}

fn receive_us(setup: &Setup, level: &LevelSummary) -> u64 {
    if setup.hides_times() { 0 } else { whole_us(level.client.receive_ns) }
}

/// Service time without the client's own send and receive times.
fn transport_us(setup: &Setup, level: &LevelSummary) -> u64 {
    let client = &level.client;
    let transfer_ns = if setup.hides_times() { 0.0 } else { client.send_ns + client.receive_ns };
    whole_us(client.service_time().mean_ns() - transfer_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::scratch::{NEVER, Scratch};
    use crate::model::statistics::{CountedTime, ModelStatistics};
    use crate::result::Detail;
    use crate::result::reasons::InvalidReason;
    use crate::result::setup::sample as plans;
    use crate::result::summary::{
        DecoupledSummary, EntrySummary, GpuMetrics, HostMetrics, LevelLoad, OpenLoopSummary, sample,
    };
    use crate::terms::{Stage, StageEdges, StageLength, StageLoad};

    /// The largest value of its histogram bucket, so that mean and percentiles agree.
    const LATENCY_NS: u64 = 11_001_855;

    fn server(name: &str, success: u64) -> ServerSummary {
        let at = |ns: u64| CountedTime { count: 10, ns: 10 * ns };
        let delta = ModelStatistics {
            success: CountedTime { count: success, ns: success * 10_500_000 },
            queue: at(68_900),
            compute_input: at(24_000),
            compute_infer: at(10_000_000),
            compute_output: at(143_000),
            ..ModelStatistics::default()
        };
        let (name, version) = (name.to_owned(), "1".to_owned());
        ServerSummary { name, version, delta, cached: false, several_versions: false, composing: Vec::new() }
    }

    fn level(concurrency: u32, requests: u64) -> LevelSummary {
        let mut level = sample::level(LevelLoad::Concurrency(concurrency), requests, LATENCY_NS);
        level.client.send_ns = 100_900.0;
        level.client.receive_ns = 7_000.0;
        level.server = Some(server("m", 10));
        level
    }

    fn text(table: &Table) -> Vec<String> {
        table.iter().map(|row| row.join(",")).collect()
    }

    const HEADER: &str = "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,\
                          Server Compute Input,Server Compute Infer,Server Compute Output,Client Recv,\
                          p50 latency,p90 latency,p95 latency,p99 latency";

    /// With the column that comes last.
    fn header() -> String {
        format!("{HEADER},Outcome")
    }

    #[test]
    fn rows_ascend_by_throughput() {
        let files = files(Path::new("x.csv"), &plans::setup(), &[level(2, 95), level(1, 89), level(3, 0)]);
        assert_eq!(files.len(), 1);
        // 11001.855 - 100.9 - 7 = 10893; - 68 - 10167 = 658.
        let golden = [
            &header(),
            "1,89,100,658,68,24,10000,143,7,11001,11001,11001,11001,valid",
            "2,95,100,658,68,24,10000,143,7,11001,11001,11001,11001,valid",
        ];
        assert_eq!(text(&files[0].1), golden);
    }

    #[test]
    fn each_entry_of_a_mix_has_columns_of_its_own() {
        let mut setup = plans::setup();
        setup.detail.verbose_csv = true;
        let entries = ["a", "b:2?k=v"].map(|name| EntrySummary { name: name.to_owned(), share: 0.5 }).to_vec();
        setup.entries = entries;
        let mut level = level(1, 89);
        level.client.entries = vec![sample::client(40, LATENCY_NS), sample::client(49, LATENCY_NS)];
        let table = &files(Path::new("x.csv"), &setup, &[level])[0].1;
        let cell = |name: &str| table[1][table[0].iter().position(|title| title == name).unwrap()].clone();
        assert_eq!((cell("a Inferences/Second"), cell("b:2?k=v Inferences/Second")), ("40".into(), "49".into()));
        assert_eq!(cell("b:2?k=v p99 latency"), "11001");
    }

    #[test]
    fn a_server_without_an_answer_has_no_latency_of_zero() {
        let mut setup = plans::setup();
        setup.servers = vec!["up:8000".to_owned(), "down:8000".to_owned()];
        let mut level = level(1, 89);
        level.client.servers = vec![sample::client(89, LATENCY_NS), sample::client(0, 1)];
        let table = &files(Path::new("x.csv"), &setup, &[level])[0].1;
        let cell = |name: &str| table[1][table[0].iter().position(|title| title == name).unwrap()].clone();
        assert_eq!((cell("up:8000 p99 latency"), cell("down:8000 Inferences/Second")), ("11001".into(), "0".into()));
        assert_eq!(["Avg", "p50", "p99"].map(|name| cell(&format!("down:8000 {name} latency"))), ["", "", ""]);
    }

    #[test]
    fn verbose_columns_follow_and_ours_come_last() {
        let mut setup = plans::setup();
        setup.detail.verbose_csv = true;
        let mut level = level(1, 89);
        level.gpus = Some(vec![
            GpuMetrics { uuid: "G1".to_owned(), utilization: Some(0.25), ..GpuMetrics::default() },
            GpuMetrics { uuid: "G2".to_owned(), memory_used_bytes: Some(5), ..GpuMetrics::default() },
        ]);
        let table = main_columns(&setup, &[&level]).table(&[&level]);
        let golden = HEADER.to_owned()
            + ",Avg latency,request/response,response wait,Avg GPU Utilization,Avg GPU Power Usage,Max GPU Memory Usage,\
               Total GPU Memory,Failed Requests,Client Overhead Percent,Verdict,Outcome";
        let row = "1,89,100,658,68,24,10000,143,7,11001,11001,11001,11001,11001,107,10893,G1:0.25;,,G2:5;,,0,0.00,valid,valid";
        assert_eq!(text(&table), [golden.as_str(), row]);
        setup.measurement.percentile = Some(42.0);
        let header = &main_columns(&setup, &[&level]).table(&[&level])[0];
        assert_eq!(header[9], "p42 latency");
        assert!(!header.contains(&"Avg latency".to_owned()));
    }

    #[test]
    fn the_last_column_says_what_a_level_came_to_unless_perf_analyzer_is_asked() {
        let mut late = level(2, 95);
        late.verdict = Verdict::Invalid(vec![InvalidReason::IssuersLate(0.5)]);
        let table = &files(Path::new("x.csv"), &plans::setup(), &[level(1, 89), late.clone()])[0].1;
        let last: Vec<_> = table.iter().map(|row| row.last().unwrap().as_str()).collect();
        assert_eq!(last, ["Outcome", "valid", "load not delivered"]);
        let mut setup = plans::setup();
        setup.detail.as_upstream = true;
        let table = &files(Path::new("x.csv"), &setup, &[level(1, 89), late.clone()])[0].1;
        assert_eq!(table[0].last().unwrap(), "p99 latency");
        setup.detail.verbose_csv = true;
        let table = &files(Path::new("x.csv"), &setup, &[late])[0].1;
        assert_eq!(table[0].last().unwrap(), "Outcome");
        assert!(table[1][table[1].len() - 2].starts_with("invalid: "), "{table:?}");
    }

    #[test]
    fn the_batch_size_has_a_column_wherever_a_list_was_asked_for() {
        let setup = Setup { detail: Detail { batch_sizes: true, ..Detail::default() }, ..plans::setup() };
        let table = &files(Path::new("x.csv"), &setup, &[level(1, 89)])[0].1;
        assert_eq!((&*table[0][1], &*table[1][1]), ("Batch Size", "1"), "the run was interrupted after the first");
    }

    #[test]
    fn caches_and_missing_statistics_change_the_columns() {
        let mut cached = level(1, 89);
        let server = cached.server.as_mut().unwrap();
        server.cached = true;
        server.delta.cache_hit = CountedTime { count: 2, ns: 8_000 };
        let table = main_columns(&plans::setup(), &[&cached]).table(&[&cached]);
        assert_eq!(table[0][8..11], ["Server Cache Hit", "Server Cache Miss", "Client Recv"]);
        assert_eq!(table[1][3..11], ["654", "68", "24", "10000", "143", "4", "0", "7"]);
        cached.server = None;
        let table = main_columns(&plans::setup(), &[&cached]).table(&[&cached]);
        assert_eq!(table[0][..4], ["Concurrency", "Inferences/Second", "Client Send", "Client Recv"]);
    }

    #[test]
    fn decoupled_models_and_open_loops_have_their_columns() {
        let mut setup = plans::setup();
        setup.detail.verbose_csv = true;
        setup.decoupled = true;
        let times = || sample::distribution(89, LATENCY_NS);
        let mut level = level(1, 89);
        level.load = LevelLoad::RequestRate(89.5);
        level.client.responses = 267;
        level.client.decoupled =
            Some(DecoupledSummary { first_response: times(), gap: times(), last_response: times() });
        level.client.open_loop = Some(OpenLoopSummary {
            response_time: times(),
            service_time: times(),
            schedule_delay: Distribution::empty(),
            requested_rate: 89.5,
            achieved_rate: 89.0,
            completed_rate: 89.0,
        });
        let table = main_columns(&setup, &[&level]).table(&[&level]);
        assert_eq!(table[0][..4], ["Request Rate", "Inferences/Second", "Response Throughput", "Client Send"]);
        assert_eq!(table[1][..4], ["89.5", "89", "267", "0"]);
        let cell = |name: &str| {
            let index = table[0].iter().position(|column| column == name).unwrap_or_else(|| panic!("{name}"));
            table[1][index].as_str()
        };
        assert_eq!((cell("p99.9 response time"), cell("p50 schedule delay")), ("11001", "0"));
        assert_eq!((cell("p99 response gap"), cell("Achieved Rate"), cell("response wait")), ("11001", "89", "0"));
    }

    #[test]
    fn composing_models_have_files_beside_the_main_one() {
        let mut level = level(1, 89);
        let mut part = server("ns/part", 20);
        part.composing = vec![server("deeper", 20)];
        level.server.as_mut().unwrap().composing = vec![part];
        let scratch = Scratch::new("csv");
        let path = scratch.path().join("x.csv");
        write(&path, &NEVER, &plans::result(&plans::setup(), &[level])).unwrap();
        assert_eq!(scratch.names(), ["ns_part_v1.x.csv", "x.csv"]);
        let text = std::fs::read_to_string(scratch.path().join("ns_part_v1.x.csv")).unwrap();
        let header = HEADER.split_once(",p50").unwrap().0;
        // Twice a request; 10500 - 68 - 10167 = 265.
        assert_eq!(text, format!("{header}\n1,178,0,265,68,24,10000,143,0\n"));
    }

    #[test]
    fn what_a_server_calls_its_models_stays_in_the_folder_and_costs_no_other_file() {
        let mut level = level(1, 89);
        let part = |name: &str, version: &str| ServerSummary { version: version.to_owned(), ..server(name, 20) };
        let long = "n".repeat(512);
        level.server.as_mut().unwrap().composing =
            vec![part("../../x", "1"), part("p", "1/../../../outside/p"), part(&long, "1")];
        let scratch = Scratch::new("csv-names");
        let folder = scratch.path().join("deep/results");
        std::fs::create_dir_all(&folder).unwrap();
        write(&folder.join("x.csv"), &NEVER, &plans::result(&plans::setup(), &[level])).unwrap();
        assert_eq!(scratch.names(), ["deep"]);
        let mut names: Vec<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let cut = format!("{}_v1.x.csv", "n".repeat(100));
        assert_eq!(names, ["_._.._x_v1.x.csv", &cut, "p_v1_.._.._.._outside_p.x.csv", "x.csv"]);
    }

    #[test]
    fn a_file_that_cannot_be_written_does_not_cost_the_others() {
        let mut level = level(1, 89);
        level.server.as_mut().unwrap().composing = vec![server("bad", 20), server("good", 20)];
        let scratch = Scratch::new("csv-one-bad");
        std::fs::create_dir_all(scratch.path().join("bad_v1.x.csv/taken")).unwrap();
        let path = scratch.path().join("x.csv");
        let message = write(&path, &NEVER, &plans::result(&plans::setup(), &[level])).unwrap_err().to_string();
        assert!(message.contains("bad_v1.x.csv: cannot be written"), "{message}");
        assert!(path.is_file() && scratch.path().join("good_v1.x.csv").is_file(), "{:?}", scratch.names());
    }

    #[test]
    fn text_is_no_formula_and_numbers_stay() {
        for (cell, written) in [
            ("=cmd|' /C calc'!A1", "'=cmd|' /C calc'!A1"),
            ("+1+1", "'+1+1"),
            ("-x", "'-x"),
            ("@sum", "'@sum"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'\r=1"),
            ("-2.5", "-2.5"),
            ("+1e+06", "+1e+06"),
            ("-inf", "-inf"),
            ("a=b", "a=b"),
            ("=\u{1b}[31m\u{202e}", "'=\\u{1b}[31m\\u{202e}"),
            ("", ""),
        ] {
            assert_eq!(inert(cell), written);
        }
        let mut setup = plans::setup();
        setup.detail.verbose_csv = true;
        let entries =
            ["=cmd|' /C calc'!A1", "b"].map(|name| EntrySummary { name: name.to_owned(), share: 0.5 }).to_vec();
        setup.entries = entries;
        let mut level = level(1, 89);
        level.client.entries = vec![sample::client(40, LATENCY_NS), sample::client(49, LATENCY_NS)];
        level.gpus =
            Some(vec![GpuMetrics { uuid: "@SUM(A1)".to_owned(), utilization: Some(0.5), ..GpuMetrics::default() }]);
        let scratch = Scratch::new("csv-formula");
        let path = scratch.path().join("x.csv");
        write(&path, &NEVER, &plans::result(&setup, &[level])).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(",'=cmd|' /C calc'!A1 Inferences/Second,"), "{text}");
        assert!(text.contains(",'@SUM(A1):0.5;,"), "{text}");
    }

    #[test]
    fn stages_have_their_number_and_kind_in_their_order() {
        let mut setup = plans::setup();
        let stage = |load| Stage { load, length: StageLength::Requests(9), pause: std::time::Duration::ZERO };
        setup.mode = crate::terms::LoadMode::Stages {
            stages: vec![stage(StageLoad::Concurrency(4)); 4],
            distribution: crate::terms::GapDistribution::Constant,
            edges: StageEdges::Overlap,
            trace: None,
        };
        let rate = LevelSummary { load: LevelLoad::RequestRate(50.5), ..level(1, 50) };
        let levels = [level(4, 95), rate, level(1, 0), level(2, 10)];
        let table = &files(Path::new("x.csv"), &setup, &levels)[0].1;
        assert_eq!(table[0][..4], ["Stage", "Load", "Value", "Inferences/Second"]);
        let starts: Vec<_> = table[1..].iter().map(|row| row[..4].join(",")).collect();
        assert_eq!(starts, ["1,Concurrency,4,95", "2,Request Rate,50.5,50", "4,Concurrency,2,10"]);
        assert!(table.iter().all(|row| row.len() == table[0].len()));
    }

    #[test]
    fn a_mix_has_the_servers_columns_of_every_model() {
        let entries = ["a", "b:2"].map(|name| EntrySummary { name: name.to_owned(), share: 0.5 }).to_vec();
        let setup = Setup { entries, ..plans::setup() };
        let mut level = level(1, 89);
        level.server = Some(server("a", 40));
        let mut second = ServerSummary { version: "2".to_owned(), cached: true, ..server("b", 49) };
        second.delta.compute_infer = CountedTime { count: 10, ns: 50_000_000 };
        level.further_servers = vec![second];
        let table = &files(Path::new("x.csv"), &setup, &[level])[0].1;
        let cell = |name: &str| table[1][table[0].iter().position(|title| title == name).unwrap()].as_str();
        assert_eq!((cell("a:1 Server Compute Infer"), cell("b:2 Server Compute Infer")), ("10000", "5000"));
        assert_eq!((cell("b:2 Server Queue"), cell("b:2 Server Cache Hit")), ("68", "0"));
        assert!(!table[0].iter().any(|title| title == "Server Queue" || title == "a:1 Server Cache Hit"), "{table:?}");
    }

    #[test]
    fn metrics_of_several_servers_have_columns_of_each() {
        let mut setup = plans::setup();
        setup.detail.verbose_csv = true;
        setup.servers = vec!["h1:8000".to_owned(), "h2:8000".to_owned()];
        let mut level = level(1, 89);
        let gpu = |server| GpuMetrics {
            uuid: "G".to_owned(),
            server: Some(server),
            utilization: Some(0.25 + 0.5 * server as f64),
            ..GpuMetrics::default()
        };
        let host = |gpu, pending| HostMetrics {
            gpu_utilization: Some(gpu),
            pending_requests: Some(pending),
            ..HostMetrics::default()
        };
        level.gpus = Some(vec![gpu(0), gpu(1)]);
        (level.host, level.hosts) = (Some(host(0.5, 5.0)), vec![host(0.25, 2.0), host(0.75, 3.0)]);
        let table = &files(Path::new("x.csv"), &setup, &[level.clone()])[0].1;
        let cell = |name: &str| table[1][table[0].iter().position(|title| title == name).expect(name)].as_str();
        assert_eq!(cell("Avg GPU Utilization"), "h1:8000 G:0.25;h2:8000 G:0.75;");
        assert_eq!((cell("Avg Utilization of all GPUs"), cell("Avg Pending Requests")), ("0.5", "5"));
        assert_eq!((cell("h1:8000 Avg GPU Utilization"), cell("h2:8000 Avg Pending Requests")), ("0.25", "3"));
        assert!(!table[0].iter().any(|title| title.ends_with("CPU Utilization")), "{table:?}");
        setup.servers[1] = "h1:8000".to_owned();
        let heads = &files(Path::new("x.csv"), &setup, &[level])[0].1[0];
        let count = |title: &str| heads.iter().filter(|head| *head == title).count();
        assert_eq!((count("h1:8000 p99 latency"), count("h1:8000 #2 p99 latency")), (1, 1), "{heads:?}");
        assert_eq!((count("h1:8000 Avg GPU Utilization"), count("h1:8000 #2 Avg GPU Utilization")), (1, 1));
    }

    #[test]
    fn metrics_without_gpus_leave_no_empty_columns_and_tell_of_the_machine() {
        let mut setup = plans::setup();
        setup.detail.verbose_csv = true;
        let mut level = level(1, 89);
        level.gpus = Some(Vec::new());
        level.host = Some(HostMetrics {
            cpu_utilization: Some(0.25),
            cpu_memory_used_bytes: Some(7),
            cpu_memory_total_bytes: Some(9),
            pending_requests: Some(1.5),
            pending_requests_max: Some(3.0),
            ..HostMetrics::default()
        });
        let table = &files(Path::new("x.csv"), &setup, &[level.clone()])[0].1;
        assert!(!table[0].iter().any(|title| title.contains("GPU")), "{table:?}");
        let upstream = Setup { detail: Detail { as_upstream: true, ..setup.detail }, ..setup.clone() };
        let table_of_upstream = &files(Path::new("x.csv"), &upstream, &[level])[0].1;
        let gpu = |title: &&String| title.contains("GPU");
        assert_eq!(table_of_upstream[0].iter().filter(gpu).count(), 4, "empty columns, as perf_analyzer has them");
        let at = table[0].iter().position(|title| title == "Avg CPU Utilization").unwrap();
        assert_eq!(
            table[0][at + 1..],
            [
                "Max CPU Memory Usage",
                "Total CPU Memory",
                "Avg Pending Requests",
                "Max Pending Requests",
                "Verdict",
                "Outcome"
            ]
        );
        assert_eq!(table[1][at..], ["0.25", "7", "9", "1.5", "3", "valid", "valid"]);
    }

    #[test]
    fn a_full_disk_is_told() {
        let message =
            write(Path::new("/dev/full"), &NEVER, &plans::result(&plans::setup(), &[level(1, 1)])).unwrap_err();
        assert!(message.to_string().starts_with("-f /dev/full: cannot be written: No space left"), "{message}");
    }
}
