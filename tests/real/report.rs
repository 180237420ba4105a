//! Reports from outside: which runs write them, what they contain, and that nothing in them is active.
//! scripts/check-report views them in a browser.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use serde_json::Value;

use crate::support::Program;
use crate::support::http_server::{Act, HttpServer, Received, good_answer};
use crate::support::repository::{Model, Repository};

fn good(_: &Received) -> Vec<Act> {
    vec![Act::Send(good_answer())]
}

/// Levels of three short windows.
fn levels(server: &HttpServer) -> Program {
    Program::new().args("-m m -p 100 -s 1000000 --on-disturbance mark -u").arg(server.url())
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).expect("the result is whole")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What a result file holds compressed: JSON by zlib, in base64.
fn unpacked(packed: &str) -> Value {
    let bytes = base64::engine::general_purpose::STANDARD.decode(packed).unwrap();
    serde_json::from_reader(flate2::read::ZlibDecoder::new(bytes.as_slice())).unwrap()
}

#[test]
fn real_triton_tells_all_that_a_report_shows() {
    let repository = Repository::of(&[Model::sleeping("m", 1)]);
    let (result, page) = (repository.file("r.json"), repository.file("r.html"));
    let run = Program::on(&repository, "m")
        .args("-p 300 --max-trials 3 --concurrency-range 1:2 --percentiles 50,90,99,99.9,99.99");
    let run = run.arg("--summary-file").arg(&result).arg("--report").arg(&page).run();
    assert!(run.stdout.contains("    p99.99 latency: "), "{}{}", run.stdout, run.stderr);
    let value = json(&result);
    assert_eq!(value["server"]["name"], "triton");
    assert!(value["server"]["version"].as_str().is_some_and(|version| version.starts_with('2')), "{}", value["server"]);
    let model = &value["models"][0];
    assert_eq!((model["config_hash"].as_str().map(str::len), &model["backend"]), (Some(64), &"bench".into()));
    for level in value["levels"].as_array().unwrap() {
        let windows = level["windows"].as_array().unwrap();
        let counted: u64 =
            windows.iter().filter(|row| row["counted"] == true).map(|row| row["requests"].as_u64().unwrap()).sum();
        assert_eq!(counted, level["client"]["requests"], "the windows that count make the result");
        assert!(
            windows.iter().all(|row| row["percentiles_ns"]["99.99"].as_u64() >= row["percentiles_ns"]["50"].as_u64())
        );
        let slices = unpacked(level["timeline"]["slices"].as_str().unwrap());
        let sliced = slices
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|slice| slice["counts"].as_array().unwrap())
            .map(|count| count.as_u64().unwrap());
        let all = windows.iter().map(|row| row["requests"].as_u64().unwrap()).sum::<u64>();
        assert_eq!(sliced.sum::<u64>(), all, "slices have every request of every window");
        assert!(level["timeline"]["began_ns"].as_u64() <= windows[0]["start_ns"].as_u64());
        assert!(level["client_usage"]["processors"].as_f64() > Some(0.0), "{}", level["client_usage"]);
        assert!(level["figures"]["p99.99"].as_f64() >= level["figures"]["p99"].as_f64());
    }
    let page = text(&page);
    assert_eq!(page.matches("<svg").count(), 5, "throughput, spectrum, timeline, heat map, waterfall");
    assert!(page.contains("compute infer") && page.contains("the client's own work".split(' ').next_back().unwrap()));
}

