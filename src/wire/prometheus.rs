//! Prometheus' text format, line by line (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use std::collections::BTreeMap;

/// One sample of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSample<'a> {
    /// The metric's name.
    pub name: &'a str,
    labels: BTreeMap<String, String>,
    /// May be NaN or infinite, as the format allows.
    pub value: f64,
}

impl MetricSample<'_> {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }
}

/// Splits a line into name and rest; most lines are not of interest, and their name is enough to see that.
pub fn name(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    Some(line.split_at(end))
}

/// The sample of a line; `None` for comments, empty lines and lines that are not samples.
pub fn sample(line: &str) -> Option<MetricSample<'_>> {
    let (name, tail) = name(line)?;
    let well_formed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    if name.is_empty() || !name.chars().all(well_formed) || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let tail = tail.trim_start();
    let (labels, tail) = match tail.strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (BTreeMap::new(), tail),
    };
    // A timestamp may follow the value.
    let value = tail.split_whitespace().next().and_then(number)?;
    Some(MetricSample { name, labels, value })
}

/// Labels up to the closing brace, and what follows it.
fn labels(mut remaining: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        remaining = remaining.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
        if let Some(after) = remaining.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, after) = remaining.split_once('=')?;
        let (value, after) = quoted(after.trim_start().strip_prefix('"')?)?;
        labels.insert(name.trim().to_owned(), value);
        remaining = after;
    }
}

/// A value up to its closing quote with its escapes resolved, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[index + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

fn number(text: &str) -> Option<f64> {
    let (sign, magnitude) = match text.strip_prefix('-') {
        Some(unsigned) => (-1.0, unsigned),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    match magnitude.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => Some(sign * f64::INFINITY),
        "nan" => Some(f64::NAN),
        plain if plain.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
            plain.parse::<f64>().ok().map(|value| sign * value)
        }
        _ => None,
    }
}
