//! Sessions of agents that are generated.

use super::*;

fn roles(call: &Came) -> String {
    let messages = call.body["messages"].as_array().unwrap();
    messages.iter().map(|message| &message["role"].as_str().unwrap()[..1]).collect()
}

#[test]
fn agents_call_tools_and_give_work_to_others() {
    let fixed = |count: u32| format!("{{type: fixed, mean: {count}}}");
    let (none, one, two) = (fixed(0), fixed(1), fixed(2));
    let came = play(
        &format!(
            "data:\n  type: synthetic_agentic\n  synthetic_agentic: {{num_sessions: 1, input_tokens_per_turn: {}, output_tokens_per_turn: {}, \
             turns_per_session: {two}, fanout_probability: 1, max_depth: 1, sub_agents_per_spawn: {two}, tool_loop_depth: {one}, \
             shared_system_prompt_len: 30, tool_catalog_size_per_agent: {two}, tool_call_latency_sec: {none}, user_think_time_sec: \
             {none}}}\nload: {{type: trace_session_replay, stages: [{{concurrent_sessions: 1}}]}}\napi: {{type: chat}}\n",
            fixed(20),
            fixed(7)
        ),
        Duration::from_millis(20),
    );
    let mut all: Vec<String> = came.iter().map(roles).collect();
    assert_eq!((all[0].as_str(), all[1].as_str(), all.len()), ("su", "suatu", 18));
    let spawn = &came[1].body;
    let offered: Vec<&str> =
        spawn["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
    assert_eq!((&spawn["tool_choice"], offered[2]), (&json!("required"), "dispatch_agent"));
    assert_eq!(came[0].body["tool_choice"]["function"]["name"], offered[0]);
    // Both agents and what is said at once begin together; the answer follows the last report.
    let mut together = all[2..5].to_vec();
    together.sort();
    assert_eq!(together, ["su", "su", "suatuatt"]);
    assert_eq!((all[8].as_str(), &came[8].body["tool_choice"]), ("suatuattuuu", &json!("none")));
    assert_eq!((&came[8].body["max_tokens"], &came[8].body["ignore_eos"]), (&json!(7), &json!(false)));
    // The next turn goes on with what the server has answered.
    let next = came[9].body["messages"].as_array().unwrap();
    assert_eq!((all[9].as_str(), &next[11]["content"]), ("suatuattuuuau", &json!("answer-8")));
    let words = |message: &Value| message["content"].as_str().unwrap().split(' ').count();
    assert_eq!((words(&next[0]), words(&next[1]), words(&next[12])), (30, 20, 20));
    all.sort();
    assert_eq!(all.iter().filter(|roles| *roles == "su").count(), 5, "the first call, and those of four agents");
}
