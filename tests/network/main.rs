//! Our program against a real `tritonserver` over HTTP and gRPC: metrics, the matrix, servers that go away.

mod server;

use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use server::{Said, Server, bench, directory, repository, run, said};

/// Both protocols, with their number among the server's ports.
const PROTOCOLS: [(&str, usize); 2] = [("http", 0), ("grpc", 1)];

/// The number that follows `label` on standard output.
fn figure(said: &Said, label: &str) -> f64 {
    let rest = said.out.split_once(label).unwrap_or_else(|| panic!("no '{label}' in:\n{}\n{}", said.out, said.err)).1;
    let number: String = rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    number.parse().unwrap_or_else(|_| panic!("no number after '{label}' in:\n{}", said.out))
}

fn in_process(directory: &Path, repository: &Path) -> String {
    format!(
        "--service-kind triton_c_api --triton-server-directory {} --model-repository {}",
        directory.display(),
        repository.display()
    )
}

#[test]
fn metrics_are_collected_over_every_way() {
    let Some(directory) = directory() else { return };
    let repository = repository();
    let server = Server::start(&directory, repository.path());
    let metrics = "--collect-metrics --metrics-interval 100 -p 500 -r 3";
    for (protocol, port) in PROTOCOLS {
        let url = format!("--metrics-url localhost:{}/metrics", server.ports[2]);
        let said = run(&format!("-i {protocol} -u localhost:{} {metrics} {url}", server.ports[port]));
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(figure(&said, "Max CPU Memory Usage:") > 1e6, "{}", said.out);
        assert!(figure(&said, "Pending requests: avg") < 2.0, "{}", said.out);
    }
    let said = run(&format!("{} {metrics}", in_process(&directory, repository.path())));
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(figure(&said, "Max CPU Memory Usage:") > 1e6, "{}", said.out);
    // A server that has no metrics at that address ends the run before it starts.
    for wrong in ["localhost:1/metrics", &format!("localhost:{}/nothing", server.ports[2])] {
        let said = run(&format!("-u localhost:{} --collect-metrics --metrics-url {wrong} -p 200", server.ports[0]));
        assert_eq!(said.code, 99, "{}", said.out);
        assert!(said.err.contains("--collect-metrics: ") && said.err.contains("metrics"), "{}", said.err);
    }
}

