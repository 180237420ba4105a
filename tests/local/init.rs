//! The command `init`: a model repository from a model's file.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::{Finished, Program};

/// A model that reads a digit of 8 x 8 pixels, made with the `onnx` module of Python: a product with weights, which are in a file of
/// their own, and the largest of the ten results.
fn digits() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/onnx/digits.onnx")
}

/// A folder, and a Triton in it that has one backend.
fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let server = folder.path().join("triton");
    fs::create_dir_all(server.join("backends/python")).unwrap();
    (folder, server)
}

fn init(file: &Path, repository: &Path, server: &Path) -> Finished {
    let program = Program::new().args("init").arg(file).args("--repository").arg(repository);
    program.args("--triton-server-directory").arg(server).run()
}

#[test]
fn an_onnx_file_becomes_a_repository_with_inputs_and_outputs() {
    let (folder, server) = place();
    let repository = folder.path().join("deep/models");
    let made = init(&digits(), &repository, &server);
    assert_eq!(made.code(), 0, "{}", made.stderr);
    let files: Vec<&str> = made.stdout.lines().map(|line| line.rsplit_once("digits/").unwrap().1).collect();
    assert_eq!(files, ["config.pbtxt", "1/model.onnx", "1/digits.weights"], "{}", made.stdout);
    let config = fs::read_to_string(repository.join("digits/config.pbtxt")).unwrap();
    let kept = "# Dimension 'batch' is taken for the batch; at most 8 a batch.\n\
        backend: \"onnxruntime\"\nmax_batch_size: 8\n\
        input {\n  name: \"pixels\"\n  data_type: TYPE_FP32\n  dims: [64]\n}\n\
        output {\n  name: \"scores\"\n  data_type: TYPE_FP32\n  dims: [10]\n}\n\
        output {\n  name: \"digit\"\n  data_type: TYPE_INT64\n  dims: [1]\n  reshape {\n  }\n}\n";
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&config), sorted(kept), "{config}");
    assert_eq!(fs::read(repository.join("digits/1/model.onnx")).unwrap(), fs::read(digits()).unwrap());
    for part in [
        "this Triton has no backend 'onnxruntime': ",
        "holds python; the image nvcr.io/nvidia/tritonserver:",
        "now measure it: triton-bench -m digits --model-repository ",
    ] {
        assert!(made.stderr.contains(part), "{part}: {}", made.stderr);
    }
    // A second time it overwrites nothing.
    fs::write(repository.join("digits/config.pbtxt"), "mine").unwrap();
    let again = init(&digits(), &repository, &server);
    assert_eq!(again.code(), 99);
    assert!(again.stderr.contains("nothing is overwritten"), "{}", again.stderr);
    assert_eq!(fs::read_to_string(repository.join("digits/config.pbtxt")).unwrap(), "mine");
    assert_eq!(fs::read_dir(&repository).unwrap().count(), 1, "nothing unfinished is left");
}

#[test]
fn what_cannot_be_read_is_told_and_leaves_nothing() {
    let (folder, server) = place();
    let repository = folder.path().join("models");
    let file = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let alone = file("alone.onnx", &fs::read(digits()).unwrap());
    for (path, part) in [
        (file("text.onnx", b"no model at all"), "it is not an ONNX model"),
        (file("script.py", b"print(1)"), "TritonPythonModel"),
        (file("weights.pt", b"x"), "torch.jit.save"),
        (folder.path().join("none.onnx"), "cannot be read"),
        (alone, "digits.weights' cannot be copied"),
    ] {
        let refused = init(&path, &repository, &server);
        assert_eq!(refused.code(), 99);
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
        let left = fs::read_dir(&repository).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{part}");
    }
}

#[test]
fn a_script_with_its_backend_needs_no_image() {
    let (folder, server) = place();
    let script = folder.path().join("model.py");
    fs::write(&script, "class TritonPythonModel:\n    def auto_complete_config(config): return config\n").unwrap();
    let repository = folder.path().join("models");
    let made = init(&script, &repository, &server);
    assert_eq!(made.code(), 0, "{}", made.stderr);
    assert!(!made.stderr.contains("image"), "{}", made.stderr);
    let config = fs::read_to_string(repository.join("model/config.pbtxt")).unwrap();
    assert!(config.contains("backend: \"python\"") && !config.contains("input ["), "{config}");
    assert!(repository.join("model/1/model.py").exists());
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    let (folder, server) = place();
    let (model, repository) = (folder.path().join("digits.onnx"), folder.path().join("models"));
    fs::copy(digits(), &model).unwrap();
    // Weights that take a while to be copied; they take no place here.
    fs::File::create(folder.path().join("digits.weights")).unwrap().set_len(8 << 30).unwrap();
    let program = Program::new().args("init").arg(&model).args("--repository").arg(&repository);
    let run = program.args("--triton-server-directory").arg(&server).start();
    let unfinished = || fs::read_dir(&repository).ok()?.flatten().next().map(|entry| entry.path());
    let patience = Instant::now();
    while !unfinished().is_some_and(|path| path.join("1/digits.weights").exists()) {
        assert!(patience.elapsed() < Duration::from_secs(20), "it does not copy");
        thread::sleep(Duration::from_millis(1));
    }
    run.signal(2);
    let finished = run.finish();
    assert_eq!(finished.code(), 130, "{}", finished.stderr);
    assert!(finished.stderr.contains("interrupted; nothing was made"), "{}", finished.stderr);
    assert_eq!(unfinished(), None);
}
