//! Distributions of lengths, counts and pauses.

use crate::config::fields::Fields;
use crate::config::flags::Flags;
use crate::config::yaml::{Fault, Node, Place};

/// A distribution of whole numbers, as inference-perf draws them.
pub struct Distribution {
    name: String,
    kind: &'static str,
    least: u64,
    most: u64,
    mean: f64,
    /// Where the mean stands.
    mean_at: Place,
    deviation: f64,
    skew: f64,
    /// Whether a log-normal one begins at its smallest number.
    is_shifted: bool,
}

impl Distribution {
    /// Reads the distribution of that name.
    ///
    /// # Errors
    /// What is not theirs.
    pub fn read(name: &str, node: &Node) -> Result<Self, Fault> {
        let mut fields = Fields::new(name, node)?;
        let (least, most) = (fields.whole("min", 0)?.unwrap_or(10), fields.whole("max", 0)?.unwrap_or(1024));
        let mean_at = fields.place("mean");
        let mean = fields.number("mean", 0.0)?.unwrap_or(512.0);
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
        Ok(Self { name: name.to_owned(), kind, least, most, mean, mean_at, deviation, skew, is_shifted: false })
    }

    /// The same as inference-perf draws the lengths of the types random and synthetic: by a function of its own
    /// (`generate_distribution`), which shifts a log-normal distribution to its smallest number.
    fn shifted(self) -> Self {
        Self { is_shifted: true, ..self }
    }

    /// Whether it has no other value than 0. A fixed one has no bounds.
    pub fn is_nothing(&self) -> bool {
        if self.kind == "fixed" { self.mean < 1.0 } else { self.most == 0 }
    }

    /// The distribution as a value of `--prompt-tokens`, which are at least 1; a note where 0 is asked for.
    ///
    /// # Errors
    /// If its shape needs a mean above 0.
    pub fn length(&self, flags: &mut Flags) -> Result<String, Fault> {
        let value = self.value(1, &["normal", "skew_normal", "lognormal"])?;
        if self.is_nothing() || (self.kind != "fixed" && self.least == 0) {
            flags.note(format!(
                "{}: where inference-perf draws 0, it is 1, the least that there can be here",
                self.name
            ));
        }
        Ok(value)
    }

    /// The distribution as a number of media, which may be 0.
    ///
    /// # Errors
    /// If its shape needs a mean above 0.
    pub fn count(&self) -> Result<String, Fault> {
        self.value(0, &["normal", "skew_normal", "lognormal"])
    }

    /// The distribution as a number of things of which 0 may be asked for, whatever its shape.
    ///
    /// # Errors
    /// If its shape needs a mean above 0.
    pub fn things(&self) -> Result<String, Fault> {
        if self.is_nothing() { Ok("0".to_owned()) } else { self.count() }
    }

    /// The distribution as a value of `--turn-delay`; none if there is no pause. inference-perf pauses for whole seconds.
    ///
    /// # Errors
    /// If its shape needs a mean above 0.
    pub fn pause(&self) -> Result<Option<String>, Fault> {
        let value = self.value(0, &["lognormal"])?;
        let prefix = if self.kind == "fixed" { "" } else { "whole:" };
        Ok((!self.is_nothing()).then(|| format!("{prefix}{value}")))
    }

    /// As a value of at least `lowest`; the shapes `with_mean` need a mean above 0.
    fn value(&self, lowest: u64, with_mean: &[&str]) -> Result<String, Fault> {
        let Self { mean, deviation, skew, .. } = self;
        if *mean == 0.0 && with_mean.contains(&self.kind) {
            return Err(Fault::new(self.mean_at, format!("'{}.mean' must be above 0", self.name)));
        }
        let (least, most) = (self.least.max(lowest), self.most.max(lowest));
        Ok(match self.kind {
            "skew_normal" => format!("skew-normal:{mean}:{deviation}:{skew}:{least}:{most}"),
            "uniform" => format!("uniform:{least}:{most}"),
            // There, a mean of 0 counts as 1.
            "poisson" => format!("poisson:{}:{least}:{most}", if *mean > 0.0 { *mean } else { 1.0 }),
            "fixed" => format!("{}", mean.trunc().max(lowest as f64)),
            "lognormal" if !self.is_shifted => format!("lognormal0:{mean}:{deviation}:{least}:{most}"),
            kind => format!("{kind}:{mean}:{deviation}:{least}:{most}"),
        })
    }
}

