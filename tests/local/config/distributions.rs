//! Pauses, lengths and breakers of files in inference-perf's format that are 0, or have no counterpart.

use super::*;

/// What a file of conversations means with further keys, and the notes on it.
fn conversations(keys: &str) -> (String, String) {
    let file = Config::of(&format!(
        "data: {{type: conversation_replay, conversation_replay: {{{keys}}}}}\nload: {{stages: [{{rate: 1, duration: 1}}]}}\n"
    ));
    (printed(file.and(&["-m", "m", "--print-config"])), file.plan(&["-m", "m"]).notes.join("\n"))
}

#[test]
fn pauses_are_of_whole_seconds_and_may_be_0() {
    for (distribution, wanted) in [
        ("{min: 0, max: 1, mean: 0.15, std_dev: 0.01}", Some("turn-delay: whole:normal:0.15:0.01:0:1")),
        ("{type: uniform, min: 0, max: 2}", Some("turn-delay: whole:uniform:0:2")),
        ("{type: fixed, mean: 2.5}", Some("turn-delay: 2")),
        ("{type: fixed, mean: 0.5}", None),
        ("{type: fixed, mean: 0}", None),
    ] {
        let (text, _) = conversations(&format!("tool_call_latency_sec: {distribution}"));
        let found = text.lines().find(|line| line.starts_with("turn-delay"));
        assert_eq!(found, wanted, "{distribution}");
    }
}

#[test]
fn lengths_of_0_are_1_with_a_note_and_no_system_prompt_is_none() {
    let (text, notes) = conversations("input_tokens_per_turn: {type: uniform, min: 0, max: 5}");
    assert!(text.lines().any(|line| line == "prompt-tokens: uniform:1:5"), "{text}");
    let note = "data.conversation_replay.input_tokens_per_turn: where inference-perf draws 0, it is 1";
    assert!(notes.contains(note), "{notes}");
    let (text, notes) = conversations("dynamic_system_prompt_len: {type: fixed, mean: 0}");
    assert!(!text.contains("system-tokens") && !notes.contains("draws 0"), "{text}{notes}");
    let (text, notes) = conversations("dynamic_system_prompt_len: {min: 0, max: 9, mean: 4, std_dev: 1}");
    assert!(text.contains("system-tokens: normal:4:1:1:9") && notes.contains("draws 0"), "{text}{notes}");
}

#[test]
fn breakers_are_for_any_error() {
    let file = |matches: &str| {
        Config::of(&format!(
            "circuit_breakers:\n  - name: b\n    metrics: {{matches: [\"{matches}\"]}}\n    triggers: [{{type: consecutive, threshold: \
             10}}]\nload: {{stages: [{{rate: 1, duration: 1}}], circuit_breakers: [b]}}\n"
        ))
    };
    for matches in ["error != None", "error.error_type != ''"] {
        let text = printed(file(matches).and(&["-m", "m", "--print-config"]));
        assert!(text.contains("stop-on: \"consecutive>=10\""), "{text}");
    }
    let timeouts = file("error.error_type == 'TimeoutError'");
    let text = printed(timeouts.and(&["-m", "m", "--print-config"]));
    let notes = timeouts.plan(&["-m", "m"]).notes.join("\n");
    assert!(!text.contains("stop-on"), "{text}");
    assert!(notes.contains("'b' has no effect: its rule is for certain errors"), "{notes}");
}
