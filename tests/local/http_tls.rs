//! HTTPS: which certificates are accepted, and the errors for the others.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use triton_bench::backends::kserve_http::HttpBackend;
use triton_bench::plan::{Compression, ConnectionPlan, CredentialFile, Protocol, TensorFormat, Tls};

use crate::support::authority::Authority;
use crate::support::http_server::{Act, HttpServer, Received, good_answer, reply};
use crate::support::load::{Run, RunSpec};

/// A server that shows a certificate; with `clients`, only to clients whose certificate the authority signed.
fn serve(authority: &Authority, issued: &(rcgen::Certificate, KeyPair), clients: bool) -> HttpServer {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = authority.server_config(issued, clients);
    HttpServer::start_with(listener, Some(config), |_| vec![Act::Send(good_answer())])
}

fn trusting(authority: &Authority) -> Tls {
    Tls { ca_certificates: Some(authority.file("ca.pem")), ..Tls::default() }
}

fn connection(server: &HttpServer, host: &str, tls: Tls) -> ConnectionPlan {
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    ConnectionPlan {
        protocol: Protocol::Http {
            inputs: TensorFormat::Served,
            outputs: TensorFormat::Served,
            compression: Compression::None,
        },
        url: format!("https://{host}:{port}"),
        headers: Vec::new(),
        tls,
        server_wait: Duration::ZERO,
        reconnect: false,
        renew: false,
        metrics_url: None,
        client_timeout: None,
    }
}

/// Runs a load; the error where there is none.
fn reach(server: &HttpServer, host: &str, tls: Tls) -> Result<(), String> {
    for slots in [1, 4] {
        let backend =
            HttpBackend::connect(&connection(server, host, tls.clone())).map_err(|error| error.to_string())?;
        // Large enough for many TLS records.
        let spec = RunSpec { slots, requests: 12, watch: true, values: vec![0.25; 100_000], ..RunSpec::default() };
        let mut run = Run::open(&backend, "m", &spec).map_err(|error| error.to_string())?;
        let counter = run.finish(Duration::from_secs(10));
        assert_eq!(counter.succeeded(), 12, "{}", counter.texts());
    }
    Ok(())
}

fn refused(result: Result<(), String>, text: &str) {
    let error = result.expect_err("the certificate must be refused");
    assert!(error.contains("TLS error") && error.contains(text), "{error}");
}

#[test]
fn certificates_are_checked_as_far_as_asked() {
    let authority = Authority::new();
    let good = serve(&authority, &authority.issue(&["localhost"], 2090), false);
    assert_eq!(reach(&good, "localhost", trusting(&authority)), Ok(()));
    refused(reach(&good, "127.0.0.1", trusting(&authority)), "not valid for name");
    let any_host = Tls { skip_host_verification: true, ..trusting(&authority) };
    assert_eq!(reach(&good, "127.0.0.1", any_host), Ok(()));
    let stranger = Authority::new();
    refused(reach(&good, "localhost", trusting(&stranger)), "UnknownIssuer");
    let any_peer = Tls { skip_peer_verification: true, ..Tls::default() };
    assert_eq!(reach(&good, "localhost", any_peer.clone()), Ok(()));
    refused(reach(&good, "127.0.0.1", any_peer), "not valid for name");
    let anyone = Tls { skip_peer_verification: true, skip_host_verification: true, ..Tls::default() };
    assert_eq!(reach(&good, "127.0.0.1", anyone), Ok(()));
}

#[test]
fn expired_certificates_are_refused() {
    let authority = Authority::new();
    let server = serve(&authority, &authority.issue(&["localhost"], 2001), false);
    refused(reach(&server, "localhost", trusting(&authority)), "expired");
    let any_host = Tls { skip_host_verification: true, ..trusting(&authority) };
    refused(reach(&server, "localhost", any_host), "expired");
}

