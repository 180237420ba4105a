//! Checks which processors the launcher has left to which process.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::{processors, read};
use crate::ranks::Member;

/// The processors that this process may use, and the total number.
pub(super) fn here() -> (Vec<usize>, usize) {
    let allowed = read("/proc/self/status").map(|status| processors::allowed(&status)).unwrap_or_default();
    let all = read("/sys/devices/system/cpu/online").map(|list| processors::list(&list).len()).unwrap_or(0);
    (allowed, all)
}

/// Warnings about processes that get into each other's way, a line for each machine.
pub(super) fn remarks(members: &[Member]) -> Vec<String> {
    let mut machines: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (rank, member) in members.iter().enumerate().filter(|(_, member)| !member.processors.is_empty()) {
        machines.entry((&member.host, &member.clock)).or_default().push(rank);
    }
    machines.into_iter().filter_map(|((host, _), ranks)| remark(members, host, &ranks)).collect()
}

fn remark(members: &[Member], host: &str, ranks: &[usize]) -> Option<String> {
    let all: BTreeSet<usize> = ranks.iter().flat_map(|&rank| members[rank].processors.iter().copied()).collect();
    if ranks.len() > all.len() {
        return Some(format!(
            "{} processes on {host} share {} processor{}, and slow each other down, which raises latencies; start \
                fewer there",
            ranks.len(),
            all.len(),
            if all.len() == 1 { "" } else { "s" }
        ));
    }
    let pairs =
        ranks.iter().enumerate().flat_map(|(at, &first)| ranks[at + 1..].iter().map(move |&second| (first, second)));
    let (first, second, shared) = pairs.into_iter().find_map(|(first, second)| {
        let is_bound = |rank: usize| members[rank].processors.len() < members[rank].online;
        let shared: Vec<String> = members[first]
            .processors
            .iter()
            .filter(|processor| is_bound(first) && is_bound(second) && members[second].processors.contains(processor))
            .map(ToString::to_string)
            .collect();
        (!shared.is_empty()).then_some((first, second, shared))
    })?;
    // As many unbound processes as there are processors do not disturb each other.
    let next = "start them with --bind-to none, or bind each to its own";
    Some(format!(
        "ranks {first} and {second} ({host}) are bound to the same processors ({}); {next}",
        shared.join(", ")
    ))
}

/// A warning if the launcher has bound processes to fewer processors than their threads (`issuers` in each) could use.
/// Open MPI binds each process to one, by default.
pub(super) fn narrow(members: &[Member], issuers: &[usize]) -> Option<String> {
    let is_narrow = |(rank, member): &(usize, &Member)| {
        let (allowed, wanted) = (member.processors.len(), issuers.get(*rank).copied().unwrap_or(0).max(2));
        allowed > 0 && allowed < wanted.min(member.online)
    };
    let found: Vec<(usize, &Member)> = members.iter().enumerate().filter(is_narrow).collect();
    let (rank, member) = found.first()?;
    let others = match found.len() - 1 {
        0 => String::new(),
        1 => ", as is 1 more".to_owned(),
        more => format!(", as are {more} more"),
    };
    Some(format!(
        "rank {rank} ({}) is bound to {} of {} processors, which its threads share{others}; start with --bind-to none",
        member.host,
        member.processors.len(),
        member.online
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(host: &str, processors: &[usize], online: usize) -> Member {
        let mut member = Member::new(host.to_owned(), "one".to_owned());
        (member.processors, member.online) = (processors.to_vec(), online);
        member
    }

    #[test]
    fn processes_in_each_others_way_are_told_once_for_each_machine() {
        let all = [0, 1, 2, 3];
        assert!(remarks(&[member("a", &all, 4), member("a", &all, 4)]).is_empty());
        assert!(remarks(&[member("a", &[0], 4), member("a", &[1], 4)]).is_empty());
        let same = remarks(&[member("a", &[0, 1], 4), member("a", &[2, 3], 4), member("a", &[1, 2], 4)]);
        assert!(
            same.len() == 1 && same[0].starts_with("ranks 0 and 2 (a) are bound to the same processors (1);"),
            "{same:?}"
        );
        let many = remarks(&[member("a", &[0], 4), member("a", &[0], 4), member("b", &[0], 1)]);
        assert!(many.len() == 1 && many[0].starts_with("2 processes on a share 1 processor,"), "{many:?}");
        assert!(remarks(&[member("a", &[], 0), member("a", &[], 0)]).is_empty(), "nothing is known");
    }

    #[test]
    fn fewer_processors_than_threads_are_told_where_the_launcher_is_why() {
        let bound = [member("a", &[0], 4), member("b", &[0], 4)];
        let remark = narrow(&bound, &[1, 1]).unwrap();
        assert!(
            remark.starts_with("rank 0 (a) is bound to 1 of 4 processors, which its threads share, as is 1 more"),
            "{remark}"
        );
        assert_eq!(narrow(&[member("a", &[0, 1], 4)], &[2]), None);
        assert!(narrow(&[member("a", &[0, 1], 4)], &[3]).is_some());
        assert_eq!(narrow(&[member("a", &[0, 1], 2)], &[16]), None, "it has all there are");
        assert_eq!(narrow(&[member("a", &[0], 1)], &[16]), None);
    }
}
