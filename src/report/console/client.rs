//! The client's figures of a level.

use std::fmt::Write as _;

use crate::backend::ClientTimes;
use crate::console::{detail, mix};
use crate::number::{counted, percent, significant, whole_us};
use crate::percentiles;
use crate::result::Setup;
use crate::result::summary::{ClientSummary, LevelSummary};
use crate::stdio::shown;
use crate::terms::MeasurementPlan;
use crate::{generation, sequences, sessions};

/// Maximum number of failure reasons listed.
const MAX_REASONS: usize = 10;

/// The client's block.
pub fn client(setup: &Setup, level: &LevelSummary) -> String {
    let client = &level.client;
    let mut text = format!("  Client: \n    Request count: {}\n", client.requests);
    text += &failures(client);
    if client.requests == 0 {
        return text;
    }
    if client.lateness().is_some() {
        text += &lateness(client);
    }
    if setup.sequences {
        let rate = significant(client.sequence_rate());
        let _ = writeln!(text, "    Sequence count: {} ({rate} seq/sec)", client.sequences);
    }
    let _ = writeln!(text, "    Throughput: {} infer/sec", significant(client.throughput()));
    if setup.decoupled {
        let _ = writeln!(text, "    Response Throughput: {} infer/sec", significant(client.response_throughput()));
    }
    let _ = writeln!(
        text,
        "    Avg client overhead: {} ({} ns per request)",
        percent(client.overhead_share),
        own_cost(client, setup)
    );
    text += &latencies(client, &setup.measurement);
    text += &transport(client, setup, setup.detail.verbosity > 0);
    if let Some(wakeup) = &client.wakeup {
        text += &detail::row("Wake-up time", false, wakeup);
    }
    if let Some(open_loop) = &client.open_loop {
        text += &detail::open_loop(client, open_loop, setup.headline);
    }
    if let Some(decoupled) = &client.decoupled {
        text += &detail::decoupled(decoupled, setup.headline);
    }
    text += &generation::text(client, detail::row);
    if !setup.detail.as_upstream {
        text += &generation::inputs(client);
    }
    if !setup.detail.as_upstream {
        text += &sequences::text(client, detail::row);
    }
    text += &sessions::text(client, detail::row);
    text += &mix::mix(setup, client);
    text += &mix::servers(&setup.servers, client);
    text
}

/// What a request costs the client: beside a server that does nothing, which leaves the caches to it, and at most beside this one.
fn own_cost(client: &ClientSummary, setup: &Setup) -> String {
    let [least, most] = [setup.client_cost_ns, client.most_own_ns()].map(|ns| format!("{ns:.0}"));
    // Over a network other slots' requests come between two of a slot.
    let is_known = setup.client_times.is_none() && client.most_own_ns() > setup.client_cost_ns;
    if is_known && most != least { format!("{least} to {most}") } else { least }
}

fn failures(client: &ClientSummary) -> String {
    let mut text = String::new();
    if client.cancelled > 0 {
        let share = percent(client.cancelled_share());
        let _ = writeln!(text, "    Cancelled request count: {} ({share})", client.cancelled);
    }
    if client.failed == 0 {
        return text;
    }
    text += &format!("    Failed request count: {} ({})\n", client.failed, percent(client.failed_share()));
    for (reason, count) in client.errors.iter().take(MAX_REASONS) {
        let message = reason.to_string().replace(['\n', '\r'], " ");
        let next = reason.advice().map(|next| format!("; {next}")).unwrap_or_default();
        let _ = writeln!(text, "      {count} x {}{next}", shown(&message));
    }
    if client.errors.len() > MAX_REASONS {
        let further = counted((client.errors.len() - MAX_REASONS) as u64, "more reason");
        let _ = writeln!(text, "      and {further}");
    }
    text
}

fn lateness(client: &ClientSummary) -> String {
    format!(
        "    Avg send request rate: {:.2} infer/sec\n    [WARNING] Perf Analyzer was not able to keep up with the desired \
         request rate. {} of the requests were delayed. \n",
        client.open_loop.as_ref().map_or_else(|| client.send_rate(), |open| open.achieved_rate),
        percent(client.delayed_share())
    )
}

fn latencies(client: &ClientSummary, plan: &MeasurementPlan) -> String {
    let mut text = String::new();
    if plan.percentile.is_none() {
        let mean = whole_us(client.latency.mean_ns());
        let deviation = whole_us(client.latency.std_ns());
        let _ = writeln!(text, "    Avg latency: {mean} usec (standard deviation {deviation} usec)");
    }
    for percentile in percentiles(plan) {
        let value = whole_us(client.latency.percentile_ns(percentile) as f64);
        let _ = writeln!(text, "    p{percentile} latency: {value} usec");
    }
    text
}

/// The client's share of a request's time; a line of spaces if the backend has no transport.
fn transport(client: &ClientSummary, setup: &Setup, verbose: bool) -> String {
    let (send, receive) = (whole_us(client.send_ns), whole_us(client.receive_ns));
    let total = whole_us(client.service_time().mean_ns());
    let transfer = whole_us(client.send_ns + client.receive_ns);
    let wait = total.saturating_sub(transfer);
    let times = setup.client_times.filter(|_| !setup.hides_times());
    let parts = |names: ClientTimes| match verbose {
        false => format!("{} {transfer} usec + response wait {wait} usec", names.both),
        true => {
            let ClientTimes { send: sending, receive: receiving, .. } = names;
            format!("{sending} {send} usec + response wait {wait} usec + {receiving} {receive} usec")
        }
    };
    let line = |names: ClientTimes| format!("Avg {} time: {total} usec ({})", names.transport, parts(names));
    let text = times.map(line).unwrap_or_default();
    format!("    {text}\n")
}
