//! Request bodies, and reports on answers that do not stream.

use std::collections::HashSet;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use super::*;
use crate::support::Export;
use crate::support::authority::Authority;

/// A server that writes down what it gets.
fn recording(received: &Arc<Mutex<Vec<Received>>>) -> impl Fn(&Received) -> Vec<Act> + Send + Sync + use<> {
    let received = Arc::clone(received);
    move |request| {
        received.lock().unwrap().push(request.clone());
        answer(request)
    }
}

/// As inference-perf does: whose file names no model means the one that the server has.
#[test]
fn without_a_model_the_first_that_the_server_lists_is_measured() {
    let received: Arc<Mutex<Vec<Received>>> = Arc::default();
    let list = r#"{"object":"list","data":[{"id":"served/one","object":"model"},{"id":"other"}]}"#;
    let server = HttpServer::start(recording(&received));
    server.answer_instead("/v1/models", http_server::reply("200 OK", "", list.as_bytes()));
    let program = || Program::new().args("--service-kind openai --endpoint v1/completions --request-count 4");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("load.yaml");
    std::fs::write(
        &file,
        format!(
            "load: {{type: constant, stages: [{{rate: 20, duration: 1}}]}}\nserver: {{type: vllm, base_url: {}}}\n",
            server.url()
        ),
    )
    .unwrap();
    let named = program().args(&format!("--prompt-tokens 3 -u {}", server.url())).run();
    named.report_even_if_late();
    assert!(named.stderr.contains("'served/one' is measured"), "{named:#?}");
    let reports = folder.path().join("reports");
    let of_file = Program::new().args("--on-disturbance mark --report-parts none --report-dir").arg(&reports);
    let of_file = of_file.arg("--config").arg(&file).run();
    of_file.report_even_if_late();
    assert!(!reports.exists(), "nothing was asked for");
    let models =
        |request: &Received| serde_json::from_slice::<serde_json::Value>(&request.body).unwrap()["model"].clone();
    let models: Vec<serde_json::Value> = received.lock().unwrap().iter().map(models).collect();
    assert!(models.len() >= 24 && models.iter().all(|model| model == "served/one"), "{models:?}");

    // As OpenAI's own clients are told the address.
    let based = HttpServer::start(recording(&received));
    based.answer_instead("/v1/models", http_server::reply("200 OK", "", list.as_bytes()));
    let flags = "--service-kind openai --endpoint completions --request-count 4 --prompt-tokens 3";
    let named = Program::new().args(&format!("{flags} -u {}/v1", based.url())).run();
    named.report_even_if_late();
    assert!(named.stderr.contains("'served/one' is measured"), "{named:#?}");

    let without_list = HttpServer::start(answer);
    let refused = program().args(&format!("--prompt-tokens 3 -u {}", without_list.url())).run();
    assert!(
        refused.stderr.contains("-m is missing, and the server names no model: ") && refused.stderr.contains("404"),
        "{refused:#?}"
    );
    Program::new()
        .named_perf_analyzer()
        .args("--service-kind openai --endpoint v1/completions --prompt-tokens 3")
        .run()
        .refusal(&["-m"]);
}

/// A form of answers whose members are in no order but its own.
const FORMAT: &str = r#"{"type":"json_schema","json_schema":{"schema":{"z":1,"a":2},"name":"n"}}"#;

