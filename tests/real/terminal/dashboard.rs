//! The dashboard of `--live`.

use std::process::Stdio;

use crate::support::{Finished, Model, Program, Repository, Terminal};

const SIGQUIT: i32 = 3;
const SIGABRT: i32 = 6;
const SIGTERM: i32 = 15;
/// What the dashboard always shows.
const WORDS: [&str; 10] = [
    "rate",
    "p50",
    "p90",
    "p99",
    "outstanding",
    "client",
    "server",
    "infer/s",
    "latency histogram",
    "q: end and report",
];

fn sleeping() -> Repository {
    Repository::of(&[Model::sleeping("m", 2).instances(2)])
}

fn live(repository: &Repository, load: &str) -> Program {
    Program::on(repository, "m").args("--live").args(load)
}

/// Waits until figures of several blocks are shown; returns the screen.
fn filled(terminal: &Terminal) -> String {
    terminal.wait_until("a histogram and curves", |screen| {
        let dots = screen.chars().filter(|letter| ('\u{2801}'..='\u{28ff}').contains(letter)).count();
        // A machine that stands still leaves blocks without a request.
        screen.contains('█') && dots >= 4 && screen.contains("CPU") && !screen.contains("p50 -")
    })
}

/// The value after a name.
fn value<'a>(screen: &'a str, name: &str) -> &'a str {
    let (_, after) = screen.split_once(name).unwrap_or_else(|| panic!("no {name}:\n{screen}"));
    after.trim_start().split("  ").next().unwrap()
}

#[test]
fn figures_are_shown_at_every_size_and_the_report_follows() {
    let repository = sleeping();
    for (rows, columns) in [(24, 80), (50, 200)] {
        let load = "--concurrency-range 2:3 -p 2000 -r 3 -s 1000000";
        let terminal = live(&repository, load).on_terminal(rows, columns);
        let screen = filled(&terminal);
        assert!(terminal.is_drawn_on());
        for word in WORDS {
            assert!(screen.contains(word), "{word} at {columns}x{rows}:\n{screen}");
        }
        assert!(screen.lines().next().unwrap().contains("level 1/2, concurrency 2, window "), "{screen}");
        assert_eq!(value(&screen, "outstanding"), "2", "{screen}");
        assert_eq!(value(&screen, "errors"), "0", "{screen}");
        let p50: f64 = value(&screen, "p50").trim_end_matches(" ms").parse().unwrap_or_else(|_| panic!("{screen}"));
        assert!((2.0..20.0).contains(&p50), "{screen}");
        assert!(
            screen.lines().count() <= usize::from(rows) && screen.lines().last().unwrap().starts_with("q: "),
            "{screen}"
        );
        let (status, all) = terminal.finish();
        assert!(status.success(), "{all}");
        for line in ["*** Measurement Settings ***", "Request concurrency: 2", "Request concurrency: 3"] {
            assert_eq!(all.lines().filter(|shown| *shown == line).count(), 1, "{line}:\n{all}");
        }
        assert!(all.contains("Verdict: ") && !all.contains("latency histogram"), "{all}");
    }
}

#[test]
fn a_schedule_shows_its_lateness_and_a_new_size_is_drawn() {
    let repository = sleeping();
    let mut terminal = live(&repository, "--request-rate-range 100 -p 1000 -r 1000 -s 0.0001").on_terminal(24, 80);
    let screen = filled(&terminal);
    assert_ne!(value(&screen, "late"), "-", "{screen}");
    assert!(screen.contains("late ") && screen.contains("request rate 100"), "{screen}");
    terminal.resize(50, 200);
    let wide = terminal.wait_until("the new size", |screen| {
        screen.lines().count() == 50 && screen.lines().any(|line| line.trim_end().chars().count() > 150)
    });
    assert!(wide.lines().last().unwrap().starts_with("q: "), "{wide}");
    terminal.press("q");
    let (status, all) = terminal.finish();
    // 4: requests left late, as they do on a busy machine.
    assert!(matches!(status.code(), Some(0 | 4)), "{all}");
    assert!(all.contains("triton-bench: interrupted; reporting the results so far"), "{all}");
    assert!(all.contains("Request Rate: 100 inference requests per second"), "{all}");
}

