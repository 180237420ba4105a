//! The first configuration of a model: what the format of its file tells, and what it leaves open.

use std::path::Path;

use serde_json::{Value, json};

use crate::onnx::{OnnxDim, OnnxModel, OnnxTensor};
use crate::{DataType, configuration};

/// Most requests that a model which takes batches gets at once.
const BATCH: u32 = 8;
/// The size of an open dimension in the command that measures the model first.
const OPEN: i64 = 16;

/// How a model is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// ONNX.
    Onnx,
    /// A module that PyTorch has traced or scripted.
    TorchScript,
    /// An engine of TensorRT.
    TensorRt,
    /// A script for Triton's python backend.
    Python,
    /// Arguments of vLLM's engine.
    Vllm,
}

/// A configuration.
#[derive(Debug, PartialEq)]
pub struct Starter {
    /// `config.pbtxt`.
    pub text: String,
    /// What the user should know, one sentence each.
    pub notes: Vec<String>,
    /// Further files that belong beside the model.
    pub files: Vec<String>,
    /// Sizes for inputs of any size, as values of `--shape`.
    pub shapes: Vec<String>,
}

impl Format {
    /// The format of a file by its name.
    pub fn from_path(file: &Path) -> Option<Self> {
        Some(match file.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "onnx" => Self::Onnx,
            "pt" | "pth" | "torchscript" => Self::TorchScript,
            "plan" | "engine" | "trt" => Self::TensorRt,
            "py" => Self::Python,
            "json" => Self::Vllm,
            _ => return None,
        })
    }

    /// The backend that runs it.
    pub fn backend(self) -> &'static str {
        match self {
            Self::Onnx => "onnxruntime",
            Self::TorchScript => "pytorch",
            Self::TensorRt => "tensorrt",
            Self::Python => "python",
            Self::Vllm => "vllm",
        }
    }

    /// The file's name in a repository.
    pub fn file(self) -> &'static str {
        match self {
            Self::Onnx => "model.onnx",
            Self::TorchScript => "model.pt",
            Self::TensorRt => "model.plan",
            Self::Python => "model.py",
            Self::Vllm => "model.json",
        }
    }

    /// The first configuration of a model with these bytes.
    ///
    /// # Errors
    /// Why they are not what the file's name says.
    pub fn starter(self, bytes: &[u8]) -> Result<Starter, String> {
        match self {
            Self::Onnx => onnx(&OnnxModel::read(bytes).map_err(|reason| format!("it is not an ONNX model: {reason}"))?),
            Self::TorchScript => torch_script(bytes),
            Self::TensorRt => Ok(self.with(
                json!({}),
                "Triton reads inputs and outputs from the engine when it loads it. An engine runs only on the kind of GPU and \
                 with the version of TensorRT that it was built for.",
            )),
            Self::Python => python(bytes),
            Self::Vllm => vllm(bytes),
        }
    }

    /// A configuration of these members that needs one explanation.
    fn with(self, mut members: Value, note: &str) -> Starter {
        members["backend"] = self.backend().into();
        let notes = vec![note.to_owned()];
        let text = comment(&notes) + &configuration::text(&members);
        Starter { text, notes, files: Vec::new(), shapes: Vec::new() }
    }
}

/// The image of NVIDIA's that has a backend.
pub fn image_with(backend: &str) -> Option<&'static str> {
    Some(match backend {
        "onnxruntime" | "pytorch" | "tensorrt" | "python" | "openvino" | "dali" | "fil" => {
            "nvcr.io/nvidia/tritonserver:26.06-py3"
        }
        "vllm" => "nvcr.io/nvidia/tritonserver:26.06-vllm-python-py3",
        "tensorrtllm" => "nvcr.io/nvidia/tritonserver:26.06-trtllm-python-py3",
        "tensorflow" => "nvcr.io/nvidia/tritonserver:24.10-py3",
        _ => return None,
    })
}

fn comment(notes: &[String]) -> String {
    notes.iter().map(|note| format!("# {note}\n")).collect()
}