#[test]
fn rates_and_stages_have_lateness_and_edges() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let stages = "--stage rate:200:300ms --stage concurrency:2:300ms --warmup-duration 100ms";
    levels(&server)
        .args(stages)
        .arg("--summary-file")
        .arg(file("s.json"))
        .arg("--svg")
        .arg(format!("timeline:{}", file("t.svg").display()))
        .run();
    let value = json(&file("s.json"));
    let levels = value["levels"].as_array().unwrap();
    assert_eq!(levels.iter().map(|level| level["windows"].as_array().unwrap().len()).collect::<Vec<_>>(), [1, 1]);
    assert!(levels[0]["windows"][0]["late_ns"].is_u64() && levels[1]["windows"][0]["late_ns"].is_null());
    let began = levels[0]["timeline"]["began_ns"].as_u64().unwrap();
    let first = levels[0]["windows"][0]["start_ns"].as_u64().unwrap();
    assert!(first - began >= 100_000_000, "the warm-up lies before the first window: {}", first - began);
    let picture = text(&file("t.svg"));
    assert!(
        picture.starts_with("<?xml")
            && picture.contains("sent late by")
            && picture.matches("class=\"edge\"").count() >= 2
    );
}

#[test]
fn results_become_pages_pictures_and_tables() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    for name in ["old", "new"] {
        levels(&server).args("--concurrency-range 1:2 --summary-file").arg(file(&format!("{name}.json"))).run();
    }
    let report = || Program::new().args("report").arg(file("old.json")).arg(file("new.json"));
    let comparison = format!("comparison:{}", file("c.svg").display());
    let run =
        report().arg("-o").arg(file("r.html")).arg("--svg").arg(comparison).arg("--markdown").arg(file("r.md")).run();
    assert_eq!(run.code(), 0, "{}", run.stderr);
    let page = text(&file("r.html"));
    assert!(page.contains("new against old") && page.contains("id=\"data-2\"") && !page.contains("src="), "{page}");
    assert!(text(&file("c.svg")).contains("counts as no change"));
    assert!(text(&file("r.md")).contains("### new against old\n\n| load | figure |"));
    // A report is a result, too.
    let again = Program::new().args("compare").arg(file("r.html")).arg(file("new.json")).run();
    assert!(again.code() == 0 && again.stdout.starts_with("concurrency 1:\n"), "{}{}", again.stdout, again.stderr);
    report().run().refusal(&["nothing to write", "-o FILE.html"]);
    report().args("-o /nonexistent/r.html").run().refusal(&["-o /nonexistent/r.html"]);
    report().args("-o /dev/full").run().failure(&["-o /dev/full: cannot be written"]);
    Program::new().args("report -o").arg(file("x.html")).arg(file("r.md")).run().refusal(&["r.md", "no result"]);
    assert!(!file("x.html").exists());
    let same = levels(&server).arg("--report").arg(file("x")).arg("--markdown").arg(file("x")).run();
    same.refusal(&["--markdown", "is also the file of --report"]);
}

#[test]
fn a_report_that_cannot_be_written_ends_no_measurement() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.html");
    let running = levels(&server).args("--concurrency-range 1:12 --report").arg(&path).start();
    running.wait_for("Request concurrency: 2");
    assert!(text(&path).contains("<svg"), "it is there after the first level");
    folder.close().unwrap();
    let finished = running.finish();
    assert_eq!(finished.code(), 99, "{}", finished.stderr);
    assert!(finished.stdout.contains("\nConcurrency: 12, throughput: "), "{}", finished.stdout);
    assert!(finished.stderr.lines().last().unwrap().starts_with("error: --report "), "{}", finished.stderr);
}

#[test]
fn hostile_names_do_nothing_anywhere() {
    const NAME: &str = "=cmd<script>alert(1)\"'\u{1b}[31m\u{202e}";
    let repository = Repository::of(&[Model::identity(NAME)]);
    let file = |name: &str| repository.file(name);
    let run = Program::on(&repository, NAME).args("--request-count 40");
    let run = run.arg("--summary-file").arg(file("r.json")).arg("--report").arg(file("r.html"));
    let run = run.arg("--markdown").arg(file("r.md")).arg("-f").arg(file("r.csv")).run();
    assert!(file("r.html").exists(), "{}{}", run.stdout, run.stderr);
    for name in ["r.json", "r.html", "r.md"] {
        let text = text(&file(name));
        // A command in Markdown is a block of code, where nothing is markup.
        let is_code = |line: &&str| name == "r.md" && line.starts_with("    ");
        let markup: String = text.lines().filter(|line| !is_code(line)).collect();
        assert!(!text.contains(['\u{1b}', '\u{202e}']) && !markup.contains("<script>alert"), "{name}: {text}");
    }
    assert!(!run.stdout.contains(['\u{1b}', '\u{202e}']) && !run.stderr.contains(['\u{1b}', '\u{202e}']));
    assert_eq!(json(&file("r.json"))["models"][0]["name"], NAME);
    assert_eq!(text(&file("r.html")).matches("<script").count(), 1);
    assert!(!text(&file("r.csv")).lines().any(|line| line.starts_with('=') || line.contains(",=")));
}

