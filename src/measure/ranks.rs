//! The values that processes with a shared load exchange, and how they become one result.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::blocks::{Blocks, shared_seconds};
use crate::history::WindowSet;
use crate::machine::usage::Usage;
use crate::metrics::MetricsFold;
use crate::rank_part::RankPart;
use crate::record::LoadReport;
use crate::result::disturbance::Disturbance;
use crate::result::reasons::{InvalidReason, Verdict};
use crate::result::remark::{Remark, RemarkKind};
use crate::result::summary::{ClientSummary, LevelSummary, RankSummary, ServerSummary};
use crate::verdict::{Evidence, judge};
use crate::window_summary::join;
use ::ranks::Ranks;

/// What a process sends about a window.
#[derive(Serialize, Deserialize)]
pub(super) struct WindowReport {
    /// What it saw; the start is on rank 0's clock.
    client: ClientSummary,
    blocks: Blocks,
    disturbance: Option<Disturbance>,
    /// What was to be seen at its end.
    pub(super) edge: Edge,
    /// Its user has asked for the end.
    pub(super) interrupted: bool,
    /// Its load broke off.
    pub(super) broken: bool,
}

/// What is to be seen of a load at the end of a window, besides the requests that are over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Edge {
    /// Requests under way, where the load follows a schedule.
    pub(super) under_way: u64,
    /// Others have been at work on a machine of the client.
    pub(super) beside_others: bool,
}

impl Edge {
    /// That of two processes.
    pub(super) fn and(self, other: Self) -> Self {
        Self { under_way: self.under_way + other.under_way, beside_others: self.beside_others || other.beside_others }
    }
}

/// What ends a level early.
#[derive(Clone, Copy, Default)]
pub(super) struct EarlyEnd {
    /// The user of this process has asked for it.
    pub(super) interrupted: bool,
    /// The load of this process broke off.
    pub(super) broken: bool,
}

impl WindowReport {
    /// A window of this process, whose clock `ranks` know.
    pub(super) fn new(
        ranks: &Ranks,
        window: &WindowSet,
        disturbance: Option<Disturbance>,
        early_end: EarlyEnd,
    ) -> Self {
        let EarlyEnd { interrupted, broken } = early_end;
        let mut client = window.client.clone();
        client.start.0 = ranks.offset().to_zero(client.start.0);
        Self { client, blocks: window.blocks.clone(), disturbance, edge: Edge::default(), interrupted, broken }
    }

    /// The same, of a load that goes on.
    pub(super) fn at(self, edge: Edge) -> Self {
        Self { edge, ..self }
    }
}

/// How long the load that all have reported was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span {
    /// For a window, whose ends all had agreed on.
    Window,
    /// From its first request to its last, wherever these were sent.
    Whole,
}

/// The window that all have reported, as one, and its worst disturbance; on this process' clock, with the server's
/// metrics as it read them.
pub(super) fn joined(
    ranks: &Ranks,
    reports: Vec<WindowReport>,
    readings: Option<MetricsFold>,
    span: Span,
) -> Option<(WindowSet, Option<Disturbance>)> {
    let spans = reports.iter().map(|report| (report.client.requests, report.client.duration.as_secs_f64()));
    let shared = Duration::try_from_secs_f64(shared_seconds(spans)).ok();
    let disturbance = reports.iter().filter_map(|report| report.disturbance).reduce(|all, next| all.worst(&next));
    let parts = reports.iter().map(|report| RankPart::new(&report.client)).collect();
    let overhead = reports.iter().map(|report| report.client.overhead_share).sum::<f64>() / reports.len().max(1) as f64;
    let mut reports = reports.into_iter();
    let first = reports.next()?;
    let (mut client, blocks) = reports.fold((first.client, first.blocks), |(client, mut blocks), report| {
        blocks.join(&report.blocks);
        (join(client, &report.client), blocks)
    });
    client.overhead_share = overhead;
    client.start.0 = ranks.offset().to_own(client.start.0);
    client.duration = shared.filter(|_| span == Span::Window).unwrap_or(client.duration);
    Some((WindowSet::new(client, readings, blocks).of_ranks(parts), disturbance))
}

/// What a process sends when its load has ended.
#[derive(Serialize, Deserialize)]
pub(super) struct Closing {
    held_back: u64,
    /// Others were at work on its machine.
    beside_others: bool,
    /// How long it stood still.
    still: Duration,
    /// Mean number of requests under way, and the number of samples.
    outstanding: Option<(f64, u64)>,
    /// What its server counted, where no other process asked the same one.
    servers: Vec<ServerSummary>,
    requests: LoadReport,
    client_usage: Option<Usage>,
    server_usage: Option<Usage>,
    threads: Option<usize>,
    connections: Option<usize>,
    /// What contradicts itself in what it saw.
    remarks: Vec<Remark>,
}

