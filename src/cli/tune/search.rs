//! `--search PATH=VALUES`.

use prost_reflect::Kind;
use serde_json::Value;

use crate::plan::{MAX_CONCURRENCY, MAX_RATE, Searched, ServerSetting, Setting};
use crate::range::{Step, listed};
use crate::terms::asked;
use crate::values::decimal;
use ::model::configuration::Path;

/// `PATH=VALUES`.
pub fn searched(text: &str) -> Result<Searched, String> {
    let rule = "it must be PATH=VALUES, such as instances=1:8 or max_batch_size=1,2,4:64";
    let (path, values) =
        text.split_once('=').filter(|(path, values)| !path.is_empty() && !values.is_empty()).ok_or(rule)?;
    let setting = setting(path)?;
    let doubles = matches!(&setting, Setting::BatchSize) || path.ends_with("batch_size");
    let mut values = self::values(values, if doubles { Step::Times(2.0) } else { Step::Add(1.0) })?;
    if matches!(&setting, Setting::Model(_, path) if path.is_list()) {
        values.iter_mut().for_each(in_list);
    }
    match values.iter().find_map(|value| rule_of(&setting, value).map(|rule| (value, rule))) {
        Some((value, rule)) => Err(format!("{setting}: {} is not a value of it; it must be {rule}", asked(value))),
        None => Ok(Searched { setting, values }),
    }
}

fn setting(path: &str) -> Result<Setting, String> {
    match path {
        "batch_size" => return Ok(Setting::BatchSize),
        "concurrency" => return Ok(Setting::Concurrency),
        "request_rate" => return Ok(Setting::RequestRate),
        _ => {}
    }
    let server = ServerSetting::ALL
        .into_iter()
        .find(|setting| setting.name() == path || setting.name().replace('_', "-") == path);
    if let Some(setting) = server {
        return Ok(Setting::Server(setting));
    }
    match path.split_once(':') {
        Some((model, path)) if !model.is_empty() => Ok(Setting::Model(Some(model.to_owned()), Path::parse(path)?)),
        _ => Ok(Setting::Model(None, Path::parse(path)?)),
    }
}

/// A single value of a list is a list of one. `null` removes the list.
fn in_list(value: &mut Value) {
    if !value.is_array() && !value.is_null() {
        *value = Value::Array(vec![value.take()]);
    }
}

/// The rule of a setting that a value breaks; of the models' only what they are, the rest is the server's to judge.
fn rule_of(setting: &Setting, value: &Value) -> Option<String> {
    let whole = |low: u64, high: u64| {
        let holds = value.as_u64().is_some_and(|number| (low..=high).contains(&number));
        (!holds).then(|| format!("a whole number from {low} to {high}"))
    };
    match setting {
        Setting::Model(_, path) => of_kind(path.kind()?, value).map(str::to_owned),
        Setting::BatchSize => whole(1, u64::from(u32::MAX)),
        Setting::Concurrency => whole(1, u64::from(MAX_CONCURRENCY)),
        Setting::RequestRate => {
            let holds = value.as_f64().is_some_and(|rate| rate > 0.0 && rate <= MAX_RATE);
            (!holds).then(|| format!("a number above 0, at most {MAX_RATE}"))
        }
        Setting::Server(ServerSetting::RateLimit) => {
            let holds = value.is_null() || value == "execution_count";
            (!holds).then(|| "off or execution_count".to_owned())
        }
        Setting::Server(ServerSetting::PinnedPool) => whole(0, i64::MAX as u64),
        Setting::Server(ServerSetting::BufferThreads) => whole(0, u64::from(u32::MAX)),
    }
}

/// What a field of a kind takes, where a value is none of it. `null` takes the field away, and servers read numbers that are texts.
fn of_kind(kind: Kind, value: &Value) -> Option<&'static str> {
    let text = value.as_str();
    let whole = || value.as_i64().is_some() || text.is_some_and(|text| text.parse::<i64>().is_ok());
    let real = || value.is_number() || text.is_some_and(|text| text.parse::<f64>().is_ok());
    let (holds, rule) = match kind {
        Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Uint64 => (whole(), "a whole number"),
        Kind::Float | Kind::Double => (real(), "a number"),
        Kind::Bool => (value.is_boolean(), "true or false"),
        _ => (true, ""),
    };
    (!holds && !value.is_null()).then_some(rule)
}

/// Numbers, ranges, words, truth values, lists and messages.
fn values(text: &str, usual: Step) -> Result<Vec<Value>, String> {
    let whole = |number: f64| if number.fract() == 0.0 { Value::from(number as i64) } else { Value::from(number) };
    let is_numeric = |text: &str| text.chars().all(|c| c.is_ascii_digit() || ",:*+.".contains(c));
    let numbers = |text: &str| {
        let numbers = listed(text, usual, |part| decimal(part, 0.0, 1e15))?;
        Ok::<_, String>(numbers.into_iter().map(whole).collect::<Vec<_>>())
    };
    if is_numeric(text) {
        return numbers(text);
    }
    let mut found: Vec<Value> = Vec::new();
    for part in parts(text)? {
        let values = match part {
            "" => return Err("its values must be a list such as 1,2,4:64 or off,{}".to_owned()),
            "off" | "none" => vec![Value::Null],
            part if is_numeric(part) => numbers(part)?,
            part => vec![serde_json::from_str(part).unwrap_or_else(|_| Value::from(part))],
        };
        for value in values {
            if !found.contains(&value) {
                found.push(value);
            }
        }
    }
    Ok(found)
}

/// What is between commas, as far as these are neither in brackets nor in a quoted text.
fn parts(text: &str) -> Result<Vec<&str>, String> {
    let (mut depth, mut quoted, mut escaped, mut start) = (0_i32, false, false, 0);
    let mut parts = Vec::new();
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    if depth == 0 && !quoted { Ok(parts) } else { Err("its brackets and quotes must be closed".to_owned()) }
}
