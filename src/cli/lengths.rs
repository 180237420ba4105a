//! Lengths of prompts and outputs, in tokens, and pauses, in seconds.

use std::path::PathBuf;

use crate::values::{decimal, file, integer};
use ::data::{
    ConversationTurns, Dataset, Delay, LengthShape, MAX_DELAY_SECONDS, MAX_TOKENS, PromptLength, TokenLength,
};

/// `trace:FILE`, `dataset:[MIN:MAX:[MIN:MAX:]]PATH`, or as [`length`].
pub fn prompt_length(text: &str) -> Result<PromptLength, String> {
    match (text.strip_prefix("trace:"), text.strip_prefix("dataset:")) {
        (Some(path), _) => file(path).map(PromptLength::Recorded),
        (_, Some(dataset)) => self::dataset(dataset).map(PromptLength::Dataset),
        _ => length(text).map(PromptLength::Drawn),
    }
}

/// A data set, after the bounds of its prompts and those of its answers.
fn dataset(text: &str) -> Result<Dataset, String> {
    let bounds = |text: &str| -> Option<((u32, u32), usize)> {
        let mut parts = text.splitn(3, ':');
        let (least, most) = (parts.next()?, parts.next()?);
        let file = parts.next()?;
        let number = |text: &str| integer(text, 0, u64::from(MAX_TOKENS)).ok();
        Some(((number(least)?, number(most)?), text.len() - file.len()))
    };
    let (mut remaining, mut found) = (text, [None; 2]);
    for slot in &mut found {
        let Some((pair, length)) = bounds(remaining) else { break };
        (*slot, remaining) = (Some(pair), &remaining[length..]);
    }
    if let Some((least, most)) = found.iter().flatten().find(|(least, most)| least > most) {
        return Err(format!("{least} is above {most}"));
    }
    let path = PathBuf::from(remaining);
    match path.exists() {
        true => Ok(Dataset { path, prompt: found[0], answer: found[1] }),
        false => Err(format!("there is no file or folder '{remaining}'")),
    }
}

/// `MEAN[:STDDEV]`, or a shape's name and its numbers.
pub fn length(text: &str) -> Result<TokenLength, String> {
    distribution(text, Unit::Things(1))
}

/// The same as a number of things, which may be 0.
pub fn count(text: &str) -> Result<TokenLength, String> {
    distribution(text, Unit::Things(0))
}

/// The same as a pause in seconds, which may be 0; after `whole:`, one of whole seconds.
pub fn delay(text: &str) -> Result<Delay, String> {
    let (distribution_text, asked) = match text.strip_prefix("whole:") {
        Some(whole) => (whole, Unit::Seconds),
        None => (text, Unit::Milliseconds),
    };
    // A Poisson distribution counts: with its mean in milliseconds, it would have another shape.
    let is_poisson = distribution_text.to_ascii_lowercase().starts_with("poisson:");
    let unit = if is_poisson { Unit::Seconds } else { asked };
    let unit_ms = if unit == Unit::Seconds { 1000 } else { 1 };
    Ok(Delay { units: distribution(distribution_text, unit)?, unit_ms })
}

/// The number of a conversation's turns: `endless`, or as [`length`].
pub fn turns(text: &str) -> Result<ConversationTurns, String> {
    match text.eq_ignore_ascii_case("endless") {
        true => Ok(ConversationTurns::Endless),
        false => length(text).map(ConversationTurns::Drawn),
    }
}

/// What a distribution is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Tokens or other things, of which there are at least so many.
    Things(u32),
    /// Numbers are seconds, and milliseconds are drawn.
    Milliseconds,
    /// Numbers are seconds, and whole ones are drawn.
    Seconds,
}

impl Unit {
    fn least(self) -> u32 {
        if let Self::Things(least) = self { least } else { 0 }
    }

    /// The largest number that may be given.
    fn most(self) -> u32 {
        if matches!(self, Self::Things(_)) { MAX_TOKENS } else { MAX_DELAY_SECONDS }
    }

    /// How many are drawn for a number of 1.
    fn scale(self) -> u32 {
        if self == Self::Milliseconds { 1000 } else { 1 }
    }

    /// That number in what is drawn.
    fn scaled(self, number: f64) -> Result<f64, String> {
        let scaled = number * f64::from(self.scale());
        // It would become 0 or 1 ms.
        match self == Self::Milliseconds && scaled > 0.0 && scaled < 1.0 {
            true => Err("pauses are drawn in milliseconds: it must be 0, or at least 0.001".to_owned()),
            false => Ok(scaled),
        }
    }

    /// A mean or a deviation without a shape's name; things have no decimals.
    fn number(self, text: &str, least: u32) -> Result<f64, String> {
        match self {
            Self::Things(_) => integer::<u32>(text, u64::from(least), u64::from(self.most())).map(f64::from),
            _ => self.scaled(decimal(text, f64::from(least), f64::from(self.most()))?),
        }
    }

