//! The TLS flags: HTTPS to a byte-level server, gRPC to a real one.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::support::authority::Authority;
use crate::support::http_server::{Act, HttpServer, good_answer};
use crate::support::{Model, Program, Repository, TritonServer};

fn https(authority: &Authority, until: i32, clients: bool) -> HttpServer {
    let config = authority.server_config(&authority.issue(&["localhost"], until), clients);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    HttpServer::start_with(listener, Some(config), |_| vec![Act::Send(good_answer())])
}

/// Flags with `@NAME` for a file of the authority.
fn with_files(authority: &Authority, flags: &str) -> String {
    let word = |word: &str| match word.strip_prefix('@') {
        Some(name) => authority.file(name).display().to_string(),
        None => word.to_owned(),
    };
    flags.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// A run against `host` ends well, or with code 99 and these words.
fn check(program: Program, words: Option<&[&str]>) {
    let run = program.args("--request-count 10 --server-wait 0").run();
    match words {
        None => {
            let report = run.report_even_if_late();
            assert_eq!(report.level().client_number("Request count") as u64, 10, "{}", report.text);
        }
        Some(words) => drop(run.failure(words)),
    }
}

#[test]
fn every_flag_of_https_does_what_it_says() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let [good, expired] = [2090, 2001].map(|until| https(&authority, until, false));
    let choosy = https(&authority, 2090, true);
    authority.issue_files("client", &["client"], 2090);
    let ca = "--ssl-https-ca-certificates-file @ca.pem";
    let pem = "--ssl-https-client-certificate-file @client.pem --ssl-https-private-key-file @client.key";
    let der = "--ssl-https-client-certificate-file @client.der --ssl-https-client-certificate-type DER \
               --ssl-https-private-key-file @client.key.der --ssl-https-private-key-type der";
    let name: Option<&[&str]> = Some(&["TLS error", "not valid for name", "; --ssl-https-verify-peer 0 and"]);
    let cases: [(&HttpServer, &str, String, Option<&[&str]>); 13] = [
        (&good, "localhost", ca.to_owned(), None),
        (&good, "localhost", format!("{ca} --async --concurrency-range 4"), None),
        (&good, "127.0.0.1", ca.to_owned(), name),
        (&good, "127.0.0.1", format!("{ca} --ssl-https-verify-host 0"), None),
        (&good, "localhost", format!("{ca} --ssl-https-verify-host 1 --ssl-https-verify-peer 1"), None),
        (&good, "localhost", "--ssl-https-verify-peer 0".to_owned(), None),
        (&good, "127.0.0.1", "--ssl-https-verify-peer 0".to_owned(), name),
        (&good, "127.0.0.1", "--ssl-https-verify-peer 0 --ssl-https-verify-host 0".to_owned(), None),
        (&expired, "localhost", ca.to_owned(), Some(&["TLS error", "expired"])),
        (&expired, "localhost", "--ssl-https-verify-peer 0".to_owned(), None),
        (&choosy, "localhost", ca.to_owned(), Some(&["CertificateRequired"])),
        (&choosy, "localhost", format!("{ca} {pem}"), None),
        (&choosy, "localhost", format!("{ca} {der}"), None),
    ];
    for (server, host, flags, words) in cases {
        let port = server.url().rsplit(':').next().unwrap().to_owned();
        let program = Program::new().args(&format!("-m m -u https://{host}:{port}"));
        check(program.args(&with_files(&authority, &flags)), words);
    }
    let unknown = with_files(&stranger, ca);
    let program = |url: &str| Program::new().args(&format!("-m m -u {url} {unknown}"));
    let port = good.url().rsplit(':').next().unwrap().to_owned();
    let url = format!("https://localhost:{port}");
    check(program(&url), Some(&["TLS error", "UnknownIssuer", "--ssl-https-ca-certificates-file FILE"]));
    // Waiting does not make a certificate better.
    let begun = Instant::now();
    program(&url).args("--server-wait 60").run().failure(&["UnknownIssuer"]);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // Without the scheme nothing is encrypted: flags that rely on it are refused, and a TLS server understands nothing.
    let bare = format!("localhost:{port}");
    check(program(&bare), Some(&["--ssl-https-ca-certificates-file asks for TLS", "is not encrypted"]));
    check(Program::new().args("-m m -u").arg(&bare), Some(&["the server speaks TLS; use https:// in -u"]));
}

