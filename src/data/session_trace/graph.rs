//! Which calls of a session a call needed: those whose answers it sends, and the last that was over when it began.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::session_trace::call::{Call, Message, Sends};

/// How a call hangs on earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    /// The calls that are over before it begins.
    pub(super) after: Vec<u32>,
    /// How long it waited then, in milliseconds.
    pub(super) wait_ms: u64,
    /// Its messages that are answers, and the calls that these answer.
    pub(super) answers: Vec<(usize, u32)>,
}

/// The links of all calls, which are in the order in which they began; with `live`, which messages are answers.
pub(super) fn links(calls: &[Call], live: bool) -> Vec<Link> {
    // What each follows because of an answer, and all that it follows.
    let (mut causes, mut all) = (Vec::<BTreeSet<usize>>::new(), Vec::<BTreeSet<usize>>::new());
    let mut links = Vec::<Link>::new();
    for (number, call) in calls.iter().enumerate() {
        let caused = causes_of(calls, number, &causes);
        let mut after = caused.clone();
        after.extend((0..number).rev().find(|before| calls[*before].end_ms <= call.start_ms));
        causes.push(caused);
        all.push(after.clone());
        let last = after.iter().map(|before| calls[*before].end_ms).max();
        let waited = |last: i64| call.wait_ms.unwrap_or_else(|| u64::try_from(call.start_ms - last).unwrap_or(0));
        let answers = if live { sources(calls, number, &ancestors(&all, number), &links) } else { Vec::new() };
        links.push(Link {
            wait_ms: last.map_or(0, waited),
            answers,
            after: after.into_iter().map(|before| before as u32).collect(),
        });
    }
    links
}

/// The calls whose answers a call sends, but for those that another of them has sent.
fn causes_of(calls: &[Call], number: usize, causes: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let call = &calls[number];
    if let Sends::GoesOnFrom(before) = call.sends {
        return before.into_iter().collect();
    }
    let (mut caused, mut covered) = (BTreeSet::new(), BTreeSet::new());
    for before in (0..number).rev() {
        if !covered.contains(&before) && answers(&calls[before], call) {
            caused.insert(before);
            covered.extend(ancestors(causes, before));
        }
    }
    caused
}

/// Everything before a call, as far as `edges` lead.
fn ancestors(edges: &[BTreeSet<usize>], call: usize) -> BTreeSet<usize> {
    let (mut found, mut open) = (BTreeSet::new(), vec![call]);
    while let Some(next) = open.pop() {
        open.extend(edges[next].iter().copied().filter(|before| found.insert(*before)));
    }
    found
}

/// Whether a call sends the answer of another one.
fn answers(before: &Call, call: &Call) -> bool {
    let Some(answer) = &before.answer else { return false };
    let by_text = |message: &Arc<Message>| !answer.text.is_empty() && message.text.contains(&answer.text);
    let assistant_messages = call.messages.iter().filter(|message| message.role == "assistant");
    let called: BTreeSet<&String> = call.messages.iter().flat_map(|message| &message.tool_ids).collect();
    let by_tools = !answer.tool_ids.is_empty() && answer.tool_ids.iter().all(|id| called.contains(id));
    assistant_messages.into_iter().any(by_text) || by_tools
}

/// The messages of a call that are answers of calls before it. What it shares with the beginning of another call is as it was
/// there. Calls of tools stay as recorded, because what follows them refers to them.
fn sources(calls: &[Call], number: usize, before: &BTreeSet<usize>, links: &[Link]) -> Vec<(usize, u32)> {
    let messages = &calls[number].messages;
    // Texts are long, and calls of a session share most of theirs.
    let is_equal = |(left, right): &(&Arc<Message>, &Arc<Message>)| {
        Arc::ptr_eq(left, right) || (left.role == right.role && left.text == right.text)
    };
    let shared = |other: usize| messages.iter().zip(&calls[other].messages).take_while(is_equal).count();
    let best = before.iter().copied().rev().max_by_key(|other| shared(*other)).filter(|other| shared(*other) > 0);
    let from = best.map_or(0, shared);
    let inherited = best.into_iter().flat_map(|other| &links[other].answers).filter(|(at, _)| *at < from).copied();
    let mut found: Vec<(usize, u32)> = inherited.collect();
    for (at, message) in messages.iter().enumerate().skip(from) {
        let is_answer = |other: &usize| {
            let answer = calls[*other].answer.as_ref();
            answer.is_some_and(|answer| answer.tool_ids.is_empty() && answer.text == message.text)
        };
        if message.role == "assistant"
            && message.tool_ids.is_empty()
            && let Some(other) = before.iter().copied().rev().find(is_answer)
        {
            found.push((at, other as u32));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use serde_json::{Value, json};

    use super::*;
    use crate::session_trace::call::{UnsentParts, of_spans};

    fn span(id: &str, seconds: Range<&str>, messages: &[(&str, &str)], answer: &str) -> Value {
        let message = |(role, content): &(&str, &str)| json!({ "role": role, "content": content });
        let messages: Vec<Value> = messages.iter().map(message).collect();
        json!({ "span_id": id, "name": "chat m", "start_time": format!("2026-01-01T00:00:{}", seconds.start), "end_time":
            format!("2026-01-01T00:00:{}Z", seconds.end), "attributes": { "gen_ai.input.messages": Value::from(messages).to_string(),
            "gen_ai.output.text": answer } })
    }

    #[test]
    fn calls_follow_those_whose_answers_they_send() {
        let spans = [
            span("a", "00".."02", &[("user", "q")], "one"),
            span("b", "02.5".."04", &[("user", "q"), ("assistant", "one"), ("user", "left")], "two"),
            span("c", "02.6".."05", &[("user", "q"), ("assistant", "one"), ("user", "right")], "three"),
            span("d", "06".."07", &[("user", "sum"), ("assistant", "two"), ("assistant", "three")], "four"),
        ];
        let calls = of_spans(&spans, true, &mut UnsentParts::new()).unwrap();
        let found = links(&calls, true);
        let link = |after: &[u32], wait_ms, answers: &[(usize, u32)]| Link {
            after: after.to_vec(),
            wait_ms,
            answers: answers.to_vec(),
        };
        assert_eq!(
            found,
            [
                link(&[], 0, &[]),
                link(&[0], 500, &[(1, 0)]),
                link(&[0], 600, &[(1, 0)]),
                link(&[1, 2], 1000, &[(1, 1), (2, 2)]),
            ]
        );
    }

    #[test]
    fn calls_that_share_nothing_follow_the_last_that_was_over() {
        let spans = [
            span("a", "00".."02", &[("user", "x")], "one"),
            span("b", "01".."03", &[("user", "y")], "two"),
            span("c", "02.1".."04", &[("user", "z")], "three"),
        ];
        let calls = of_spans(&spans, true, &mut UnsentParts::new()).unwrap();
        let after: Vec<Vec<u32>> = links(&calls, true).into_iter().map(|link| link.after).collect();
        assert_eq!(after, [vec![], vec![], vec![0]]);
    }
}