    fn bound(self, text: &str) -> Result<u32, String> {
        match self {
            Self::Milliseconds => Ok(self.scaled(decimal(text, 0.0, f64::from(self.most()))?)?.round() as u32),
            _ => integer(text, u64::from(self.least()), u64::from(self.most())),
        }
    }

    fn rule(self) -> String {
        const SHAPES: &str = "it must be MEAN, MEAN:STDDEV, normal:MEAN:STDDEV, lognormal:MEAN:STDDEV, \
            lognormal0:MEAN:STDDEV, skew-normal:MEAN:STDDEV:SKEW, poisson:MEAN (each optionally with :MIN:MAX) or uniform:MIN:MAX";
        let before = if matches!(self, Self::Things(_)) { "" } else { ", after whole: in whole seconds" };
        format!("{SHAPES}{before}")
    }
}

/// A distribution of that.
fn distribution(text: &str, unit: Unit) -> Result<TokenLength, String> {
    let (kind, parameters) = text.split_once(':').unwrap_or((text, ""));
    let Some((count, make)) = shape(kind) else { return nameless(text, unit) };
    let parts: Vec<&str> = parameters.split(':').collect();
    let (numbers, bounds) = parts.split_at_checked(count).ok_or_else(|| unit.rule())?;
    let read = |text: &&str| decimal(text, -1e6, f64::from(unit.most()));
    let mut numbers: Vec<f64> = numbers.iter().map(read).collect::<Result<_, _>>()?;
    // A pause may be 0 on average, but no logarithm has that mean.
    let needs_mean = matches!(unit, Unit::Things(_)) || kind.to_ascii_lowercase().starts_with("lognormal");
    if numbers.first().is_some_and(|mean| *mean < 0.0 || (needs_mean && *mean == 0.0)) {
        return Err(if needs_mean { "the mean must be above 0" } else { "the mean must not be below 0" }.to_owned());
    }
    if numbers.get(1).is_some_and(|deviation| *deviation < 0.0) {
        return Err("the deviation must not be below 0".to_owned());
    }
    for number in numbers.iter_mut().take(2) {
        *number = unit.scaled(*number)?;
    }
    let (least, most) = match bounds {
        [] if count > 0 => (unit.least(), unit.most() * unit.scale()),
        [least, most] => (unit.bound(least)?, unit.bound(most)?),
        _ => return Err(unit.rule()),
    };
    match (least > most, bounds) {
        (true, [least, most]) => Err(format!("{least} is above {most}")),
        _ => Ok(TokenLength { shape: make(&numbers), least, most }),
    }
}

/// `MEAN[:STDDEV]`.
fn nameless(text: &str, unit: Unit) -> Result<TokenLength, String> {
    let (mean, deviation) = text.split_once(':').unwrap_or((text, "0"));
    let read = unit.number(mean, unit.least());
    if text.ends_with(':') || read.is_err() && mean.contains(char::is_alphabetic) {
        return Err(unit.rule());
    }
    let deviation = unit.number(deviation, 0)?;
    let shape = LengthShape::Normal(read?, deviation);
    Ok(TokenLength { shape, least: unit.least(), most: unit.most() * unit.scale() })
}

type Make = fn(&[f64]) -> LengthShape;