#[test]
fn every_flag_of_grpc_does_what_it_says() {
    let repository = Repository::of(&[Model::identity("identity")]);
    let (authority, stranger) = (Authority::new(), Authority::new());
    authority.issue_files("good", &["localhost"], 2090);
    authority.issue_files("expired", &["localhost"], 2001);
    authority.issue_files("client", &["client"], 2090);
    stranger.issue_files("client", &["client"], 2090);
    let start = |certificate: &str, mutual: bool| {
        let file = |flag: &str, name: String| format!("--grpc-{flag}={}", authority.file(&name).display());
        let flags = [
            format!("--grpc-use-ssl{}=true", if mutual { "-mutual" } else { "" }),
            file("server-cert", format!("{certificate}.pem")),
            file("server-key", format!("{certificate}.key")),
            file("root-cert", "ca.pem".to_owned()),
        ];
        TritonServer::start_with(&repository, &flags.each_ref().map(String::as_str))
    };
    let Some(good) = start("good", false) else { return };
    let (expired, choosy) = (start("expired", false).unwrap(), start("good", true).unwrap());
    let ca = "--ssl-grpc-use-ssl --ssl-grpc-root-certifications-file @ca.pem";
    let pem = "--ssl-grpc-certificate-chain-file @client.pem --ssl-grpc-private-key-file @client.key";
    let run = |server: &TritonServer, host: &str, flags: &str, words: Option<&[&str]>| {
        let port = server.url("grpc").rsplit(':').next().unwrap().to_owned();
        let program = Program::new().args(&format!("-m identity -i grpc -u {host}:{port}"));
        check(program.args(flags), words);
    };
    let flags = |flags: &str| with_files(&authority, flags);
    run(&good, "localhost", &flags(ca), None);
    run(&good, "localhost", &flags(&format!("{ca} --streaming --concurrency-range 3")), None);
    run(&good, "https://localhost", &flags("--ssl-grpc-root-certifications-file @ca.pem"), None);
    run(&good, "grpcs://localhost", &flags("--ssl-grpc-root-certifications-file @ca.pem"), None);
    run(&good, "localhost", &flags(&format!("{ca} --shared-memory system")), None);
    run(&good, "127.0.0.1", &flags(ca), Some(&["TLS error", "not valid for name"]));
    let unknown: [&str; 3] = ["TLS error", "UnknownIssuer", "with --ssl-grpc-root-certifications-file FILE"];
    run(&good, "localhost", &with_files(&stranger, ca), Some(&unknown));
    let begun = Instant::now();
    let patient = format!("{} --server-wait 60", with_files(&stranger, ca));
    let program =
        Program::new().args(&format!("-m identity -i grpc -u {}", good.url("grpc").replace("127.0.0.1", "localhost")));
    program.args(&patient).run().failure(&unknown);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    run(&good, "localhost", "", Some(&["Connection"]));
    run(&good, "localhost", "--ssl-grpc-use-ssl false", Some(&["Connection"]));
    run(&expired, "localhost", &flags(ca), Some(&["TLS error", "expired"]));
    run(&choosy, "localhost", &flags(&format!("{ca} {pem}")), None);
    run(&choosy, "localhost", &flags(ca), Some(&["not ready"]));
    let strange = format!("{} {}", flags(ca), with_files(&stranger, pem));
    run(&choosy, "localhost", &strange, Some(&["not ready"]));
}
