//! The block of settings above the levels.

use std::fmt::Write as _;

use crate::plan::Plan;
use crate::report::loads;
use crate::result::Setup;
use crate::result::summary::Headline;
use crate::shm::Placement;

/// The settings, ending with an empty line.
pub fn settings(plan: &Plan, setup: &Setup) -> String {
    let mut text = "*** Measurement Settings ***\n".to_owned();
    let always = plan.target.service.is_remote() && plan.target.service.is_triton();
    if always || (plan.target.service.is_remote() && plan.data.batch_given) || plan.data.batch_size > 1 {
        let _ = writeln!(text, "  Batch size: {}", plan.data.batch_size);
    }
    let _ = writeln!(text, "  Service Kind: {}", setup.service_kind);
    text += &windows(plan);
    text += &loads::settings(&plan.load.mode, plan.measurement.latency_threshold);
    if plan.measurement.binary_search {
        text += "  Using Binary Search algorithm\n";
    }
    let calls = if setup.synchronous { "synchronous" } else { "asynchronous" };
    let _ = writeln!(text, "  Using {calls} calls for inference{}", which_stages(plan, setup.synchronous));
    if plan.load.mode.follows_schedule() {
        text += "  Requests leave when they are due, answered or not: no thread waits for an answer\n";
        let _ = writeln!(text, "  Latency: {}", latency(setup.headline));
    }
    if setup.decoupled {
        let response = if setup.headline == Headline::FirstResponse { "first" } else { "last" };
        let _ = writeln!(text, "  Detected decoupled model, using the {response} response for measuring latency");
    }
    if plan.rounds.is_none() {
        text += &placements(plan);
        if setup.decoupled {
            text += further_responses(plan);
        }
    }
    let _ = writeln!(text, "  Random seed: {}", plan.seed);
    text.push('\n');
    text
}

/// The definition of the report's latency.
fn latency(headline: Headline) -> &'static str {
    match headline {
        Headline::ResponseTime => "response time, from the moment at which a request was due",
        Headline::ServiceTime => "service time, from the moment at which a request was sent",
        Headline::FirstResponse => "time to the first response, from the moment at which a request was sent",
    }
}

/// Where tensors live.
fn placements(plan: &Plan) -> String {
    let describe = |placement| match placement {
        Placement::Pageable | Placement::Pinned => format!("{placement} memory"),
        Placement::System => "system shared memory".to_owned(),
        Placement::Cuda(device) => format!("memory of GPU {device}"),
    };
    let data = &plan.data;
    let network = plan.target.service.is_remote();
    let outputs = match (network && !data.shared_memory, data.output_placement) {
        (true, _) => "outputs in the responses".to_owned(),
        (false, Placement::Pageable) => "outputs in pageable memory".to_owned(),
        (false, placement) => format!("outputs in {}{} (a region per slot)", describe(placement), other_devices(plan)),
    };
    let inputs =
        if network && !data.shared_memory { "the requests".to_owned() } else { describe(data.input_placement) };
    format!("  Inputs in {inputs}, {outputs}\n")
}

/// Where outputs of decoupled models are that do not go where the plan puts them.
fn further_responses(plan: &Plan) -> &'static str {
    match (plan.target.service.is_embedded(), plan.data.output_placement) {
        (true, Placement::System | Placement::Pinned | Placement::Cuda(_)) => {
            "  Of responses to a request that are alive at once, all but the first have their outputs in pageable memory\n"
        }
        _ => "",
    }
}

/// The devices for outputs beside the first.
fn other_devices(plan: &Plan) -> String {
    let devices = if plan.data.shared_memory { plan.data.cuda_devices.get(1..).unwrap_or_default() } else { &[] };
    devices.iter().map(|device| format!(" or {device}")).collect()
}

/// Warm-up and what ends a level.
fn windows(plan: &Plan) -> String {
    let measurement = &plan.measurement;
    let mut text = String::new();
    for stage in &plan.load.warm_up {
        let _ = writeln!(text, "  Warming up with {}", loads::stage(stage));
    }
    if measurement.warmup_requests > 0 {
        let _ = writeln!(text, "  Sending {} warmup requests", measurement.warmup_requests);
    }
    if !measurement.warmup.is_zero() {
        let _ = writeln!(text, "  Warming up for {} msec", measurement.warmup.as_millis());
    }
    if let Some(requests) = measurement.request_count {
        let _ = writeln!(text, "  Sending {requests} benchmark requests");
        return text;
    }
    if let Some(whole) = loads::measured_as(&plan.load.mode) {
        return text + whole;
    }
    let (mode, size) = (measurement.window.mode(), measurement.window.setting());
    if plan.rounds.is_some() {
        return text + &format!("  {size}\n");
    }
    let _ = writeln!(text, "  Using \"{mode}\" mode for stabilization");
    let goal = match (measurement.precision, measurement.percentile) {
        (Some(precision), _) => format!("Measuring until the windows give the {precision}"),
        (None, Some(percentile)) => format!("Stabilizing using p{percentile}latency and throughput"),
        (None, None) => "Stabilizing using average latency and throughput".to_owned(),
    };
    let _ = writeln!(text, "  {goal}");
    let _ = writeln!(text, "  {size}");
    text
}

/// With stages of both kinds, those whose calls wait for their answers.
fn which_stages(plan: &Plan, synchronous: bool) -> &'static str {
    let mode = &plan.load.mode;
    if synchronous && !mode.stages().is_empty() && mode.has_rate() { " in stages of a concurrency" } else { "" }
}

#[cfg(test)]
mod tests;