#[test]
fn a_server_that_dies_ends_the_level_with_what_was_measured() {
    let Some(directory) = directory() else { return };
    let repository = repository();
    for (protocol, port) in PROTOCOLS {
        let mut server = Server::start(&directory, repository.path());
        let flags = format!("-i {protocol} -u localhost:{} -p 1000 -r 60 --precision p99:0.01%", server.ports[port]);
        let running = bench(&flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        thread::sleep(Duration::from_millis(2500));
        server.kill();
        let killed = Instant::now();
        let said = said(running.wait_with_output().unwrap());
        assert!(killed.elapsed() < Duration::from_secs(2), "{protocol}: {:?}", killed.elapsed());
        assert_eq!(said.code, 3, "{protocol}: {}{}", said.out, said.err);
        assert!(figure(&said, "Throughput:") > 100.0, "{}", said.out);
        assert!(figure(&said, "Failed request count:") >= 1.0, "{}", said.out);
        assert!(said.out.contains("Verdict: invalid [failed]"), "{}", said.out);
    }
}

#[test]
fn a_server_that_comes_back_is_used_again_where_that_is_asked_for() {
    let Some(directory) = directory() else { return };
    let repository = repository();
    for (protocol, port) in PROTOCOLS {
        let mut server = Server::start(&directory, repository.path());
        let flags = format!(
            "-i {protocol} -u localhost:{} --reconnect --max-errors 1 -p 8000 -r 1 --concurrency-range 2",
            server.ports[port]
        );
        let running = bench(&flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        thread::sleep(Duration::from_millis(1500));
        server.kill();
        server.restart();
        let said = said(running.wait_with_output().unwrap());
        // One window of one cannot be stable.
        assert_eq!(said.code, 2, "{protocol}: {}{}", said.out, said.err);
        assert!(figure(&said, "Failed request count:") >= 1.0, "{}", said.out);
        // The server's counters are those since its restart: it answered again before the window ended.
        assert!(figure(&said, "Inference count:") >= 1.0, "{protocol}: {}", said.out);
    }
}

#[test]
fn a_load_outlives_windows_that_end_while_the_server_is_away() {
    let Some(directory) = directory() else { return };
    let repository = repository();
    for (protocol, port) in PROTOCOLS {
        let mut server = Server::start(&directory, repository.path());
        let flags = format!(
            "-i {protocol} -u localhost:{} --async --reconnect --max-errors 1 -p 500 -r 8 --precision p99:0.01%",
            server.ports[port]
        );
        let running = bench(&flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        thread::sleep(Duration::from_millis(1000));
        server.kill();
        thread::sleep(Duration::from_millis(1200));
        server.restart();
        let said = said(running.wait_with_output().unwrap());
        assert_eq!(said.code, 2, "{protocol}: {}{}", said.out, said.err);
        assert!(figure(&said, "Failed request count:") >= 1.0, "{}", said.out);
        assert!(said.err.contains("figures of that time are left out (--reconnect)"), "{protocol}: {}", said.err);
        assert!(!said.err.contains("ended early"), "{protocol}: {}", said.err);
    }
}

#[test]
fn a_server_that_is_not_there_yet_is_waited_for() {
    let Some(directory) = directory() else { return };
    let repository = repository();
    let mut server = Server::start(&directory, repository.path());
    for (protocol, port) in PROTOCOLS {
        server.kill();
        let refused = run(&format!("-i {protocol} -u localhost:{} -p 200", server.ports[port]));
        assert_eq!(refused.code, 99, "{}", refused.out);
        server.restart();
        let flags = format!("-i {protocol} -u localhost:{} --server-wait 60 --request-count 10", server.ports[port]);
        let said = run(&flags);
        assert_eq!(said.code, 0, "{protocol}: {}", said.err);
    }
}

#[test]
fn a_matrix_holds_every_way_against_the_first_and_leaves_nothing_behind() {
    let Some(directory) = directory() else { return };
    let repository = repository();
    let flags = format!("{} -p 100 -r 2 --async --concurrency-range 2", in_process(&directory, repository.path()));
    let memory = run(&format!("{flags} --matrix memory"));
    assert_eq!(memory.code, 0, "{}", memory.err);
    assert!(figure(&memory, "  system shared memory") > 100.0, "{}", memory.out);
    let transports = run(&format!("{flags} --matrix transports"));
    assert_eq!(transports.code, 0, "{}{}", transports.out, transports.err);
    for way in ["C API", "HTTP", "gRPC", "C API + shared memory", "HTTP + shared memory", "gRPC + shared memory"] {
        let row = transports
            .out
            .lines()
            .find_map(|line| line.strip_prefix(&format!("  {way} ")))
            .unwrap_or_else(|| panic!("no row '{way}':\n{}{}", transports.out, transports.err));
        let throughput: f64 = row.split_whitespace().next().unwrap().parse().unwrap_or_else(|_| panic!("{row}"));
        assert!(throughput > 100.0, "{way}: {row}");
    }
    assert!(!is_served(repository.path()), "a server program was left behind");
}

#[test]
fn an_interrupted_matrix_stops_its_server() {
    let Some(directory) = directory() else { return };
    let repository = repository();
    for times in [1, 2] {
        let flags = format!("{} -p 500 -r 100 --matrix transports", in_process(&directory, repository.path()));
        let running = bench(&flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let patience = Instant::now() + Duration::from_secs(60);
        while !is_served(repository.path()) {
            assert!(Instant::now() < patience, "no server program was started");
            thread::sleep(Duration::from_millis(50));
        }
        let pid = rustix::process::Pid::from_child(&running);
        for _ in 0..times {
            thread::sleep(Duration::from_millis(100));
            // The first interrupt may have been enough.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        }
        drop(running.wait_with_output().unwrap());
        assert!(!is_served(repository.path()), "{times} interrupts left a server program behind");
    }
}

#[test]
fn a_matrix_uses_a_running_server_and_leaves_it_running() {
    let Some(directory) = directory() else { return };
    let repository = repository();
    let served = Server::start(&directory, repository.path());
    let (http, grpc) = (served.ports[0], served.ports[1]);
    let flags =
        format!("{} -p 100 -r 2 --concurrency-range 2 --matrix transports", in_process(&directory, repository.path()));
    let said = run(&format!("{flags} -u localhost:{http},localhost:{grpc}"));
    assert_eq!(said.code, 0, "{}", said.err);
    for way in ["C API", "HTTP", "gRPC", "C API + shared memory", "HTTP + shared memory", "gRPC + shared memory"] {
        assert!(figure(&said, &format!("\n  {way} ")) > 100.0, "{way}: {}", said.out);
    }
    let own = format!("--http-port={http}");
    let running = served_by(repository.path());
    assert!(running.len() == 1 && running[0].contains(&own), "a server of its own was started: {running:?}");
    let statistics = run(&format!("-u localhost:{http} --request-count 1"));
    assert_eq!(statistics.code, 0, "it was stopped: {}", statistics.err);
    // Half of the ways lead nowhere: they are named, the others are measured.
    let said = run(&format!("{flags} -u localhost:{http},localhost:1 --server-wait 0"));
    assert!(figure(&said, "\n  HTTP ") > 100.0, "{}", said.out);
    assert!(said.err.contains("gRPC") && said.err.contains("Connection refused"), "{}", said.err);
}

#[test]
fn a_matrix_that_is_killed_takes_its_server_along() {
    let Some(directory) = directory() else { return };
    let repository = repository();
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::TERM, rustix::process::Signal::HUP] {
        let flags = format!("{} -p 500 -r 100 --matrix transports", in_process(&directory, repository.path()));
        let running = bench(&flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let patience = Instant::now() + Duration::from_secs(60);
        while !is_served(repository.path()) {
            assert!(Instant::now() < patience, "no server program was started");
            thread::sleep(Duration::from_millis(10));
        }
        rustix::process::kill_process(rustix::process::Pid::from_child(&running), signal).unwrap();
        drop(running.wait_with_output().unwrap());
        let patience = Instant::now() + Duration::from_secs(5);
        while is_served(repository.path()) {
            assert!(Instant::now() < patience, "{signal:?} left a server program behind");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Whether a server program runs on that repository.
fn is_served(repository: &Path) -> bool {
    !served_by(repository).is_empty()
}

/// The command lines of the server programs that run on that repository.
fn served_by(repository: &Path) -> Vec<String> {
    let wanted = format!("--model-repository={}", repository.display());
    let lines = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let words = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&words).replace('\0', " "))
    });
    lines.filter(|line| line.split(' ').any(|word| word == wanted)).collect()
}
