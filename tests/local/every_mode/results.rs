//! What becomes of figures: files, pictures, comparisons, gates.

use std::fs;
use std::time::Duration;

use super::kinds::Pace;
use super::{each, each_form, in_folder, result_of, run};

const TWO_MS: Pace = |_| Duration::from_millis(2);

#[test]
fn reports_are_written_in_every_form() {
    each(TWO_MS, |service| {
        run(
            service,
            "--concurrency-range 2 --request-count 40 -f FOLDER/levels.csv --report FOLDER/report.html \
             --markdown FOLDER/levels.md --svg spectrum:FOLDER/spectrum.svg --report-dir FOLDER/reports",
        );
        let text = |name: &str| fs::read_to_string(service.file(name)).unwrap();
        assert_eq!(text("levels.csv").lines().count(), 2);
        let csv = text("levels.csv");
        assert!(csv.contains(",Client Send,Client Recv,p50 latency,") && !csv.contains("Server"), "{csv}");
        assert!(text("report.html").contains("</html>") && text("spectrum.svg").contains("</svg>"));
        assert!(text("levels.md").contains("| "));
        let parts: Vec<_> = fs::read_dir(service.file("reports")).unwrap().collect();
        assert!(parts.len() >= 2, "{parts:?}");
    });
}

#[test]
fn timed_variants_are_measured_in_turns_and_compared() {
    each_form(TWO_MS, |service| {
        let flags = "-m m -p 30 --rounds 6 --order random --summary-file FOLDER/result.json --variant";
        let program = service.program_at(&service.url(), &in_folder(service, flags)).arg("one:--concurrency-range 1");
        let finished = program.args("--variant").arg("three:--concurrency-range 3").run();
        assert_eq!(finished.code(), 0, "{finished:#?}");
        let result = result_of(service, "result.json");
        let cell = &result["variants"]["cells"][0];
        assert_eq!(cell["rounds"].as_array().unwrap().len(), 6, "{cell}");
        let figures = cell["comparisons"][0]["figures"].as_array().unwrap();
        let throughput = figures.iter().find(|figure| figure["of"] == "throughput").unwrap();
        assert!(throughput["ratio"].as_f64().unwrap() > 1.2, "{throughput}");
    });
}

#[test]
fn gates_hold_figures_against_bounds_and_baselines() {
    each_form(TWO_MS, |service| {
        // Windows of requests: of a machine that stands still, windows of time hold too few to tell how well p50 is known. And far
        // bounds: a baseline of three windows, of which one met a stall, knows its figures to a factor of ten.
        let load = "--concurrency-range 2 --measurement-mode count_windows --measurement-request-count 40 -s 1000000";
        run(service, load);
        fs::rename(service.file("result.json"), service.file("baseline.json")).unwrap();
        let against = format!("{load} --baseline FOLDER/baseline.json --junit FOLDER/gate.xml --require");
        run(service, &format!("{against} throughput>=-99% --require errors<10%@concurrency:2 --require p99>=1ms"));
        assert!(fs::read_to_string(service.file("gate.xml")).unwrap().contains("failures=\"0\""));
        let fails = service.program(&in_folder(service, &format!("{against} p50<-99%"))).run();
        assert_eq!(fails.code(), 6, "{fails:#?}");
    });
}

#[test]
fn a_run_goes_on_where_it_was_and_restarts_begin_anew() {
    each_form(TWO_MS, |service| {
        let load = "--concurrency-range 1:2 -p 60 -s 1000000";
        run(service, load);
        let before = service.count();
        let resumed = service.program(&in_folder(service, &format!("{load} --resume FOLDER/result.json"))).run();
        assert_eq!((resumed.code(), service.count()), (0, before), "{resumed:#?}");
        let outcome = run(service, "--concurrency-range 1 -p 60 -s 1000000 --restarts 2");
        assert!(!outcome.result["levels"][0]["restarts"].is_null(), "{:#?}", outcome.finished);
    });
}
