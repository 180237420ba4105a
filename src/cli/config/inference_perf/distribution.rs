//! Distributions of lengths.

use crate::config::fields::Fields;
use crate::config::yaml::{Fault, Node};

/// A distribution as a value of `--prompt-tokens`.
///
/// # Errors
/// What is not theirs.
pub fn length(name: &str, node: &Node) -> Result<String, Fault> {
    let mut fields = Fields::new(name, node)?;
    let (least, most) = (fields.whole("min", 0)?.unwrap_or(10).max(1), fields.whole("max", 1)?.unwrap_or(1024));
    let mean = fields.positive("mean")?.unwrap_or(512.0);
    // inference-perf's own key is std_dev; llm-d-benchmark's profiles write std.
    let (deviation, short) = (fields.number("std_dev", 0.0)?, fields.number("std", 0.0)?);
    let (deviation, variance) = (deviation.or(short), fields.number("variance", 0.0)?);
    let deviation = match (deviation, variance) {
        (Some(above), Some(_)) if above > 0.0 => {
            return Err(Fault::new(node.at, format!("'{name}' has both std_dev and variance: choose one")));
        }
        (_, Some(variance)) => variance.sqrt(),
        (deviation, None) => deviation.unwrap_or(200.0),
    };
    let skew = fields.number("skew", f64::MIN)?.unwrap_or(0.0);
    // How many lengths inference-perf draws; ours are drawn for each prompt.
    fields.whole("total_count", 1)?;
    let kinds = ["normal", "skew_normal", "lognormal", "uniform", "poisson", "fixed"];
    let kind = fields.choice("type", &kinds)?.unwrap_or("normal");
    fields.finish()?;
    if least > most {
        return Err(Fault::new(node.at, format!("'{name}.min' is above its max")));
    }
    Ok(match kind {
        "skew_normal" => format!("skew-normal:{mean}:{deviation}:{skew}:{least}:{most}"),
        "uniform" => format!("uniform:{least}:{most}"),
        "poisson" => format!("poisson:{mean}:{least}:{most}"),
        "fixed" => format!("{}", mean.trunc().max(1.0)),
        kind => format!("{kind}:{mean}:{deviation}:{least}:{most}"),
    })
}