#[test]
fn keys_and_signals_end_it_and_leave_the_terminal_as_it_was() {
    let repository = sleeping();
    for (name, end) in [
        ("q", (|terminal| terminal.press("q")) as fn(&mut Terminal)),
        ("Ctrl-C", |terminal| terminal.press("\x03")),
        ("SIGTERM", |terminal| terminal.signal(SIGTERM)),
    ] {
        let mut terminal = live(&repository, "-p 60000").on_terminal(24, 80);
        filled(&terminal);
        end(&mut terminal);
        let (status, all) = terminal.finish();
        assert!(status.success(), "{name}: {all}");
        assert!(
            all.contains("Request concurrency: 1\n") && all.contains("Verdict: invalid [interrupted]"),
            "{name}: {all}"
        );
    }
    // Of requests that take a minute nobody waits for the second time.
    let repository = Repository::of(&[Model::sleeping("m", 60_000)]);
    for (name, end, code) in [
        ("a second q", (|terminal| terminal.press("q")) as fn(&mut Terminal), Some(130)),
        ("a second Ctrl-C", |terminal| terminal.press("\x03"), Some(130)),
        ("SIGQUIT", |terminal| terminal.signal(SIGQUIT), None),
    ] {
        let mut terminal = live(&repository, "-p 60000").on_terminal(24, 80);
        terminal.wait_for("q: end and report");
        if code.is_some() {
            terminal.press("q");
            terminal.wait_for("interrupted; reporting");
        }
        end(&mut terminal);
        let (status, all) = terminal.finish();
        assert_eq!(status.code(), code, "{name}: {all}");
        assert!(all.contains("*** Measurement Settings ***"), "{name}: what was printed is there: {all}");
    }
}

#[test]
fn a_crash_leaves_the_terminal_as_it_was() {
    let repository = sleeping();
    let terminal = live(&repository, "-p 60000").on_terminal(24, 80);
    filled(&terminal);
    terminal.signal(SIGABRT);
    let (status, all) = terminal.finish();
    assert!(!status.success() && all.contains("*** Measurement Settings ***"), "{all}");
}

#[test]
fn a_terminal_that_hangs_up_ends_it() {
    let repository = sleeping();
    let terminal = live(&repository, "-p 60000").on_terminal(24, 80);
    filled(&terminal);
    // 99: nobody is there to read the report.
    assert_eq!(terminal.hang_up().code(), Some(99));
}

#[test]
fn without_a_terminal_it_is_refused() {
    let refused = |finished: Finished, words: &[&str]| drop(finished.refusal(words).to_owned());
    let repository = sleeping();
    refused(live(&repository, "").run(), &["--live", "standard error is not one"]);
    let terminal = Terminal::start_with(live(&repository, "--matrix memory").command(), 24, 80, |command| command);
    let (status, all) = terminal.finish();
    assert!(status.code() == Some(99) && all.contains("--live: the dashboard shows levels"), "{all}");
    // Data go where they are sent; the dashboard is on standard error.
    let file = tempfile::NamedTempFile::new().unwrap();
    let stdout = Stdio::from(file.reopen().unwrap());
    let program = live(&repository, "--concurrency-range 2 -p 1000 -r 3 -s 1000000");
    let terminal = Terminal::start_with(program.command(), 24, 80, |command| command.stdout(stdout));
    filled(&terminal);
    let (status, all) = terminal.finish();
    let text = std::fs::read_to_string(file.path()).unwrap();
    assert!(status.success() && text.contains("Verdict: ") && !text.contains('\x1b'), "{text}");
    assert!(!all.contains("Verdict: "), "{all}");
}
