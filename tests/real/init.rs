//! What the command `init` makes, in a real Triton.

use std::fs;
use std::path::Path;

use crate::support::{Program, Repository, triton};

/// A model that answers its input and tells its tensors itself.
const SELF_DESCRIBING: &str = r#"
import triton_python_backend_utils as pb

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(4)
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [4]})
        config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [4]})
        return config

    def execute(self, requests):
        tensor = lambda request: pb.get_input_tensor_by_name(request, "IN").as_numpy()
        answer = lambda request: pb.InferenceResponse([pb.Tensor("OUT", tensor(request))])
        return [answer(request) for request in requests]
"#;

fn init(repository: &Repository, file: &Path) {
    let program = Program::new().args("init").arg(file).args("--repository").arg(repository.path());
    let made = program.args("--triton-server-directory").arg(triton()).run();
    assert_eq!(made.code(), 0, "{}", made.stderr);
}

#[test]
fn a_script_is_measured_as_the_command_says() {
    let repository = Repository::of(&[]);
    let script = repository.file("echo.py");
    fs::write(&script, SELF_DESCRIBING).unwrap();
    init(&repository, &script);
    let run = Program::on(&repository, "echo").args("--request-count 20 -b 4").run();
    assert_eq!(run.code(), 0, "{}", run.stderr);
    assert_eq!(run.report().level().client_number("Request count"), 20.0);
}

#[test]
fn triton_takes_the_configuration_of_an_onnx_file() {
    let repository = Repository::of(&[]);
    init(&repository, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/onnx/digits.onnx"));
    // This Triton has no backend for it: that is all that is wrong.
    let refused = Program::on(&repository, "digits").run();
    assert_eq!(refused.code(), 99);
    if !triton().join("backends/onnxruntime").exists() {
        assert!(refused.stderr.contains("this Triton has no backend 'onnxruntime'"), "{}", refused.stderr);
        assert!(refused.stderr.contains("the image nvcr.io/"), "{}", refused.stderr);
    }
    // With a backend that is there, the same tensors are measured.
    let config = repository.path().join("digits/config.pbtxt");
    let text = fs::read_to_string(&config).unwrap().replace("onnxruntime", "python");
    fs::write(&config, text).unwrap();
    let script = SELF_DESCRIBING.replace("auto_complete_config", "unused").replace(
        "return [answer(request) for request in requests]",
        "import numpy\n        size = lambda request: len(tensor(request))\n        scores = lambda request: pb.Tensor(\"scores\", \
         numpy.zeros((size(request), 10), numpy.float32))\n        digit = lambda request: pb.Tensor(\"digit\", \
         numpy.zeros((size(request),), numpy.int64))\n        return [pb.InferenceResponse([scores(r), digit(r)]) for r in requests]",
    );
    fs::write(repository.path().join("digits/1/model.py"), script.replace("\"IN\"", "\"pixels\"")).unwrap();
    let run = Program::on(&repository, "digits").args("--request-count 20 -b 8").run();
    assert_eq!(run.code(), 0, "{}", run.stderr);
}
