//! Queries on a draft that several rules share.

use crate::Draft;

/// Older flags that define a concurrency.
const OLD: &[&str] = &["-t", "-d", "-c"];

/// The loads that were asked for; the older `-t`, `-d` and `-c` together define one of a concurrency.
pub fn loads(draft: &Draft) -> Vec<&'static str> {
    let (old, mut loads): (Vec<_>, Vec<_>) =
        draft.given.which(|flag| flag.load).into_iter().partition(|flag| OLD.contains(flag));
    loads.extend(old.first());
    // Stages say which parts of a run replay it, and how fast.
    loads.retain(|flag| *flag != "--trace-replay" || !draft.plan.load.mode.has_replays());
    loads
}

/// The range as it was written.
pub fn shown_range(draft: &Draft) -> String {
    let flags = draft.given.among(&["--request-rate-range", "--concurrency-range"]);
    let old: Vec<String> = draft.given.among(OLD).iter().map(|flag| draft.given.show(flag)).collect();
    match (flags.first(), &old[..]) {
        (Some(flag), _) => draft.given.show(flag),
        (None, []) => "the concurrency of 1".to_owned(),
        (None, old) => old.join(" "),
    }
}

/// Whether the range has no end.
pub fn endless(draft: &Draft) -> bool {
    draft.plan.load.mode.is_endless()
}

/// Whether the range has an end above its start.
pub fn has_several_levels(draft: &Draft) -> bool {
    draft.plan.load.mode.rises()
}

/// Whether a range was written with an end, which may be its start.
pub fn names_an_end(draft: &Draft) -> bool {
    let ranges = draft.given.among(&["--request-rate-range", "--concurrency-range"]);
    draft.given.has("-c") || ranges.iter().any(|flag| draft.given.value(flag).is_some_and(|range| range.contains(':')))
}

/// Whether levels are found by binary search. A file of intervals is one level, whose flag has no effect.
pub fn searches(draft: &Draft) -> bool {
    draft.plan.measurement.binary_search && !draft.plan.load.mode.is_intervals()
}

/// Whether the run measures something other than levels: variants, or the batches of a periodic load.
pub fn lacks_levels(draft: &Draft) -> bool {
    draft.plan.rounds.is_some() || draft.plan.load.mode.is_periodic()
}

/// Whether the server is on the network.
pub fn on_network(draft: &Draft) -> bool {
    draft.plan.target.service.is_remote()
}

/// Flags in a sentence, if there are any.
pub fn named(flags: Vec<&str>) -> Option<String> {
    (!flags.is_empty()).then(|| flags.join(" and "))
}

/// The servers as they were written.
pub fn shown_urls(draft: &Draft) -> String {
    draft.given.values("-u").map(|url| format!("-u {url}")).collect::<Vec<_>>().join(" ")
}
