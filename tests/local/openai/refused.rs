//! Refused flags and data, in perf_analyzer's words where it refuses them too.

use std::net::TcpListener;

use super::*;

#[test]
fn usage_errors_have_perf_analyzers_words() {
    let payloads = Payloads::of(&[CHAT]);
    let file = payloads.path("payloads.json").display().to_string();
    for (flags, words) in [
        ("-m m --endpoint v1/x", "Must supply --input-data for OpenAI service kind."),
        ("-m m --endpoint v1/x --input-data zero", "Must supply --input-data for OpenAI service kind."),
        (
            "-m m --input-data FILE",
            "Must supply --endpoint for OpenAI service kind. For example, \"v1/chat/completions\".",
        ),
        ("-m m --endpoint v1/x --input-data FILE -b 2", "Batching is not currently supported with OpenAI service-kind"),
        ("-m m --endpoint v1/x --input-data FILE -i grpc", "-i grpc"),
        ("-m m --endpoint v1/x --input-data FILE --shared-memory system", "--shared-memory system"),
        (
            "-m m --endpoint v1/x --input-data FILE --trace-rate 5",
            "--trace-rate 5 is for --service-kind triton or triton_c_api: leave it out, or choose that kind",
        ),
        ("-m m --endpoint v1/x --input-data FILE --prompt-tokens 5", "--prompt-tokens 5"),
        ("-m m --endpoint v1/x --input-data FILE --output-tokens 5", "add --prompt-tokens"),
        ("--endpoint v1/x --input-data FILE", "-m is missing"),
        ("-m m --endpoint http://h/v1 --input-data FILE", "--endpoint"),
    ] {
        let run = Program::new().args("--service-kind openai").args(&flags.replace("FILE", &file)).run();
        run.refusal(&[words]);
    }
    let metrics =
        Program::new().named_perf_analyzer().args("-m m --service-kind openai --endpoint v1/x --collect-metrics");
    let words = "Server-side metric collection is only supported with Triton client backend.";
    metrics.args("--input-data").arg(&file).run().refusal(&[words]);
}

#[test]
fn what_payloads_must_be_is_said() {
    let server = HttpServer::start(answer);
    for (file, words) in [
        (r#"{"data":[{"payload":[{},{}]}]}"#, &["payload", "Expected: 1 elements, Got: 2"][..]),
        (r#"{"data":[{"payload":{}}]}"#, &["payload", "missing content field"]),
        (r#"{"data":[{"text":[{}]}]}"#, &["'text' is not found", "payload"]),
        (r#"{"data":[{"payload":[{"a":NaN}]}]}"#, &["line 1", "NaN"]),
        (r#"{"data":[{"payload":[{"a":]}]}"#, &["failed to parse"]),
    ] {
        Payloads::file(file).on(&server).run().failure(words);
    }
    let list = Payloads::of(&["[1]"]);
    list.on(&server).args("--streaming --request-count 1").run().failure(&["stream 0, step 0", "not a JSON object"]);
    list.on(&server).args("--request-count 5").run().report();
}

#[test]
fn a_server_that_is_not_there_is_said() {
    let payloads = Payloads::of(&[CHAT]);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let run =
        bare(&format!("127.0.0.1:{port}")).args("--server-wait 0 --input-data").arg(payloads.path("payloads.json"));
    run.run().failure(&["no server answers at", "Connection refused", "--server-wait"]);
}
