//! Lengths of prompts and outputs, in tokens.

use std::path::PathBuf;

use crate::values::{decimal, file, integer};
use ::data::{ConversationTurns, Dataset, LengthShape, MAX_TOKENS, PromptLength, TokenLength};

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
    length_from(text, 1)
}

/// The same in seconds, which may be 0.
pub fn seconds(text: &str) -> Result<TokenLength, String> {
    length_from(text, 0)
}

/// The number of a conversation's turns: `endless`, or as [`length`].
pub fn turns(text: &str) -> Result<ConversationTurns, String> {
    match text.eq_ignore_ascii_case("endless") {
        true => Ok(ConversationTurns::Endless),
        false => length(text).map(ConversationTurns::Drawn),
    }
}

/// A length of at least `lowest`.
fn length_from(text: &str, lowest: u64) -> Result<TokenLength, String> {
    const RULE: &str = "it must be MEAN, MEAN:STDDEV, normal:MEAN:STDDEV, lognormal:MEAN:STDDEV, skew-normal:MEAN:STDDEV:SKEW, \
        poisson:MEAN (each optionally with :MIN:MAX) or uniform:MIN:MAX";
    let most = u64::from(MAX_TOKENS);
    let (kind, parameters) = text.split_once(':').unwrap_or((text, ""));
    let Some((count, make)) = shape(kind) else {
        let (mean, deviation) =
            (integer::<u32>(kind, lowest, most), if parameters.is_empty() { "0" } else { parameters });
        if text.ends_with(':') || mean.is_err() && kind.contains(char::is_alphabetic) {
            return Err(RULE.to_owned());
        }
        let deviation = integer::<u32>(deviation, 0, most)?;
        let shape = LengthShape::Normal(f64::from(mean?), f64::from(deviation));
        return Ok(TokenLength { least: lowest as u32, ..TokenLength::unbounded(shape) });
    };
    let parts: Vec<&str> = parameters.split(':').collect();
    let (numbers, bounds) = parts.split_at_checked(count).ok_or(RULE)?;
    let numbers: Vec<f64> = numbers.iter().map(|text| decimal(text, -1e6, most as f64)).collect::<Result<_, _>>()?;
    let positive =
        numbers.iter().take(2).all(|number| *number >= 0.0) && numbers.first().is_none_or(|mean| *mean > 0.0);
    let (least, most) = match bounds {
        [] if count > 0 => (lowest as u32, MAX_TOKENS),
        [least, highest] => (integer(least, lowest, most)?, integer(highest, lowest, most)?),
        _ => return Err(RULE.to_owned()),
    };
    if !positive || least > most {
        let rule = if positive { format!("{least} is above {most}") } else { "the mean must be above 0".to_owned() };
        return Err(rule);
    }
    Ok(TokenLength { shape: make(&numbers), least, most })
}

type Make = fn(&[f64]) -> LengthShape;

/// The number of a shape's parameters, and its constructor.
fn shape(kind: &str) -> Option<(usize, Make)> {
    Some(match kind.to_ascii_lowercase().as_str() {
        "normal" => (2, |numbers| LengthShape::Normal(numbers[0], numbers[1])),
        "lognormal" => (2, |numbers| LengthShape::LogNormal(numbers[0], numbers[1])),
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
    fn lengths_may_have_a_shape_and_bounds() {
        assert_eq!(length("normal:512:200:10:1024"), bounded(LengthShape::Normal(512.0, 200.0), 10, 1024));
        assert_eq!(length("lognormal:512.5:200"), bounded(LengthShape::LogNormal(512.5, 200.0), 1, MAX_TOKENS));
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