impl Closing {
    /// That of this process. `owns_server`: it speaks for its server.
    pub(super) fn new(level: &LevelSummary, evidence: &Evidence, requests: LoadReport, owns_server: bool) -> Self {
        let servers = level.server.iter().chain(&level.further_servers).filter(|_| owns_server).cloned();
        Self {
            held_back: evidence.held_back,
            beside_others: evidence.beside_others,
            still: evidence.still,
            outstanding: evidence.outstanding,
            servers: servers.collect(),
            requests,
            client_usage: level.client_usage,
            server_usage: level.server_usage.filter(|_| owns_server),
            threads: level.threads,
            connections: level.connections,
            remarks: level.remarks.clone(),
        }
    }
}

/// Completes a level and its evidence with what all have sent; returns the outcomes of all requests.
pub(super) fn close(
    level: &mut LevelSummary,
    evidence: &mut Evidence,
    ranks: &Ranks,
    closings: &[Closing],
    parts: &[RankPart],
) -> LoadReport {
    evidence.held_back = closings.iter().map(|closing| closing.held_back).sum();
    evidence.beside_others = closings.iter().any(|closing| closing.beside_others);
    evidence.still = closings.iter().map(|closing| closing.still).max().unwrap_or_default();
    let outstanding: Option<Vec<(f64, u64)>> = closings.iter().map(|closing| closing.outstanding).collect();
    evidence.outstanding = outstanding.and_then(|all| {
        let looks = all.iter().map(|(_, looks)| *looks).min()?;
        Some((all.iter().map(|(mean, _)| mean).sum(), looks))
    });
    let mut servers: Vec<ServerSummary> = Vec::new();
    closings.iter().flat_map(|closing| &closing.servers).for_each(|server| add(&mut servers, server));
    let mut servers = servers.into_iter();
    (level.server, level.further_servers) = (servers.next(), servers.collect());
    level.client_usage = closings.iter().filter_map(|closing| closing.client_usage).reduce(both);
    level.server_usage = closings.iter().filter_map(|closing| closing.server_usage).reduce(both);
    level.threads = closings.iter().filter_map(|closing| closing.threads).reduce(|all, more| all + more);
    level.connections = closings.iter().filter_map(|closing| closing.connections).reduce(|all, more| all + more);
    level.remarks = remarks(ranks, closings);
    level.remarks.extend(level.server.iter().chain(&level.further_servers).flat_map(ServerSummary::cache_remarks));
    level.ranks = rows(ranks, closings, parts);
    level.verdict = judge(level, evidence);
    name_who_stood_still(&mut level.verdict, closings);
    blame(level, evidence, parts);
    closings.iter().fold(LoadReport::default(), |all, closing| all.and(closing.requests))
}

/// "This process" is none of several: that which stood still for the longest has its number.
fn name_who_stood_still(verdict: &mut Verdict, closings: &[Closing]) {
    let Verdict::Invalid(reasons) = verdict else { return };
    // Of those that did for as long, the first.
    let longest = closings.iter().enumerate().rev().max_by_key(|(_, closing)| closing.still);
    let Some((rank, closing)) = longest else { return };
    let is_still = |reason: &&mut InvalidReason| matches!(reason, InvalidReason::StoodStill(_));
    let of_rank = InvalidReason::RankStoodStill(rank, closing.still.as_secs_f64());
    reasons.iter_mut().filter(is_still).for_each(|reason| *reason = of_rank);
}

/// Adds what single ranks can be blamed for, where that has not been said of all.
fn blame(level: &mut LevelSummary, evidence: &Evidence, parts: &[RankPart]) {
    let blamed = parts.iter().enumerate().filter_map(|(rank, part)| part.reason(rank, evidence));
    let reasons: Vec<InvalidReason> = blamed.collect();
    match &mut level.verdict {
        Verdict::Valid if !reasons.is_empty() => level.verdict = Verdict::Invalid(reasons),
        Verdict::Valid => {}
        Verdict::Invalid(earlier) => {
            let is_new = |reason: &InvalidReason| earlier.iter().all(|other| other.name() != reason.name());
            let new: Vec<InvalidReason> = reasons.into_iter().filter(is_new).collect();
            earlier.extend(new);
        }
    }
}