/// A distribution of the types random and synthetic as a value of `--prompt-tokens`.
///
/// # Errors
/// What is not theirs, or no length.
pub fn length(name: &str, node: &Node, flags: &mut Flags) -> Result<String, Fault> {
    Distribution::read(name, node)?.shifted().length(flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::yaml;
    use crate::lengths::{self, delay};

    fn read(text: &str) -> Distribution {
        Distribution::read("d", &yaml::read(text).unwrap()).unwrap_or_else(|fault| panic!("{text}: {fault:?}"))
    }

    #[test]
    fn pauses_are_those_of_inference_perf() {
        for (text, wanted) in [
            ("{min: 0, max: 1, mean: 0.15, std_dev: 0.01}", Some("whole:normal:0.15:0.01:0:1")),
            ("{min: 0, max: 1, mean: 0, std_dev: 1}", Some("whole:normal:0:1:0:1")),
            ("{type: uniform, min: 0, max: 2}", Some("whole:uniform:0:2")),
            ("{type: lognormal, min: 1, max: 30, mean: 8, std_dev: 6}", Some("whole:lognormal0:8:6:1:30")),
            ("{type: poisson, min: 0, mean: 0}", Some("whole:poisson:1:0:1024")),
            ("{type: fixed, mean: 5, max: 1, min: 0}", Some("5")),
            ("{type: fixed, mean: 0.5}", None),
            ("{type: fixed, mean: 0}", None),
            ("{type: uniform, min: 0, max: 0}", None),
        ] {
            let pause = read(text).pause().unwrap();
            assert_eq!(pause.as_deref(), wanted, "{text}");
            assert!(pause.is_none_or(|pause| delay(&pause).is_ok()), "{text}");
        }
        assert!(read("{type: lognormal, min: 0, mean: 0}").pause().is_err(), "there, too");
    }

    #[test]
    fn log_normal_lengths_are_shifted_where_inference_perf_shifts_them() {
        let text = "{type: lognormal, min: 5, max: 900, mean: 100, std_dev: 20}";
        let mut flags = Flags::default();
        assert_eq!(length("d", &yaml::read(text).unwrap(), &mut flags).unwrap(), "lognormal:100:20:5:900");
        assert_eq!(read(text).length(&mut flags).unwrap(), "lognormal0:100:20:5:900");
        assert_eq!(read(text).count().unwrap(), "lognormal0:100:20:5:900");
        assert!(lengths::length("lognormal0:100:20:5:900").is_ok());
    }

    #[test]
    fn lengths_of_0_become_1_with_a_note() {
        for (text, wanted, is_noted) in [
            ("{min: 0, max: 9, mean: 4, std_dev: 1}", "normal:4:1:1:9", true),
            ("{type: uniform, min: 0, max: 9, mean: 0}", "uniform:1:9", true),
            ("{type: fixed, mean: 0.5}", "1", true),
            ("{type: fixed, mean: 3, min: 0}", "3", false),
            ("{mean: 20, std_dev: 1}", "normal:20:1:10:1024", false),
        ] {
            let mut flags = Flags::default();
            assert_eq!(read(text).length(&mut flags).unwrap(), wanted);
            assert_eq!(flags.notes.iter().any(|note| note.starts_with("d: where inference-perf draws 0")), is_noted);
        }
        assert!(read("{min: 0, mean: 0}").length(&mut Flags::default()).is_err());
        assert_eq!(read("{type: uniform, min: 0, max: 2}").count().unwrap(), "uniform:0:2", "media may be absent");
        assert_eq!(read("{type: fixed, mean: 0}").count().unwrap(), "0");
    }
}