fn onnx(model: &OnnxModel) -> Result<Starter, String> {
    if let Some((name, kind)) = model.inputs.iter().find_map(|input| Some((&input.name, input.kind.as_ref().err()?))) {
        return Err(format!(
            "its input '{name}' {kind}, which Triton cannot send; export the model with tensors as inputs"
        ));
    }
    let is_tensor = |output: &&OnnxTensor| output.kind.is_ok();
    let (outputs, others): (Vec<_>, Vec<_>) = model.outputs.iter().partition(is_tensor);
    if outputs.is_empty() {
        return Err("none of its outputs is a tensor, so Triton has nothing to answer".to_owned());
    }
    let description = |other: &OnnxTensor| other.kind.clone().err().unwrap_or_default();
    let mut notes: Vec<String> = others
        .iter()
        .map(|other| {
            format!("Output '{}' {}: Triton cannot answer it, so it is left out.", other.name, description(other))
        })
        .collect();
    let tensors = || model.inputs.iter().chain(outputs.iter().copied());
    let batch = batch_of(model, &outputs);
    match &batch {
        Some(name) if name.is_empty() => {
            notes.push(format!(
                "The first dimension of every tensor is open, and taken for the batch; at most {BATCH} a batch."
            ));
        }
        Some(name) => notes.push(format!("Dimension '{name}' is taken for the batch; at most {BATCH} a batch.")),
        None => notes.push("No first dimension is open in every tensor, so Triton forms no batches.".to_owned()),
    }
    for tensor in tensors().filter(|tensor| tensor.shape.is_none()) {
        notes.push(format!("The file does not tell how many dimensions '{}' has: correct its dims.", tensor.name));
    }
    let members = |tensor: &OnnxTensor| of_tensor(tensor, batch.is_some());
    let config = json!({
        "backend": Format::Onnx.backend(),
        "max_batch_size": batch.as_ref().map_or(0, |_| BATCH),
        "input": model.inputs.iter().map(members).collect::<Vec<_>>(),
        "output": outputs.iter().copied().map(members).collect::<Vec<_>>(),
    });
    let shapes = model.inputs.iter().filter_map(|input| sized(input, batch.is_some())).collect();
    Ok(Starter { text: comment(&notes) + &configuration::text(&config), notes, files: model.files.clone(), shapes })
}

/// The name of the first dimension if it is open in all tensors and the same in all inputs; exporters name those of outputs after
/// the node that computes them.
fn batch_of(model: &OnnxModel, outputs: &[&OnnxTensor]) -> Option<String> {
    fn first(tensor: &OnnxTensor) -> Option<&str> {
        match tensor.shape.as_ref()?.first()? {
            OnnxDim::Open(name) => Some(name),
            OnnxDim::Fixed(_) => None,
        }
    }
    outputs.iter().map(|output| first(output)).collect::<Option<Vec<&str>>>()?;
    let mut names = model.inputs.iter().map(first).collect::<Option<Vec<&str>>>()?;
    names.retain(|name| !name.is_empty());
    names.dedup();
    (names.len() <= 1).then(|| names.first().copied().unwrap_or_default().to_owned())
}

/// A tensor's dimensions, without the batch; those of open size are -1.
fn dims(tensor: &OnnxTensor, batched: bool) -> Option<Vec<i64>> {
    let shape = tensor.shape.as_ref()?.iter().skip(usize::from(batched));
    Some(shape.map(|dim| if let OnnxDim::Fixed(size) = dim { *size } else { -1 }).collect())
}

fn of_tensor(tensor: &OnnxTensor, batched: bool) -> Value {
    let dims = dims(tensor, batched).unwrap_or_else(|| vec![-1]);
    let name =
        tensor.kind.as_ref().map_or("INVALID", |kind| if *kind == DataType::Bytes { "STRING" } else { kind.name() });
    let mut members = json!({ "name": tensor.name, "data_type": format!("TYPE_{name}"), "dims": dims });
    // Triton has no tensors without dimensions.
    if dims.is_empty() {
        members["dims"] = json!([1]);
        members["reshape"] = json!({ "shape": [] });
    }
    members
}

/// A size for an input that may have any.
fn sized(input: &OnnxTensor, batched: bool) -> Option<String> {
    let dims = dims(input, batched)?;
    let sizes: Vec<String> = dims.iter().map(|size| if *size < 0 { OPEN } else { *size }.to_string()).collect();
    dims.contains(&-1).then(|| format!("{}:{}", input.name, sizes.join(",")))
}

/// What a configuration lacks whose tensors only the user knows.
fn to_fill_in(format: Format, notes: &[&str], input: &str, output: &str) -> Starter {
    let notes: Vec<String> = notes.iter().map(|note| (*note).to_owned()).collect();
    let example = format!(
        "# Take the marks away, and write your own names, types and dimensions (without the batch's; -1: any size):\n\
         # input [ {{ name: \"{input}\" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }} ]\n\
         # output [ {{ name: \"{output}\" data_type: TYPE_FP32 dims: [ 1000 ] }} ]\n"
    );
    let config = json!({ "backend": format.backend(), "max_batch_size": BATCH });
    let text = comment(&notes) + &configuration::text(&config) + &example;
    Starter { text, notes, files: Vec::new(), shapes: Vec::new() }
}

fn torch_script(bytes: &[u8]) -> Result<Starter, String> {
    let reader = zip::ZipArchive::new(std::io::Cursor::new(bytes));
    let archive = reader.map_err(|_| "it is no archive of PyTorch; save the module with torch.jit.save".to_owned())?;
    let has_code = archive.file_names().flatten().any(|name| name.contains("/code/"));
    if !has_code {
        return Err(
            "it holds weights without code; save torch.jit.trace(model, example) with torch.jit.save, or export \
            the model to ONNX"
                .to_owned(),
        );
    }
    Ok(to_fill_in(
        Format::TorchScript,
        &[
            "TorchScript does not tell its tensors. Triton passes inputs by the number at the end of their names, from 0 on, and \
           numbers outputs the same way.",
        ],
        "INPUT__0",
        "OUTPUT__0",
    ))
}

