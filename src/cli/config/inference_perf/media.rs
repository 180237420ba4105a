//! `data.multimodal` and `data.shared_prefix.multimodal`: what is attached to prompts.

use crate::config::fields::{Fields, text};
use crate::config::flags::Flags;
use crate::config::inference_perf::distribution::Distribution;
use crate::config::yaml::{Fault, Node, Place, Value};

/// Names of sizes.
const PRESETS: &[(&str, &str)] =
    &[("4k", "3840x2160"), ("1080p", "1920x1080"), ("720p", "1280x720"), ("360p", "640x360")];
/// Settings of pictures, which llm-d-benchmark's profiles have a level too high.
const MISPLACED: &[&str] = &["count", "insertion_point", "resolutions", "representation"];

/// Reads the section named `name` as values of `flag`.
///
/// # Errors
/// What is not theirs, or has no counterpart.
pub fn media(name: &str, node: &Node, flag: &str, flags: &mut Flags) -> Result<(), Fault> {
    let mut fields = Fields::new(name, node)?;
    for (kind, list) in [("image", "resolutions"), ("video", "profiles"), ("audio", "durations")] {
        let is_misplaced = kind == "image"
            && fields.peek(kind).is_none_or(|node| node.value == Value::Null)
            && fields.peek("count").is_some();
        if is_misplaced {
            flags.note(format!("{name}: taken as {name}.image, because its settings are a level too high"));
            fields.take(kind);
            let settings = kind_of(&format!("{name}.image"), node, kind, list, true)?;
            settings.into_iter().for_each(|settings| flags.at(node.at).add(flag, settings));
            fields.pass_over(MISPLACED);
        } else if let Some(node) = fields.take(kind) {
            let settings = kind_of(&fields.name(kind), node, kind, list, false)?;
            settings.into_iter().for_each(|settings| flags.at(node.at).add(flag, settings));
        }
    }
    fields.finish()
}

/// One kind as a value of `--media`; none if it says no count, as in inference-perf.
fn kind_of(name: &str, node: &Node, kind: &str, list: &str, is_misplaced: bool) -> Result<Option<String>, Fault> {
    let mut fields = Fields::new(name, node)?;
    let mut settings = Vec::new();
    let count =
        fields.take("count").map(|node| Distribution::read(&fields.name("count"), node)?.count()).transpose()?;
    if let Some(point) = fields.take("insertion_point") {
        let number = text(point).and_then(|text| text.parse::<f64>().ok()).filter(|at| (0.0..=1.0).contains(at));
        let rule = "takes a number from 0 to 1; without it, places are drawn, which is what to do for a distribution";
        let at = number.ok_or_else(|| Fault::new(point.at, format!("'{}' {rule}", fields.name("insertion_point"))))?;
        settings.push(format!("at={at}"));
    }
    if let Some(sizes) = fields.take(list) {
        let name = fields.name(list);
        let key = if kind == "audio" { "seconds" } else { "sizes" };
        settings.push(format!("{key}={}", weighted(&name, sizes, kind)?));
    }
    if kind != "audio"
        && let Some(coding) = fields.choice("representation", &["png", "jpeg", "mp4", "png_frames", "jpeg_frames"])?
    {
        settings.push(format!("as={}", coding.trim_end_matches("_frames")));
    }
    if !is_misplaced {
        fields.finish()?;
    }
    Ok(count.map(|count| format!("{kind}:{}", [vec![format!("count={count}")], settings].concat().join(","))))
}

/// A value, or a list of values with weights.
fn weighted(name: &str, node: &Node, kind: &str) -> Result<String, Fault> {
    let Value::List(list) = &node.value else { return size(name, node, kind) };
    let entry = |node: &Node| {
        let mut fields = Fields::new(name, node)?;
        let key = if kind == "image" {
            "resolution"
        } else if kind == "video" {
            "profile"
        } else {
            "duration"
        };
        let missing = || Fault::new(node.at, format!("an entry of '{name}' needs '{key}'"));
        let value = size(&fields.name(key), fields.take(key).ok_or_else(missing)?, kind)?;
        let weight = fields.number("weight", 0.0)?.unwrap_or(1.0);
        fields.finish().map(|()| format!("{value}*{weight}"))
    };
    Ok(list.iter().map(entry).collect::<Result<Vec<_>, Fault>>()?.join("+"))
}

/// A size of that kind.
fn size(name: &str, node: &Node, kind: &str) -> Result<String, Fault> {
    match kind {
        "image" => resolution(name, node),
        "video" => {
            let mut fields = Fields::new(name, node)?;
            let missing = |key: &str, at: Place| Fault::new(at, format!("'{name}' needs '{key}'"));
            let size = fields.take("resolution").ok_or_else(|| missing("resolution", node.at))?;
            let size = resolution(&fields.name("resolution"), size)?;
            let frames = fields.whole("frames", 1)?.ok_or_else(|| missing("frames", node.at))?;
            fields.finish().map(|()| format!("{size}x{frames}"))
        }
        _ => {
            let number = text(node).filter(|text| text.parse::<f64>().is_ok_and(|seconds| seconds > 0.0));
            number.map(str::to_owned).ok_or_else(|| Fault::new(node.at, format!("'{name}' takes a number of seconds")))
        }
    }
}

fn resolution(name: &str, node: &Node) -> Result<String, Fault> {
    if let Some(preset) = text(node) {
        let entry = PRESETS.iter().find(|(name, _)| *name == preset);
        let names = PRESETS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let rule = || Fault::new(node.at, format!("'{name}: {preset}' is none of {names}, or a width and a height"));
        return entry.map(|(_, size)| (*size).to_owned()).ok_or_else(rule);
    }
    let mut fields = Fields::new(name, node)?;
    let missing = || Fault::new(node.at, format!("'{name}' needs 'width' and 'height'"));
    let (width, height) = (fields.whole("width", 1)?, fields.whole("height", 1)?);
    fields.finish()?;
    Ok(format!("{}x{}", width.ok_or_else(missing)?, height.ok_or_else(missing)?))
}
