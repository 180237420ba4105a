//! The answer to what a run was asked, as the last lines of the console and the first of Markdown.

use std::fmt::Write as _;

use crate::lines::wrapped;
use crate::pictures::{MARGIN, Shown};
use crate::result::answer::{Answer, compared};
use crate::result::compare::changes;
use crate::stdio::shown;

/// How the other results differ from the first.
pub fn comparisons(results: &[Shown<'_>]) -> Vec<Answer> {
    let Some((first, others)) = results.split_first() else { return Vec::new() };
    let differ = |run: &Shown<'_>| {
        let changes = changes(first.result, run.result, MARGIN);
        compared(&changes, [&first.name, &run.name], &run.result.setup)
    };
    others.iter().filter_map(differ).collect()
}

/// What a result says by itself; of several results, the sentence names it.
pub fn answer_of(run: &Shown<'_>, results: &[Shown<'_>]) -> Option<Answer> {
    let answer = run.result.answer()?;
    let words = if results.len() > 1 { format!("{}: {}", run.name, answer.words) } else { answer.words };
    Some(Answer { words, ..answer })
}

/// The lines, after an empty one: gate, answer, and what is missing with the command that would settle it. The table of a
/// gate's requirements ends with an empty line.
pub fn text(answer: &Answer) -> String {
    let mut text = if answer.gate.is_some() { String::new() } else { "\n".to_owned() };
    text.extend(answer.gate.as_ref().map(|gate| wrapped(&shown(&gate.words))));
    text += &wrapped(&shown(&answer.words));
    if let Some(missing) = &answer.missing {
        text += &wrapped(&format!("  {}: {}", missing.label(), shown(&missing.text())));
        // Not wrapped: it is there to be copied.
        text.extend(missing.command.as_ref().map(|command| format!("    {}\n", shown(command))));
    }
    text
}

/// A paragraph of Markdown; `inert` takes the markup out of what comes from outside.
pub fn markdown(answer: &Answer, inert: fn(&str) -> String) -> String {
    let gate = answer.gate.as_ref().map(|gate| format!("**{}.** ", inert(&gate.words))).unwrap_or_default();
    let mut text = format!("{gate}**{}**\n\n", inert(&answer.words));
    if let Some(missing) = &answer.missing {
        let _ = writeln!(text, "{}: {}.\n", missing.label(), inert(&missing.text()));
        text.extend(missing.command.as_ref().map(|command| format!("    {}\n\n", shown(command))));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::answer::{GateAnswer, Missing, Question, Sureness};
    use crate::result::checked::Judgement;

    #[test]
    fn the_answer_fits_80_columns_and_its_command_one_line() {
        let command = format!("triton-bench -m m {}", "--header a:b ".repeat(8));
        let answer = Answer {
            question: Question::MostLoad,
            words: "Most load within p99 < 50 ms: 228 infer/s at concurrency 2 (p99 39 to 44 ms) \u{1b}[2J".to_owned(),
            figures: Vec::new(),
            sure: Sureness::Undecided,
            missing: Some(Missing {
                problem: "the interval of p99 at concurrency 2 contains the limit".to_owned(),
                command: Some(command.trim_end().to_owned()),
                seconds: Some(30),
                is_certain: false,
            }),
            gate: Some(GateAnswer {
                passed: true,
                outcome: Judgement::Passed,
                words: "Passed: p99<60ms at concurrency 2: 41 ms".to_owned(),
            }),
        };
        let text = text(&answer);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Passed: p99<60ms at concurrency 2: 41 ms");
        assert!(lines[1].starts_with("Most load within p99 < 50 ms: 228 infer/s at concurrency 2"), "{text}");
        assert!(text.contains("Not sure: the interval") && text.contains("(about 30 s)"), "{text}");
        assert!(lines.last().unwrap().trim_start() == command.trim_end() && !text.contains('\u{1b}'), "{text}");
        assert!(lines[..lines.len() - 1].iter().all(|line| line.chars().count() <= 80), "{text}");
    }
}
