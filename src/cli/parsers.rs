//! Parsers of values with parts, such as `name:value:type`. Each returns the value, or the rule that the text breaks.

use std::time::Duration;

use crate::backend::{Parameter, ParameterValue};
use crate::plan::{MAX_CONCURRENCY, MAX_RATE, MixEntry};
use crate::terms::{Precision, Ramp, Spacing, Stage, StageLength, StageLoad, Statistic, TokenInput};
use crate::values::{boolean, decimal, integer, share, time};
use ::data::{Bound, RandomRange};
use ::model::ModelId;

/// `(scope, setting, value)`; the scope is empty if there is none.
pub type Setting = (String, String, String);

/// `scope,setting=value`, as in the server's own flags for backends, caches and policies.
pub fn setting(text: &str) -> Result<Setting, String> {
    let rule = "it must be name,setting=value";
    let (key, value) = text.split_once('=').ok_or(rule)?;
    let (scope, setting) = key.split_once(',').ok_or(rule)?;
    if scope.is_empty() || setting.is_empty() {
        return Err(rule.to_owned());
    }
    Ok((scope.to_owned(), setting.to_owned(), value.to_owned()))
}

/// `scope,setting=value` or `setting=value`.
pub fn open_setting(text: &str) -> Result<Setting, String> {
    let (key, value) = text.split_once('=').ok_or("it must be setting=value or name,setting=value")?;
    let (scope, setting) = key.split_once(',').unwrap_or(("", key));
    if setting.is_empty() {
        return Err("the setting has no name: it must be setting=value or name,setting=value".to_owned());
    }
    Ok((scope.to_owned(), setting.to_owned(), value.to_owned()))
}

/// `device:bytes`.
pub fn device_bytes(text: &str) -> Result<(i32, u64), String> {
    let (device, bytes) = text.split_once(':').ok_or("it must be device:bytes, such as 0:67108864")?;
    Ok((integer(device, 0, 1023)?, integer(bytes, 0, u64::MAX)?))
}

/// `name:count[:device]`; -1 is every device.
pub fn resource(text: &str) -> Result<(String, u64, i32), String> {
    let rule = "it must be name:count or name:count:device";
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        [name, count] if !name.is_empty() => Ok((name.to_owned(), integer(count, 0, u64::MAX)?, -1)),
        [name, count, device] if !name.is_empty() => {
            Ok((name.to_owned(), integer(count, 0, u64::MAX)?, integer(device, 0, 1023)?))
        }
        _ => Err(rule.to_owned()),
    }
}

/// `name:dim,dim,…`, split at the last colon, because names may hold colons.
pub fn shape(text: &str) -> Result<(String, Vec<i64>), String> {
    let rule = "it must be input:dim,dim,… with dimensions above 0";
    let (name, dims) = text.rsplit_once(':').ok_or(rule)?;
    if name.is_empty() {
        return Err(rule.to_owned());
    }
    let inputs: Vec<&str> = text.split_whitespace().collect();
    if inputs.len() > 1 && inputs.iter().all(|input| input.contains(':')) {
        return Err(format!("it names several inputs: repeat the flag, --shape {}", inputs.join(" --shape ")));
    }
    let dims = dims.split(',').map(|dim| integer::<i64>(dim, 1, i64::MAX as u64).map_err(|_| rule.to_owned()));
    Ok((name.to_owned(), dims.collect::<Result<_, _>>()?))
}

/// `name:lowest:highest`.
pub fn random_range(text: &str) -> Result<RandomRange, String> {
    let rule = "it must be input:lowest:highest, two finite numbers";
    let (head, high) = text.rsplit_once(':').ok_or(rule)?;
    let (input, low) = head.rsplit_once(':').filter(|(name, _)| !name.is_empty()).ok_or(rule)?;
    let (low, high) = (Bound::parse(low).ok_or(rule)?, Bound::parse(high).ok_or(rule)?);
    if !low.is_at_most(high) {
        return Err(format!("{low} is above {high}"));
    }
    Ok(RandomRange { input: input.to_owned(), low, high })
}

