//! Over gRPC.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::{program, said_once};
use crate::grpc_faults::peer::{
    DATA, END_STREAM, Peer, WIDE, answer, data, field, frame, headers, message, output, response_headers, serve_all,
    trailers,
};

/// A tensor of the metadata: UINT8 `[-1, 4]`.
pub fn tensor(name: &str) -> Vec<u8> {
    let open = [&[0xff_u8; 9][..], &[1, 4]].concat();
    [field(1, name.as_bytes()), field(2, b"UINT8"), field(3, &open)].concat()
}

/// Answers the questions that are asked before a load: ready, metadata without extensions, ready, a model without versions, and
/// that it knows of no configurations.
pub fn questions(peer: &mut Peer) {
    let metadata = [field(1, b"m"), field(4, &tensor("I")), field(5, &tensor("O"))].concat();
    for body in [&[8, 1][..], &field(1, b"mlserver"), &[8, 1], &metadata] {
        let Some((stream, _)) = peer.request() else { return };
        peer.say(&answer(stream, body));
    }
    let Some((stream, _)) = peer.request() else { return };
    let fields =
        [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "12"), ("grpc-message", "no")];
    peer.say(&headers(stream, END_STREAM, &fields));
    peer.linger();
}

/// A server whose inferences are answered by `script`, which gets the stream and whether the request ended its side of it; and how
/// many there were.
fn foreign(script: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let (counter, first) = (Arc::clone(&count), AtomicUsize::new(0));
    let address = serve_all(move |_, mut peer| {
        peer.shake_hands(WIDE);
        if first.fetch_add(1, Ordering::SeqCst) == 0 {
            return questions(&mut peer);
        }
        // Only requests that end their side are answered: what a server does that reads all of a stream first.
        while let Some((stream, _)) = peer.request() {
            counter.fetch_add(1, Ordering::SeqCst);
            peer.say(&script(stream));
        }
    });
    (address, count)
}

/// An answer with typed contents in place of raw ones: UINT8 `[1, 4]`.
fn typed() -> Vec<u8> {
    let contents = field(4, &[1, 2, 3, 4]);
    let described = [field(1, b"O"), field(2, b"UINT8"), field(3, &[1, 4]), field(5, &contents)].concat();
    [field(1, b"m"), field(5, &described)].concat()
}

/// The same with raw ones.
fn raw() -> Vec<u8> {
    [field(1, b"m"), output("O", "UINT8", &[1, 4], &[1, 2, 3, 4])].concat()
}

fn expectations(folder: &tempfile::TempDir, last: u8) -> String {
    let path = folder.path().join("data.json");
    let text = format!(r#"{{"data":[{{"I":[1,2,3,4]}}],"validation_data":[{{"O":[1,2,3,{last}]}}]}}"#);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn typed_contents_are_outputs_like_others() {
    let folder = tempfile::tempdir().unwrap();
    for load in ["--concurrency-range 2 --sync", "--concurrency-range 2 --async", "--request-rate-range 20"] {
        let (url, count) = foreign(|stream| answer(stream, &typed()));
        let flags = format!("-i grpc -b 1 {load} --request-count 20 --input-data {}", expectations(&folder, 4));
        let finished = program(&url, &flags).run();
        assert_eq!(finished.report_even_if_late().level().client_number("Request count"), 20.0, "{}", finished.stdout);
        assert!(!finished.stdout.contains("Server:"), "{}", finished.stdout);
        let line = said_once(&finished);
        assert!(line.contains("no model configurations") && line.contains("no statistics"), "{line}");
        assert!(!line.contains("binary"), "{line}");
        assert_eq!(count.load(Ordering::SeqCst), 20);
    }
    let (url, _) = foreign(|stream| answer(stream, &typed()));
    let flags = format!("-i grpc -b 1 --request-count 5 --max-errors 100% --input-data {}", expectations(&folder, 5));
    let finished = program(&url, &flags).run();
    assert!(finished.stdout.contains("Validation"), "what differs is seen: {finished:#?}");
}

#[test]
fn streams_are_a_requests_own_and_carry_bare_messages() {
    let bare = |stream| {
        let three = [data(stream, &message(&raw())), data(stream, &message(&typed())), data(stream, &message(&raw()))];
        [response_headers(stream), three.concat(), trailers(stream, "0")].concat()
    };
    let wrapped =
        |stream| [response_headers(stream), data(stream, &message(&field(2, &raw()))), trailers(stream, "0")].concat();
    for (number, script) in
        [Box::new(bare) as Box<dyn Fn(u32) -> Vec<u8> + Send + Sync>, Box::new(wrapped)].into_iter().enumerate()
    {
        let (url, count) = foreign(script);
        let flags = "-i grpc --streaming -b 1 --concurrency-range 3 --request-count 30 --validate-replies";
        let finished = program(&url, flags).run();
        assert_eq!(finished.report().level().client_number("Request count"), 30.0, "{number}: {}", finished.stdout);
        assert_eq!(count.load(Ordering::SeqCst), 30);
    }
}

#[test]
fn streams_that_fail_or_break_off_fail_their_request_alone() {
    let served = Arc::new(AtomicUsize::new(0));
    let (url, _) = foreign(move |stream| {
        let first = [response_headers(stream), data(stream, &message(&raw()))].concat();
        match served.fetch_add(1, Ordering::SeqCst) % 5 {
            0 => [first, trailers(stream, "0")].concat(),
            1 => [first, trailers(stream, "13")].concat(),
            2 => [first, frame(DATA, END_STREAM, stream, &[])].concat(),
            3 => [first, data(stream, &message(&field(1, b"model broke"))), trailers(stream, "0")].concat(),
            _ => {
                headers(stream, END_STREAM, &[(":status", "200"), ("grpc-status", "9"), ("grpc-message", "not ready")])
            }
        }
    });
    let flags = "-i grpc --streaming -b 1 --concurrency-range 1 --request-count 20 --max-errors 100%";
    let finished = program(&url, flags).run();
    for reason in [
        "Request count: 4",
        "4 x Internal",
        "4 x Protocol error",
        "4 x Inference failed: model broke",
        "4 x Failed precondition: not ready",
    ] {
        assert!(finished.stdout.contains(reason), "'{reason}': {}", finished.stdout);
    }
}

/// That a server has no such method.
fn lacking(stream: u32) -> Vec<u8> {
    let fields = [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "12")];
    headers(stream, END_STREAM, &fields)
}

