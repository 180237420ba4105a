//! The behaviour that a model's configuration asks for. The crate's README specifies it.

use std::collections::BTreeMap;

/// How the delays of executions are distributed; `delay_us` is their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DelayLaw {
    /// All are alike.
    #[default]
    Fixed,
    /// Exponential.
    Exponential,
    /// Four of five take a fifth as long as the others; each by up to half more or less.
    Bimodal,
}

impl DelayLaw {
    /// The delay that a number from 0 to 1, 1 excluded, stands for, as a multiple of the mean.
    pub fn quantile(self, share: f64) -> f64 {
        match self {
            Self::Fixed => 1.0,
            Self::Exponential => -(1.0 - share).ln(),
            Self::Bimodal if share < 0.8 => (0.5 + share / 0.8) / 1.8,
            Self::Bimodal => 5.0 * (0.5 + (share - 0.8) / 0.2) / 1.8,
        }
    }
}

/// How an execution's delay is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DelayMode {
    /// Asleep, but for the last stretch, so that it ends on time.
    #[default]
    Sleep,
    /// Asleep; ends a little late.
    Nap,
    /// Burning a processor.
    Busy,
    /// Burning so much processor time, however long that takes.
    Burn,
}

/// How a request is made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailMode {
    /// An error response for the request alone.
    #[default]
    Response,
    /// The execution returns an error, so the server fails every request in it.
    Execute,
    /// The whole process ends, by `exit`.
    Exit,
    /// By `_exit`.
    ExitAtOnce,
    /// By `quick_exit`.
    QuickExit,
    /// By a fault of its memory.
    Crash,
    /// By a stack that has no end.
    Overflow,
}

/// Which thread sends decoupled responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RepeatMode {
    /// The instance's thread, which blocks for the gaps.
    #[default]
    Inline,
    /// A thread of the backend.
    Thread,
}

/// How the end of a decoupled stream is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FinalMode {
    /// A flag on the last response.
    #[default]
    Flag,
    /// An empty response after it.
    Null,
}

/// When a request is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReleaseMode {
    /// After its last response.
    #[default]
    After,
    /// Before its first.
    Before,
}

/// A figure of a model's configuration that is above a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadRule {
    /// Which figure.
    pub figure: LoadFigure,
    /// The bound.
    pub above: u64,
}

/// What a load rule looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadFigure {
    /// Instances of all groups together.
    Count,
    /// The largest batch.
    Batch,
}

impl LoadRule {
    fn parse(key: &str, value: &str) -> Result<LoadRule, String> {
        let rule = || format!("parameter {key} is {value:?}; it must be count>N or batch>N");
        let (name, bound) = value.split_once('>').ok_or_else(rule)?;
        let figure = match name.trim() {
            "count" => LoadFigure::Count,
            "batch" => LoadFigure::Batch,
            _ => return Err(rule()),
        };
        Ok(LoadRule { figure, above: bound.trim().parse().map_err(|_| rule())? })
    }

    /// Whether a model of so many instances and of this largest batch breaks it.
    pub fn is_broken(self, count: u64, batch: u64) -> bool {
        let value = if self.figure == LoadFigure::Count { count } else { batch };
        value > self.above
    }
}

/// All parameters of a model. Times are in microseconds, 0 = off.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Least duration of an execution.
    pub delay_us: u64,
    /// Time before that, which is reported as that of the inputs.
    pub input_delay_us: u64,
    /// Time after it, which is reported as that of the outputs.
    pub output_delay_us: u64,
    /// How these times are spent.
    pub delay_mode: DelayMode,
    /// How the delay is distributed.
    pub delay_law: DelayLaw,
    /// What its draws begin with.
    pub delay_seed: u64,
    /// Upper bound of the random part of the delay.
    pub jitter_us: u64,
    /// What each row of an execution adds to its delay.
    pub per_item_us: u64,
    /// Executions of the model that may go on at once, over all its instances; 0 is any number.
    pub permits: u64,
    /// How much slower an execution is for each other one that goes on when it begins, in per mille.
    pub slowdown_permille: u64,
    /// How long the model's load takes, in milliseconds.
    pub load_ms: u64,
    /// Where the model's load fails.
    pub fail_load_if: Option<LoadRule>,
    /// Where the process dies when an instance is made.
    pub crash_if: Option<LoadRule>,
    /// Ordinal of the request whose execution stalls.
    pub stall_after_requests: u64,
    /// Length of the stall.
    pub stall_us: u64,
    /// So many requests come before the model has warmed up.
    pub cold_requests: u64,
    /// How much longer executions that hold one of them take.
    pub cold_us: u64,
    /// Every n-th request fails.
    pub fail_every: u64,
    /// In which way.
    pub fail_mode: FailMode,
    /// Decoupled responses per request; `None` = not set.
    pub repeat: Option<u64>,
    /// Time between them.
    pub gap_us: u64,
    /// Who sends them.
    pub repeat_mode: RepeatMode,
    /// How they end.
    pub final_mode: FinalMode,
    /// When the request is given back.
    pub release: ReleaseMode,
    /// Sums up sequences.
    pub accumulate: bool,
    /// Path of the journal.
    pub stamp_file: Option<String>,
    /// Path of the totals.
    pub counter_file: Option<String>,
    /// Cancelled requests are answered as such.
    pub cancellable: bool,
    /// Response parameters repeat the request's.
    pub echo_parameters: bool,
    /// Outputs are given their size but no content.
    pub leave_outputs: bool,
    /// Reported times run backwards.
    pub report_nonsense_times: bool,
    /// The model's load fails with this.
    pub init_fail: Option<String>,
    /// Keys that only a decoupled model may set, as far as they were set.
    pub decoupled_keys: Vec<String>,
}