/// `name:value:type`; the value may hold colons.
pub fn parameter(text: &str) -> Result<Parameter, String> {
    let rule = "it must be name:value:type with a type of bool, int, uint, double or string";
    let (name, tail) = text.split_once(':').filter(|(name, _)| !name.is_empty()).ok_or(rule)?;
    let (value, kind) = tail.rsplit_once(':').ok_or(rule)?;
    let misfit = |_| format!("'{value}' is no {}", kind.to_ascii_lowercase());
    let value = match kind.to_ascii_lowercase().as_str() {
        "bool" => ParameterValue::Bool(boolean(value).map_err(misfit)?),
        "int" => ParameterValue::Int(value.parse().map_err(|_| misfit(String::new()))?),
        "uint" => ParameterValue::Uint(value.parse().map_err(|_| misfit(String::new()))?),
        "double" => ParameterValue::Double(decimal(value, f64::MIN, f64::MAX).map_err(misfit)?),
        "string" => ParameterValue::Text(value.to_owned()),
        _ => return Err(rule.to_owned()),
    };
    Ok(Parameter { name: name.to_owned(), value })
}

/// The name of a request parameter.
pub fn parameter_name(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("it must not be empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// `name[:longest]`; a name that holds a colon needs its length.
pub fn token_input(text: &str) -> Result<TokenInput, String> {
    const LONGEST: u64 = 131_072;
    let (name, longest) = match text.rsplit_once(':') {
        Some((name, longest)) => (name, integer(longest, 1, i64::MAX as u64)?),
        None => (text, LONGEST),
    };
    if name.is_empty() {
        return Err("it must be input or input:longest".to_owned());
    }
    Ok(TokenInput { name: name.to_owned(), longest })
}

/// `Name:Value`, split at the first colon; blanks around the value are removed.
pub fn header(text: &str) -> Result<(String, String), String> {
    // No part of it is shown: any part of a split header may be a credential.
    let (name, value) = text.split_once(':').ok_or("it must be Name:Value")?;
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        return Err("the text before the colon is not a header name".to_owned());
    }
    if value.chars().any(char::is_control) {
        return Err("the value must not hold control characters".to_owned());
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

/// `name` or `name:version`.
pub fn model(text: &str) -> Result<ModelId, String> {
    let (name, version) = match text.split_once(':') {
        Some((name, version)) => (name, Some(integer(version.trim(), 1, u64::MAX)?)),
        None => (text, None),
    };
    let name = name.trim();
    if name.is_empty() {
        return Err("it must be name or name:version".to_owned());
    }
    Ok(ModelId { name: name.to_owned(), version })
}

/// `name[:version][?parameter=value[&…]]:share`.
pub fn mix_entry(text: &str) -> Result<MixEntry, String> {
    let rule = "it must be name[:version][?parameter=value[&…]]:share";
    let (subject, part) = text.rsplit_once(':').ok_or(rule)?;
    let (name, query) = subject.split_once('?').map_or((subject, None), |(name, query)| (name, Some(query)));
    let parameters = query.into_iter().flat_map(|query| query.split('&')).map(|pair| {
        let (name, value) = pair.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or(rule)?;
        Ok(Parameter { name: name.to_owned(), value: ParameterValue::Text(value.to_owned()) })
    });
    let part = share(part)?;
    if part <= 0.0 {
        return Err("the share must be above 0".to_owned());
    }
    Ok(MixEntry { model: model(name)?, share: part, parameters: parameters.collect::<Result<_, String>>()? })
}

/// A stage, or a pause before the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StageForm {
    /// A stage, with no pause before it.
    Stage(Stage),
    /// `pause:LENGTH`.
    Pause(Duration),
}

/// `rate:VALUE:LENGTH`, `ramp:FROM-TO:LENGTH`, `concurrency:VALUE:LENGTH`, `sessions:N:COUNT`, `replay:SPEED[:LENGTH]`
/// or `pause:TIME`; the length is a time, or a number of requests such as `500req`, as it always is for replays.
pub fn stage(text: &str) -> Result<StageForm, String> {
    let rule = "it must be rate:VALUE:LENGTH, ramp:FROM-TO:LENGTH or concurrency:VALUE:LENGTH, with a length such as 30s or 500req, \
         sessions:N:COUNT, replay:SPEED, replay:SPEED:500req, or pause:TIME";
    let parts: Vec<&str> = text.split(':').collect();
    if let [kind, length] = parts[..]
        && kind.eq_ignore_ascii_case("pause")
        && !length.ends_with(|c: char| c.is_ascii_digit())
    {
        return time(length, Duration::from_secs(1)).map(StageForm::Pause);
    }
    if let ["replay", speed, first @ ..] = &parts[..] {
        return replay(speed, first);
    }
    if let ["sessions", concurrency, count, rate @ ..] = &parts[..] {
        return sessions(concurrency, count, rate);
    }
    let [kind, value, length] = parts[..] else { return Err(rule.to_owned()) };
    let load = match kind.to_ascii_lowercase().as_str() {
        "rate" => StageLoad::RequestRate(decimal(value, 0.0, MAX_RATE)?),
        "ramp" => {
            let (from, to) = value.split_once('-').ok_or(rule)?;
            StageLoad::Ramp(Ramp { from: decimal(from, 0.0, MAX_RATE)?, to: decimal(to, 0.0, MAX_RATE)? })
        }
        "concurrency" => StageLoad::Concurrency(integer(value, 1, u64::from(MAX_CONCURRENCY))?),
        _ => return Err(rule.to_owned()),
    };
    if matches!(load, StageLoad::RequestRate(0.0) | StageLoad::Ramp(Ramp { from: 0.0, to: 0.0 })) {
        return Err("the rate must be above 0".to_owned());
    }
    let length = match length.strip_suffix("req") {
        Some(requests) => StageLength::Requests(integer(requests, 1, u64::MAX)?),
        None if length.ends_with(|c: char| c.is_ascii_digit()) => return Err(rule.to_owned()),
        None => StageLength::Time(time(length, Duration::from_secs(1))?),
    };
    if length == StageLength::Time(Duration::ZERO) {
        return Err("the length must be above 0".to_owned());
    }
    Ok(StageForm::Stage(Stage { load, length, pause: Duration::ZERO }))
}

/// As [`stage`], for a load that is not measured.
pub fn warm_up(text: &str) -> Result<StageForm, String> {
    match stage(text)? {
        StageForm::Stage(Stage { load: StageLoad::Sessions { .. }, .. }) => {
            Err("sessions are played once, and measured: a warm-up is rate, ramp, concurrency or pause".to_owned())
        }
        StageForm::Stage(Stage { load: StageLoad::Replay { .. }, .. }) => {
            Err("a trace is replayed to be measured: a warm-up is rate, ramp, concurrency or pause".to_owned())
        }
        form => Ok(form),
    }
}

/// `replay:SPEED[:COUNTreq]`, of which the last parts are given.
fn replay(speed: &str, first: &[&str]) -> Result<StageForm, String> {
    let rule = "it must be replay:SPEED, or with the number of the trace's first requests replay:SPEED:500req";
    let length = match first {
        [] => StageLength::Recorded,
        [first] => StageLength::Requests(integer(first.strip_suffix("req").ok_or(rule)?, 1, u64::MAX)?),
        _ => return Err(rule.to_owned()),
    };
    let load = StageLoad::Replay { speed: decimal(speed, 1e-6, 1e6)? };
    Ok(StageForm::Stage(Stage { load, length, pause: Duration::ZERO }))
}

/// `sessions:N:COUNT|all[:RATE]`, of which the last three parts are given.
fn sessions(concurrency: &str, count: &str, rate: &[&str]) -> Result<StageForm, String> {
    let rule = "it must be sessions:N:COUNT or sessions:N:all, perhaps with :RATE of sessions that begin in a second";
    let rate = match rate {
        [] => None,
        [rate] => Some(decimal(rate, 0.0, MAX_RATE)?).filter(|rate| *rate > 0.0),
        _ => return Err(rule.to_owned()),
    };
    let count = if count.eq_ignore_ascii_case("all") { None } else { Some(integer(count, 1, u64::from(u32::MAX))?) };
    let load = StageLoad::Sessions { concurrency: integer(concurrency, 0, u64::from(MAX_CONCURRENCY))?, rate };
    Ok(StageForm::Stage(Stage { load, length: StageLength::Sessions(count), pause: Duration::ZERO }))
}

/// The stages of several forms: pauses belong to the stage after them.
pub fn stages(forms: &[StageForm]) -> Vec<Stage> {
    let mut pending = Duration::ZERO;
    let stage = |form: &StageForm| match *form {
        StageForm::Pause(pause) => {
            pending += pause;
            None
        }
        StageForm::Stage(stage) => Some(Stage { pause: std::mem::take(&mut pending), ..stage }),
    };
    forms.iter().filter_map(stage).collect()
}

/// How a sweep spaces its rates, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepForm {
    /// How they are spaced.
    pub spacing: Spacing,
    /// How many.
    pub points: u32,
}

/// `linear[:N]` or `geometric[:N]`.
pub fn sweep(text: &str) -> Result<SweepForm, String> {
    const POINTS: u32 = 8;
    let (kind, points) = text.split_once(':').map_or((text, None), |(kind, points)| (kind, Some(points)));
    let spacing = match kind.to_ascii_lowercase().as_str() {
        "linear" => Spacing::Linear,
        "geometric" => Spacing::Geometric,
        _ => return Err("it must be linear or geometric, with :N for N rates".to_owned()),
    };
    Ok(SweepForm { spacing, points: points.map_or(Ok(POINTS), |points| integer(points, 2, 1000))? })
}

/// `p99:2%`, `p99.9:0.02`, `avg:1%` or `throughput:1%`.
pub fn precision(text: &str) -> Result<Precision, String> {
    let rule = "it must be pN, avg or throughput with a share, such as p99:2%";
    let (statistic, part) = text.split_once(':').ok_or(rule)?;
    let statistic = match statistic.to_ascii_lowercase().as_str() {
        "avg" | "mean" => Statistic::MeanLatency,
        "throughput" => Statistic::Throughput,
        name => {
            let percentile = name.strip_prefix('p').and_then(|number| decimal(number, 0.0, 100.0).ok());
            let inside = percentile.filter(|&percentile| percentile > 0.0 && percentile < 100.0);
            Statistic::Percentile(inside.ok_or(rule)?)
        }
    };
    let part = share(part)?;
    if part <= 0.0 { Err("the share must be above 0".to_owned()) } else { Ok(Precision { statistic, share: part }) }
}

/// `relative[:absolute]`.
pub fn tolerance(text: &str) -> Result<(f64, f64), String> {
    let (relative, absolute) = text.split_once(':').unwrap_or((text, "0"));
    Ok((decimal(relative, 0.0, f64::MAX)?, decimal(absolute, 0.0, f64::MAX)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> ParameterValue {
        ParameterValue::Text(value.into())
    }

    #[test]
    fn models_of_a_list_may_stand_behind_blanks() {
        for text in [" slow:2", "slow:2 ", "slow : 2"] {
            assert_eq!(model(text), Ok(ModelId { name: "slow".into(), version: Some(2) }), "{text}");
        }
        assert!([" ", " :2", "slow: "].iter().all(|text| model(text).is_err()));
    }

    #[test]
    fn settings_are_spelt_as_the_server_program_spells_them() {
        assert_eq!(setting("local,size=1048576"), Ok(("local".into(), "size".into(), "1048576".into())));
        assert_eq!(setting("a,b=c=d,e"), Ok(("a".into(), "b".into(), "c=d,e".into())));
        assert_eq!(open_setting("default-max-batch-size=8").unwrap().0, "");
        assert!(["", "a", "a=b", ",b=c", "a,=c"].iter().all(|text| setting(text).is_err()));
        assert!(["", "a", "=c", "a,=c"].iter().all(|text| open_setting(text).is_err()));
        assert_eq!(device_bytes("1:4096"), Ok((1, 4096)));
        assert!(["4096", "-1:5", "0:x", "0:", ":"].iter().all(|text| device_bytes(text).is_err()));
        assert_eq!(resource("R1:2"), Ok(("R1".into(), 2, -1)));
        assert_eq!(resource("R1:2:3"), Ok(("R1".into(), 2, 3)));
        assert!(["R1", "R1:x", ":1", "R1:1:2:3"].iter().all(|text| resource(text).is_err()));
    }

    #[test]
    fn shapes_split_at_the_last_colon() {
        assert_eq!(shape("IN:1,16"), Ok(("IN".into(), vec![1, 16])));
        assert_eq!(shape("in:0:3"), Ok(("in:0".into(), vec![3])));
        assert_eq!(shape("a:1 b:2").unwrap_err(), "it names several inputs: repeat the flag, --shape a:1 --shape b:2");
        assert!(["IN", "IN:", "IN:0", "IN:-1", "IN:1,,2", ":1", "IN:1x"].iter().all(|text| shape(text).is_err()));
        assert_eq!(random_range("ids:0:-1.5").unwrap_err(), "0 is above -1.5");
        assert_eq!(random_range("a:b:0:30522").unwrap().to_string(), "a:b:0:30522");
        assert!(["ids", "ids:1", ":0:1", "ids:nan:1", "ids:0:inf"].iter().all(|text| random_range(text).is_err()));
    }

    #[test]
    fn parameters_are_typed_and_checked() {
        assert_eq!(parameter("max:256:int").unwrap().value, ParameterValue::Int(256));
        assert_eq!(parameter("seed:18446744073709551615:UINT").unwrap().value, ParameterValue::Uint(u64::MAX));
        assert_eq!(parameter("on:true:bool").unwrap().value, ParameterValue::Bool(true));
        assert_eq!(parameter("t:0.5:double").unwrap().value, ParameterValue::Double(0.5));
        assert_eq!(parameter("u:http://a:80:string").unwrap().value, text("http://a:80"));
        for bad in ["a", "a:b", ":1:int", "a:1x:int", "a:-1:uint", "a:maybe:bool", "a:nan:double", "a:1:float"] {
            assert!(parameter(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn inputs_of_a_trace_may_have_a_longest_length() {
        assert_eq!(token_input("IDS"), Ok(TokenInput { name: "IDS".into(), longest: 131_072 }));
        assert_eq!(token_input("ids:0:512"), Ok(TokenInput { name: "ids:0".into(), longest: 512 }));
        assert!(["", ":5", "IDS:", "IDS:0", "IDS:x", "IDS:-1"].iter().all(|text| token_input(text).is_err()));
        assert!(parameter_name("").is_err());
    }

    #[test]
    fn headers_split_at_the_first_colon() {
        assert_eq!(header("Authorization: Bearer a:b"), Ok(("Authorization".into(), "Bearer a:b".into())));
        assert!(["Accept", ":x", "A b:c", "A:b\r\nC:d"].iter().all(|text| header(text).is_err()));
    }

    #[test]
    fn mixes_name_models_versions_and_parameters() {
        assert_eq!(mix_entry("a:0.7").unwrap().model, ModelId::latest("a"));
        assert_eq!(mix_entry("a:3:25%").unwrap().model, ModelId { name: "a".into(), version: Some(3) });
        let lora = mix_entry("llm?lora_name=x&k=:0.5").unwrap();
        assert_eq!(lora.parameters[0], Parameter { name: "lora_name".into(), value: text("x") });
        assert_eq!(lora.parameters[1].value, text(""));
        for bad in ["a", "a:0", "a:-1", "a:1.5", "a:nan", ":0.5", "a?x:0.5", "a:x:0.5", "a:0:0.5"] {
            assert!(mix_entry(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn stages_have_a_load_and_a_length() {
        let timed = Stage {
            load: StageLoad::RequestRate(12.5),
            length: StageLength::Time(Duration::from_secs(90)),
            pause: Duration::ZERO,
        };
        assert_eq!(stage("rate:12.5:1.5m"), Ok(StageForm::Stage(timed)));
        let counted =
            Stage { load: StageLoad::Concurrency(8), length: StageLength::Requests(500), pause: Duration::ZERO };
        assert_eq!(stage("Concurrency:8:500req"), Ok(StageForm::Stage(counted)));
        let ramp = Stage { load: StageLoad::Ramp(Ramp { from: 100.0, to: 0.5 }), ..timed };
        assert_eq!(stage("ramp:100-0.5:1.5m"), Ok(StageForm::Stage(ramp)));
        let replay =
            Stage { load: StageLoad::Replay { speed: 2.5 }, length: StageLength::Recorded, pause: Duration::ZERO };
        assert_eq!(stage("replay:2.5"), Ok(StageForm::Stage(replay)));
        let first = Stage { length: StageLength::Requests(9), ..replay };
        assert_eq!(stage("replay:2.5:9req"), Ok(StageForm::Stage(first)));
        assert!(warm_up("replay:1").is_err());
        for bad in [
            "rate:1",
            "replay:0",
            "replay:1:1s",
            "replay:1:0req",
            "replay:1:1req:1",
            "ramp:10:1s",
            "ramp:0-0:1s",
            "rate:0:1s",
            "rate:nan:1s",
            "x:1:1s",
            "rate:1:5",
            "rate:1:0s",
            "concurrency:1.5:1s",
            "rate:1:0req",
        ] {
            assert!(stage(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn pauses_belong_to_the_stage_after_them() {
        let forms: Vec<StageForm> =
            ["rate:1:1s", "pause:2s", "Pause:500ms", "rate:2:1s", "rate:3:1s"].map(|text| stage(text).unwrap()).into();
        let pauses: Vec<Duration> = stages(&forms).iter().map(|stage| stage.pause).collect();
        assert_eq!(pauses, [0, 2_500, 0].map(Duration::from_millis));
        assert!(["pause", "pause:", "pause:5", "pause:-1s", "pause:1:2s"].iter().all(|text| stage(text).is_err()));
    }

    #[test]
    fn sweeps_precision_and_tolerance() {
        assert_eq!(sweep("LINEAR"), Ok(SweepForm { spacing: Spacing::Linear, points: 8 }));
        assert_eq!(sweep("geometric:12"), Ok(SweepForm { spacing: Spacing::Geometric, points: 12 }));
        assert!(["", "log", "linear:", "linear:1", "linear:x"].iter().all(|text| sweep(text).is_err()));
        assert_eq!(precision("p99.9:2%"), Ok(Precision { statistic: Statistic::Percentile(99.9), share: 0.02 }));
        assert_eq!(precision("avg:0.01").unwrap().statistic, Statistic::MeanLatency);
        assert!(["p99", "p0:1%", "p100:1%", "q:1%", "p99:0", "p99:x"].iter().all(|text| precision(text).is_err()));
        assert_eq!(tolerance("1e-3"), Ok((1e-3, 0.0)));
        assert_eq!(tolerance("0:0.5"), Ok((0.0, 0.5)));
        assert!(["", "x", "-1", "1:-1", "nan"].iter().all(|text| tolerance(text).is_err()));
    }
}