/// A server like Dynamo's frontend, which knows of nothing but metadata, configurations and inferences: its model batches up to 4,
/// which its metadata do not show. Inferences are answered by `script`; and what was asked of it.
fn bare(script: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> (String, Arc<Mutex<Vec<Vec<u8>>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (kept, first) = (Arc::clone(&requests), AtomicUsize::new(0));
    let open = [&[0xff_u8; 9][..], &[1]].concat();
    let tensor = |name: &str| [field(1, name.as_bytes()), field(2, b"TYPE_UINT8"), field(3, &open)].concat();
    let metadata = [field(1, b"m"), field(2, b"1"), field(4, &tensor("I")), field(5, &tensor("O"))].concat();
    let [input, output] =
        [("I", 4), ("O", 3)].map(|(name, dims)| [field(1, name.as_bytes()), field(dims, &open)].concat());
    let config = field(1, &[&[4 << 3, 4][..], &field(5, &input), &field(6, &output)].concat());
    let address = serve_all(move |_, mut peer| {
        peer.shake_hands(WIDE);
        if first.fetch_add(1, Ordering::SeqCst) == 0 {
            // Whether the server and the model are ready, and what the server is, it cannot say.
            for body in [None, None, None, Some(&metadata), Some(&metadata), Some(&config)] {
                let Some((stream, _)) = peer.request() else { return };
                peer.say(&body.map_or_else(|| lacking(stream), |body| answer(stream, body)));
            }
            return peer.linger();
        }
        while let Some((stream, body)) = peer.request() {
            kept.lock().unwrap().push(body);
            peer.say(&script(stream));
        }
    });
    (address, requests)
}

#[test]
fn a_server_that_answers_only_for_models_is_taken_as_it_is() {
    let three = || [field(1, b"m"), output("O", "UINT8", &[4, 3], &[7; 12])].concat();
    for streaming in ["", " --streaming"] {
        let (url, requests) = bare(move |stream| match streaming {
            "" => answer(stream, &three()),
            // Several responses, of which none says that it is the last.
            _ => {
                let response = data(stream, &message(&field(2, &three())));
                [response_headers(stream), response.clone(), response, trailers(stream, "0")].concat()
            }
        });
        let flags =
            format!("-i grpc{streaming} -b 4 --shape I:3 --concurrency-range 2 --request-count 20 --validate-replies");
        let finished = program(&url, &flags).run();
        let report = finished.report_even_if_late();
        assert_eq!(report.level().client_number("Request count"), 20.0, "{}", finished.stdout);
        assert!(!finished.stdout.contains("Failed"), "{}", finished.stdout);
        let line = said_once(&finished);
        assert!(line.contains("no statistics") && !line.contains("configurations"), "{line}");
        let requests = requests.lock().unwrap();
        let shape = field(3, &[4, 3]);
        assert!(requests.iter().all(|body| body.windows(4).any(|part| part == shape)), "{requests:?}");
        assert_eq!(requests.len(), 20);
    }
}

#[test]
fn a_proxy_that_knows_no_path_yet_is_waited_for() {
    let first = AtomicUsize::new(0);
    let url = serve_all(move |_, mut peer| {
        peer.shake_hands(WIDE);
        if first.fetch_add(1, Ordering::SeqCst) == 0 {
            let Some((stream, _)) = peer.request() else { return };
            peer.say(&headers(stream, END_STREAM, &[(":status", "404"), ("content-type", "text/plain")]));
            return questions(&mut peer);
        }
        while let Some((stream, _)) = peer.request() {
            peer.say(&answer(stream, &raw()));
        }
    });
    let finished = program(&url, "-i grpc -b 1 --request-count 5").run();
    finished.report();
    assert!(said_once(&finished).contains("no model configurations"), "its metadata were read: {}", finished.stderr);
}

#[test]
fn a_server_that_withholds_its_health_is_asked_for_its_model() {
    let first = AtomicUsize::new(0);
    let url = serve_all(move |_, mut peer| {
        peer.shake_hands(WIDE);
        if first.fetch_add(1, Ordering::SeqCst) > 0 {
            while let Some((stream, _)) = peer.request() {
                peer.say(&answer(stream, &raw()));
            }
            return;
        }
        let metadata = [field(1, b"m"), field(4, &tensor("I")), field(5, &tensor("O"))].concat();
        for body in [None, Some(field(1, b"triton")), None, Some(metadata.clone()), Some(metadata)] {
            let Some((stream, _)) = peer.request() else { return };
            let restricted = "This protocol is restricted, expecting header 'triton-grpc-protocol-key'";
            let fields = [(":status", "200"), ("grpc-status", "14"), ("grpc-message", restricted)];
            peer.say(&body.map_or_else(|| headers(stream, END_STREAM, &fields), |body| answer(stream, &body)));
        }
        let Some((stream, _)) = peer.request() else { return };
        peer.say(&lacking(stream));
        peer.linger();
    });
    let finished = program(&url, "-i grpc -b 1 --request-count 5").run();
    assert_eq!(finished.report().level().client_number("Request count"), 5.0, "{}", finished.stdout);
}
