//! `agents:NAME=VALUE,...`: sessions of agents that are generated.

use ::data::{AgentSpec, Compaction, Delay, LengthShape, MAX_TOKENS, TokenLength};

use crate::lengths::{count, delay, length};
use crate::values::{decimal, integer};

/// Reads their settings. Those that are left out are inference-perf's defaults.
pub fn agents(text: &str) -> Result<AgentSpec, String> {
    let fixed = |count: f64| TokenLength { shape: LengthShape::Normal(count, 0.0), least: 0, most: MAX_TOKENS };
    let seconds = |count: f64| Delay { units: fixed(count), unit_ms: 1000 };
    let children = TokenLength { shape: LengthShape::Uniform, least: 2, most: 4 };
    let mut spec = AgentSpec {
        sessions: 0,
        input: fixed(0.0),
        output: fixed(0.0),
        turns: fixed(1.0),
        system_tokens: 1000,
        loops: fixed(2.0),
        parallel: fixed(1.0),
        tools: fixed(8.0),
        fanout: 0.0,
        children,
        max_depth: 2,
        max_calls: 64,
        tool_delay: seconds(1.0),
        think_delay: seconds(10.0),
        compaction: None,
    };
    let mut names = Vec::new();
    let (mut above, mut summary) = (None, None);
    for setting in text.split(',') {
        let (name, value) = setting.split_once('=').ok_or_else(|| format!("'{setting}' is not NAME=VALUE"))?;
        let result = match name {
            "compact-above" => length(value).map(|found| above = Some(found)),
            "compact-to" => length(value).map(|found| summary = Some(found)),
            _ => set(&mut spec, name, value),
        };
        result.map_err(|rule| format!("'{setting}': {rule}"))?;
        names.push(name);
    }
    if let Some(name) = ["sessions", "input", "output"].iter().find(|name| !names.contains(name)) {
        return Err(format!("{name}= is missing"));
    }
    spec.compaction = match (above, summary) {
        (Some(above), Some(summary)) => Some(Compaction { above, summary }),
        (None, None) => None,
        _ => return Err("compact-above= and compact-to= belong together".to_owned()),
    };
    Ok(spec)
}

fn set(spec: &mut AgentSpec, name: &str, value: &str) -> Result<(), String> {
    match name {
        "sessions" => spec.sessions = integer(value, 1, u64::from(u32::MAX))?,
        "input" => spec.input = length(value)?,
        "output" => spec.output = length(value)?,
        "turns" => spec.turns = length(value)?,
        "system" => spec.system_tokens = integer(value, 0, u64::from(MAX_TOKENS))?,
        "loops" => spec.loops = count(value)?,
        "parallel" => spec.parallel = count(value)?,
        "tools" => spec.tools = count(value)?,
        "fanout" => spec.fanout = decimal(value, 0.0, 1.0)?,
        "children" => spec.children = count(value)?,
        "depth" => spec.max_depth = integer(value, 0, u64::from(u32::MAX))?,
        "calls" => spec.max_calls = integer(value, 1, u64::from(u32::MAX))?,
        "tool-delay" => spec.tool_delay = delay(value)?,
        "think-delay" => spec.think_delay = delay(value)?,
        _ => {
            return Err("it is none of sessions, input, output, turns, system, loops, parallel, tools, fanout, children, depth, \
                calls, tool-delay, think-delay, compact-above, compact-to"
                .to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_lengths_counts_and_pauses() {
        let spec =
            agents("sessions=3,input=normal:20:5:10:30,output=7,loops=0,fanout=0.25,tool-delay=whole:uniform:0:2")
                .unwrap();
        assert_eq!((spec.sessions, spec.input.most, spec.fanout, spec.max_calls), (3, 30, 0.25, 64));
        assert_eq!((spec.loops.shape, spec.loops.least), (LengthShape::Normal(0.0, 0.0), 0));
        assert_eq!((spec.tool_delay.unit_ms, spec.think_delay.units.shape), (1000, LengthShape::Normal(10.0, 0.0)));
        assert!(spec.compaction.is_none());
        let compacted = agents("sessions=1,input=5,output=5,compact-above=900,compact-to=100").unwrap();
        assert_eq!(compacted.compaction.unwrap().above.shape, LengthShape::Normal(900.0, 0.0));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_name() {
        for (text, rule) in [
            ("", "'' is not NAME=VALUE"),
            ("sessions=1,input=5", "output= is missing"),
            ("sessions=0,input=5,output=5", "'sessions=0': "),
            ("sessions=1,input=5,output=5,fanout=2", "'fanout=2': "),
            ("sessions=1,input=5,output=5,size=2", "'size=2': it is none of sessions"),
            ("sessions=1,input=5,output=5,compact-to=2", "belong together"),
        ] {
            let error = agents(text).unwrap_err();
            assert!(error.contains(rule), "{text}: {error}");
        }
    }
}
