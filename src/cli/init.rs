//! The command line of `init`.

use std::path::{Path, PathBuf};

use clap::Parser;

use crate::Command;
use crate::embedded;
use crate::error::{Error, Result};
use crate::plan::Starter;
use crate::subcommand::{self, Arguments, Subcommand};
use ::model::starter::Format;

/// This command.
pub const SUBCOMMAND: Subcommand =
    Subcommand { name: "init", flags: subcommand::flags::<Init>, read: |_, arguments| read(arguments) };

const AFTER: &str = "Takes ONNX (.onnx), TorchScript (.pt), TensorRT (.plan), scripts of the python backend (.py) and vLLM's \
    arguments (.json). What the file does not tell is said, and stands in config.pbtxt as a comment. Nothing is overwritten. \
    Exit codes: 0 made; 99 bad flags, no such model, a file that cannot be written.";

/// Makes a model repository of a model's file: the folders, a config.pbtxt, and the command that measures the model
#[derive(Parser, Debug)]
#[command(override_usage = "triton-bench init FILE [--repository DIR] [--name NAME]", after_help = AFTER)]
struct Init {
    /// The model's file
    file: Option<PathBuf>,

    /// The model repository; made if it is not there
    #[arg(long, value_name = "DIR", alias = "model-repository", default_value = "models")]
    repository: PathBuf,

    /// The model's name. Default: the file's, without its ending
    #[arg(short = 'm', long, value_name = "NAME")]
    name: Option<String>,

    /// Where Triton is installed, whose backends are looked at. Default: as for a run
    #[arg(long, value_name = "DIR")]
    triton_server_directory: Option<PathBuf>,
}

/// What is no model that Triton could load as it is, and what to do with it.
const OTHERS: [(&[&str], &str); 4] = [
    (
        &["safetensors", "bin", "gguf"],
        "it holds weights without a model: export the model to ONNX, or serve its folder with vLLM",
    ),
    (&["h5", "keras", "pb", "tflite"], "export the model to ONNX (tf2onnx)"),
    (&["pkl", "joblib"], "export the model to ONNX (skl2onnx), or load it in a script of the python backend"),
    (&["pt2", "ckpt"], "save the module with torch.jit.save, or export it to ONNX"),
];

/// Parses the arguments of `init`: a file and flags.
fn read(arguments: Arguments<'_>) -> Result<Command> {
    subcommand::read(SUBCOMMAND.name, arguments, |Init { file, repository, name, triton_server_directory }| {
        let see = "see triton-bench init --help";
        let file = file.ok_or_else(|| Error::usage(format!("init takes the file of a model; {see}")))?;
        if Format::from_path(&file).is_none() {
            return Err(Error::usage(format!("init '{}': {}; {see}", file.display(), other(&file))));
        }
        let stem = || file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = name.or_else(stem).unwrap_or_default();
        if name.is_empty() || name.starts_with('.') || name.contains('/') {
            return Err(Error::usage(format!("--name '{name}': it must be the name of a folder; {see}")));
        }
        let server = triton_server_directory.unwrap_or_else(embedded::installed);
        Ok(Command::Init(Starter { file, name, repository, server }))
    })
}

/// What to do with a file of another kind.
fn other(file: &Path) -> String {
    let ending = file.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
    let entry = OTHERS.iter().find(|(endings, _)| endings.contains(&&*ending));
    entry.map_or_else(
        || "it must end in .onnx, .pt, .plan, .py or .json, which tell how a model is stored".to_owned(),
        |(_, next)| format!("Triton does not load .{ending}: {next}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command> {
        read(&mut line.split_whitespace().map(Into::into))
    }

    #[test]
    fn the_name_is_the_files_unless_given() {
        let made = |line| match parse(line) {
            Ok(Command::Init(made)) => (made.name, made.repository),
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(made("nets/resnet50.v2.onnx"), ("resnet50.v2".into(), "models".into()));
        assert_eq!(made("a.pt --model-repository /r -m net"), ("net".into(), "/r".into()));
    }

    #[test]
    fn what_is_no_model_is_told_what_to_do() {
        let refused = |line: &str| parse(line).unwrap_err().to_string();
        assert!(refused("").contains("takes the file of a model"));
        assert!(refused("weights.safetensors").contains("vLLM"));
        assert!(refused("net.xyz").contains(".onnx, .pt, .plan, .py or .json"));
        assert!(refused("a.onnx --name a/b").contains("--name 'a/b'"));
    }
}