/// Longest time that any parameter accepts: an hour.
const LONGEST_US: u64 = 3_600_000_000;
/// Most responses per request.
pub const MAX_RESPONSES: u64 = 1_000_000;

impl Settings {
    /// Reads the parameters of a model configuration.
    ///
    /// # Errors
    /// A sentence that names the key, the value and what would be accepted.
    pub fn parse(parameters: &BTreeMap<String, String>) -> Result<Settings, String> {
        let mut settings = Settings::default();
        for (key, value) in parameters {
            settings.set(key, value)?;
            if ["repeat", "gap_us", "repeat_mode", "final"].contains(&key.as_str()) {
                settings.decoupled_keys.push(key.clone());
            }
        }
        if settings.stall_after_requests > 0 && settings.stall_us == 0 {
            return Err("parameter stall_after_requests needs stall_us as well".to_owned());
        }
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "delay_us" => self.delay_us = number(key, value, LONGEST_US)?,
            "input_delay_us" => self.input_delay_us = number(key, value, LONGEST_US)?,
            "output_delay_us" => self.output_delay_us = number(key, value, LONGEST_US)?,
            "delay_mode" => {
                self.delay_mode = choice(
                    key,
                    value,
                    &[
                        ("sleep", DelayMode::Sleep),
                        ("nap", DelayMode::Nap),
                        ("busy", DelayMode::Busy),
                        ("burn", DelayMode::Burn),
                    ],
                )?
            }
            "delay_law" => {
                let laws = [
                    ("fixed", DelayLaw::Fixed),
                    ("exponential", DelayLaw::Exponential),
                    ("bimodal", DelayLaw::Bimodal),
                ];
                self.delay_law = choice(key, value, &laws)?;
            }
            "delay_seed" => self.delay_seed = number(key, value, u64::MAX)?,
            "jitter_us" => self.jitter_us = number(key, value, LONGEST_US)?,
            "per_item_us" => self.per_item_us = number(key, value, LONGEST_US)?,
            "permits" => self.permits = number(key, value, 1_000_000)?,
            "slowdown_permille" => self.slowdown_permille = number(key, value, 1_000_000)?,
            "load_ms" => self.load_ms = number(key, value, LONGEST_US / 1_000)?,
            "fail_load_if" => self.fail_load_if = Some(LoadRule::parse(key, value)?),
            "crash_if" => self.crash_if = Some(LoadRule::parse(key, value)?),
            "stall_after_requests" => self.stall_after_requests = number(key, value, u64::MAX)?,
            "stall_us" => self.stall_us = number(key, value, LONGEST_US)?,
            "cold_requests" => self.cold_requests = number(key, value, u64::MAX)?,
            "cold_us" => self.cold_us = number(key, value, LONGEST_US)?,
            "fail_every" => self.fail_every = number(key, value, u64::MAX)?,
            "fail_mode" => {
                let modes = [
                    ("response", FailMode::Response),
                    ("execute", FailMode::Execute),
                    ("exit", FailMode::Exit),
                    ("_exit", FailMode::ExitAtOnce),
                    ("quick_exit", FailMode::QuickExit),
                    ("crash", FailMode::Crash),
                    ("overflow", FailMode::Overflow),
                ];
                self.fail_mode = choice(key, value, &modes)?;
            }
            "repeat" => self.repeat = Some(number(key, value, MAX_RESPONSES)?),
            "gap_us" => self.gap_us = number(key, value, LONGEST_US)?,
            "repeat_mode" => {
                self.repeat_mode =
                    choice(key, value, &[("inline", RepeatMode::Inline), ("thread", RepeatMode::Thread)])?;
            }
            "final" => self.final_mode = choice(key, value, &[("flag", FinalMode::Flag), ("null", FinalMode::Null)])?,
            "release" => {
                self.release = choice(key, value, &[("after", ReleaseMode::After), ("before", ReleaseMode::Before)])?;
            }
            "accumulate" => self.accumulate = flag(key, value)?,
            "stamp_file" => self.stamp_file = Some(text(key, value)?),
            "counter_file" => self.counter_file = Some(text(key, value)?),
            "cancellable" => self.cancellable = flag(key, value)?,
            "echo_parameters" => self.echo_parameters = flag(key, value)?,
            "leave_outputs" => self.leave_outputs = flag(key, value)?,
            "report_nonsense_times" => self.report_nonsense_times = flag(key, value)?,
            "init_fail" => self.init_fail = Some(text(key, value)?),
            _ => return Err(format!("parameter {key:?} is unknown; the backend's README lists those that exist")),
        }
        Ok(())
    }
}

