//! Pages as text; scripts/check-report looks at them in a browser.

use super::*;
use crate::backend::InferError;
use crate::clock::Stamp;
use crate::model::statistics::ModelStatistics;
use crate::result::reasons::{InvalidReason, Verdict};
use crate::result::setup::sample as plans;
use crate::result::summary::{
    EntrySummary, GpuMetrics, HostMetrics, LevelLoad, LevelSummary, MeanAndMax, ServerLoad, ServerSummary, sample,
};
use crate::result::timeline::{Slice, Timeline, WindowRow};
use crate::result::{ModelIdentity, Setup};
use crate::terms::OnDisturbance;

const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u{1b}[31m\u{202e}";

/// A level of this many windows, each of a second, whose latencies differ.
fn level(number: u32, windows: u32) -> LevelSummary {
    let mut level = sample::level(LevelLoad::Concurrency(number), 100_000, 1_000_000 * u64::from(number));
    for k in 0..5_000_u64 {
        let ns = 1_000_000 + (k * k * 7_919) % (40_000_000 * u64::from(number));
        level.client.latency.histogram.record(ns).unwrap();
        level.client.latency.sum_ns += u128::from(ns);
    }
    let start = |k: u32| Stamp(u64::from(number * windows + k) * 1_000_000_000);
    let row = |k: u32| WindowRow {
        start: start(k),
        duration: std::time::Duration::from_secs(1),
        windows: 1,
        counted: k + 3 >= windows,
        rate: f64::from(1_000 + (k * 7_919) % 501),
        sent: 1_000 + u64::from(k % 7),
        requests: 1_000 + u64::from(k % 7),
        failed: u64::from(k % 3),
        failed_for: vec![0, u64::from(k % 2)],
        avg_ns: 1_234_567.89 + f64::from(k),
        percentiles_ns: ["50", "90", "95", "99", "99.9"]
            .map(|name| (name.to_owned(), 1_234_567 + u64::from(k * 977)))
            .into(),
        max_ns: 9_876_543 + u64::from((k * 104_729) % 5_000_000),
        late_ns: Some(u64::from(k * 31)),
        disturbance: None,
    };
    let slice = |k: u64| Slice {
        duration_s: f64::from(windows) / 64.0,
        failed: k % 2,
        failed_for: vec![k % 2],
        max_ns: 20_000_000 + k * 1_009,
        late_ns: Some(k * 1_013),
        first: 160,
        counts: (0..40).map(|class| (class * 7 + k * 13) % 97).collect(),
    };
    level.windows = (0..windows).map(row).collect();
    let reasons = ["Unavailable", "Internal"].map(|word| InferError::new(word, HOSTILE)).into();
    level.timeline = Timeline { began: start(0), slices: (0..64).map(slice).collect(), reasons };
    level
}

fn text(results: &[(&str, &RunResult)]) -> String {
    let shown: Vec<Shown<'_>> = results.iter().map(|(name, result)| Shown::new(name, result)).collect();
    Page { results: &shown, main: 0 }.text()
}

#[test]
fn all_that_a_report_has_is_there_in_its_order() {
    let mut late = level(3, 5);
    late.verdict = Verdict::Invalid(vec![InvalidReason::IssuersLate(0.25)]);
    let result = plans::result(&plans::setup(), &[level(1, 5), level(2, 5), late]);
    let page = text(&[("r", &result)]);
    let sections = [
        "levels",
        "throughput",
        "spectrum",
        "timeline",
        "heatmap",
        "waterfall",
        "failures",
        "instrument",
        "disturbance",
        "environment",
    ];
    let places: Vec<_> = sections.iter().map(|id| page.find(&format!("<section id=\"{id}\"")).expect(id)).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(page.matches("<svg").count(), 5, "this server tells nothing of its parts");
    assert!(page.contains("25.0% of the requests left too late") && page.contains("To change: "), "the remedy");
    assert!(
        !page.contains("http:") || page.matches("http:").count() == page.matches("http://www.w3.org/2000/svg").count()
    );
    assert!(!page.contains("https:") && !page.contains("url(") && !page.contains("@import"), "nothing is asked for");
    assert_eq!(page.matches("<script").count(), 1);
    assert_eq!(page, text(&[("r", &result)]), "the same result makes the same bytes");
}

#[test]
fn names_of_others_are_text_and_nothing_else() {
    let mut setup = plans::setup();
    setup.models =
        vec![ModelIdentity { name: HOSTILE.to_owned(), platform: HOSTILE.to_owned(), ..ModelIdentity::default() }];
    setup.command_line = vec!["-m".to_owned(), HOSTILE.to_owned()];
    let mut summary = level(1, 5);
    summary.client.failed = 1;
    summary.client.errors = vec![(InferError { code: "Internal".into(), message: HOSTILE.into() }, 1)];
    let result = plans::result(&setup, &[summary]);
    let page = text(&[(HOSTILE, &result), ("b", &result)]);
    assert_eq!(page.matches("<script").count(), 2, "the data of both, and no other");
    assert!(!page.contains("<img") && !page.contains(['\u{1b}', '\u{202e}']));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.html");
    std::fs::write(&path, page).unwrap();
    let read = RunResult::read(&path).unwrap();
    assert_eq!(
        read.setup.models[0].name,
        crate::stdio::shown(HOSTILE),
        "as they were, with what acts on a terminal shown"
    );
}

#[test]
fn twenty_levels_of_a_thousand_windows_are_less_than_a_megabyte() {
    let levels: Vec<_> = (1..=20).map(|number| level(number, 1_000)).collect();
    let page = text(&[("r", &plans::result(&plans::setup(), &levels))]);
    assert!((100_000..1_000_000).contains(&page.len()), "{}", page.len());
    // Of each figure one line a level at most, and the others are listed in the table.
    assert!(page.contains("<tr><th>c 20</th>"));
}

#[test]
fn results_are_held_against_the_first() {
    let result = |ns| plans::result(&plans::setup(), &[sample::level(LevelLoad::Concurrency(1), 1_000, ns)]);
    let page = text(&[("old", &result(1_000_000)), ("new", &result(1_500_000))]);
    assert!(page.contains("<section id=\"comparison\"") && page.contains("new against old"));
    assert!(page.contains("+50.0 % undecided"), "nothing is known of how well the figures are known");
    assert!(page.contains("id=\"data\"") && page.contains("id=\"data-2\""));
}

#[test]
fn the_first_screen_tells_results_apart() {
    let result = |ns| plans::result(&plans::setup(), &[sample::level(LevelLoad::Concurrency(1), 1_000, ns)]);
    let [old, new, next] = [1_000_000, 1_500_000, 2_000_000].map(result);
    let page = text(&[("old", &old), ("new", &new), ("next", &next)]);
    let top = page.split("<nav>").next().unwrap();
    for part in [
        "letter\">A</span> old",
        "letter\">B</span> new",
        "letter\">C</span> next",
        "Each is compared with A",
        "<dt>C next: mean latency",
    ] {
        assert!(top.contains(part), "{part}: {top}");
    }
    assert!(top.matches("<dt>").count() <= 6, "{top}");
    let other = plans::result(&plans::setup(), &[sample::level(LevelLoad::Concurrency(2), 1_000, 1_000_000)]);
    let page = text(&[("old", &old), ("other", &other)]);
    assert!(page.contains("no level in common") && !page.contains("other against old"), "no table without rows");
    assert!(!page.contains("is compared with A"));
    let page = text(&[("old", &old), ("new", &new), ("other", &other)]);
    assert!(
        page.contains("<b>other</b> has no level in common with old: it is not compared."),
        "not left out silently"
    );
    assert!(
        page.contains("Those that have a level in common with A are compared") && !page.contains("Each is compared")
    );
}

#[test]
fn how_far_a_comparison_reaches_is_said_as_elsewhere() {
    let result = || plans::result(&plans::setup(), &[sample::level(LevelLoad::Concurrency(1), 1_000, 1_000_000)]);
    let page = text(&[("old", &result()), ("new", &result())]);
    assert!(page.contains("Within these two runs only: the same server") && page.matches("started again").count() == 1);
}

#[test]
fn what_is_well_is_said_once() {
    let page = text(&[("r", &plans::result(&plans::setup(), &[level(1, 5)]))]);
    assert!(page.contains("all can be believed") && !page.contains("Verdicts"), "the tile says it");
    let mut broken_off = level(1, 5);
    broken_off.verdict = Verdict::Invalid(vec![InvalidReason::Interrupted]);
    let page = text(&[("r", &plans::result(&plans::setup(), &[broken_off]))]);
    assert!(page.contains("Verdicts") && page.contains("To change: "));
    assert!(!page.contains("<div>interrupted. ") && !page.contains("<div>Interrupted. "), "the badge says it");
}

#[test]
fn variants_have_the_names_and_units_of_other_tables() {
    let mut result = plans::result(&plans::setup(), &[]);
    let mut variants = crate::variants::sample::study(&[64]);
    result.variants = Some(variants.clone());
    assert!(text(&[("r", &result)]).contains("<a href=\"#variants\">Study</a>"), "as its heading");
    variants.matrix = None;
    variants.variants[0].flags = String::new();
    result.variants = Some(variants);
    let page = text(&[("r", &result)]);
    let body = page.split("<script").next().unwrap();
    assert!(body.contains("<th class=\"left\">mean latency</th>") && body.contains("as the run"), "{body}");
    assert!(body.contains(" infer/s</td>") && !body.contains("usec") && !body.contains("infer/sec"), "{body}");
    assert!(body.contains(">change from C API<") && body.contains("<a href=\"#variants\">Variants</a>"), "{body}");
    assert!(!body.contains("class=\"whose\""), "it is the only one");
    let both = text(&[("old", &result), ("new", &result)]);
    for name in ["</span> old</p><p class=\"note\">8 rounds", "</span> new</p><p class=\"note\">8 rounds"] {
        assert_eq!(both.matches(name).count(), 1, "{name}: {both}");
    }
}

#[test]
fn what_failed_of_variants_is_on_their_page_and_in_their_table() {
    let mut result = plans::result(&plans::setup(), &[]);
    let mut variants = crate::variants::sample::study(&[64]);
    for round in &mut variants.cells[0].rounds {
        round.units[1].as_mut().unwrap().failed = 50;
    }
    variants.cells[0].rounds[0].units[0].as_mut().unwrap().disturbed = true;
    let said = ["C API + shared memory: 400 requests failed", "1 of 8 rounds were disturbed by others, and count"];
    result.variants = Some(variants.clone());
    let page = text(&[("r", &result)]);
    assert!(said.iter().all(|words| page.contains(words)), "of a study: {page}");
    variants.matrix = None;
    result.variants = Some(variants);
    let page = text(&[("r", &result)]);
    assert!(said.iter().all(|words| page.contains(words)), "{page}");
    assert!(page.contains("<th class=\"left\">errors</th><td>0.00%</td><td>9.09%</td>"), "{page}");
    let table = crate::markdown::text(&[Shown::new("r", &result)], 0);
    assert!(table.contains("| errors | 9.09% | – |") && table.contains("| **worse** |"), "{table}");
    assert!(table.contains("c 1, 64 B: C API + shared memory: 400 requests failed."), "{table}");
}

#[test]
fn a_percentile_keeps_its_name_where_a_sentence_begins_with_it() {
    let few =
        LevelSummary { verdict: Verdict::Invalid(vec![InvalidReason::TooFewSamples(90.0, 40, 64)]), ..level(1, 5) };
    let page = text(&[("r", &plans::result(&plans::setup(), &[few]))]);
    assert!(page.contains("<div>p90 needs 64 samples"), "{page}");
}

#[test]
fn times_and_sizes_are_for_people() {
    let page = text(&[("r", &plans::result(&plans::setup(), &[level(1, 5)]))]);
    let began = page.split("<dt>began</dt><dd>").nth(1).unwrap().split('<').next().unwrap();
    assert!(began.ends_with(" UTC") && began.len() == 23, "{began}");
    let sizes = [49 << 20, 25_232_932_864, 900, 1_536].map(crate::memory);
    assert_eq!(sizes, ["49 MiB", "23.5 GiB", "900 B", "1.5 KiB"]);
}

#[test]
fn links_lead_to_every_section_that_is_there() {
    let levels = plans::result(&plans::setup(), &[level(1, 5)]);
    let mut study = plans::result(&plans::setup(), &[]);
    let mut variants = crate::variants::sample::study(&[1_024]);
    // More rounds were measured than asked for, because the first ones did not count.
    variants.rounds.count = 6;
    study.variants = Some(variants);
    for result in [&levels, &study] {
        let page = text(&[("r", result)]);
        let links: Vec<&str> = page.split("<a href=\"#").skip(1).map(|tail| tail.split('"').next().unwrap()).collect();
        assert!(links.len() > 1 && links.iter().all(|id| page.contains(&format!("<section id=\"{id}\""))), "{links:?}");
    }
    let page = text(&[("r", &study)]);
    assert!(page.contains(">8 rounds, each of which measured every way"), "those that were measured");
}

#[test]
fn a_run_without_a_level_has_a_page() {
    let page = text(&[("r", &plans::result(&plans::setup(), &[]))]);
    assert!(page.contains("Nothing to show") && page.ends_with("</html>\n"));
    let failed = LevelSummary { client: sample::client(0, 1), ..level(1, 5) };
    let page = text(&[("r", &plans::result(&plans::setup(), &[failed]))]);
    assert!(page.contains("<section id=\"levels\"") && !page.contains("contains no timeline"), "it is told why");
}

#[test]
fn failures_are_drawn_where_there_are_any() {
    let result = plans::result(&plans::setup(), &[level(1, 5), level(2, 30)]);
    let drawn = draw(Picture::Failures, &[Shown::new("r", &result)], 0).unwrap().into_string();
    assert!(
        drawn.contains("Unavailable") && drawn.contains("Internal") && drawn.contains("for other reasons"),
        "{drawn}"
    );
    assert!(!drawn.contains("<script") && !drawn.contains(['\u{1b}', '\u{202e}']));
    let mut quiet = level(1, 5);
    quiet.timeline.slices.iter_mut().for_each(|slice| (slice.failed, slice.failed_for) = (0, Vec::new()));
    quiet.windows.iter_mut().for_each(|row| (row.failed, row.failed_for) = (0, Vec::new()));
    let result = plans::result(&plans::setup(), &[quiet]);
    assert!(draw(Picture::Failures, &[Shown::new("r", &result)], 0).is_none());
}

#[test]
fn a_picture_alone_is_xml() {
    let folder = tempfile::tempdir().unwrap();
    let result = plans::result(&plans::setup(), &[level(1, 5), level(2, 5)]);
    let shown = [Shown::new("r", &result), Shown::new(HOSTILE, &result)];
    let page = Page { results: &shown, main: 0 };
    let quiet = base::interrupt::counter();
    // Of these the levels have nothing.
    let absent = [
        Picture::Waterfall,
        Picture::Tokens,
        Picture::Interactivity,
        Picture::Sizes,
        Picture::Bandwidth,
        Picture::Rounds,
    ];
    for picture in Picture::ALL.into_iter().filter(|picture| !absent.contains(picture)) {
        let path = folder.path().join(picture.name());
        write_figure(&PictureFile { figure: picture, path: path.clone() }, quiet, &page).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut reader = quick_xml::Reader::from_str(&text);
        loop {
            match reader.read_event() {
                Ok(quick_xml::events::Event::Eof) => break,
                Ok(quick_xml::events::Event::Start(tag)) => {
                    assert!(tag.attributes().all(|attribute| attribute.is_ok()), "{picture:?}: {tag:?}");
                }
                Ok(_) => {}
                Err(error) => panic!("{picture:?}: {error}: {text}"),
            }
        }
    }
    for figure in absent {
        let file = PictureFile { figure, path: folder.path().join("w") };
        let error = write_figure(&file, quiet, &page).unwrap_err().to_string();
        let flag = format!("--svg {}:", figure.name());
        assert!(error.starts_with(&flag) && error.contains("nothing to show"), "{error}");
    }
}

#[test]
fn levels_of_one_load_are_told_apart() {
    let mut levels = [1, 2, 1].map(|number| level(number, 5));
    levels[2].verdict = Verdict::Invalid(vec![InvalidReason::IssuersLate(0.5)]);
    let page = text(&[("r", &plans::result(&plans::setup(), &levels))]);
    for name in ["<th>c 1, no. 1</th>", "<th>c 2</th>", "<th>c 1, no. 2</th>", "<li><b>c 1, no. 2</b> "] {
        assert!(page.contains(name), "{name}");
    }
}

#[test]
fn a_server_without_an_answer_has_no_latency_of_zero() {
    let mut setup = plans::setup();
    setup.servers = vec!["up:8000".to_owned(), "down:8000".to_owned()];
    let mut summary = level(1, 5);
    summary.client.servers = vec![sample::client(89, 1_000_000), sample::client(0, 1)];
    let page = text(&[("r", &plans::result(&setup, &[summary]))]);
    let row = page.split("down:8000</td>").nth(1).unwrap().split("</tr>").next().unwrap();
    assert!(row.contains("<td>–</td>") && !row.contains("ns</td>"), "{row}");
}

#[test]
fn what_a_server_tells_of_itself_and_of_its_gpus_is_on_the_page() {
    let mut summary = level(1, 5);
    let load = ServerLoad { waiting: Some(MeanAndMax { mean: 0.5, max: 1.0 }), ..ServerLoad::default() };
    summary.host = Some(HostMetrics {
        pending_requests: Some(1.5),
        pending_requests_max: Some(3.0),
        load: Some(load),
        ..HostMetrics::default()
    });
    let gpu = GpuMetrics {
        uuid: "GPU-1".to_owned(),
        utilization: Some(0.73),
        power_watts: Some(312.5),
        memory_used_bytes: Some(3 << 29),
        ..GpuMetrics::default()
    };
    summary.gpus = Some(vec![gpu]);
    let page = text(&[("r", &plans::result(&plans::setup(), &[summary.clone()]))]);
    assert!(page.contains("<li>c 1: pending requests avg 1.5 (max 3), waiting avg 0.5 (max 1)</li>"), "{page}");
    let row = "<td class=\"left\">GPU-1</td><td>73 %</td><td>312 W</td><td>1.5 GiB</td><td>–</td>";
    assert!(page.contains(row), "{page}");
    summary.host = Some(HostMetrics::default());
    summary.gpus = Some(Vec::new());
    let page = text(&[("r", &plans::result(&plans::setup(), &[summary]))]);
    assert!(!page.contains("by its own figures") && !page.contains("<h3>GPUs<"), "there is nothing to show");
}

#[test]
fn a_run_in_which_nothing_succeeded_has_no_empty_plot_of_latencies() {
    let mut failed = LevelSummary { client: sample::client(0, 1), ..level(1, 5) };
    for row in &mut failed.windows {
        (row.requests, row.rate, row.max_ns) = (0, 0.0, 0);
        row.percentiles_ns.clear();
    }
    for slice in &mut failed.timeline.slices {
        (slice.max_ns, slice.counts) = (0, Vec::new());
    }
    let timeline = |level: LevelSummary| {
        let result = plans::result(&plans::setup(), &[level]);
        draw(Picture::Timeline, &[Shown::new("r", &result)], 0).unwrap().into_string()
    };
    let drawn = timeline(failed);
    assert!(drawn.contains(">failures/s<") && !drawn.contains(">latency<") && !drawn.contains(">p99<"), "{drawn}");
    assert!(timeline(level(1, 5)).contains(">latency<"));
}

#[test]
fn why_nothing_tells_where_the_time_goes_is_said_as_it_is() {
    let entry = |name: &str| EntrySummary { name: name.to_owned(), share: 0.5 };
    let mix = Setup { entries: vec![entry("a"), entry("b")], ..plans::setup() };
    let (name, version, delta) = ("m".to_owned(), "1".to_owned(), ModelStatistics::default());
    let server = ServerSummary { name, version, delta, cached: false, several_versions: false, composing: Vec::new() };
    for (setup, server, words) in [
        (mix.clone(), Some(server.clone()), "Requests go to several models"),
        (Setup { decoupled: true, ..plans::setup() }, Some(server), "Of a decoupled model"),
        (mix, None, "This server does not report"),
    ] {
        let level = LevelSummary { server, ..level(1, 5) };
        let page = text(&[("r", &plans::result(&setup, &[level]))]);
        assert!(page.contains(&format!("<p class=\"none\">{words}")), "{words}");
    }
}

#[test]
fn what_was_not_looked_at_is_not_said_to_be_absent() {
    let mut setup = plans::setup();
    let mut summary = level(1, 5);
    summary.client.overhead_share = 6e-7;
    let page = |setup: &Setup| text(&[("r", &plans::result(setup, std::slice::from_ref(&summary)))]);
    assert!(page(&setup).contains("No other process used much of the machine"));
    assert!(page(&setup).contains("<td>below 0.01 %</td>"), "and no power of ten");
    setup.measurement.on_disturbance = Some(OnDisturbance::Ignore);
    let ignored = page(&setup);
    assert!(ignored.contains("was not looked at (<code>--on-disturbance ignore</code>)"), "{ignored}");
    assert!(!ignored.contains("No other process"), "{ignored}");
}

#[test]
fn many_verdicts_do_not_stand_before_the_pictures() {
    let invalid = |number: u32| {
        let verdict = Verdict::Invalid(vec![InvalidReason::IssuersLate(f64::from(number) / 100.0)]);
        LevelSummary { verdict, ..level(number, 5) }
    };
    let page = |count: u32| {
        let levels: Vec<LevelSummary> = (1..=count).map(invalid).collect();
        text(&[("r", &plans::result(&plans::setup(), &levels))])
    };
    assert!(!page(8).contains("Further levels"));
    let many = page(20);
    let (open, closed) = many.split_once("<summary>Further levels that are not valid: 12</summary>").unwrap();
    assert!(
        open.contains("<li><b>c 8</b> ") && !open.contains("<li><b>c 9</b> ") && closed.contains("<li><b>c 20</b> ")
    );
}