/// The number of a shape's parameters, and its constructor.
fn shape(kind: &str) -> Option<(usize, Make)> {
    Some(match kind.to_ascii_lowercase().as_str() {
        "normal" => (2, |numbers| LengthShape::Normal(numbers[0], numbers[1])),
        "lognormal" => (2, |numbers| LengthShape::LogNormal(numbers[0], numbers[1])),
        "lognormal0" => (2, |numbers| LengthShape::LogNormalFromZero(numbers[0], numbers[1])),
        "skew-normal" => (3, |numbers| LengthShape::SkewNormal(numbers[0], numbers[1], numbers[2])),
        "poisson" => (1, |numbers| LengthShape::Poisson(numbers[0])),
        "uniform" => (0, |_| LengthShape::Uniform),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounded(shape: LengthShape, least: u32, most: u32) -> Result<TokenLength, String> {
        Ok(TokenLength { shape, least, most })
    }

    #[test]
    fn lengths_have_a_mean_and_perhaps_a_deviation() {
        let normal = |mean, deviation| Ok(TokenLength::unbounded(LengthShape::Normal(mean, deviation)));
        assert_eq!(length("550:150"), normal(550.0, 150.0));
        assert_eq!(length("5"), normal(5.0, 0.0));
        assert!(["", "0", "5:", ":5", "a", "5:-1", "1:2:3", "1.5"].iter().all(|text| length(text).is_err()));
    }

    #[test]
    fn pauses_are_drawn_in_milliseconds_or_in_whole_seconds() {
        let (longest_ms, longest) = (1000 * MAX_DELAY_SECONDS, MAX_DELAY_SECONDS);
        let pause = |shape, bounds: [u32; 2], unit_ms| {
            Ok(Delay { units: TokenLength { shape, least: bounds[0], most: bounds[1] }, unit_ms })
        };
        let normal = LengthShape::Normal;
        assert_eq!(delay("0.15"), pause(normal(150.0, 0.0), [0, longest_ms], 1));
        assert_eq!(delay("0"), pause(normal(0.0, 0.0), [0, longest_ms], 1));
        assert_eq!(delay("0.5:0.25"), pause(normal(500.0, 250.0), [0, longest_ms], 1));
        assert_eq!(delay("normal:0.5:0.25:0:1"), pause(normal(500.0, 250.0), [0, 1000], 1));
        assert_eq!(delay("normal:0:1"), pause(normal(0.0, 1000.0), [0, longest_ms], 1));
        assert_eq!(delay("uniform:0.1:0.5"), pause(LengthShape::Uniform, [100, 500], 1));
        assert_eq!(delay("lognormal:8:6:1:30"), pause(LengthShape::LogNormal(8000.0, 6000.0), [1000, 30_000], 1));
        let skewed = LengthShape::SkewNormal(500.0, 250.0, -4.0);
        assert_eq!(delay("skew-normal:0.5:0.25:-4"), pause(skewed, [0, longest_ms], 1), "the skew has no unit");
        assert_eq!(delay("poisson:0.5"), pause(LengthShape::Poisson(0.5), [0, longest], 1000));
        assert_eq!(delay("whole:normal:0.15:0.01:0:1"), pause(normal(0.15, 0.01), [0, 1], 1000));
        assert_eq!(delay("whole:uniform:0:2"), pause(LengthShape::Uniform, [0, 2], 1000));
        for (text, rule) in [
            ("0.0004", "at least 0.001"),
            ("-1", "from 0 to 1000000"),
            ("normal:-1:2", "the mean must not be below 0"),
            ("normal:1:-2", "the deviation must not be below 0"),
            ("lognormal:0:1", "the mean must be above 0"),
            ("lognormal0:0:1", "the mean must be above 0"),
            ("uniform:0.5:0.1", "0.5 is above 0.1"),
            ("whole:uniform:0.5:2", "a whole number"),
            ("0.15s", "after whole: in whole seconds"),
        ] {
            assert!(delay(text).is_err_and(|error| error.contains(rule)), "{text}: {:?}", delay(text));
        }
    }

    #[test]
    fn counts_may_be_0() {
        assert_eq!(count("0"), bounded(LengthShape::Normal(0.0, 0.0), 0, MAX_TOKENS));
        assert_eq!(count("uniform:0:2"), bounded(LengthShape::Uniform, 0, 2));
    }

    #[test]
    fn lengths_may_have_a_shape_and_bounds() {
        assert_eq!(length("normal:512:200:10:1024"), bounded(LengthShape::Normal(512.0, 200.0), 10, 1024));
        assert_eq!(length("lognormal:512.5:200"), bounded(LengthShape::LogNormal(512.5, 200.0), 1, MAX_TOKENS));
        assert_eq!(length("lognormal0:50:20:10:90"), bounded(LengthShape::LogNormalFromZero(50.0, 20.0), 10, 90));
        assert_eq!(length("skew-normal:50:20:-4"), bounded(LengthShape::SkewNormal(50.0, 20.0, -4.0), 1, MAX_TOKENS));
        assert_eq!(length("Poisson:50:2:60"), bounded(LengthShape::Poisson(50.0), 2, 60));
        assert_eq!(length("uniform:5:9"), bounded(LengthShape::Uniform, 5, 9));
        let wrong = [
            "normal",
            "normal:1",
            "normal:1:2:3",
            "normal:-1:2",
            "normal:1:2:9:3",
            "uniform",
            "uniform:0:5",
            "uniform:9:5",
            "poisson:0",
            "poisson:nan",
            "skew-normal:1:2",
            "cauchy:1:2",
        ];
        for text in wrong {
            assert!(length(text).is_err() && prompt_length(text).is_err(), "{text}");
        }
        assert_eq!(prompt_length("trace:/nowhere.csv"), Err("there is no such file".into()));
        assert_eq!(prompt_length("dataset:5:9:/nowhere"), Err("there is no file or folder '/nowhere'".into()));
        let set = |prompt, answer| Ok(PromptLength::Dataset(Dataset { path: "Cargo.toml".into(), prompt, answer }));
        assert_eq!(prompt_length("dataset:Cargo.toml"), set(None, None));
        assert_eq!(prompt_length("dataset:5:9:Cargo.toml"), set(Some((5, 9)), None));
        assert_eq!(prompt_length("dataset:5:9:1:2:Cargo.toml"), set(Some((5, 9)), Some((1, 2))));
        assert_eq!(prompt_length("dataset:9:5:Cargo.toml"), Err("9 is above 5".into()));
    }
}