fn python(bytes: &[u8]) -> Result<Starter, String> {
    let script = String::from_utf8_lossy(bytes);
    if !script.contains("TritonPythonModel") {
        return Err("Triton needs a class TritonPythonModel with a function execute(self, requests) in it".to_owned());
    }
    if script.contains("auto_complete_config") {
        return Ok(Format::Python.with(json!({}), "The model tells inputs and outputs itself (auto_complete_config)."));
    }
    Ok(to_fill_in(
        Format::Python,
        &["The script does not tell its tensors (it has no auto_complete_config)."],
        "INPUT",
        "OUTPUT",
    ))
}

fn vllm(bytes: &[u8]) -> Result<Starter, String> {
    let arguments: Value = serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
    if !arguments["model"].is_string() {
        return Err("vLLM's arguments name a model, such as {\"model\": \"facebook/opt-125m\"}".to_owned());
    }
    Ok(Format::Vllm.with(
        json!({ "instance_group": [{ "count": 1, "kind": "KIND_MODEL" }] }),
        "The backend adds inputs and outputs (text_input, stream, text_output and others) when it loads the model.",
    ))
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use super::*;

    fn tensor(name: &str, kind: Result<DataType, String>, shape: Option<&[&str]>) -> OnnxTensor {
        let dim = |text: &&str| text.parse().map_or_else(|_| OnnxDim::Open((*text).to_owned()), OnnxDim::Fixed);
        OnnxTensor { name: name.to_owned(), kind, shape: shape.map(|shape| shape.iter().map(dim).collect()) }
    }

    fn model(inputs: Vec<OnnxTensor>, outputs: Vec<OnnxTensor>) -> OnnxModel {
        OnnxModel { inputs, outputs, files: Vec::new() }
    }

    #[test]
    fn an_open_first_dimension_of_all_tensors_is_the_batch() {
        let image = tensor("image", Ok(DataType::Fp32), Some(&["N", "3", "h"]));
        let answer = tensor("score", Ok(DataType::Bytes), Some(&["Gemm_dim_0"]));
        let made = onnx(&model(vec![image.clone()], vec![answer])).unwrap();
        let lines = ["max_batch_size: 8", "dims: [3, -1]", "data_type: TYPE_STRING", "dims: [1]", "reshape {"];
        assert!(lines.iter().all(|line| made.text.contains(line)), "{}", made.text);
        assert_eq!(made.shapes, ["image:3,16"]);
        assert!(made.notes[0].contains("'N' is taken for the batch"), "{:?}", made.notes);
        // Of another size in the other input, or fixed somewhere, it is none.
        for (input, output) in [("M", "N"), ("4", "N"), ("N", "4")] {
            let other = tensor("other", Ok(DataType::Int64), Some(&[input]));
            let made = onnx(&model(vec![image.clone(), other], vec![tensor("y", Ok(DataType::Fp16), Some(&[output]))]));
            let made = made.unwrap();
            assert!(!made.text.contains("max_batch_size") && made.text.contains("dims: [-1, 3, -1]"), "{}", made.text);
        }
    }

    #[test]
    fn what_triton_cannot_carry_is_left_out_or_refused() {
        let good = tensor("x", Ok(DataType::Bool), Some(&["2"]));
        let map = tensor("z", Err("is a map".to_owned()), None);
        let made = onnx(&model(vec![good.clone()], vec![good.clone(), map.clone()])).unwrap();
        assert!(made.text.contains("# Output 'z' is a map") && !made.text.contains("\"z\""), "{}", made.text);
        assert!(onnx(&model(vec![map.clone()], vec![good.clone()])).unwrap_err().contains("its input 'z' is a map"));
        assert!(onnx(&model(vec![good], vec![map])).unwrap_err().contains("none of its outputs"));
    }

    #[test]
    fn formats_say_what_they_do_not_tell() {
        let archive = |name: &str| {
            let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
            archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(b"x").unwrap();
            archive.finish().unwrap().into_inner()
        };
        let script = Format::TorchScript.starter(&archive("net/code/__torch__.py")).unwrap();
        assert!(script.text.contains("# input [") && script.text.contains("backend: \"pytorch\""), "{}", script.text);
        assert!(Format::TorchScript.starter(&archive("net/data.pkl")).unwrap_err().contains("torch.jit.save"));
        let class = "class TritonPythonModel:\n";
        let starter =
            Format::Python.starter(format!("{class}    def auto_complete_config(c): pass").as_bytes()).unwrap();
        assert!(!starter.text.contains("# input"), "{}", starter.text);
        assert!(Format::Python.starter(class.as_bytes()).unwrap().text.contains("# input ["));
        assert!(Format::Python.starter(b"print(1)").is_err());
        assert!(Format::Vllm.starter(b"{\"model\": \"a\"}").unwrap().text.contains("kind: KIND_MODEL"));
        assert!(Format::Vllm.starter(b"{}").unwrap_err().contains("name a model"));
    }

    #[test]
    fn backends_are_in_images() {
        let images = [Format::Onnx, Format::TorchScript, Format::TensorRt, Format::Python, Format::Vllm];
        assert!(images.iter().all(|format| image_with(format.backend()).is_some()));
    }
}
