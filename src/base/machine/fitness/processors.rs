//! Processors: their number, frequency and sharing.

use std::collections::BTreeMap;

use crate::machine::fitness::Finding;
use crate::machine::processors::Times;
use crate::machine::{frequency, processors, read};

/// Acceptable steal time since the start, as a share of the processors' time.
const QUIET_STEAL: f64 = 0.01;

/// Checks the number of processors for this process.
pub fn count(available: usize) -> Finding {
    let text = format!("processors: {available}");
    match available {
        0 | 1 => Finding::warning(text, "client and server take turns, which adds to every latency; use two at least"),
        2 | 3 => {
            Finding::note(text, "client, server and the system's own work meet on them; four or more keep them apart")
        }
        _ => Finding::good(text),
    }
}

/// Checks who sets their frequency, from the names of all governors.
pub fn governor(names: &[String]) -> Finding {
    let mut others: Vec<&str> = names.iter().map(String::as_str).filter(|name| *name != "performance").collect();
    others.sort_unstable();
    others.dedup();
    match (names, &others[..]) {
        ([], _) => Finding::good("frequency governor: none visible, as in virtual machines"),
        (_, []) => Finding::good("frequency governor: performance"),
        (_, others) => Finding::warning(
            format!("frequency governor: {}", others.join(", ")),
            "the frequency follows the load, so latencies at low load are those of slow processors; \
             cpupower frequency-set -g performance",
        ),
    }
}

/// The governors of these processors.
pub fn governors(cpus: &[usize]) -> Vec<String> {
    cpus.iter().filter_map(|processor| frequency::governor(*processor)).collect()
}

/// Checks whether processors that threads are pinned to share a core: `siblings` lists, for each, those of its core.
pub fn siblings(pinned: &[usize], siblings: &BTreeMap<usize, Vec<usize>>) -> Finding {
    let on = siblings.values().any(|core| core.len() > 1);
    let together = |processor: &&usize| {
        let core = siblings.get(processor).map(Vec::as_slice).unwrap_or_default();
        core.iter().filter(|sibling| pinned.contains(sibling)).count() > 1
    };
    let shared: Vec<String> = pinned.iter().filter(together).map(usize::to_string).collect();
    let state = if on { "on" } else { "off" };
    match (pinned, &shared[..]) {
        ([], _) => Finding::good(format!("SMT: {state}, and nothing is pinned (--cpus, --worker-cpus)")),
        (_, []) => Finding::good(format!("SMT: {state}, no two pinned processors share a core")),
        (_, shared) => Finding::warning(
            format!("SMT: pinned processors {} share cores", shared.join(", ")),
            "each slows its sibling by a third or so; name one of each core (lscpu -e)",
        ),
    }
}

/// Which processors share a core with each of these.
pub fn cores(cpus: &[usize]) -> BTreeMap<usize, Vec<usize>> {
    let file = |processor| format!("/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list");
    cpus.iter().filter_map(|processor| Some((*processor, processors::list(&read(file(processor))?)))).collect()
}

/// Checks the control groups' quota in processors, if there is one.
pub fn quota(quota: Option<f64>) -> Finding {
    match quota {
        None => Finding::good("processor quota: none"),
        Some(quota) => Finding::warning(
            format!("processor quota: {quota:.2} processors"),
            "once it is used up, all threads stop for tens of milliseconds; run without a quota (docker run --cpus, \
             Kubernetes limits.cpu) and set processors apart instead (--cpuset-cpus)",
        ),
    }
}

/// Checks the steal time since the machine was started.
pub fn steal(times: &BTreeMap<usize, Times>) -> Finding {
    let all = times.values().fold(Times::default(), |sum, processor| sum.plus(processor));
    let share = all.stolen.as_secs_f64() / (all.busy + all.stolen).as_secs_f64().max(f64::MIN_POSITIVE);
    let text = format!("steal since the start: {:.1}% of the time that processors were wanted", share * 100.0);
    if share <= QUIET_STEAL {
        return Finding::good(text);
    }
    Finding::note(text, "other virtual machines share these processors; windows that lose much to them are marked")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::machine::fitness::Grade;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn few_processors_are_told() {
        assert_eq!([1, 2, 4].map(|number| count(number).grade), [Grade::Warning, Grade::Note, Grade::Good]);
    }

    #[test]
    fn governors_that_follow_the_load_are_told() {
        assert_eq!(governor(&[]).grade, Grade::Good);
        assert_eq!(governor(&names(&["performance", "performance"])).grade, Grade::Good);
        let found = governor(&names(&["powersave", "performance", "powersave"]));
        assert_eq!((found.grade, &*found.observation), (Grade::Warning, "frequency governor: powersave"));
    }

    #[test]
    fn pinned_siblings_are_told() {
        let cores: BTreeMap<usize, Vec<usize>> =
            [(0, vec![0, 4]), (4, vec![0, 4]), (1, vec![1, 5]), (5, vec![1, 5])].into();
        assert_eq!(siblings(&[0, 1], &cores).grade, Grade::Good);
        assert_eq!(siblings(&[], &cores).observation, "SMT: on, and nothing is pinned (--cpus, --worker-cpus)");
        let found = siblings(&[0, 1, 4], &cores);
        assert_eq!((found.grade, &*found.observation), (Grade::Warning, "SMT: pinned processors 0, 4 share cores"));
        assert_eq!(siblings(&[0, 1], &[(0, vec![0]), (1, vec![1])].into()).grade, Grade::Good);
    }

    #[test]
    fn quotas_and_steal_are_told() {
        assert_eq!(quota(None).grade, Grade::Good);
        assert_eq!(quota(Some(1.5)).observation, "processor quota: 1.50 processors");
        let times = |stolen| {
            let busy = Duration::from_secs(100);
            BTreeMap::from([(0, Times { busy, stolen: Duration::from_secs(stolen), ..Times::default() })])
        };
        assert_eq!((steal(&times(0)).grade, steal(&times(25)).grade), (Grade::Good, Grade::Note));
        assert!(steal(&times(25)).observation.contains(" 20.0% "));
        assert_eq!(steal(&BTreeMap::new()).grade, Grade::Good);
    }
}