/// Adds what a server counted to those of its name, or beside them.
fn add(servers: &mut Vec<ServerSummary>, other: &ServerSummary) {
    let same = |server: &&mut ServerSummary| (&server.name, &server.version) == (&other.name, &other.version);
    match servers.iter_mut().find(same) {
        Some(server) => {
            server.delta = server.delta.plus(&other.delta);
            (server.cached, server.several_versions) =
                (server.cached || other.cached, server.several_versions || other.several_versions);
            other.composing.iter().for_each(|part| add(&mut server.composing, part));
        }
        None => servers.push(other.clone()),
    }
}

/// What each remarks, with the name of its rank where it is about its process, or rank 0 does not say the same.
fn remarks(ranks: &Ranks, closings: &[Closing]) -> Vec<Remark> {
    let is_of_process = |remark: &Remark| remark.kind == RemarkKind::StoodStill;
    let first = closings.first().map_or(&[][..], |closing| &closing.remarks);
    let named = closings.iter().enumerate().flat_map(|(rank, closing)| {
        let new =
            closing.remarks.iter().filter(move |remark| rank == 0 || is_of_process(remark) || !first.contains(remark));
        new.map(move |remark| match rank == 0 && !is_of_process(remark) {
            true => remark.clone(),
            false => Remark { text: format!("{}: {}", ranks.name(rank), remark.text), ..remark.clone() },
        })
    });
    named.collect()
}

fn both(left: Usage, right: Usage) -> Usage {
    let memory = left.memory_bytes.zip(right.memory_bytes).map(|(left, right)| left + right);
    Usage { processors: left.processors + right.processors, memory_bytes: memory }
}