#[test]
fn a_rate_is_the_same_one_when_it_is_read_again() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    let range = || levels(&server).args("--request-rate-range 100.1:101.3:0.3");
    range().arg("--summary-file").arg(&path).run();
    let again = range().arg("--resume").arg(&path).run();
    assert_eq!(again.stderr.matches("measured before (--resume)").count(), 5, "{}", again.stderr);
}

#[test]
fn an_interrupt_loses_no_level_that_an_earlier_run_has_measured() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    let range = || levels(&server).args("--concurrency-range 1:3");
    range().arg("--summary-file").arg(&path).run();
    let mut cut = json(&path);
    cut["levels"].as_array_mut().unwrap().remove(1);
    fs::write(&path, cut.to_string()).unwrap();
    let running = range().arg("--resume").arg(&path).start();
    running.wait_for("Request concurrency: 2");
    running.signal(2);
    running.finish();
    let kept = json(&path);
    let loads: Vec<_> =
        kept["levels"].as_array().unwrap().iter().map(|level| level["load"]["value"].as_u64().unwrap()).collect();
    assert!(loads.contains(&1) && loads.contains(&3), "{loads:?}");
}

#[test]
fn a_run_goes_on_after_its_last_finished_level() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    let range = || levels(&server).args("--concurrency-range 1:4");
    range().arg("--summary-file").arg(&path).run();
    let whole = json(&path);
    let mut cut = whole.clone();
    cut["levels"].as_array_mut().unwrap().truncate(3);
    // The last one was broken off.
    cut["levels"][2]["ending"] = "interrupted".into();
    fs::write(&path, cut.to_string()).unwrap();
    let resumed = range().arg("--resume").arg(&path).arg("--report").arg(folder.path().join("r.html")).run();
    for (concurrency, before) in [(1, true), (2, true), (3, false), (4, false)] {
        let was_measured = resumed.stderr.contains(&format!("concurrency {concurrency}: measured before (--resume)"));
        assert_eq!(was_measured, before, "{concurrency}: {}", resumed.stderr);
        assert!(resumed.stdout.contains(&format!("\nConcurrency: {concurrency}, throughput: ")), "{}", resumed.stdout);
    }
    let value = json(&path);
    let loads: Vec<_> =
        value["levels"].as_array().unwrap().iter().map(|level| level["load"]["value"].as_u64().unwrap()).collect();
    assert_eq!(loads, [1, 2, 3, 4]);
    assert_eq!(value["levels"][0]["client"]["latency"], whole["levels"][0]["client"]["latency"]);
    // What is made of the result, or shown, is no part of the plan.
    let shown = range().args("-v --markdown").arg(folder.path().join("t.md")).arg("--resume").arg(&path).run();
    assert_eq!(shown.stderr.matches("measured before (--resume)").count(), 4, "{}", shown.stderr);
    let other = levels(&server).args("--concurrency-range 1:5 --resume").arg(&path).run();
    other.refusal(&["--resume", "another plan", "--concurrency-range was '1:4' and is '1:5'"]);
    let other = range().args("--resume /nonexistent/r.json").run();
    other.refusal(&["/nonexistent/r.json"]);
    let sweep = levels(&server).args("--sweep linear:3 --resume").arg(&path).run();
    sweep.refusal(&["--resume", "another plan", "--sweep was absent and is 'linear:3'"]);
}