#[test]
fn a_self_signed_certificate_may_be_trusted_itself() {
    let authority = Authority::new();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let file = authority.file("self.pem");
    std::fs::write(&file, certificate.pem()).unwrap();
    let server = serve(&authority, &(certificate, key), false);
    let tls = Tls { ca_certificates: Some(file), ..Tls::default() };
    assert_eq!(reach(&server, "localhost", tls.clone()), Ok(()));
    refused(reach(&server, "127.0.0.1", tls), "not valid for name");
}

#[test]
fn clients_show_certificates_in_pem_and_der() {
    let authority = Authority::new();
    let server = serve(&authority, &authority.issue(&["localhost"], 2090), true);
    let (certificate, key) = authority.issue(&["client"], 2090);
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(authority.file(name), bytes).unwrap();
        authority.file(name)
    };
    let pem = [write("client.pem", certificate.pem().as_bytes()), write("key.pem", key.serialize_pem().as_bytes())];
    let der = [write("client.der", certificate.der()), write("key.der", &key.serialize_der())];
    for (files, is_der) in [(pem, false), (der, true)] {
        let [certificate, key] = files.map(|path| Some(CredentialFile { path, der: is_der }));
        let tls = Tls { client_certificate: certificate, private_key: key, ..trusting(&authority) };
        assert_eq!(reach(&server, "localhost", tls), Ok(()));
    }
    assert!(reach(&server, "localhost", trusting(&authority)).is_err());
}

fn rejection(server: &HttpServer, tls: Tls) -> String {
    HttpBackend::connect(&connection(server, "localhost", tls)).err().expect("the files are unusable").to_string()
}

#[test]
fn unusable_files_are_named() {
    let authority = Authority::new();
    let server = serve(&authority, &authority.issue(&["localhost"], 2090), false);
    let text = authority.file("text");
    std::fs::write(&text, "hello").unwrap();
    let with_ca = |path: &Path| Tls { ca_certificates: Some(path.to_owned()), ..Tls::default() };
    assert!(rejection(&server, with_ca(&text)).contains("no certificate in it"));
    assert!(rejection(&server, with_ca(&authority.file("missing"))).contains("missing': No such file"));
    let file = |der| Some(CredentialFile { path: text.clone(), der });
    let lone = Tls { client_certificate: file(false), ..trusting(&authority) };
    assert!(rejection(&server, lone).contains("pass both or neither"));
    for der in [false, true] {
        let credentials = Tls { client_certificate: file(der), private_key: file(der), ..trusting(&authority) };
        assert!(rejection(&server, credentials).contains("text'"));
    }
}

#[test]
fn a_server_without_tls_is_told_apart() {
    let server = HttpServer::start(|_| vec![Act::Send(good_answer())]);
    let authority = Authority::new();
    let error = rejection(&server, trusting(&authority));
    assert!(
        error.contains("no server answers at https://localhost:") && error.contains("Connection closed"),
        "{error}"
    );
}

/// Passes on what one side says, changed.
fn pass(mut from: TcpStream, mut to: TcpStream, change: impl Fn(&mut Vec<u8>) + Send + 'static) {
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let mut bytes = buffer[..count].to_vec();
            change(&mut bytes);
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// Passes on what a server says, and adds a record that nobody can decrypt once it has had a large request. Returns its port.
fn spoiled(server: &HttpServer) -> u16 {
    let origin = server.url().rsplit('/').next().unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(&origin).unwrap();
            let asked = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&asked);
            let counting = move |bytes: &mut Vec<u8>| {
                count.fetch_add(bytes.len(), Ordering::SeqCst);
            };
            pass(client.try_clone().unwrap(), server.try_clone().unwrap(), counting);
            let spoil = move |bytes: &mut Vec<u8>| {
                if asked.load(Ordering::SeqCst) > 100_000 {
                    bytes.extend([&[23, 3, 3, 0, 32][..], &[0x55; 32]].concat());
                }
            };
            pass(server, client, spoil);
        }
    });
    port
}