fn rows(ranks: &Ranks, closings: &[Closing], parts: &[RankPart]) -> Vec<RankSummary> {
    let offsets = ranks.offsets();
    let row = |(rank, (part, closing)): (usize, (&RankPart, &Closing))| RankSummary {
        rank,
        host: ranks.members()[rank].host.clone(),
        requests: part.block.requests,
        failed: part.block.failed,
        request_rate: if part.block.seconds > 0.0 { part.block.requests as f64 / part.block.seconds } else { 0.0 },
        p50_ns: part.block.latency_ns(Some(50.0)),
        p99_ns: part.block.latency_ns(Some(99.0)),
        late_ns: part.block.late_ns,
        processors: closing.client_usage.map(|usage| usage.processors),
        clock_offset_ns: offsets[rank].ns,
        clock_error_ns: offsets[rank].error_ns,
    };
    parts.iter().zip(closings).enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::Block;
    use crate::result::summary::{LevelLoad, sample};
    use crate::seed;
    use crate::window_summary::merge;
    use ::ranks::ANSWER_LIMIT;
    use ::ranks::message_bytes;
    use ::ranks::threads::together;

    /// A window of 16 blocks with this many requests each, whose latencies spread over a decade.
    fn window(rank: u64, requests: u64) -> WindowSet {
        let (mut blocks, mut client) = (Blocks::default(), None);
        for block in 0..16 {
            let samples = (0..requests).map(|request| {
                let draw = seed::unit(seed::hash(rank * 16 + block, request));
                sample::client(1, (200_000.0 * 10_f64.powf(draw)) as u64)
            });
            let mut part = samples.reduce(|all, next| merge(all, &next)).unwrap();
            part.duration = std::time::Duration::from_millis(100);
            blocks.push(Block::new(&part));
            client = Some(match client {
                None => part,
                Some(all) => merge(all, &part),
            });
        }
        WindowSet::new(client.unwrap(), None, blocks)
    }

    #[test]
    fn the_windows_of_all_are_one_with_every_latency_in_its_place() {
        let joined = together(3, |ranks| {
            let window_set = window(ranks.part().rank as u64, 20);
            let report = WindowReport::new(&ranks, &window_set, None, EarlyEnd::default());
            let reports = ranks.exchange(&report, ANSWER_LIMIT).unwrap();
            super::joined(&ranks, reports, None, Span::Window).unwrap().0
        });
        let windows: Vec<WindowSet> = (0..3).map(|rank| window(rank, 20)).collect();
        let mut whole = windows[0].client.latency.clone();
        windows[1..].iter().for_each(|other| whole.merge(&other.client.latency));
        for all in joined {
            assert_eq!((all.client.requests, all.client.latency.count()), (960, 960));
            let counts = |distribution: &crate::record::Distribution| {
                distribution
                    .histogram
                    .iter_recorded()
                    .map(|step| (step.value_iterated_to(), step.count_at_value()))
                    .collect::<Vec<_>>()
            };
            assert_eq!(counts(&all.client.latency), counts(&whole), "bucket by bucket");
            assert_eq!(all.client.duration, windows[0].client.duration, "one time, not three");
            assert_eq!(all.blocks.each().len(), 16);
            assert!(all.blocks.each().iter().all(|block| block.requests == 60), "{:?}", all.blocks.each().len());
            assert_eq!(all.ranks.iter().map(|rank| rank.block.requests).collect::<Vec<_>>(), [320; 3]);
        }
    }

    #[test]
    fn a_window_that_one_ended_late_has_the_rate_of_both() {
        let joined = |span: Span| {
            together(2, move |ranks| {
                let late = 6 * ranks.part().rank as u64;
                let mut window_set = window(ranks.part().rank as u64, 10 + late);
                window_set.client.duration = Duration::from_millis(100 + 10 * late);
                let reports = ranks
                    .exchange(&WindowReport::new(&ranks, &window_set, None, EarlyEnd::default()), ANSWER_LIMIT)
                    .unwrap();
                super::joined(&ranks, reports, None, span).unwrap().0.client
            })
        };
        for client in joined(Span::Window) {
            assert_eq!((client.requests, client.duration), (416, Duration::from_millis(130)), "1600 a second each");
        }
        assert!(joined(Span::Whole).iter().all(|client| client.duration == Duration::from_millis(160)));
    }

    #[test]
    fn the_overhead_of_all_is_the_mean_of_each() {
        let joined = together(3, |ranks| {
            let mut window_set = window(ranks.part().rank as u64, 10);
            window_set.client.overhead_share = [0.1, 0.2, 0.6][ranks.part().rank];
            let report = WindowReport::new(&ranks, &window_set, None, EarlyEnd::default());
            let reports = ranks.exchange(&report, ANSWER_LIMIT).unwrap();
            super::joined(&ranks, reports, None, Span::Window).unwrap().0.client.overhead_share
        });
        assert!(joined.iter().all(|share| (share - 0.3).abs() < 1e-9), "{joined:?}");
    }

    /// A level of two ranks, after all have told what they know of it.
    fn closed_together(mut level: LevelSummary, mut evidence: Evidence, ranks: &Ranks) -> LevelSummary {
        let closing = Closing::new(&level, &evidence, LoadReport::default(), true);
        let all = ranks.exchange(&closing, ANSWER_LIMIT).unwrap();
        let parts = [RankPart::new(&level.client), RankPart::new(&level.client)];
        let _ = close(&mut level, &mut evidence, ranks, &all, &parts);
        level
    }

    /// What one of them knows alone is in the result of all.
    #[test]
    fn whoever_stood_still_or_noticed_something_is_heard() {
        let closed = together(2, |ranks| {
            let is_second = ranks.part().rank == 1;
            let mut level = sample::level(LevelLoad::Concurrency(2), 2_000, 1_000_000);
            (level.threads, level.connections) = (Some(3), Some(4));
            level.remarks = Remark::of_pauses(Duration::from_secs(7)).filter(|_| is_second).into_iter().collect();
            let still = Duration::from_secs(if is_second { 4 } else { 0 });
            let evidence = Evidence { still, ..Evidence::default() };
            closed_together(level, evidence, &ranks)
        });
        for level in closed {
            assert_eq!(level.verdict, Verdict::Invalid(vec![InvalidReason::RankStoodStill(1, 4.0)]));
            assert_eq!((level.threads, level.connections), (Some(6), Some(8)));
            let texts: Vec<&str> = level.remarks.iter().map(|remark| remark.text.as_str()).collect();
            assert!(texts.len() == 1 && texts[0].starts_with("rank 1 (host1): this process stood still"), "{texts:?}");
        }
    }

    #[test]
    fn whoever_stood_still_is_named_though_it_be_the_first() {
        let closed = together(2, |ranks| {
            let mut level = sample::level(LevelLoad::Concurrency(2), 2_000, 1_000_000);
            level.remarks = Remark::of_pauses(Duration::from_secs(7)).into_iter().collect();
            let evidence = Evidence { still: Duration::from_secs(3), ..Evidence::default() };
            closed_together(level, evidence, &ranks)
        });
        for level in closed {
            assert_eq!(level.verdict, Verdict::Invalid(vec![InvalidReason::RankStoodStill(0, 3.0)]));
            let starts = ["rank 0 (host0): this process", "rank 1 (host1): this process"];
            let texts: Vec<&str> = level.remarks.iter().map(|remark| remark.text.as_str()).collect();
            assert!(
                texts.len() == 2 && texts.iter().zip(starts).all(|(text, start)| text.starts_with(start)),
                "{texts:?}"
            );
        }
    }

    #[test]
    fn a_window_is_told_in_few_bytes() {
        let bytes =
            together(1, |ranks| message_bytes(&WindowReport::new(&ranks, &window(0, 60), None, EarlyEnd::default())))
                [0];
        assert!(bytes < 40_000, "{bytes}");
    }
}