fn number(key: &str, value: &str, most: u64) -> Result<u64, String> {
    let parsed = value.trim().parse::<u64>().ok().filter(|n| *n <= most);
    parsed.ok_or_else(|| format!("parameter {key} is {value:?}; it must be a whole number from 0 to {most}"))
}

fn flag(key: &str, value: &str) -> Result<bool, String> {
    choice(key, value, &[("true", true), ("false", false)])
}

fn text(key: &str, value: &str) -> Result<String, String> {
    if value.is_empty() { Err(format!("parameter {key} is empty")) } else { Ok(value.to_owned()) }
}

fn choice<T: Copy>(key: &str, value: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| *name == value.trim());
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        format!("parameter {key} is {value:?}; it must be one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::parse(&pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn nothing_set_is_identity() {
        assert_eq!(parse(&[]).unwrap(), Settings::default());
    }

    #[test]
    fn every_key_is_read() {
        let settings = parse(&[
            ("delay_us", "5"),
            ("input_delay_us", "3"),
            ("output_delay_us", "4"),
            ("delay_mode", "busy"),
            ("delay_law", "bimodal"),
            ("delay_seed", "7"),
            ("fail_load_if", "batch > 8"),
            ("fail_every", "3"),
            ("fail_mode", "execute"),
            ("repeat", "0"),
            ("final", "null"),
            ("release", "before"),
            ("accumulate", "true"),
            ("leave_outputs", "true"),
            ("stamp_file", "/tmp/x"),
        ])
        .unwrap();
        assert_eq!((settings.delay_us, settings.delay_mode), (5, DelayMode::Busy));
        assert_eq!((settings.input_delay_us, settings.output_delay_us), (3, 4));
        assert_eq!((settings.delay_law, settings.delay_seed), (DelayLaw::Bimodal, 7));
        assert_eq!((settings.fail_every, settings.fail_mode), (3, FailMode::Execute));
        assert_eq!(
            (settings.repeat, settings.final_mode, settings.release),
            (Some(0), FinalMode::Null, ReleaseMode::Before)
        );
        let rule = settings.fail_load_if.unwrap();
        assert!(rule.is_broken(1, 9) && !rule.is_broken(99, 8));
        assert_eq!(settings.decoupled_keys, ["final", "repeat"]);
        assert!(settings.leave_outputs);
        assert!(settings.accumulate && settings.stamp_file.as_deref() == Some("/tmp/x"));
    }

    #[test]
    fn bad_values_name_the_key_and_the_rule() {
        for (key, value, rule) in [
            ("delay_us", "-1", "whole number"),
            ("delay_us", "1e3", "whole number"),
            ("delay_us", "3600000001", "3600000000"),
            ("repeat", "1000001", "1000000"),
            ("delay_mode", "spin", "sleep, nap, busy, burn"),
            ("delay_law", "normal", "fixed, exponential, bimodal"),
            ("fail_load_if", "count", "count>N"),
            ("crash_if", "size>4", "batch>N"),
            ("permits", "-1", "whole number"),
            ("accumulate", "yes", "true, false"),
            ("stamp_file", "", "empty"),
            ("dealy_us", "1", "unknown"),
            ("stall_after_requests", "4", "stall_us"),
        ] {
            let message = parse(&[(key, value)]).unwrap_err();
            assert!(message.contains(key) && message.contains(rule), "{message}");
        }
    }

    #[test]
    fn every_law_has_the_same_mean() {
        for law in [DelayLaw::Fixed, DelayLaw::Exponential, DelayLaw::Bimodal] {
            let mean = (0..100_000).map(|draw| law.quantile((f64::from(draw) + 0.5) / 1e5)).sum::<f64>() / 1e5;
            assert!((mean - 1.0).abs() < 1e-3, "{law:?}: {mean}");
        }
        assert!(DelayLaw::Bimodal.quantile(0.799) < 1.0 && DelayLaw::Bimodal.quantile(0.8) > 1.3);
    }
}
