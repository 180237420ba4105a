//! The results of a level, as the object `summary` at the end of its experiment. Times are whole nanoseconds, rates per
//! second.

use serde_json::{Map, Value, json};

use crate::record::{LoadReport, PeriodicBatch};
use crate::result::Setup;
use crate::result::disturbance::Disturbance;
use crate::result::outcome::Outcome;
use crate::result::reasons::{InvalidReason, Verdict};
use crate::result::summary::{
    AcrossStarts, ClientSummary, Distribution, Disturbances, EntrySummary, Headline, LevelSummary, StatisticEstimate,
};
use crate::stats::Interval;
use crate::terms::ALL_PERCENTILES;
use crate::{generation, sequences, sessions};

/// The figures of a level.
pub fn level(level: &LevelSummary, setup: &Setup) -> Value {
    let (headline, entries) = (setup.headline, &setup.entries);
    let reasons: Vec<&str> = match &level.verdict {
        Verdict::Valid => Vec::new(),
        Verdict::Invalid(reasons) => reasons.iter().map(InvalidReason::name).collect(),
    };
    let mut all = client(&level.client, headline);
    all.insert("start_ns".to_owned(), json!(level.client.start));
    let outcome = Outcome::new(level);
    all.insert("outcome".to_owned(), json!(outcome.name()));
    all.insert("valid".to_owned(), json!(outcome.is_valid()));
    if let Some(worst) = &level.disturbances.worst {
        all.insert("disturbances".to_owned(), disturbances(&level.disturbances, worst));
    }
    if let Some(check) = level.limit {
        let limit_ns = u64::try_from(check.limit.as_nanos()).unwrap_or(u64::MAX);
        all.insert("latency_threshold_ns".to_owned(), json!(limit_ns));
        all.insert("over_threshold".to_owned(), json!(check.over));
        all.insert("threshold_certain".to_owned(), json!(check.certain));
    }
    all.insert("reasons".to_owned(), json!(reasons));
    // Neither a rate nor a time is below 0, however uncertain it is.
    let ends = |interval: &Interval| json!([interval.low.max(0.0), interval.high]);
    let interval = |estimate: &StatisticEstimate| {
        (estimate.statistic.name(), estimate.interval.as_ref().map_or(Value::Null, ends))
    };
    all.insert("confidence_95".to_owned(), Value::Object(level.intervals.iter().map(interval).collect()));
    if let Some(restarts) = &level.restarts {
        let figure = |figure: &AcrossStarts| {
            let (name, interval) = (figure.statistic.name(), figure.interval.as_ref().map(ends));
            let figures = json!({
                "values": figure.values, "mean": figure.mean, "interval_95": interval, "share_between": figure.share,
            });
            (name, figures)
        };
        let mut all_starts: Map<String, Value> = restarts.shown().iter().map(figure).collect();
        all_starts.insert("starts".to_owned(), json!(restarts.starts));
        all.insert("restarts".to_owned(), Value::Object(all_starts));
    }
    if !level.client.entries.is_empty() {
        let entry = |(entry, part): (&EntrySummary, &ClientSummary)| {
            let mut figures = client(part, headline);
            figures.insert("name".to_owned(), json!(entry.name));
            figures.insert("share".to_owned(), json!(entry.share));
            Value::Object(figures)
        };
        let entries = entries.iter().zip(&level.client.entries).map(entry).collect();
        all.insert("models".to_owned(), Value::Array(entries));
    }
    Value::Object(all)
}

/// Number of disturbed windows, and the largest share of each cause, 0 to 1.
fn disturbances(windows: &Disturbances, worst: &Disturbance) -> Value {
    let counts = [("windows", windows.windows), ("disturbed", windows.disturbed), ("replaced", windows.replaced)];
    let counts = counts.into_iter().map(|(name, count)| (name.to_owned(), json!(count)));
    let shares = worst.causes().map(|(cause, share)| (cause.name().to_owned(), json!(share)));
    Value::Object(counts.chain(shares).collect())
}

/// The figures of a periodic load: how many requests succeeded and failed, and those of every batch.
pub fn periodic(batches: &[PeriodicBatch], requests: &LoadReport) -> Value {
    let batch = |batch: &PeriodicBatch| {
        let gaps = distribution(&batch.gap, batch.gap_max_ns);
        json!({
            "concurrency": batch.concurrency,
            "requests": batch.requests,
            "responses": batch.responses,
            "time_to_first_response_ns": times(&batch.first_response),
            "time_between_responses_ns": gaps,
        })
    };
    let stages: Vec<Value> = batches.iter().map(batch).collect();
    json!({ "requests": requests.completed, "failed": requests.failed, "stages": stages })
}

