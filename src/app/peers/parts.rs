//! Divides a plan between processes that share one load.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::plan::{GatePlan, Plan, ReportPlan};
use crate::ranks::{ANSWER_LIMIT, Part, Ranks};
use crate::stdio;
use crate::terms::{Range, ReportPart};

/// Checks, before anything is started, that a load can be shared.
///
/// # Errors
/// The rule that it breaks.
pub(super) fn check(plan: &Plan, part: Part) -> Result<()> {
    let size = part.size;
    let refuse = |subject: &str| {
        let next = "use one process, or --ranks separate to give each a whole load";
        Err(Error::usage(format!("{subject} cannot be shared by {size} processes; {next}")))
    };
    let too_few = |flag: &str, count: usize| {
        let next = format!("give at least {size}, or start fewer processes");
        Err(Error::usage(format!("{flag} {count}: {size} processes share it, and each needs one; {next}")))
    };
    let mode = &plan.load.mode;
    if let Some((flag, least)) = mode.least_concurrency().filter(|(_, least)| (*least as usize) < size) {
        return too_few(flag, least as usize);
    }
    let is_uneven = |range: &Range<u32>| !are_multiples(range, plan.measurement.binary_search, size);
    if mode.pace().is_some() && mode.concurrency().is_some_and(is_uneven) {
        let next = format!("give multiples of {size}, without --binary-search, or --ranks separate");
        return Err(Error::usage(format!("--paced: {size} processes have equally many streams each; {next}")));
    }
    match plan.rounds {
        Some(_) => refuse("--variant or --matrix: variants take turns within one process; they"),
        None => Ok(()),
    }
}

/// Whether every level of a range is a multiple of `size`. A search halves as it comes.
fn are_multiples(range: &Range<u32>, searches: bool, size: usize) -> bool {
    let is_one = |number: &u32| (*number as usize).is_multiple_of(size);
    match range.listed.as_slice() {
        _ if searches && range.rises() => false,
        [] if range.end == Some(range.start) => is_one(&range.start),
        [] => is_one(&range.start) && is_one(&range.step),
        listed => listed.iter().all(is_one),
    }
}

/// The flags that make processes take more steps together than one level each.
pub(super) fn steps(plan: &Plan) -> String {
    match &plan.load.mode {
        _ if plan.rounds.is_some() => "--variant or --matrix".to_owned(),
        mode if mode.is_periodic() => mode.flag().to_owned(),
        _ if plan.measurement.restarts > 1 => format!("--restarts {}", plan.measurement.restarts),
        _ => String::new(),
    }
}

/// Assigns outputs: rank 0 writes the files of the sums, and each process those of its own requests.
///
/// # Errors
/// If a process cannot continue.
pub(super) fn divide_outputs(plan: &mut Plan, ranks: &Ranks) -> Result<()> {
    let rank = ranks.part().rank;
    let folder = plan.output.folder.as_ref().map(|folder| folder.path.clone());
    // Its name may contain the time.
    let first: Option<PathBuf> = ranks.receive_first(ranks.is_first().then_some(&folder), ANSWER_LIMIT)?;
    if let (Some(folder), Some(first)) = (&mut plan.output.folder, first) {
        let export = plan.output.profile_export.as_mut();
        export.into_iter().for_each(|export| {
            if let Ok(name) = export.strip_prefix(&folder.path) {
                *export = first.join(name);
            }
        });
        (folder.path, folder.rank) = (first, Some(rank));
    }
    if let Some(path) = &mut plan.output.profile_export {
        *path = path.with_extension(format!("rank{rank}.json"));
    }
    if let Some(path) = &mut plan.output.requests {
        *path = path.with_extension(format!("rank{rank}.parquet"));
    }
    if ranks.is_first() {
        return Ok(());
    }
    // One process speaks for all.
    stdio::hush(true);
    let ReportPlan { profile_export, requests, resume, folder, as_upstream, .. } = std::mem::take(&mut plan.output);
    let mut folder = folder.filter(|folder| folder.has(ReportPart::Requests));
    folder.iter_mut().for_each(|folder| folder.parts = vec![ReportPart::Requests]);
    plan.output = ReportPlan { profile_export, requests, resume, folder, as_upstream, ..ReportPlan::default() };
    plan.gate = GatePlan::default();
    (plan.tracing.export, plan.tracing.file) = (None, None);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_share_multiples_evenly() {
        let range = |start, end, step| Range::with_step(start, end, step);
        assert!(are_multiples(&range(4, Some(4), 1), false, 2) && are_multiples(&range(4, None, 2), false, 2));
        assert!(!are_multiples(&range(3, Some(3), 1), false, 2) && !are_multiples(&range(4, Some(8), 1), false, 2));
        assert!(!are_multiples(&range(4, Some(8), 2), true, 2) && are_multiples(&range(4, Some(4), 2), true, 2));
        let listed = |listed: &[u32]| Range { listed: listed.to_vec(), ..range(2, Some(9), 1) };
        assert!(are_multiples(&listed(&[2, 6]), false, 2) && !are_multiples(&listed(&[2, 9]), false, 2));
    }
}
