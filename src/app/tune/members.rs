//! The models that a model calls: which of them holds requests up, and so is searched first.

use crate::plan::{Searched, Setting};
use crate::result::MemberFigures;
use crate::result::summary::ServerSummary;

/// Queues decide, if a request spends at least this share of its time in them.
const QUEUES: f64 = 0.05;

/// Where the requests of a model that calls others spend their time; empty for other models.
pub fn members(server: &ServerSummary) -> Vec<MemberFigures> {
    let requests = server.delta.success.count;
    if server.composing.is_empty() || requests == 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    add(server, requests, &mut found);
    found
}

fn add(server: &ServerSummary, requests: u64, found: &mut Vec<MemberFigures>) {
    let us = |ns: u64| ns as f64 / requests as f64 / 1e3;
    let compute = |server: &ServerSummary| us(server.delta.compute().ns);
    let of_parts: f64 = server.composing.iter().map(compute).sum();
    let figures = MemberFigures {
        model: server.name.clone(),
        queue_us: us(server.delta.queue.ns),
        // What a BLS model waits for those that it calls is theirs.
        compute_us: (compute(server) - of_parts).max(0.0),
    };
    match found.iter_mut().find(|member| member.model == figures.model) {
        Some(member) => {
            member.queue_us = member.queue_us.max(figures.queue_us);
            member.compute_us = member.compute_us.max(figures.compute_us);
        }
        None => found.push(figures),
    }
    server.composing.iter().for_each(|part| add(part, requests, found));
}

/// The member whose queue is the longest; where requests hardly wait, the one that computes longest.
pub fn bottleneck(members: &[MemberFigures]) -> Option<&MemberFigures> {
    let all: f64 = members.iter().map(|member| member.queue_us + member.compute_us).sum();
    let queued: f64 = members.iter().map(|member| member.queue_us).fold(0.0, f64::max);
    let weight = |member: &&MemberFigures| if queued > QUEUES * all { member.queue_us } else { member.compute_us };
    members.iter().max_by(|left, right| weight(left).total_cmp(&weight(right))).filter(|_| all > 0.0)
}

/// The group of the settings of a model; `None` if settings of one model only are searched, or none of its own. `root`
/// is the measured model.
pub fn group(search: &[Searched], root: &str, model: &str) -> Option<usize> {
    let mut models: Vec<&str> = Vec::new();
    for searched in search {
        let Setting::Model(name, _) = &searched.setting else { continue };
        let name = name.as_deref().unwrap_or(root);
        if !models.contains(&name) {
            models.push(name);
        }
    }
    models.iter().position(|name| *name == model).filter(|_| models.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::tune::sample::plan;

    fn member(model: &str, queue_us: f64, compute_us: f64) -> MemberFigures {
        MemberFigures { model: model.to_owned(), queue_us, compute_us }
    }

    #[test]
    fn whose_queue_grows_is_the_bottleneck() {
        let name = |members: &[MemberFigures]| bottleneck(members).map(|member| member.model.clone());
        // Four instances of the slow one keep up, one of the quick one does not.
        assert_eq!(name(&[member("slow", 100.0, 30e3), member("quick", 14e3, 10e3)]).as_deref(), Some("quick"));
        assert_eq!(name(&[member("slow", 10.0, 30e3), member("quick", 20.0, 10e3)]).as_deref(), Some("slow"));
        assert_eq!((name(&[]), name(&[member("idle", 0.0, 0.0)])), (None, None));
    }

    #[test]
    fn settings_of_a_model_are_a_group() {
        let group_of = |flags: &str, model: &str| group(&plan(flags).search, "m", model);
        let two =
            "--search a:instances=1,2 --search b:instances=1,2 --search a:max_batch_size=1,2 --search concurrency=1,2";
        assert_eq!([group_of(two, "a"), group_of(two, "b"), group_of(two, "c")], [Some(0), Some(1), None]);
        assert_eq!(group_of("--search instances=1,2 --search b:instances=1,2", "m"), Some(0), "its own");
        assert_eq!(group_of("--search a:instances=1,2", "a"), None, "there is nothing to choose from");
    }
}
