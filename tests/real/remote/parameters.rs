//! What requests carry besides tensors.

use serde_json::{Value, json};

use super::PROTOCOLS;
use crate::support::report::number_in;
use crate::support::{Model, Program, Repository, TritonServer};

#[test]
fn parameters_of_every_type_arrive() {
    let repository = Repository::of(&[]);
    for model in ["http", "grpc", "double"] {
        repository.add(&repository.journaling(Model::identity(model)));
    }
    let Some(server) = TritonServer::start(&repository) else { return };
    let parameters = [
        ("b:true:bool", "b", json!(true)),
        ("i:-7:int", "i", json!(-7)),
        ("u:9223372036854775807:uint", "u", json!(i64::MAX)),
        ("s:a:b \"c\":string", "s", json!("a:b \"c\"")),
    ];
    for protocol in PROTOCOLS {
        let program = server.program(protocol, protocol).args("--request-count 5");
        let program =
            parameters.iter().fold(program, |program, (flag, ..)| program.args("--request-parameter").arg(*flag));
        program.run().report_even_if_late();
    }
    let double =
        |protocol| server.program(protocol, "double").args("--request-count 5 --request-parameter d:0.5:double").run();
    double("http").report_even_if_late();
    // Servers up to 24.10 take no such parameter over gRPC, which is their reason to refuse and no fault of ours.
    let over_grpc = double("grpc");
    if over_grpc.code() != 0 {
        let report = over_grpc.report_with(3);
        assert_eq!(
            report.level().failures("Invalid argument: invalid value type for 'd' parameter"),
            5,
            "{}",
            report.text
        );
    }
    server.stop();
    assert!(repository.journal("double").iter().all(|line| line["parameters"]["d"] == 0.5));
    for protocol in PROTOCOLS {
        let journal = repository.journal(protocol);
        assert_eq!(journal.len(), 5, "{protocol}");
        for (_, name, value) in &parameters {
            assert_eq!(&journal[0]["parameters"][name], value, "{protocol} {name}: {}", journal[0]);
        }
    }
}

#[test]
fn entries_of_a_mix_send_their_own_parameters() {
    let repository = Repository::of(&[]);
    for protocol in PROTOCOLS {
        repository.add(&repository.journaling(Model::identity(&format!("{protocol}_a")).versions(&[1, 2])));
        repository.add(&repository.journaling(Model::identity(&format!("{protocol}_b"))));
    }
    let policy = "version_policy { all {} }";
    let model = repository.journaling(Model::identity("both").versions(&[1, 2]).with(policy));
    repository.add(&model);
    let Some(server) = TritonServer::start(&repository) else { return };
    for protocol in PROTOCOLS {
        let mix = format!("{protocol}_a?lora=x&depth=3:0.5,{protocol}_a?lora=y:0.25,{protocol}_b:0.25");
        let flags =
            format!("-i {protocol} -u {} --request-count 400 --async --concurrency-range 4", server.url(protocol));
        let finished =
            Program::new().args("--model-mix").arg(&mix).args(&flags).args("--request-parameter all:1:int").run();
        let report = finished.report_even_if_late();
        let text = &report.level().text;
        let reported =
            [format!("{protocol}_a?lora=x&depth=3"), format!("{protocol}_a?lora=y"), format!("{protocol}_b")]
                .map(|entry| number_in(text, &entry) as usize);
        assert_eq!(reported.iter().sum::<usize>(), 400, "{text}");
        assert!(reported[0] > 150 && reported[0] < 250, "{text}");
    }
    // Two versions of one model are told apart.
    for protocol in PROTOCOLS {
        let flags = format!("-i {protocol} -u {} --request-count 100", server.url(protocol));
        let finished = Program::new().args("--model-mix both:1:0.5,both:2:0.5").args(&flags).run();
        let report = finished.report_even_if_late();
        let text = &report.level().text;
        for version in [1, 2] {
            assert!(text.contains(&format!("    Model: both, version: {version}\n")), "{text}");
            assert!(number_in(text, &format!("both:{version}")) > 20.0, "{text}");
        }
    }
    server.stop();
    for protocol in PROTOCOLS {
        let lora = |value: &'static str| move |line: &&Value| line["parameters"]["lora"] == value;
        let first = repository.journal(&format!("{protocol}_a"));
        let second = repository.journal(&format!("{protocol}_b"));
        assert_eq!(first.len() + second.len(), 400);
        assert!(first.iter().chain(&second).all(|line| line["parameters"]["all"] == 1), "{}", second[0]);
        let x: Vec<_> = first.iter().filter(lora("x")).collect();
        assert!(x.len() > 150 && x.iter().all(|line| line["parameters"]["depth"] == "3"), "{}", x[0]);
        let y: Vec<_> = first.iter().filter(lora("y")).collect();
        assert_eq!(x.len() + y.len(), first.len());
        assert!(y.iter().all(|line| line["parameters"].get("depth").is_none()), "{}", y[0]);
        assert!(second.iter().all(|line| line["parameters"].get("lora").is_none()), "{}", second[0]);
    }
}

#[test]
fn a_counted_load_is_counted_alike_by_the_server() {
    let repository = Repository::of(&[Model::identity("identity")]);
    let Some(server) = TritonServer::start(&repository) else { return };
    for protocol in PROTOCOLS {
        for flags in ["", "-b 4 --async --concurrency-range 3", "--warmup-request-count 7 --concurrency-range 2"] {
            let run = server.program(protocol, "identity").args(flags).args("--request-count 50").run();
            let report = run.report_even_if_late();
            let level = report.level();
            let batch = if flags.starts_with("-b 4") { 4.0 } else { 1.0 };
            let counted = ["Successful request count", "Inference count"].map(|name| level.server_number(name));
            assert_eq!(counted, [50.0, 50.0 * batch], "{protocol} {flags}: {}", report.text);
            assert_eq!(level.client_number("Request count"), 50.0, "{protocol} {flags}: {}", report.text);
        }
    }
}