#[test]
fn an_answer_is_one_although_a_bad_record_follows_at_once() {
    let authority = Authority::new();
    let mut config = (*authority.server_config(&authority.issue(&["localhost"], 2090), false)).clone();
    // Nothing but the answer follows a request.
    config.send_tls13_tickets = 0;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = HttpServer::start_with(listener, Some(Arc::new(config)), |_| vec![Act::Send(good_answer())]);
    let url = format!("https://localhost:{}", spoiled(&server));
    for slots in [1, 4] {
        let connection = ConnectionPlan { url: url.clone(), ..connection(&server, "localhost", trusting(&authority)) };
        let backend = HttpBackend::connect(&connection).unwrap();
        let spec = RunSpec { slots, requests: 12, watch: true, values: vec![0.25; 100_000], ..RunSpec::default() };
        let mut run = Run::open(&backend, "m", &spec).unwrap();
        let counter = run.finish(Duration::from_secs(10));
        assert_eq!(counter.succeeded(), 12, "{}", counter.texts());
    }
}

/// An answer without end is given up in time, and other slots go on meanwhile.
#[test]
fn timed_an_answer_without_end_keeps_neither_deadlines_nor_other_connections_waiting() {
    let endless = |request: &Received| {
        if request.ordinal > 0 {
            return vec![Act::Send(good_answer())];
        }
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
        vec![Act::Send(head), Act::Forever(chunk)]
    };
    let authority = Authority::new();
    let config = authority.server_config(&authority.issue(&["localhost"], 2090), false);
    let server = HttpServer::start_with(TcpListener::bind("127.0.0.1:0").unwrap(), Some(config), endless);
    // Outputs of any size.
    let variable = br#"{"name":"m","inputs":[{"name":"INPUT0","datatype":"FP32","shape":[-1,16]}],
        "outputs":[{"name":"OUTPUT0","datatype":"FP32","shape":[-1,-1]}]}"#;
    server.answer_instead("/m", reply("200 OK", "", variable));
    let (run, took) = in_time(&server, trusting(&authority), 4);
    assert_eq!((run.counter.succeeded(), run.counter.failed()), (39, 1), "{}", run.counter.texts());
    assert!(run.counter.texts().contains("Deadline exceeded"), "{}", run.counter.texts());
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// A TLS record that never ends brings nothing to read, however many bytes of it come.
#[test]
fn timed_a_record_that_trickles_does_not_keep_deadlines_waiting() {
    for slots in [1, 4] {
        let trickling = |request: &Received| match request.ordinal {
            0 => vec![Act::TrickleRecord(Duration::from_millis(10), 300), Act::Close],
            _ => vec![Act::Send(good_answer())],
        };
        let authority = Authority::new();
        let config = authority.server_config(&authority.issue(&["localhost"], 2090), false);
        let server = HttpServer::start_with(TcpListener::bind("127.0.0.1:0").unwrap(), Some(config), trickling);
        let (run, took) = in_time(&server, trusting(&authority), slots);
        assert_eq!((run.counter.succeeded(), run.counter.failed()), (39, 1), "{}", run.counter.texts());
        assert!(run.counter.texts().contains("Deadline exceeded"), "{}", run.counter.texts());
        assert!(took < Duration::from_millis(1500), "{slots} slots: {took:?}");
    }
}

/// Runs 40 requests that may take 300 ms each; returns the run, and how long it took.
fn in_time(server: &HttpServer, tls: Tls, slots: usize) -> (Run, Duration) {
    let patience = Some(Duration::from_millis(300));
    let connection = ConnectionPlan { client_timeout: patience, ..connection(server, "localhost", tls) };
    let backend = HttpBackend::connect(&connection).unwrap();
    let spec = RunSpec { slots, requests: 40, ..RunSpec::default() };
    let mut run = Run::open(&backend, "m", &spec).unwrap();
    let started = Instant::now();
    run.finish(Duration::from_secs(10));
    (run, started.elapsed())
}
