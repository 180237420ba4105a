//! Our HTTP/2 against an independent implementation: a server on the `h2` crate, with small windows, few streams, large
//! headers and every way in which a stream or a connection ends.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::net::{TcpListener, TcpStream};

use triton_bench::backend::ReplyRule;

use super::peer::{field, fitting, message};
use super::{Bench, PLAIN, Setup};

type Conversation = Connection<TcpStream, Bytes>;
type Answering = SendResponse<Bytes>;

type Exchange = Pin<Box<dyn Future<Output = ()>>>;

/// What a server does with its calls of inference, which it counts from 0.
type Script = fn(usize, Vec<u8>, Answering) -> Exchange;

/// Starts a server that answers the control plane by itself. `tend` sees the connection after every call.
fn serve(builder: Builder, script: Script, tend: fn(usize, &mut Conversation)) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, async move {
            let listener = TcpListener::from_std(listener).unwrap();
            let calls = Arc::new(AtomicUsize::new(0));
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (builder, calls) = (builder.clone(), Arc::clone(&calls));
                tokio::task::spawn_local(async move {
                    let mut connection = builder.handshake(socket).await.unwrap();
                    let mut number = 0;
                    while let Some(call) = connection.accept().await {
                        // The client may have hung up.
                        let Ok((request, answering)) = call else { return };
                        tokio::task::spawn_local(answer_call(request, answering, script, Arc::clone(&calls)));
                        tend(number, &mut connection);
                        number += 1;
                    }
                });
            }
        });
    });
    address
}

async fn answer_call(request: Request<RecvStream>, answering: Answering, script: Script, calls: Arc<AtomicUsize>) {
    assert_eq!(request.method(), "POST");
    assert_eq!(request.headers()["te"], "trailers");
    let path = request.uri().path().to_owned();
    let body = request.into_body();
    match path.rsplit('/').next() {
        Some("ServerReady") => good(answering, &[8, 1]).await,
        Some("ServerMetadata") => good(answering, &[]).await,
        Some("ModelInfer") => {
            let body = whole(body).await;
            script(calls.fetch_add(1, Ordering::Relaxed), body, answering).await;
        }
        Some("ModelStreamInfer") => converse(body, answering).await,
        other => panic!("a call to {other:?}"),
    }
}

/// A request's body, as windows let it come.
async fn whole(mut body: RecvStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Ok(chunk)) = body.data().await {
        bytes.extend_from_slice(&chunk);
        let _ = body.flow_control().release_capacity(chunk.len());
    }
    bytes
}

fn head() -> Response<()> {
    Response::builder().status(200).header("content-type", "application/grpc").body(()).unwrap()
}

fn trailers(status: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(http::HeaderName::from_static("grpc-status"), HeaderValue::from_static(status))])
}

/// Sends all bytes, as the client's windows allow.
async fn send(stream: &mut SendStream<Bytes>, mut bytes: Bytes) {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let Some(Ok(capacity)) = poll_fn(|context| stream.poll_capacity(context)).await else { return };
        if stream.send_data(bytes.split_to(capacity.min(bytes.len())), false).is_err() {
            return;
        }
    }
}

/// A whole successful answer.
async fn good(mut answering: Answering, reply: &[u8]) {
    let Ok(mut stream) = answering.send_response(head(), false) else { return };
    send(&mut stream, message(reply).into()).await;
    let _ = stream.send_trailers(trailers("0"));
}

/// Answers each message of a stream with two, the last of which is final, until the client ends it.
async fn converse(mut body: RecvStream, mut answering: Answering) {
    let mut stream = answering.send_response(head(), false).unwrap();
    let mut waiting = Vec::new();
    while let Some(Ok(chunk)) = body.data().await {
        waiting.extend_from_slice(&chunk);
        let _ = body.flow_control().release_capacity(chunk.len());
        while let Some(length) =
            waiting.first_chunk::<5>().map(|prefix| u32::from_be_bytes(prefix[1..].try_into().unwrap()))
        {
            let Some(request) = waiting.get(5..5 + length as usize).map(<[u8]>::to_vec) else { break };
            waiting.drain(..5 + length as usize);
            let at = request.windows(2).position(|pair| pair == [3 << 3 | 2, 17]).unwrap();
            let id = &request[at + 2..at + 19];
            for last in [0, 1] {
                let flag = field(4, &[field(1, b"triton_final_response"), field(2, &[8, last])].concat());
                let reply = field(2, &[field(3, id), flag, fitting(&[last])].concat());
                send(&mut stream, message(&reply).into()).await;
            }
        }
    }
    let _ = stream.send_trailers(trailers("0"));
}