fn client(client: &ClientSummary, headline: Headline) -> Map<String, Value> {
    let mut all = Map::new();
    let mut put = |name: &str, value: Value| {
        all.insert(name.to_owned(), value);
    };
    put("latency", json!(headline.name()));
    put("latency_ns", times(&client.latency));
    put("duration_ns", json!(u64::try_from(client.duration.as_nanos()).unwrap_or(u64::MAX)));
    put("requests", json!(client.requests));
    put("failed", json!(client.failed));
    put("cancelled", json!(client.cancelled));
    put("throughput", json!(client.throughput()));
    put("client_overhead_share", json!(client.overhead_share));
    if let Some(wakeup) = &client.wakeup {
        put("wakeup_ns", times(wakeup));
    }
    if let Some(open) = &client.open_loop {
        put("requested_rate", json!(open.requested_rate));
        put("achieved_rate", json!(open.achieved_rate));
        put("sent", json!(client.sent));
        put("later_than_1ms_share", json!(client.delayed_share()));
        put("response_time_ns", times(&open.response_time));
        put("service_time_ns", times(&open.service_time));
        put("schedule_delay_ns", times(&open.schedule_delay));
    }
    if let Some(decoupled) = &client.decoupled {
        put("response_throughput", json!(client.response_throughput()));
        put("time_to_first_response_ns", times(&decoupled.first_response));
        put("time_between_responses_ns", times(&decoupled.gap));
        put("time_to_last_response_ns", times(&decoupled.last_response));
    }
    all.extend(generation::figures(client, times));
    all.extend(sessions::figures(client, times).map(|figures| ("sessions".to_owned(), figures)));
    all.extend(sequences::figures(client, times).map(|figures| ("sequences".to_owned(), figures)));
    all
}

fn times(times: &Distribution) -> Value {
    distribution(times, times.percentile_ns(100.0))
}

/// `null` if there is no value.
fn distribution(times: &Distribution, max_ns: u64) -> Value {
    if times.count() == 0 {
        return Value::Null;
    }
    let mut all = Map::new();
    all.insert("count".to_owned(), json!(times.count()));
    all.insert("avg".to_owned(), json!(times.mean_ns() as u64));
    for percentile in ALL_PERCENTILES {
        all.insert(format!("p{percentile}"), json!(times.percentile_ns(percentile).min(max_ns)));
    }
    all.insert("max".to_owned(), json!(max_ns));
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::setup::sample as plans;
    use crate::result::summary::{DecoupledSummary, LevelLoad, OpenLoopSummary, Restarts, sample};
    use crate::terms::Statistic;

    #[test]
    fn an_open_loop_has_its_three_times_and_its_rates() {
        let mut open = sample::level(LevelLoad::RequestRate(100.0), 100, 2_000_000);
        open.client.delayed = 25;
        open.client.open_loop = Some(OpenLoopSummary {
            response_time: sample::distribution(100, 2_000_000),
            service_time: sample::distribution(100, 1_000_000),
            schedule_delay: Distribution::empty(),
            requested_rate: 100.0,
            achieved_rate: 99.0,
            completed_rate: 99.0,
        });
        open.verdict = Verdict::Invalid(vec![InvalidReason::IssuersLate(0.25)]);
        let value = level(&open, &Setup { headline: Headline::ResponseTime, ..plans::setup() });
        assert_eq!((&value["latency"], &value["valid"]), (&json!("response_time"), &json!(false)));
        assert_eq!((&value["reasons"], &value["later_than_1ms_share"]), (&json!(["issuers_late"]), &json!(0.25)));
        assert_eq!((&value["requested_rate"], &value["achieved_rate"]), (&json!(100.0), &json!(99.0)));
        let service = value["service_time_ns"].as_object().unwrap();
        let names: Vec<&str> = service.keys().map(String::as_str).collect();
        assert_eq!(names, ["avg", "count", "max", "p50", "p90", "p95", "p99", "p99.9"]);
        assert!((service["p99.9"].as_f64().unwrap() / 1e6 - 1.0).abs() < 0.001);
        assert_eq!(value["schedule_delay_ns"], Value::Null);
        assert_eq!(value.get("time_to_first_response_ns"), None);
    }

    #[test]
    fn what_is_not_known_is_null() {
        let mut summary = sample::level(LevelLoad::Concurrency(1), 100, 1_000);
        let interval = Interval { low: -5.0, high: 10.0 };
        summary.intervals = vec![
            StatisticEstimate::new(Statistic::Throughput, Some(interval)),
            StatisticEstimate::new(Statistic::Percentile(99.0), None),
        ];
        let value = level(&summary, &plans::setup());
        assert_eq!(value["confidence_95"], json!({ "throughput": [0.0, 10.0], "p99": null }));
        assert_eq!(value.get("restarts"), None);
        let throughput = AcrossStarts {
            statistic: Statistic::Throughput,
            values: vec![4.0, 6.0],
            mean: 5.0,
            interval: Some(interval),
            share: None,
        };
        summary.restarts = Some(Restarts { starts: 2, figures: vec![throughput] });
        let figures = json!({ "values": [4.0, 6.0], "mean": 5.0, "interval_95": [0.0, 10.0], "share_between": null });
        assert_eq!(level(&summary, &plans::setup())["restarts"], json!({ "starts": 2, "throughput": figures }));
    }

    #[test]
    fn mixes_and_decoupled_models_have_their_own() {
        let mut mixed = sample::level(LevelLoad::Concurrency(2), 100, 1_000);
        mixed.client.entries = vec![sample::client(30, 1_000), sample::client(70, 1_000)];
        let times = || sample::distribution(100, 1_000);
        mixed.client.decoupled =
            Some(DecoupledSummary { first_response: times(), gap: times(), last_response: times() });
        let entry = |name: &str, share| EntrySummary { name: name.to_owned(), share };
        let value = level(
            &mixed,
            &Setup {
                headline: Headline::FirstResponse,
                entries: vec![entry("a", 0.3), entry("b", 0.7)],
                ..plans::setup()
            },
        );
        assert_eq!((&value["models"][1]["name"], &value["models"][1]["requests"]), (&json!("b"), &json!(70)));
        assert_eq!(value["time_between_responses_ns"]["count"], json!(100));
        assert_eq!((value.get("requested_rate"), &value["valid"]), (None, &json!(true)));
    }
}
