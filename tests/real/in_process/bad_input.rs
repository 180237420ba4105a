//! Bad input is refused: one line that names the flag or file, the value, the rule and the next step, exit code 99,
//! within two seconds, and nothing half-written.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::repository::names;
use crate::support::{Finished, Model, Program, Repository, Scripted, triton};

/// A run on a sound repository with one model, and these arguments besides.
fn run(model: Model, arguments: &str) -> Finished {
    let repository = Repository::of(&[model]);
    Program::on(&repository, "m").quick().args(arguments).run()
}

/// Arguments that a sound model must refuse.
fn refused(arguments: &str, words: &[&str]) {
    run(Model::identity("m"), arguments).refusal(words);
}

/// A run on this server directory.
fn on_server(server: &Path) -> Finished {
    let repository = Repository::of(&[Model::identity("m")]);
    Program::in_process(server, &repository.path()).args("-m m").run()
}

/// A load that fails; Triton's own words must be said, once.
fn load_fails(repository: &Repository, words: &[&str]) {
    let mut finished = Program::on(repository, "m").quick().run();
    // Triton's parser writes where a configuration is wrong to standard error by itself, past every log setting.
    finished.stderr = finished.stderr.lines().filter(|line| !line.starts_with("[libprotobuf ")).collect();
    let line = finished.refusal(words);
    assert!(line.contains("model 'm'"), "{line}");
    for word in words.iter().filter(|word| word.len() > 20) {
        assert_eq!(line.matches(word).count(), 1, "said more than once: {line}");
    }
}

#[test]
fn a_missing_server_directory() {
    on_server(Path::new("/none/such")).refusal(&[
        "--triton-server-directory",
        "/none/such",
        "is not a directory",
        "name",
    ]);
}

#[test]
fn a_directory_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    on_server(folder.path()).refusal(&[
        "--triton-server-directory",
        folder.path().to_str().unwrap(),
        "lib/libtritonserver.so",
    ]);
}

#[test]
fn a_file_in_place_of_the_server_directory() {
    let file = tempfile::NamedTempFile::new().unwrap();
    on_server(file.path()).refusal(&["--triton-server-directory", file.path().to_str().unwrap(), "is not a directory"]);
}

#[test]
fn a_library_that_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("lib/libtritonserver.so");
    fs::create_dir(folder.path().join("lib")).unwrap();
    for content in [&b"no library"[..], b"", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0"] {
        fs::write(&library, content).unwrap();
        on_server(folder.path()).refusal(&["--triton-server-directory", library.to_str().unwrap(), "cannot load"]);
    }
}

#[test]
fn a_library_that_is_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("lib/libtritonserver.so")).unwrap();
    on_server(folder.path()).refusal(&["--triton-server-directory", "lib/libtritonserver.so", "cannot load"]);
}

#[test]
fn a_link_to_a_library_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("lib")).unwrap();
    symlink("/none/such.so", folder.path().join("lib/libtritonserver.so")).unwrap();
    on_server(folder.path()).refusal(&["--triton-server-directory", "libtritonserver.so"]);
}

#[test]
fn a_library_of_another_kind_lacks_everything() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("lib")).unwrap();
    symlink(crate::support::artifact("libtriton_bench.so"), folder.path().join("lib/libtritonserver.so")).unwrap();
    let finished = on_server(folder.path());
    let line = finished.refusal(&["--triton-server-directory", "no API version", "lacks", "a Triton release"]);
    for name in ["TRITONSERVER_ApiVersion", "TRITONSERVER_ServerNew", "TRITONSERVER_InferenceResponseOutput"] {
        assert!(line.contains(name), "{name} is missing: {line}");
    }
}

#[test]
fn a_library_that_lacks_one_function() {
    let finished = Scripted::without(&["TRITONSERVER_ServerInferAsync"]).program().quick().run();
    let line = finished.refusal(&[
        "--triton-server-directory",
        "lib/libtritonserver.so",
        "API version 1.",
        "a Triton release",
    ]);
    assert!(line.contains("lacks TRITONSERVER_ServerInferAsync;"), "names more than what is missing: {line}");
}

#[test]
fn a_missing_model_repository() {
    let finished = Program::in_process(&triton(), Path::new("/none/such")).args("-m m").run();
    finished.refusal(&["--model-repository", "/none/such", "is not a directory", "name"]);
}

#[test]
fn one_missing_model_repository_of_two() {
    let repository = Repository::of(&[Model::identity("m")]);
    let finished = Program::on(&repository, "m").args("--model-repository /none/such").run();
    finished.refusal(&["--model-repository", "/none/such"]);
}

#[test]
fn no_model_of_that_name() {
    let repository = Repository::of(&[Model::identity("other")]);
    Program::on(&repository, "m").run().refusal(&["model 'm'", "--model-repository"]);
}

#[test]
fn an_empty_repository() {
    Program::on(&Repository::of(&[]), "m").run().refusal(&["model 'm'"]);
}

#[test]
fn a_model_name_that_is_a_path() {
    let repository = Repository::of(&[Model::identity("m")]);
    Program::on(&repository, "../models/m").run().refusal(&["../models/m"]);
}