fn answered(_: usize, body: Vec<u8>, answering: Answering) -> Exchange {
    Box::pin(async move {
        let length = u32::from_be_bytes(body[1..5].try_into().unwrap()) as usize;
        assert_eq!(body.len(), 5 + length, "a request is one message");
        let sum = body.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte));
        good(answering, &fitting(&[sum])).await;
    })
}

fn untended(_: usize, _: &mut Conversation) {}

#[test]
fn requests_of_all_sizes_pass_windows_of_all_sizes() {
    for window in [1, 100, 16_384, 1 << 20] {
        for bytes in [0, 64, 5000, 70_000, 300_000] {
            // Each grant is a way there and back.
            if bytes / window > 1000 {
                continue;
            }
            let mut builder = Builder::new();
            builder.initial_window_size(window as u32).initial_connection_window_size(65_535);
            let setup = Setup { slots: 3, bytes, ..PLAIN };
            let mut bench = Bench::at(&serve(builder, answered, untended), setup);
            for _ in 0..2 {
                (0..3).for_each(|slot| bench.submit(slot));
                assert!(bench.outcomes(3).iter().all(|outcome| outcome.1 == Ok(1)), "window {window}, {bytes} bytes");
            }
        }
    }
}

#[test]
fn large_answers_come_whole() {
    fn large(_: usize, _: Vec<u8>, answering: Answering) -> Exchange {
        Box::pin(async move {
            // Field 5 describes 5 000 000 elements, field 6 has them.
            let described = [field(1, b"O"), field(2, b"UINT8"), field(3, &[0xc0, 0x96, 0xb1, 0x02])].concat();
            let reply = [field(5, &described), vec![6 << 3 | 2, 0xc0, 0x96, 0xb1, 0x02], vec![7; 5_000_000]].concat();
            good(answering, &reply).await;
        })
    }
    for watch in [false, true] {
        let setup = Setup { slots: 2, watch, replies: ReplyRule::Fitting, ..PLAIN };
        let mut bench = Bench::at(&serve(Builder::new(), large, untended), setup);
        (0..2).for_each(|slot| bench.submit(slot));
        assert!(bench.outcomes(2).iter().all(|outcome| outcome.1 == Ok(1)));
    }
}

#[test]
fn few_streams_are_shared_by_many_slots() {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(2).max_frame_size(16_384);
    for streaming in [false, true] {
        let setup = Setup { slots: 9, streaming, decoupled: streaming, ..PLAIN };
        let mut bench = Bench::at(&serve(builder.clone(), answered, untended), setup);
        let responses = if streaming { 2 } else { 1 };
        for _ in 0..50 {
            (0..9).for_each(|slot| bench.submit(slot));
            assert!(bench.outcomes(9).iter().all(|outcome| outcome.1 == Ok(responses)));
        }
    }
}

#[test]
fn headers_of_both_sides_may_be_large_and_change_the_tables() {
    fn wordy(number: usize, _: Vec<u8>, mut answering: Answering) -> Exchange {
        Box::pin(async move {
            let mut response = head();
            for index in 0..40 {
                let name = http::HeaderName::try_from(format!("x-{index}")).unwrap();
                let value = format!("{}-{}", number % 3, "value \u{7e}!".repeat(30 + index));
                response.headers_mut().insert(name, HeaderValue::try_from(value).unwrap());
            }
            let mut stream = answering.send_response(response, false).unwrap();
            send(&mut stream, message(&fitting(b"x")).into()).await;
            let mut ending = trailers("0");
            ending.insert("x-text", HeaderValue::try_from("t".repeat(10_000)).unwrap());
            stream.send_trailers(ending).unwrap();
        })
    }
    let mut bench = Bench::at(&serve(Builder::new(), wordy, untended), PLAIN);
    (0..20).for_each(|_| assert_eq!(bench.infer(), Ok(1)));
}

