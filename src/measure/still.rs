//! Whether a time in which this process stood still can be told from what the server did.

use std::time::Duration;

use crate::clock::Stamp;
use crate::machine::pauses;
use crate::result::remark::{Remark, RemarkKind};
use crate::result::summary::ClientSummary;

/// What is under way while the process stands still takes that much longer, which hides in requests that take twenty times as long.
const MOST_OF_A_REQUEST: f64 = 0.05;

/// The shortest median of what is reported: of latencies, of each part of a mix, and of times to first answers.
fn shortest_median(client: &ClientSummary) -> Duration {
    let of_all = |client: &ClientSummary| {
        let first = client.decoupled.as_ref().map(|decoupled| decoupled.first_response.percentile_ns(50.0));
        let token = client.generated.as_ref().map(|generated| generated.first_token.percentile_ns(50.0));
        [Some(client.latency.percentile_ns(50.0)), first, token].into_iter().flatten().filter(|&ns| ns > 0).min()
    };
    let medians = std::iter::once(client).chain(&client.entries).filter_map(of_all);
    Duration::from_nanos(medians.min().unwrap_or(0))
}

/// How long this process stood still up to `end` while a result was measured; no time at all where that is short beside all that is
/// reported of a request.
pub(super) fn time_that_counts(client: &ClientSummary, end: Stamp) -> Duration {
    let median = shortest_median(client);
    let of_a_request = pauses::most_within(client.start, end, median);
    if of_a_request > median.mul_f64(MOST_OF_A_REQUEST) { pauses::total(client.start, end) } else { Duration::ZERO }
}

/// What is said of a time in which it stood still meanwhile, and that does not count.
pub(super) fn short_pauses(client: &ClientSummary, end: Stamp) -> Option<Remark> {
    let still = pauses::total(client.start, end).saturating_sub(time_that_counts(client, end));
    if still.is_zero() {
        return None;
    }
    let text = format!(
        "this process stood still for {:.1} s (stopped, suspended, or without a processor), but for no more than 5 % of the median \
         latency in the time of a request",
        still.as_secs_f64()
    );
    let count = u64::try_from(still.as_millis()).unwrap_or(u64::MAX);
    Some(Remark { kind: RemarkKind::StoodStill, count, total: None, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::summary::sample;

    #[test]
    fn a_pause_counts_where_it_is_long_beside_a_request() {
        let length = Duration::from_millis(500);
        let start = pauses::note_one(length);
        let still = |latency: Duration| {
            let client = ClientSummary { start, ..sample::client(100, latency.as_nanos() as u64) };
            let end = start.plus_duration(Duration::from_secs(60));
            (time_that_counts(&client, end), short_pauses(&client, end).map(|remark| remark.count))
        };
        assert_eq!([still(Duration::from_millis(1)), still(Duration::from_secs(9))], [(length, None); 2]);
        assert_eq!(still(Duration::from_secs(11)), (Duration::ZERO, Some(500)));
        // A time to the first token would have it in it.
        let mut streams = ClientSummary { start, ..sample::client(100, 60_000_000_000) };
        streams.entries = vec![sample::client(50, 60_000_000_000), sample::client(50, 10_000_000)];
        let end = start.plus_duration(Duration::from_secs(600));
        assert_eq!(time_that_counts(&streams, end), length);
    }
}