/// One prompt a line, as the field keeps them: strings, texts and whole bodies, which are sent as they are written.
#[test]
fn lines_are_prompts_and_what_the_server_counts_of_them_is_reported() {
    let received: Arc<Mutex<Vec<Received>>> = Arc::default();
    let kept = Arc::clone(&received);
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":2,\
                 \"prompt_tokens_details\":{\"cached_tokens\":30}}}\n\n";
    let server = HttpServer::start(move |request| {
        kept.lock().unwrap().push(request.clone());
        vec![Act::Send(stream(&[content("a"), content("b"), usage.to_owned(), DONE.to_owned()]))]
    });
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let body = r#"{"tools":[{"z":1.50,"a":2}],"messages":[],"seed":99999999999999999999999,"output_length":3}"#;
    let limited = r#"{"prompt":"three","output_length":3,"temperature":0.5}"#;
    let lines = format!("\u{feff}\"one\"\n\n{{\"text\":\"two\",\"id\":9}}\r\n{body}\n{limited}\n");
    std::fs::write(file("p.jsonl"), lines).unwrap();
    let run = bare(&server.url()).args("--request-count 30 --summary-file").arg(file("r.json"));
    let run = run.args("--report-dir").arg(file("reports"));
    let run = run.arg("--response-format").arg(FORMAT);
    let run = run.args("--require cache_hit_rate<26% --input-data").arg(file("p.jsonl")).run();
    run.report();
    assert!(run.stderr.contains("no fields of a request are not sent: id\n"), "{}", run.stderr);
    assert!(
        run.stdout.contains("(120 tokens each; in all ") && run.stdout.contains("Cache hit rate: 25.00%"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("\n  TTFT p99 ") && run.stdout.contains("\nPassed"), "{}", run.stdout);
    let bodies: HashSet<String> =
        received.lock().unwrap().iter().map(|request| String::from_utf8(request.body.clone()).unwrap()).collect();
    let chat = |text: &str, before: &str, after: &str| {
        let message = format!(r#"{{"content":"{text}","role":"user"}}"#);
        format!(r#"{{"model":"m",{before}"messages":[{message}]{after},"response_format":{FORMAT}}}"#)
    };
    let whole =
        body.replacen('{', r#"{"model":"m","#, 1).replacen("3}", &format!(r#"3,"response_format":{FORMAT}}}"#), 1);
    let limited = chat("three", r#""temperature":0.5,"#, r#","max_tokens":3"#);
    assert_eq!(bodies, HashSet::from([chat("one", "", ""), chat("two", "", ""), whole, limited]));
    let result: serde_json::Value = serde_json::from_slice(&std::fs::read(file("r.json")).unwrap()).unwrap();
    let figures = &result["levels"][0]["figures"];
    assert_eq!((&figures["input_length"], &figures["output_length"]), (&120.0.into(), &2.0.into()));
    assert_eq!(figures["cache_hit_rate"], 0.25);
    assert!(result["answer"]["words"].as_str().unwrap().starts_with("At concurrency 1: TTFT p99 "), "{result}");
    let report = std::fs::read(file("reports/summary_lifecycle_metrics.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let successes = &report["successes"];
    let prompts = &successes["prompt_tokens"];
    assert_eq!((&prompts["total"], &prompts["cached"], &prompts["p99"]), (&3600.into(), &900.into(), &120.0.into()));
    assert_eq!((&successes["output_len"]["median"], &successes["output_tokens"]["total"]), (&2.0.into(), &60.into()));
    let lengths: Vec<f64> = received.lock().unwrap().iter().map(|request| request.body.len() as f64).collect();
    let (least, most) = lengths.iter().fold((f64::MAX, 0.0_f64), |(low, high), &len| (low.min(len), high.max(len)));
    assert_eq!(
        (&successes["request_size_bytes"]["min"], &successes["request_size_bytes"]["max"]),
        (&least.into(), &most.into())
    );
    let rates = &successes["throughput"];
    let rate = |name: &str| rates[name].as_f64().unwrap();
    assert!((rate("input_tokens_per_sec") / rate("output_tokens_per_sec") - 60.0).abs() < 1e-6, "{rates}");
    assert!((rate("total_tokens_per_sec") / rate("output_tokens_per_sec") - 61.0).abs() < 1e-6, "{rates}");
    std::fs::write(file("bad.jsonl"), "\"one\"\n{\"id\":9}\n").unwrap();
    let refused = bare(&server.url()).args("--request-count 3 --input-data").arg(file("bad.jsonl")).run();
    refused.refusal(&["bad.jsonl, line 2: it is no prompt", "messages, prompt, input or text"]);
}

#[test]
fn payloads_arrive_as_they_are_in_every_load() {
    let payloads = Payloads::of(&[CHAT, r#"{ "model" : "other", "n": 1.50 , "text":"\u00e9\n" }"#]);
    for load in [
        "--concurrency-range 1",
        "--async --concurrency-range 4",
        "--request-rate-range 40",
        "--stage rate:400:20req --stage concurrency:2:20req",
    ] {
        let received = Arc::default();
        let server = HttpServer::start(recording(&received));
        let base = format!("http://{}/base/", server.url());
        let count = if load.contains("--stage") { "" } else { "--request-count 40" };
        let run = bare(&base).args("--input-data").arg(payloads.path("payloads.json"));
        let finished = run.args(&format!("{load} {count} -H Authorization:Bearer -H X-Own:1")).run();
        finished.report_even_if_late();
        let received = received.lock().unwrap();
        assert!(received.len() >= 40, "{load}: {}", received.len());
        let bodies: HashSet<&[u8]> = received.iter().map(|request| &request.body[..]).collect();
        let other = r#"{"model":"other","n":1.5,"text":"é\n"}"#;
        assert_eq!(bodies, HashSet::from([CHAT.as_bytes(), other.as_bytes()]), "{load}");
        for request in &*received {
            assert!(request.head.starts_with("POST /base/v1/chat/completions HTTP/1.1\r\n"), "{}", request.head);
            assert_eq!(request.field("content-type"), Some("application/json"));
            assert_eq!((request.field("authorization"), request.field("x-own")), (Some("Bearer"), Some("1")));
            assert_eq!((request.field("expect"), request.field("transfer-encoding")), (None, None));
        }
    }
}

#[test]
fn the_report_has_the_clients_half() {
    let payloads = Payloads::of(&[CHAT]);
    let server = HttpServer::start(answer);
    let files = |name: &str| payloads.path(name);
    let run = payloads.on(&server).args("--async --concurrency-range 2 --request-count 30 -f");
    let run = run.arg(files("out.csv")).args("--profile-export-file").arg(files("export.json")).run();
    let text = &run.stdout;
    assert_eq!(run.code(), 0, "{run:#?}");
    assert!(text.contains("  Service Kind: OPENAI\n") && !text.contains("Batch size:"), "{text}");
    assert!(text.contains("Request count: 30\n") && !text.contains("Server:"), "{text}");
    let csv = std::fs::read_to_string(files("out.csv")).unwrap();
    let header = csv.lines().next().unwrap();
    assert!(header.starts_with("Concurrency,Inferences/Second,Client Send,Client Recv,p50 latency"), "{header}");
    let export = Export::read(&files("export.json"));
    assert_eq!((&export.0["service_kind"], &export.0["endpoint"]), (&"openai".into(), &"v1/chat/completions".into()));
    let requests = export.experiments()[0]["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 30);
    for request in requests {
        assert_eq!(request["request_inputs"], serde_json::json!({ "payload": CHAT }));
        assert_eq!(request["response_outputs"].as_array().unwrap().len(), 1);
        let response = request["response_outputs"][0]["response"].as_str().unwrap();
        assert!(response.starts_with("{\"choices\":[{\"message\""), "{response}");
    }
}

#[test]
fn fields_are_set_where_they_are_asked_for() {
    let payloads = Payloads::of(&[CHAT]);
    let received = Arc::default();
    let server = HttpServer::start(recording(&received));
    let run = || bare(&server.url()).args("--input-data").arg(payloads.path("payloads.json"));
    let has_sent = |text: &str| {
        let requests = std::mem::take(&mut *received.lock().unwrap());
        let expected = format!("{},{text}}}", CHAT.strip_suffix('}').unwrap());
        assert!(!requests.is_empty());
        assert!(requests.iter().all(|request| request.body == expected.as_bytes()), "{expected}: {requests:?}");
    };
    run().args("--streaming --request-parameter max_tokens:9:int --request-count 3").run().report();
    has_sent(r#""max_tokens":9,"stream":true,"stream_options":{"include_usage":true}"#);
    // The payloads of genai-perf and of other callers of perf_analyzer say what they want.
    run().args("--streaming --request-count 3").named_perf_analyzer().run().report();
    has_sent(r#""stream":true"#);
}

#[test]
fn a_mix_names_its_adapters_in_the_payloads() {
    let payloads = Payloads::of(&[CHAT]);
    let received = Arc::default();
    let server = HttpServer::start(recording(&received));
    let mix = Program::new().args("--service-kind openai --endpoint v1/chat/completions --on-disturbance mark");
    let mix = mix.args(&format!("-u {} --model-mix lora-a:0.5,lora-b?temperature=hot:0.5 --input-data", server.url()));
    let run = mix.arg(payloads.path("payloads.json")).args("--request-count 60").run();
    run.report();
    let bodies: HashSet<String> =
        received.lock().unwrap().iter().map(|request| String::from_utf8(request.body.clone()).unwrap()).collect();
    let named = |model: &str| CHAT.replace("\"model\":\"m\"", &format!("\"model\":\"{model}\""));
    let hot = named("lora-b").replace("]}", "],\"temperature\":\"hot\"}");
    assert_eq!(bodies, HashSet::from([named("lora-a"), hot]));
    assert!(run.stdout.contains("lora-a") && run.stdout.contains("lora-b"), "{}", run.stdout);
}

#[test]
fn connections_are_encrypted_and_made_again() {
    let payloads = Payloads::of(&[CHAT]);
    let authority = Authority::new();
    let config = authority.server_config(&authority.issue(&["localhost"], 2090), false);
    let server = HttpServer::start_with(TcpListener::bind("127.0.0.1:0").unwrap(), Some(config), answer);
    let port = server.url().split_once(':').unwrap().1.to_owned();
    for load in ["--concurrency-range 1", "--async --concurrency-range 3"] {
        let run = bare(&format!("https://localhost:{port}")).args("--input-data").arg(payloads.path("payloads.json"));
        let run = run.args("--ssl-https-ca-certificates-file").arg(authority.file("ca.pem"));
        let report = run.args(&format!("{load} --request-count 20")).run().report();
        assert_eq!(report.level().client_number("Request count"), 20.0);
    }
    let untrusted = bare(&format!("https://localhost:{port}")).args("--input-data").arg(payloads.path("payloads.json"));
    untrusted.run().failure(&["UnknownIssuer", "--ssl-https-ca-certificates-file"]);
    let fickle = HttpServer::start(|request: &Received| {
        let mut acts = answer(request);
        if request.ordinal % 10 == 9 {
            acts.push(Act::Close);
        }
        acts
    });
    let kept = payloads.on(&fickle).args("--request-count 60 --reconnect --max-errors 100%").run();
    assert_eq!(kept.code(), 0, "{kept:#?}");
    let late = HttpServer::start(|_: &Received| vec![Act::Wait(std::time::Duration::from_millis(300))]);
    let late = payloads.on(&late).args("--request-count 3 --client-timeout-us 20000").run();
    assert!(late.code() == 3 && late.stdout.contains("Deadline exceeded: no answer within 20000 us"), "{late:#?}");
}

/// A tokenizer of single characters.
#[test]
fn generated_prompts_have_the_tokens_that_the_models_tokenizer_counts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokenizer.json");
    write_tokenizer(&file);
    let received = Arc::default();
    let server = HttpServer::start(recording(&received));
    let summary = folder.path().join("r.json");
    let run = bare(&server.url())
        .args("--prompt-tokens uniform:7:40 --request-count 30 --num-prompts 30 --tokenizer")
        .arg(&file)
        .args("--summary-file")
        .arg(&summary);
    let run = run.run();
    run.report();
    assert!(!run.stderr.contains("--prompt-tokens"), "{}", run.stderr);
    let lengths: Vec<usize> = received
        .lock()
        .unwrap()
        .iter()
        .map(|request| {
            let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
            body["messages"][0]["content"].as_str().unwrap().len()
        })
        .collect();
    assert!(lengths.iter().collect::<HashSet<_>>().len() > 10, "{lengths:?}");
    assert!(lengths.iter().all(|length| (7..=40).contains(length)), "{lengths:?}");
    // The server says nothing of its prompts: the same tokenizer counts them.
    let result: serde_json::Value = serde_json::from_slice(&std::fs::read(&summary).unwrap()).unwrap();
    let generated = &result["levels"][0]["client"]["generated"];
    assert_eq!(generated["input_tokens"], lengths.iter().sum::<usize>(), "{generated}");
    assert_eq!((&generated["inputs"], &generated["inputs_by_tokenizer"]), (&30.into(), &30.into()));
    assert!(run.stdout.contains("tokens each, counted by the tokenizer; in all"), "{}", run.stdout);
    let none = bare(&server.url()).args("--prompt-tokens 5 --tokenizer /dev/zero").run();
    none.failure_after_notes(&["--tokenizer /dev/zero", "it is not a tokenizer file"]);
}

#[test]
fn payloads_are_generated_if_asked_the_same_for_the_same_seed() {
    let bodies = |flags: &str| {
        let received = Arc::default();
        let server = HttpServer::start(recording(&received));
        let run = bare(&server.url()).args(&format!("--prompt-tokens 20:5 --request-count 30 {flags}")).run();
        run.report();
        assert!(run.stderr.contains("prompts have 20 words on average"), "{}", run.stderr);
        let received = received.lock().unwrap();
        received.iter().map(|request| String::from_utf8(request.body.clone()).unwrap()).collect::<Vec<_>>()
    };
    let three = bodies("--output-tokens 7 --num-prompts 3");
    let different: HashSet<&String> = three.iter().collect();
    assert_eq!(different.len(), 3, "{three:?}");
    for body in &three {
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((&body["model"], &body["max_tokens"]), (&"m".into(), &7.into()));
        let words = body["messages"][0]["content"].as_str().unwrap().split(' ').count();
        assert!((1..60).contains(&words), "{body}");
    }
    assert_eq!(three, bodies("--output-tokens 7 --num-prompts 3"));
    assert_ne!(three, bodies("--output-tokens 7 --num-prompts 3 --seed 2"));
}

#[test]
fn prompts_are_inputs_of_the_responses_api_and_chats_where_the_endpoint_is_not_known() {
    let bodies = |endpoint: &str| {
        let received = Arc::default();
        let server = HttpServer::start(recording(&received));
        let run = bare(&server.url()).args("--prompt-tokens 5 --output-tokens 7 --streaming --request-count 4");
        let run = run.args("--endpoint").arg(endpoint).run();
        run.report();
        let received = received.lock().unwrap();
        let bodies: Vec<serde_json::Value> =
            received.iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect();
        (bodies, run.stderr)
    };
    let (inputs, stderr) = bodies("v1/responses");
    assert!(!inputs.is_empty() && !stderr.contains("as chats"), "{stderr}");
    for body in inputs {
        assert!(body["input"].is_string() && body["max_output_tokens"] == 7, "{body}");
        let absent = ["messages", "max_tokens", "stream_options"].map(|name| body.get(name));
        assert_eq!(absent, [None; 3], "{body}");
    }
    let (prompts, stderr) = bodies("completion");
    assert!(prompts.iter().all(|body| body["prompt"].is_string()) && !stderr.contains("as chats"), "{stderr}");
    let (chats, stderr) = bodies("generate_stream");
    assert!(chats.iter().all(|body| body["messages"].is_array()), "{chats:?}");
    assert!(stderr.contains("prompts are sent to 'generate_stream' as chats (`messages`)"), "{stderr}");
}

#[test]
fn unique_prompts_are_sent_once_over_all_stages_and_levels() {
    let loads = [
        "--stage concurrency:4:60req --stage concurrency:2:80req --warm-up concurrency:2:10req",
        "--request-count 70 --concurrency-range 1,3",
    ];
    for load in loads {
        let bodies = |flags: &str| {
            let received = Arc::default();
            let server = HttpServer::start(recording(&received));
            let run = bare(&server.url()).args(&format!("--prompt-tokens 20 {load} {flags}")).run();
            run.report();
            let received = received.lock().unwrap();
            let all: HashSet<Vec<u8>> = received.iter().map(|request| request.body.clone()).collect();
            (received.len(), all.len(), run.stderr)
        };
        let (sent, different, _) = bodies("--num-prompts unique");
        assert!(sent >= 140 && different == sent, "{load}: {different} of {sent}");
        let (_, different, stderr) = bodies("");
        assert!(different <= 100, "{different}");
        assert!(stderr.contains("100 prompts are sent again and again"), "{stderr}");
    }
}

#[test]
fn a_trace_sets_the_length_of_outputs() {
    let payloads = Payloads::of(&[CHAT]);
    let trace = payloads.path("trace.csv");
    std::fs::write(&trace, "offset_ms,ContextTokens,GeneratedTokens\n0,5,11\n10,5,22\n20,5,33\n").unwrap();
    let received = Arc::default();
    let server = HttpServer::start(recording(&received));
    let run = bare(&server.url()).args("--input-data").arg(payloads.path("payloads.json"));
    run.args("--trace-parameter max_tokens --trace-replay").arg(&trace).run().report_even_if_late();
    let mut lengths: Vec<u64> = received
        .lock()
        .unwrap()
        .iter()
        .map(|request| {
            serde_json::from_slice::<serde_json::Value>(&request.body).unwrap()["max_tokens"].as_u64().unwrap()
        })
        .collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [11, 22, 33]);
}

/// As with a name, the first model is waited for.
#[test]
fn without_a_model_a_server_that_is_not_there_is_waited_for() {
    let run = Program::new()
        .args("--service-kind openai --endpoint v1/completions --prompt-tokens 3 --server-wait 2 -u localhost:1")
        .run();
    assert!(run.wall > std::time::Duration::from_millis(1900), "{:?}", run.wall);
    run.failure_after_notes(&["no server answers at http://localhost:1", "--server-wait"]);
    assert!(!run.stderr.contains("names no model"), "{}", run.stderr);
}
