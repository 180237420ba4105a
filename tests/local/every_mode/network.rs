//! What lies between the program and a server: encryption, header fields, deadlines, connections that break.

use std::time::Duration;

use super::kinds::{NONE, Pace, Service};
use super::proxy::Proxy;
use super::{each, refuses_sync, run, run_at};
use crate::support::Report;
use crate::support::authority::Authority;

#[test]
fn timed_connections_are_encrypted_if_asked() {
    let authority = Authority::new();
    let mut config = (*authority.server_config(&authority.issue(&["localhost"], 2090), false)).clone();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let config = std::sync::Arc::new(config);
    each(NONE, |service| {
        let proxy = Proxy::of(service.url(), Some(config.clone()));
        let trusted = authority.file("ca.pem").display().to_string();
        let (url, flags) = match service.kind.is_grpc() {
            true => (proxy.url(), format!("--ssl-grpc-use-ssl --ssl-grpc-root-certifications-file {trusted}")),
            false => (format!("https://{}", proxy.url()), format!("--ssl-https-ca-certificates-file {trusted}")),
        };
        for load in [
            "--sync --concurrency-range 2 --request-count 20",
            "--async --concurrency-range 3 --request-count 20",
            "--stage rate:200:20req",
        ] {
            if refuses_sync(service, load) {
                continue;
            }
            let before = service.count();
            run_at(service, &url, &format!("-m m {flags} {load}"));
            assert_eq!(service.count() - before, 20, "{load}");
        }
        let untrusted = flags.split(" --ssl-grpc-root").next().unwrap().split("--ssl-https").next().unwrap();
        let refused = service.program_at(&url, &format!("-m m {untrusted}")).run();
        assert!(refused.code() == 99 && refused.stderr.contains("UnknownIssuer"), "{refused:#?}");
    });
}

/// Connections of questions beside the load.
const BESIDE: usize = 6;

#[test]
fn connections_of_their_own_are_as_many_as_requests() {
    let authority = Authority::new();
    let mut config = (*authority.server_config(&authority.issue(&["localhost"], 2090), false)).clone();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let config = std::sync::Arc::new(config);
    each(NONE, |service| {
        let trusted = authority.file("ca.pem").display().to_string();
        let (scheme, encrypted) = match service.kind.is_grpc() {
            true => ("", format!("--ssl-grpc-use-ssl --ssl-grpc-root-certifications-file {trusted}")),
            false => ("https://", format!("--ssl-https-ca-certificates-file {trusted}")),
        };
        for (load, tls) in [
            ("--sync --concurrency-range 2", true),
            ("--async --concurrency-range 3", false),
            ("--async --concurrency-range 6 --max-connections 2", true),
            ("--request-rate-range 200", false),
        ] {
            if refuses_sync(service, load) {
                continue;
            }
            let proxy = Proxy::of(service.url(), tls.then(|| config.clone()));
            let (scheme, flags) = if tls { (scheme, &encrypted[..]) } else { ("", "") };
            let before = service.count();
            let flags = format!("-m m {flags} --connections new --request-count 30 {load}");
            run_at(service, &format!("{scheme}{}", proxy.url()), &flags);
            assert_eq!(service.count() - before, 30, "{load}");
            assert!((30..=30 + BESIDE).contains(&proxy.connections()), "{load}: {}", proxy.connections());
        }
    });
}

#[test]
fn header_fields_are_those_of_every_request() {
    each(NONE, |service| {
        run(service, "-H X-Cell:first -H Authorization:second --concurrency-range 2 --request-count 20");
        for served in service.served() {
            let text = served.text.to_ascii_lowercase();
            assert!(text.contains("x-cell") && text.contains("first") && text.contains("second"), "{text}");
        }
    });
}

#[test]
fn timed_answers_that_take_too_long_are_given_up() {
    let slow: Pace = |_| Duration::from_millis(400);
    let rate = "--stage rate:100:4req";
    for load in
        ["--sync --concurrency-range 2 --request-count 4", "--async --concurrency-range 2 --request-count 4", rate]
    {
        each(slow, |service| {
            if refuses_sync(service, load) {
                return;
            }
            for (flag, says) in [
                ("--client-timeout-us 100ms", "4 x Deadline exceeded: no answer within 100000 us"),
                ("--cancel-after-us 100ms", "Cancelled request count: 4"),
            ] {
                let finished = service.program(&format!("{load} {flag} --max-errors 100%")).run();
                assert!(finished.stdout.contains(says), "{load} {flag}: {finished:#?}");
            }
            assert_eq!(service.count(), 8, "{load}: each was sent once, and read before it was given up");
        });
    }
}

/// Starts a run through a proxy, which cuts all connections once the server has had some requests.
fn broken(service: &Service, flags: &str) -> (crate::support::Finished, [u64; 2]) {
    let proxy = Proxy::of(service.url(), None);
    let program = service.program_at(&proxy.url(), &format!("-m m {flags} --max-errors 100%"));
    let running = program.start();
    let before = service.count();
    for _ in 0..5000 {
        if service.count() >= before + 20 {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    proxy.cut();
    let finished = running.finish();
    let report = Report::parse(&finished.stdout);
    let number = |name: &str| match report.text.contains(&format!("{name}: ")) {
        true => report.level().client_number(name) as u64,
        false => 0,
    };
    let numbers = [number("Request count"), number("Failed request count")];
    (finished, numbers)
}

#[test]
fn connections_that_break_fail_their_requests_and_are_made_again_if_asked() {
    let some: Pace = |_| Duration::from_millis(5);
    // What is on its way fails, and in an open loop that may be much where the machine is slow.
    for (load, most) in [
        ("--sync --concurrency-range 3 --request-count 60", 10),
        ("--async --concurrency-range 3 --request-count 60", 10),
        ("--stage rate:100:60req", 45),
    ] {
        each(some, |service| {
            if refuses_sync(service, load) {
                return;
            }
            let (finished, [good, failed]) = broken(service, &format!("{load} --reconnect"));
            assert_eq!(good + failed, 60, "{load}: {finished:#?}");
            assert!((1..=most).contains(&failed), "{load}: {finished:#?}");
            assert!(finished.stdout.contains(" x Connection"), "{load}: {finished:#?}");
            let (finished, [good, failed]) = broken(service, load);
            // The load ends with its last connection, unless all of it had been sent by then, and failures are allowed here.
            let is_ended = finished.code() != 0 || good + failed == 60;
            assert!(good < 60 && is_ended, "{load}: {finished:#?}");
        });
    }
}
