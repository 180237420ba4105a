//! `data.synthetic_agentic`: sessions of agents that call tools and give work to further agents.

use crate::config::fields::Fields;
use crate::config::flags::Flags;
use crate::config::inference_perf::distribution::Distribution;
use crate::config::inference_perf::recordings::{models, usual_tokens};
use crate::config::yaml::{Fault, Node};

const SECTION: &str = "synthetic_agentic";

/// What a distribution counts.
#[derive(Clone, Copy)]
enum Unit {
    Tokens,
    Things,
    Seconds,
}

/// Sessions that are generated.
///
/// # Errors
/// What is not theirs, or has no counterpart.
pub fn sessions(data: &mut Fields<'_>, node: &Node, flags: &mut Flags) -> Result<(), Fault> {
    let missing = |key: &str| Fault::new(node.at, format!("the type {SECTION} needs 'data.{key}'"));
    let at = data.place(SECTION);
    let mut fields = data.section(SECTION)?.ok_or_else(|| missing(SECTION))?;
    let count = fields.whole("num_sessions", 1)?.ok_or_else(|| missing("synthetic_agentic.num_sessions"))?;
    let mut settings = vec![format!("sessions={count}")];
    for (key, name, unit) in [
        ("input_tokens_per_turn", "input", Unit::Tokens),
        ("output_tokens_per_turn", "output", Unit::Tokens),
        ("turns_per_session", "turns", Unit::Tokens),
        ("tool_loop_depth", "loops", Unit::Things),
        ("parallel_tool_calls_per_step", "parallel", Unit::Things),
        ("tool_catalog_size_per_agent", "tools", Unit::Things),
        ("sub_agents_per_spawn", "children", Unit::Things),
        ("tool_call_latency_sec", "tool-delay", Unit::Seconds),
        ("user_think_time_sec", "think-delay", Unit::Seconds),
    ] {
        let Some(value) = distribution(&mut fields, key, unit, flags)? else { continue };
        settings.push(format!("{name}={value}"));
    }
    let names: Vec<&str> = settings.iter().filter_map(|setting| setting.split('=').next()).collect();
    for (key, name) in [("input_tokens_per_turn", "input"), ("output_tokens_per_turn", "output")] {
        if !names.contains(&name) {
            return Err(missing(&format!("{SECTION}.{key}")));
        }
    }
    for (key, name, least) in
        [("shared_system_prompt_len", "system", 0), ("max_depth", "depth", 0), ("max_events_per_session", "calls", 1)]
    {
        settings.extend(fields.whole(key, least)?.map(|number| format!("{name}={number}")));
    }
    let fanout_at = fields.place("fanout_probability");
    match fields.number("fanout_probability", 0.0)? {
        Some(above) if above > 1.0 => {
            return Err(Fault::new(fanout_at, format!("'data.{SECTION}.fanout_probability' is at most 1")));
        }
        probability => settings.extend(probability.map(|probability| format!("fanout={probability}"))),
    }
    if let Some(mut compaction) = fields.section("context_compaction")? {
        for (key, name) in [("trigger_tokens", "compact-above"), ("target_tokens", "compact-to")] {
            let value = distribution(&mut compaction, key, Unit::Tokens, flags)?;
            let value = value.ok_or_else(|| missing(&format!("{SECTION}.context_compaction.{key}")))?;
            settings.push(format!("{name}={value}"));
        }
        compaction.finish()?;
    }
    flags.at(at).add("session-trace", format!("agents:{}", settings.join(",")));
    options(&mut fields, flags)?;
    themes(&mut fields, flags)?;
    seed(&mut fields, flags)?;
    fields.finish()
}

fn distribution(fields: &mut Fields<'_>, key: &str, unit: Unit, flags: &mut Flags) -> Result<Option<String>, Fault> {
    let Some(node) = fields.take(key) else { return Ok(None) };
    let distribution = Distribution::read(&fields.name(key), node)?;
    match unit {
        Unit::Tokens => distribution.length(flags),
        Unit::Things => distribution.things(),
        Unit::Seconds => distribution.pause().map(|pause| pause.unwrap_or_else(|| "0".to_owned())),
    }
    .map(Some)
}

/// How calls are sent.
fn options(fields: &mut Fields<'_>, flags: &mut Flags) -> Result<(), Fault> {
    let mut all = Vec::new();
    all.extend(fields.whole("max_wait_ms", 0)?.map(|wait| format!("max-wait={wait}ms")));
    // Of the call that comes before work is given to others nothing says how long its answer is.
    all.push(usual_tokens(fields, flags)?);
    let has_more = fields.switch("override_tool_call_max_tokens")? == Some(true);
    all.push(format!("tool-tokens={}", if has_more { "more" } else { "recorded" }));
    let tools = fields.choice("tool_choice_mode", &["force_recorded", "as_recorded"])?;
    all.extend(tools.filter(|mode| *mode == "as_recorded").map(|_| "tools=free".to_owned()));
    all.extend(models(fields, flags)?);
    flags.at_key(fields, "max_wait_ms").add("session-trace-options", all.join(","));
    let notes = [
        ("bad_tool_call_handling", "no effect: calls of tools are sent as generated"),
        ("predecessor_wait_timeout_sec", "no effect: load.request_timeout limits the calls that are waited for"),
        ("max_model_len", "no effect: a call that is too long for the model fails"),
    ];
    flags.notes.extend(notes.iter().filter_map(|(key, why)| fields.no_effect(key, why)));
    let pinned = [("inject_random_session_id", false), ("skip_invalid_files", false), ("include_errors", true)];
    for (key, usual) in pinned {
        if fields.peek(key).is_some() && fields.switch(key)? != Some(usual) {
            return Err(Fault::new(fields.place(key), format!("'data.{SECTION}.{key}' is always {usual} there")));
        }
    }
    fields.refuse("duplicate_sessions_target", "num_sessions says how many sessions there are")
}