#[test]
fn our_header_blocks_are_continued_where_they_are_long() {
    let address = serve(Builder::new(), answered, untended);
    let mut connection = super::connection(&address, PLAIN);
    connection.headers = vec![("x-long".to_owned(), "0123456789abcdef".repeat(4000))];
    let backend = triton_bench::backends::kserve_grpc::GrpcBackend::connect(&connection).unwrap();
    let mut bench = Bench::through(&backend, PLAIN);
    (0..3).for_each(|_| assert_eq!(bench.infer(), Ok(1)));
}

#[test]
fn every_end_of_a_stream_is_understood() {
    fn ends(number: usize, _: Vec<u8>, mut answering: Answering) -> Exchange {
        Box::pin(async move {
            match number {
                0 => answering.send_reset(Reason::REFUSED_STREAM),
                1 => {
                    let mut stream = answering.send_response(head(), false).unwrap();
                    send(&mut stream, Bytes::from_static(&[0, 0, 0, 0, 9, 1, 2])).await;
                    stream.send_reset(Reason::INTERNAL_ERROR);
                }
                2 => {
                    let mut response = head();
                    response.headers_mut().extend(trailers("5"));
                    answering.send_response(response, true).unwrap();
                }
                3 => {
                    let mut stream = answering.send_response(head(), false).unwrap();
                    stream.send_trailers(trailers("8")).unwrap();
                }
                4 => {
                    answering.send_response(Response::builder().status(503).body(()).unwrap(), true).unwrap();
                }
                _ => good(answering, &fitting(b"x")).await,
            }
        })
    }
    let mut bench = Bench::at(&serve(Builder::new(), ends, untended), PLAIN);
    for (code, text) in [
        ("Unavailable", "REFUSED_STREAM"),
        ("Stream reset", "INTERNAL_ERROR"),
        ("Not found", ""),
        ("Resource exhausted", ""),
        ("Unavailable", "503"),
    ] {
        bench.fails(code, text);
    }
    assert_eq!(bench.infer(), Ok(1));
}

#[test]
fn a_server_that_shuts_down_gracefully_answers_what_it_took() {
    fn slow(_: usize, _: Vec<u8>, answering: Answering) -> Exchange {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            good(answering, &fitting(b"x")).await;
        })
    }
    let farewell = |number, connection: &mut Conversation| {
        if number == 2 {
            connection.graceful_shutdown();
        }
    };
    let address = serve(Builder::new(), slow, farewell);
    let mut bench = Bench::at(&address, Setup { slots: 3, ..PLAIN });
    (0..3).for_each(|slot| bench.submit(slot));
    assert!(bench.outcomes(3).iter().all(|outcome| outcome.1 == Ok(1)));
    // Connections of three calls each.
    (0..10).for_each(|_| assert_eq!(bench.infer(), Ok(1)));
}

#[test]
fn a_server_that_breaks_off_is_understood() {
    fn never(_: usize, _: Vec<u8>, _: Answering) -> Exchange {
        Box::pin(std::future::pending())
    }
    // The control plane makes two calls on a connection of its own, and waits for each.
    let abrupt = |number, connection: &mut Conversation| {
        if number == 2 {
            connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        }
    };
    let mut bench = Bench::at(&serve(Builder::new(), never, abrupt), Setup { slots: 3, ..PLAIN });
    (0..3).for_each(|slot| bench.submit(slot));
    // A call whose answer the server drops first is reset before the connection ends.
    let is_reset = |code: &str, message: &str| code == "Cancelled" && message.contains("reset the stream with CANCEL");
    for (_, outcome) in bench.outcomes(3) {
        let (code, message) = outcome.unwrap_err();
        let is_ended = code == "Unavailable" && message.contains("ENHANCE_YOUR_CALM");
        assert!(is_ended || is_reset(&code, &message), "{code}: {message}");
    }
}

#[test]
fn windows_that_change_on_the_way_are_kept_to() {
    let widen = |number: usize, connection: &mut Conversation| {
        connection.set_target_window_size(65_535 + 10_000 * number as u32);
        // Narrower and wider in turn; refused while the last change is not acknowledged.
        let _ = connection.set_initial_window_size(if number.is_multiple_of(2) { 900 } else { 40_000 });
    };
    let mut bench = Bench::at(&serve(Builder::new(), answered, widen), Setup { slots: 4, bytes: 200_000, ..PLAIN });
    for _ in 0..10 {
        (0..4).for_each(|slot| bench.submit(slot));
        assert!(bench.outcomes(4).iter().all(|outcome| outcome.1 == Ok(1)));
    }
}
