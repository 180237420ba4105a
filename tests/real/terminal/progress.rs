//! The progress line.

use std::time::Duration;

use crate::support::{Model, Program, Repository, Terminal};

/// A line of progress, as the terminal shows it.
fn progress(screen: &str, prefix: &str) -> Option<String> {
    screen.lines().find(|line| line.starts_with(prefix) && line.contains(':')).map(str::to_owned)
}

#[test]
fn a_line_tells_where_the_run_stands() {
    let repository = Repository::of(&[Model::sleeping("m", 2)]);
    let levels = "--concurrency-range 1:2 -p 1000 -r 3 -s 1000000";
    let terminal = Program::on(&repository, "m").args(levels).on_terminal(24, 80);
    let early = terminal.wait_until("the first level", |screen| {
        progress(screen, "level 1/2, concurrency 1, window 1/3, ").is_some_and(|line| line.contains("/s, "))
    });
    let line = progress(&early, "level 1/2").unwrap();
    for word in [" req, ", "/s, ", " ms, 0:0", " left"] {
        assert!(line.contains(word), "{line}");
    }
    assert!(!line.contains("error"), "{line}");
    let late = terminal.wait_until("the second level", |screen| progress(screen, "level 2/2").is_some());
    assert!(progress(&late, "level 1/2").is_none(), "one line is drawn over and over:\n{late}");
    assert!(terminal.bytes().contains("Request concurrency: 1\r\n"), "{late}");
    let moments = terminal.moments();
    let bytes = terminal.bytes();
    let (status, all) = terminal.finish();
    assert!(status.success(), "{all}");
    assert!(!all.contains(" left") && !all.contains("level 1/2"), "the line is gone:\n{all}");
    // What is printed begins at the left, where the line was before.
    for line in
        ["Request concurrency: 1", "Request concurrency: 2", "Inferences/Second vs. Client Average Batch Latency"]
    {
        assert_eq!(all.lines().filter(|shown| *shown == line).count(), 1, "{line}:\n{all}");
    }
    // A draw is one write.
    let drawn = |from: usize, to: usize| bytes.get(from..to).unwrap_or_default().matches(" left").count();
    let mut last = 0;
    let mut draws = Vec::new();
    for (at, length) in moments {
        draws.extend(std::iter::repeat_n(at, drawn(last, length)));
        last = length;
    }
    assert!(draws.len() > 10, "{}", draws.len());
    // A busy machine delivers late what was drawn in time, so only the whole says how often.
    let wall = *draws.last().unwrap() - draws[0] + Duration::from_secs(1);
    assert!(draws.len() as f64 <= 6.0 * wall.as_secs_f64(), "{} in {wall:?}", draws.len());
}

#[test]
fn what_is_said_does_not_run_into_the_line() {
    let repository = Repository::of(&[Model::sleeping("m", 2)]);
    let stages = "--stage concurrency:1:300ms --stage rate:50:60s --stage concurrency:2:100ms";
    let mut terminal = Program::on(&repository, "m").args(stages).on_terminal(40, 100);
    let screen =
        terminal.wait_until("the second stage", |screen| progress(screen, "stage 2/3, request rate 50").is_some());
    assert!(progress(&screen, "stage 2/3").unwrap().contains("left"), "{screen}");
    terminal.wait_for("Request concurrency: 1\n");
    // Ctrl-C.
    terminal.press("\x03");
    let (status, all) = terminal.finish();
    // 4: requests left late, as they do on a busy machine.
    assert!(matches!(status.code(), Some(0 | 4)), "{all}");
    let message = "triton-bench: interrupted; reporting the results so far (interrupt again to exit at once)";
    assert!(all.lines().any(|line| line == message || line == format!("^C{message}")), "{all}");
    assert!(all.lines().any(|line| line == "Request Rate: 50 inference requests per second"), "{all}");
    assert!(!all.contains("stage 2/3"), "{all}");
}

#[test]
fn perf_analyzers_callers_see_no_line() {
    let repository = Repository::of(&[Model::sleeping("m", 2)]);
    let program = Program::on(&repository, "m").args("-p 1000 -r 3 -s 1000000").named_perf_analyzer();
    let terminal = Terminal::start(program.command(), 24, 80);
    terminal.wait_for("Request concurrency: 1");
    let bytes = terminal.bytes();
    let (status, all) = terminal.finish();
    assert!(status.success() && !bytes.contains('\x1b') && !bytes.contains("left"), "{all}\n{bytes:?}");
}

/// Where nobody looks, a log tells of every level that ends, and every 30 s of the one that goes on.
#[test]
fn timed_a_long_run_without_a_terminal_has_a_log() {
    let repository = Repository::of(&[Model::sleeping("m", 2)]);
    let stages = "--stage concurrency:1:1s --stage concurrency:2:32s --stage concurrency:1:200ms";
    let finished = Program::on(&repository, "m").args(stages).run();
    finished.report_even_if_late();
    let lines: Vec<&str> = finished.stderr.lines().collect();
    let [first, every, second, third] = lines[..] else { panic!("{}", finished.stderr) };
    let starts = |line: &str, with: &str| assert!(line.starts_with(with), "{}", finished.stderr);
    starts(first, "triton-bench: stage 1/3, concurrency 1: ");
    starts(every, "triton-bench: stage 2/3, concurrency 2, ");
    // 30 s after the line of the first stage, which took 1 s.
    assert!(every.contains(", 0:31, 0:0") && every.ends_with(" left"), "{every}");
    starts(second, "triton-bench: stage 2/3, concurrency 2: ");
    assert!(
        second.contains(" infer/s, mean latency ")
            && [", valid", ", disturbed"].iter().any(|end| second.ends_with(end)),
        "{second}"
    );
    starts(third, "triton-bench: stage 3/3, concurrency 1: ");
}
