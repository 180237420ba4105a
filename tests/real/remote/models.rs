//! The `models` command: what a repository and a server offer.

use super::PROTOCOLS;
use crate::support::{Model, Program, Repository, TritonServer, triton};

/// What is listed of a model: its line and those of its tensors.
fn block<'a>(list: &'a str, name: &str) -> Vec<&'a str> {
    let mut lines = list.lines().skip_while(|line| !line.starts_with(&format!("{name}: ")));
    let first = lines.next().unwrap_or_else(|| panic!("no {name} in:\n{list}"));
    std::iter::once(first).chain(lines.take_while(|line| line.starts_with(' '))).collect()
}

fn repository() -> Repository {
    let broken = Model::identity("broken").backend("absent");
    Repository::of(&[Model::identity("a").batches(8), Model::identity("b").versions(&[1]), broken])
}

fn in_process(repository: &Repository) -> Program {
    let program = Program::new().args("models --model-repository").arg(repository.path());
    program.args("--triton-server-directory").arg(triton())
}

#[test]
fn a_repository_and_a_server_list_the_same_models() {
    let repository = repository();
    let local = in_process(&repository).run();
    assert_eq!(local.code(), 0, "{}", local.stderr);
    let listed = block(&local.stdout, "a");
    assert!(listed[0].ends_with("version 1, batches of up to 8"), "{}", local.stdout);
    assert!(listed[1].contains("input") && listed[1].contains("INPUT0") && listed[1].contains("FP32"), "{listed:?}");
    assert!(listed[2].contains("output") && listed[2].contains("OUTPUT0"), "{listed:?}");
    let [broken] = block(&local.stdout, "broken")[..] else { panic!("{}", local.stdout) };
    assert!(broken.contains("absent"), "{broken}");
    let server = TritonServer::start_with(&repository, &["--exit-on-error=false", "--strict-readiness=false"]);
    let Some(server) = server else { return };
    for protocol in PROTOCOLS {
        let remote = Program::new().args(&format!("models -i {protocol} -u {}", server.url(protocol))).run();
        assert_eq!(remote.code(), 0, "{}", remote.stderr);
        for name in ["a", "b"] {
            assert_eq!(block(&remote.stdout, name), block(&local.stdout, name), "{protocol}");
        }
        assert!(block(&remote.stdout, "broken")[0].contains("unavailable"), "{}", remote.stdout);
        // Waiting does not help a model that the server could not load.
        let measure =
            |model: &str| TritonServer::program_at(&server.url(protocol), protocol, model).args("--server-wait 60");
        measure("broken").run().failure(&["model 'broken' could not be loaded by the server", "'absent'"]);
        measure("b").args("-x 7").run().failure(&["no model 'b:7'", "its versions: 1"]);
        measure("c").run().failure(&["no model 'c'", "the server has a, b, broken"]);
    }
}

#[test]
fn one_model_may_be_asked_for() {
    let repository = repository();
    let run = in_process(&repository).args("-m b").run();
    assert_eq!(run.code(), 0, "{}", run.stderr);
    assert!(run.stdout.starts_with("b: ") && !run.stdout.contains("\na: "), "{}", run.stdout);
    in_process(&repository).args("-m c").run().failure(&["-m 'c'", "no such model"]);
}

#[test]
fn a_server_that_lists_no_models_is_an_error() {
    Program::new().args("models --service-kind tfserving").run().refusal(&["--service-kind tfserving", "KServe"]);
    Program::new().args("models -u 127.0.0.1:1 --server-wait 0").run().refusal(&["no server answers at"]);
    let closed = Program::new().args("models -i grpc -u 127.0.0.1:1 --server-wait 0").run();
    closed.refusal(&["127.0.0.1:1: the server was not ready", "Connection refused", "start it, name it with -u"]);
    Program::new().named_perf_analyzer().args("models").run().failure(&["triton-bench models"]);
}