#[test]
fn a_broken_configuration() {
    let repository = Repository::of(&[Model::identity("m").with("max_batch_size: 7")]);
    load_fails(&repository, &["m/config.pbtxt"]);
    // Well-formed, but senseless: Triton's reason is known from its log alone.
    let senseless = Model::identity("m").with("input [{ name: \"BAD\" data_type: TYPE_FP32 dims: [0] }]");
    load_fails(&Repository::of(&[senseless]), &["model input 'BAD' dimension must be integer"]);
}

#[test]
fn a_configuration_that_is_no_text() {
    let repository = Repository::of(&[Model::identity("m")]);
    fs::write(repository.path().join("m/config.pbtxt"), [0xff, 0xfe, 0, 1]).unwrap();
    load_fails(&repository, &["config.pbtxt"]);
}

#[test]
fn a_missing_model_file() {
    let repository = Repository::of(&[Model::identity("m").backend("python")]);
    load_fails(&repository, &["model.py"]);
}

#[test]
fn a_model_without_versions() {
    let repository = Repository::of(&[Model::identity("m").versions(&[])]);
    load_fails(&repository, &["version"]);
}

#[test]
fn a_missing_backend() {
    let repository = Repository::of(&[Model::identity("m").backend("nonesuch")]);
    load_fails(&repository, &["nonesuch"]);
}

#[test]
fn a_model_that_refuses_to_load() {
    let repository = Repository::of(&[Model::identity("m").parameter("init_fail", "out of coffee until tomorrow")]);
    load_fails(&repository, &["out of coffee until tomorrow"]);
}

#[test]
fn a_python_model_that_refuses_to_load() {
    let script =
        "class TritonPythonModel:\n    def initialize(self, args):\n        raise ValueError('no weights today')\n";
    let repository = Repository::of(&[Model::python("m", script)]);
    let finished = Program::on(&repository, "m").quick().run();
    finished.failure(&["model 'm'", "no weights today"]);
    assert_eq!(finished.stdout, "");
}

#[test]
fn a_concurrency_beyond_all_bounds() {
    let finished = run(Model::identity("m"), "--concurrency-range 4294967295");
    finished.refusal(&["--concurrency-range", "4294967295"]);
}

#[test]
fn a_batch_above_the_models() {
    refused("-b 9", &["-b", "9", "8", "'m'"]);
}

#[test]
fn a_shape_that_is_open() {
    let tensors = r#"
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [-1, 4] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1, 4] }]"#;
    let model = Model::identity("m").tensors(tensors);
    run(model.clone(), "").refusal(&["INPUT0", "--shape"]);
    run(model.clone(), "--shape INPUT0:3").refusal(&["INPUT0", "--shape", "3"]);
    run(model.clone(), "--shape INPUT0:3,5").refusal(&["INPUT0", "--shape", "3,5"]);
    run(model.clone(), "--shape NONE:3,4 --shape INPUT0:3,4").refusal(&["NONE", "--shape"]);
    run(model, "--shape INPUT0:3,4").report();
}

#[test]
fn processors_that_are_not_there() {
    refused("--cpus 9999", &["--cpus", "9999"]);
    refused("--worker-cpus 9999", &["--worker-cpus", "9999"]);
}

#[test]
fn a_flag_that_does_not_exist() {
    refused("--no-such-flag", &["--no-such-flag", "see --help"]);
}

/// Output paths are tried before the server is started, and nothing is left of the trial.
#[test]
fn output_paths_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there.json");
    fs::write(&there, "precious").unwrap();
    let inside = folder.path().to_str().unwrap();
    let refusals = [
        ("-f".to_owned(), format!("{inside}/none/a.csv")),
        ("-f".to_owned(), inside.to_owned()),
        ("-f".to_owned(), format!("{inside}/there.json/a.csv")),
        ("--profile-export-file".to_owned(), format!("{inside}/none/a.json")),
        ("--profile-export-file".to_owned(), inside.to_owned()),
        ("--profile-export-file".to_owned(), format!("{inside}/there.json")),
        ("--requests-file".to_owned(), format!("{inside}/none/a.parquet")),
        ("--requests-file".to_owned(), inside.to_owned()),
        ("--log-file".to_owned(), format!("{inside}/none/log")),
        ("--log-file".to_owned(), inside.to_owned()),
    ];
    for (flag, path) in refusals {
        // A server that cannot be started shows which comes first.
        let finished =
            Program::in_process(Path::new("/none/such"), folder.path()).args("-m m").arg(&flag).arg(&path).run();
        finished.refusal(&[&flag, &path]);
        assert_eq!(names(folder.path()), ["there.json"]);
        assert_eq!(fs::read_to_string(&there).unwrap(), "precious");
    }
}

#[test]
fn a_refusal_leaves_no_file_behind() {
    let repository = Repository::of(&[Model::identity("m").parameter("init_fail", "no")]);
    let (table, export) = (repository.file("a.csv"), repository.file("a.json"));
    let program = Program::on(&repository, "m").arg("-f").arg(table).arg("--profile-export-file").arg(export);
    program.run().refusal(&["model 'm'"]);
    assert_eq!(repository.files(), ["models"]);
}

#[test]
fn a_cache_that_is_not_there() {
    refused("--cache-config nonesuch,size=1000", &["nonesuch"]);
}

#[test]
fn server_settings_that_the_server_refuses() {
    let script = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n";
    run(Model::python("m", script), "--backend-directory /none/such").refusal(&["model 'm'", "backend"]);
    run(Model::identity("m").with("response_cache { enable: true }"), "--cache-config local,size=-5")
        .refusal(&["LocalCache"]);
}
