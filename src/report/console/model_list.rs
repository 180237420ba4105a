//! The list of the command `models`.

use crate::model::{ModelSpec, TensorSpec};
use crate::stdio::shown;

/// A block for each model: its properties, with a line for each tensor, or why it is not available.
pub fn model_list(rows: &[(String, Result<ModelSpec, String>)]) -> String {
    if rows.is_empty() {
        return "no models\n".to_owned();
    }
    rows.iter().map(|(name, model)| offer(name, model)).collect()
}

fn offer(name: &str, model: &Result<ModelSpec, String>) -> String {
    match model {
        Err(reason) => format!("{}: {}\n", shown(name), shown(reason)),
        Ok(model) => {
            let mut text = format!("{}: {}\n", shown(name), traits(model));
            text += &tensors("input", &model.inputs);
            text += &tensors("output", &model.outputs);
            text
        }
    }
}

fn traits(model: &ModelSpec) -> String {
    let platform = Some(shown(&model.platform).into_owned()).filter(|platform| !platform.is_empty());
    let versions = (!model.versions.is_empty()).then(|| {
        let word = if model.versions.len() == 1 { "version" } else { "versions" };
        format!("{word} {}", shown(&model.versions.join(", ")))
    });
    let batches = match model.max_batch_size {
        0 => "no batches".to_owned(),
        most => format!("batches of up to {most}"),
    };
    let [sequences, decoupled] = [(model.sequences, "sequences"), (model.decoupled, "decoupled")]
        .map(|(holds, word)| holds.then(|| word.to_owned()));
    let parts: Vec<String> = [platform, versions, Some(batches), sequences, decoupled].into_iter().flatten().collect();
    parts.join(", ")
}

fn tensors(role: &str, tensors: &[TensorSpec]) -> String {
    let names: Vec<_> = tensors.iter().map(|tensor| shown(&tensor.name)).collect();
    let widest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let line = |(tensor, name): (&TensorSpec, _)| {
        let (datatype, shape) = (tensor.datatype.name(), &tensor.shape);
        let optional = if tensor.optional { ", optional" } else { "" };
        format!("  {role:<6}  {name:<widest$}  {datatype:<6} {shape:?}{optional}\n")
    };
    tensors.iter().zip(names).map(line).collect()
}