/// What sessions are about, which only tells their words.
fn themes(fields: &mut Fields<'_>, flags: &mut Flags) -> Result<(), Fault> {
    let name = fields.name("theme_mix");
    if let Some(mix) = fields.take("theme_mix") {
        let themes: Vec<&str> = mix.map()?.iter().map(|(theme, _)| theme.name.as_str()).collect();
        flags.note(format!(
            "{name}: {}: no effect: sessions are made of common words, and tools described at the length of its themes",
            themes.join(", ")
        ));
    }
    Ok(())
}

/// The seed, unless the load has one.
fn seed(fields: &mut Fields<'_>, flags: &mut Flags) -> Result<(), Fault> {
    let seed = fields.whole("seed", 0)?.unwrap_or(42);
    if flags.settings.iter().any(|setting| setting.name == "seed" && setting.arguments == ["--seed=time"]) {
        flags.settings.retain(|setting| setting.name != "seed");
        flags.at_key(fields, "seed").add("seed", seed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::yaml;

    fn read(section: &str) -> Result<Flags, Fault> {
        let node = yaml::read(&format!("synthetic_agentic: {section}")).unwrap();
        let mut flags = Flags::default();
        sessions(&mut Fields::new("data", &node)?, &node, &mut flags).map(|()| flags)
    }

    fn arguments(section: &str) -> Vec<String> {
        let flags = read(section).unwrap_or_else(|fault| panic!("{section}: {fault:?}"));
        let all = flags.settings.iter().flat_map(|setting| &setting.arguments);
        all.map(|argument| argument.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn every_key_is_a_setting() {
        let found = arguments(
            "{num_sessions: 5, input_tokens_per_turn: {type: fixed, mean: 30}, output_tokens_per_turn: {type: fixed, mean: 9}, \
             turns_per_session: {type: uniform, min: 1, max: 3}, fanout_probability: 0.5, shared_system_prompt_len: 40, \
             tool_loop_depth: {type: fixed, mean: 0}, sub_agents_per_spawn: {type: uniform, min: 2, max: 3}, max_depth: 1, \
             max_events_per_session: 20, tool_catalog_size_per_agent: {type: fixed, mean: 4}, \
             parallel_tool_calls_per_step: {type: fixed, mean: 2}, tool_call_latency_sec: {type: uniform, min: 0, max: 2}, \
             user_think_time_sec: {type: fixed, mean: 0.5}, context_compaction: {trigger_tokens: {type: fixed, mean: 500}, \
             target_tokens: {type: fixed, mean: 50}}, theme_mix: {generic: {weight: 1}}, max_wait_ms: 100}",
        );
        let sessions = "--session-trace=agents:sessions=5,input=30,output=9,turns=uniform:1:3,loops=0,parallel=2,tools=4,\
            children=uniform:2:3,tool-delay=whole:uniform:0:2,think-delay=0,system=40,depth=1,calls=20,fanout=0.5,\
            compact-above=500,compact-to=50";
        assert_eq!(found, [sessions, "--session-trace-options=max-wait=100ms,default-tokens=30,tool-tokens=recorded"]);
        assert!(crate::agents::agents(sessions.split_once("agents:").unwrap().1).is_ok());
    }

    #[test]
    fn what_is_not_theirs_is_refused() {
        let sized = "num_sessions: 1, input_tokens_per_turn: {}, output_tokens_per_turn: {}";
        assert!(read(&format!("{{{sized}}}")).is_ok());
        for (section, rule) in [
            (
                "{num_sessions: 1, input_tokens_per_turn: {}}".to_owned(),
                "needs 'data.synthetic_agentic.output_tokens_per_turn'",
            ),
            (format!("{{{sized}, fanout_probability: 2}}"), "at most 1"),
            (format!("{{{sized}, include_errors: false}}"), "always true"),
            (format!("{{{sized}, duplicate_sessions_target: 9}}"), "num_sessions says"),
            (format!("{{{sized}, context_compaction: {{trigger_tokens: {{}}}}}}"), "context_compaction.target_tokens"),
            (format!("{{{sized}, depth: 2}}"), "depth"),
        ] {
            let fault = read(&section).err().unwrap_or_else(|| panic!("{section}"));
            assert!(fault.rule.contains(rule), "{section}: {}", fault.rule);
        }
    }
}
