//! The outcomes of the requirements (`--require`): the table of the report, and JUnit XML.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

use crate::error::Result;
use crate::partial::unwritten;
use crate::result::checked::Judgement;
use crate::result::{Checked, RunResult, Unit};
use crate::stats::Bounds;
use crate::stdio::{acts, shown};
use crate::{Interrupts, SafeFile, full_level_name, lines};

/// The table, with an empty line at the end; empty if there are no requirements.
pub fn text(all: &[Checked]) -> String {
    on_terminal(all, lines::terminal())
}

/// The same; sentences where a terminal has fewer columns than the table, whose lines it would break anywhere.
fn on_terminal(all: &[Checked], columns: Option<usize>) -> String {
    if all.is_empty() {
        return String::new();
    }
    let rows: Vec<[String; COLUMNS.len()]> = all.iter().map(row).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].as_str()).chain([COLUMNS[column]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    let line = |cells: &[&str]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("  {cell:<width$}"));
        padded.collect::<String>().trim_end().to_owned() + "\n"
    };
    let needed: usize = widths.iter().map(|width| 2 + width).sum();
    let mut text = "Requirements:\n".to_owned();
    if columns.is_some_and(|columns| needed > columns) {
        text.extend(rows.iter().map(sentence));
    } else {
        text += &line(&COLUMNS);
        text.extend(rows.iter().map(|row| line(&row.each_ref().map(String::as_str))));
    }
    for note in notes(all) {
        let line = format!("  {note}");
        text += &if columns.is_some() { lines::wrapped(&line) } else { line + "\n" };
    }
    text + "\n"
}

/// A row in words: `  p99<20ms, concurrency 8: 871 µs, 95% confidence 779 µs to 1.37 ms: holds`.
fn sentence([requirement, level, value, interval, outcome]: &[String; COLUMNS.len()]) -> String {
    lines::wrapped(&format!("  {requirement}, {level}: {value}, 95% confidence {interval}: {outcome}"))
}

/// The notes, each once.
pub fn notes(all: &[Checked]) -> Vec<&str> {
    let mut notes = Vec::new();
    for note in all.iter().filter_map(|checked| checked.note.as_deref()) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// The columns of the table.
const COLUMNS: [&str; 5] = ["requirement", "level", "value", "95% confidence", "outcome"];

fn row(checked: &Checked) -> [String; COLUMNS.len()] {
    let (value, interval) = cells(checked);
    let value = if value.is_empty() { "none".to_owned() } else { value };
    [shown(&checked.text).into_owned(), about(checked), value, interval, verdict_name(checked).to_owned()]
}

/// The variant, if there are several, and the level that a requirement was judged on.
pub fn about(checked: &Checked) -> String {
    let variant = checked.variant.as_ref().map(|name| format!("'{}'", shown(name)));
    let level = level(checked).unwrap_or_else(|| "no level".to_owned());
    variant.into_iter().chain([level]).collect::<Vec<_>>().join(", ")
}

/// `concurrency 4: 12.3 ms, 95% confidence 12 to 12.9 ms, bound 12.5 ms, measured for 60.0 s [undecided]`.
fn details(checked: &Checked) -> String {
    let mut text = about(checked);
    if checked.value.is_some() {
        let (value, interval) = cells(checked);
        let _ = write!(text, ": {value}, 95% confidence {interval}");
    }
    if let Some(bound) = checked.bound {
        let _ = write!(text, ", bound {}", checked.unit.show_exactly(bound));
    }
    if let Some(measured) = checked.measured_s {
        let _ = write!(text, ", measured for {measured:.1} s");
    }
    if checked.outcome == Judgement::Undecided {
        text.push_str(" [undecided]");
    }
    if let Some(note) = &checked.note {
        let _ = write!(text, " ({note})");
    }
    text
}

fn level(checked: &Checked) -> Option<String> {
    checked.level.map(|load| full_level_name(load, checked.distinction))
}

/// The value of a requirement and its interval, with their units, for a table.
pub fn cells(checked: &Checked) -> (String, String) {
    let show = |value: f64| checked.unit.show_exactly(value);
    let value = checked.value.map(|value| show(value) + checked.relation());
    let interval = match (checked.interval, checked.bounds) {
        (Some(interval), _) => checked.unit.show_exactly_between(interval.low, interval.high),
        // Judged by its value.
        (None, Bounds { low: Some(low), high: Some(high) }) if low == high => "not known".to_owned(),
        // What is above the bound is shown to be by its lower end.
        (None, Bounds { low: Some(low), .. }) if checked.value > checked.bound => format!("> {}", show(low)),
        (None, Bounds { high: Some(high), .. }) => format!("< {}", show(high)),
        (None, Bounds { low: Some(low), .. }) => format!("> {}", show(low)),
        (None, _) => "not known".to_owned(),
    };
    (value.unwrap_or_default(), interval)
}

/// The outcome, in words.
pub fn verdict_name(checked: &Checked) -> &'static str {
    match (checked.passes, checked.outcome) {
        (_, Judgement::Undecided) if checked.open => "undecided",
        (true, Judgement::Undecided) => "undecided, passes",
        (false, Judgement::Undecided) => "undecided, fails",
        (true, _) => "holds",
        (false, _) => "does not hold",
    }
}

/// Writes a test case for each requirement and level.
///
/// # Errors
/// If the file cannot be written.
pub fn write_junit(path: &Path, interrupts: Interrupts, result: &RunResult) -> Result<()> {
    write_xml(path, interrupts, result).map_err(|error| unwritten(format_args!("--junit {}", path.display()), &error))
}

fn write_xml(path: &Path, interrupts: Interrupts, result: &RunResult) -> io::Result<()> {
    put(path, interrupts, &junit(result)?)
}

fn put(path: &Path, interrupts: Interrupts, xml: &[u8]) -> io::Result<()> {
    let mut file = SafeFile::create(path, interrupts)?;
    file.write_all(xml)?;
    file.finish()
}

/// A run that failed before there was anything to judge.
pub struct Unjudged<'a> {
    /// The model, as far as it is named.
    pub model: &'a str,
    /// What was required.
    pub requirements: &'a [String],
    /// Why it failed.
    pub why: &'a str,
}

/// Writes a test case for each requirement that is in error.
///
/// # Errors
/// If the file cannot be written.
pub fn write_unjudged(path: &Path, interrupts: Interrupts, run: &Unjudged<'_>) -> Result<()> {
    let written = errors(run).and_then(|xml| put(path, interrupts, &xml));
    written.map_err(|error| unwritten(format_args!("--junit {}", path.display()), &error))
}

fn errors(run: &Unjudged<'_>) -> io::Result<Vec<u8>> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let (name, why, count) = (plain(run.model), plain(run.why), run.requirements.len().to_string());
    let counts = [("tests", &*count), ("failures", "0"), ("errors", &*count), ("skipped", "0"), ("time", "0.000")];
    let suite = BytesStart::new("testsuite").with_attributes(std::iter::once(("name", &*name)).chain(counts));
    writer.write_event(Event::Start(suite))?;
    let class = format!("{name} no level");
    for requirement in run.requirements {
        let text = plain(requirement);
        let case = [("name", &*text), ("classname", &*class), ("time", "0.000")];
        writer.write_event(Event::Start(BytesStart::new("testcase").with_attributes(case)))?;
        let error = BytesStart::new("error").with_attributes([("message", &*why), ("type", "not measured")]);
        writer.write_event(Event::Start(error))?;
        writer.write_event(Event::Text(BytesText::new(&why)))?;
        writer.write_event(Event::End(BytesEnd::new("error")))?;
        writer.write_event(Event::End(BytesEnd::new("testcase")))?;
    }
    writer.write_event(Event::End(BytesEnd::new("testsuite")))?;
    let mut bytes = writer.into_inner();
    bytes.push(b'\n');
    Ok(bytes)
}

fn junit(result: &RunResult) -> io::Result<Vec<u8>> {
    let all = &result.requirements;
    let count = |is_meant: fn(&Checked) -> bool| all.iter().filter(|checked| is_meant(checked)).count().to_string();
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let model = result.setup.models.first().map_or("", |model| model.name.as_str());
    let (tests, failures) = (count(|_| true), count(|checked| !checked.passes && !checked.open));
    let (skipped, seconds) = (
        count(|checked| checked.open),
        seconds(all.iter().filter_map(|checked| checked.measured_s).fold(0.0, |sum, seconds| sum + seconds)),
    );
    let suite = [
        ("name", plain(model)),
        ("tests", tests),
        ("failures", failures),
        ("errors", "0".to_owned()),
        ("skipped", skipped),
        ("time", seconds),
    ];
    let suite = BytesStart::new("testsuite").with_attributes(suite.iter().map(|(name, value)| (*name, value.as_str())));
    writer.write_event(Event::Start(suite))?;
    if let Some(answer) = result.answer() {
        writer.write_event(Event::Start(BytesStart::new("properties")))?;
        let line = plain(&answer.line());
        let property = [("name", "answer"), ("value", line.as_str())];
        writer.write_event(Event::Empty(BytesStart::new("property").with_attributes(property)))?;
        writer.write_event(Event::End(BytesEnd::new("properties")))?;
    }
    all.iter().try_for_each(|checked| case(&mut writer, checked, model))?;
    writer.write_event(Event::End(BytesEnd::new("testsuite")))?;
    let mut bytes = writer.into_inner();
    bytes.push(b'\n');
    Ok(bytes)
}

/// A requirement of a level: what it came to as properties, for programs, and as a message. What is undecided is skipped: it
/// has neither passed nor failed.
fn case(writer: &mut Writer<Vec<u8>>, checked: &Checked, model: &str) -> io::Result<()> {
    let level = level(checked).unwrap_or_else(|| "no level".to_owned());
    let variant = checked.variant.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
    let (name, class) = (plain(&checked.text), plain(&format!("{model}{variant} {level}")));
    let time = seconds(checked.measured_s.unwrap_or(0.0));
    let case = [("name", name.as_str()), ("classname", class.as_str()), ("time", time.as_str())];
    writer.write_event(Event::Start(BytesStart::new("testcase").with_attributes(case)))?;
    writer.write_event(Event::Start(BytesStart::new("properties")))?;
    for (name, value) in properties(checked) {
        let property = [("name", name), ("value", value.as_str())];
        writer.write_event(Event::Empty(BytesStart::new("property").with_attributes(property)))?;
    }
    writer.write_event(Event::End(BytesEnd::new("properties")))?;
    let message = plain(&details(checked));
    let (element, attributes) = match checked {
        Checked { open: true, .. } => ("skipped", vec![("message", message.as_str())]),
        Checked { passes: true, .. } => ("system-out", Vec::new()),
        _ => ("failure", vec![("message", message.as_str()), ("type", verdict_name(checked))]),
    };
    writer.write_event(Event::Start(BytesStart::new(element).with_attributes(attributes)))?;
    writer.write_event(Event::Text(BytesText::new(&message)))?;
    writer.write_event(Event::End(BytesEnd::new(element)))?;
    writer.write_event(Event::End(BytesEnd::new("testcase")))
}

/// What is known of a requirement, as numbers in the unit that is named.
fn properties(checked: &Checked) -> Vec<(&'static str, String)> {
    let unit = match checked.unit {
        Unit::PerSecond => "infer/sec",
        Unit::RequestsPerSecond
        | Unit::ResponsesPerSecond
        | Unit::TokensPerSecond
        | Unit::Tokens
        | Unit::BytesPerSecond => checked.unit.name(),
        Unit::Nanoseconds => "ns",
        Unit::Share => "share",
        Unit::Ratio => "ratio",
    };
    let numbers = [
        ("value", checked.value),
        ("bound", checked.bound),
        ("low", checked.interval.map(|interval| interval.low).or(checked.bounds.low)),
        ("high", checked.interval.map(|interval| interval.high).or(checked.bounds.high)),
        ("seconds", checked.measured_s),
    ];
    let numbers = numbers.into_iter().filter_map(|(name, value)| Some((name, value?.to_string())));
    let words = [("outcome", verdict_name(checked).to_owned()), ("unit", unit.to_owned())];
    words.into_iter().chain(numbers).collect()
}

fn seconds(time: f64) -> String {
    format!("{time:.3}")
}

/// XML cannot represent most control characters and the two non-characters, and those that change the direction of writing would affect the text
/// around them.
fn plain(text: &str) -> String {
    let is_foreign = |character: char| acts(character) || matches!(character, '\u{fffe}' | '\u{ffff}');
    text.chars().map(|character| if is_foreign(character) { '\u{fffd}' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Distinction;
    use crate::result::setup::sample as plans;
    use crate::result::summary::LevelLoad;
    use crate::stats::Interval;

    fn checked() -> Checked {
        Checked {
            text: "p99<20ms".to_owned(),
            variant: None,
            level: Some(LevelLoad::Concurrency(4)),
            distinction: Distinction::default(),
            unit: Unit::Nanoseconds,
            value: Some(12_345_678.0),
            interval: Some(Interval { low: 12e6, high: 13e6 }),
            bounds: Bounds::default(),
            bound: Some(2e7),
            outcome: Judgement::Passed,
            measured_s: Some(12.5),
            passes: true,
            open: false,
            vague_baseline: false,
            note: None,
        }
    }

    #[test]
    fn each_has_its_line_and_each_note_is_told_once() {
        let note = Some("so that".to_owned());
        let open = Checked { outcome: Judgement::Undecided, interval: None, note, ..checked() };
        let none = Checked {
            text: "errors<1%".to_owned(),
            level: None,
            value: None,
            interval: None,
            passes: false,
            ..checked()
        };
        let one_sided = Checked { interval: None, bounds: Bounds { low: None, high: Some(14.2e6) }, ..checked() };
        let as_it_is = Bounds { low: Some(1e6), high: Some(1e6) };
        let as_it_is = Checked { value: Some(1e6), interval: None, bounds: as_it_is, ..checked() };
        let ratio = Checked { unit: Unit::Ratio, value: Some(1.25), interval: None, ..checked() };
        let expected = "\
Requirements:
  requirement  level          value                    95% confidence  outcome
  p99<20ms     concurrency 4  12.3457 ms               12 to 13 ms     holds
  p99<20ms     concurrency 4  12.3457 ms               not known       undecided, passes
  errors<1%    no level       none                     not known       does not hold
  p99<20ms     concurrency 4  12.3457 ms               < 14.2 ms       holds
  p99<20ms     concurrency 4  1.250 of the baseline's  not known       holds
  p99<20ms     concurrency 4  1 ms                     not known       holds
  so that

";
        assert_eq!(text(&[checked(), open, none, one_sided, ratio, as_it_is]), expected);
        assert_eq!(text(&[]), "");
    }

    #[test]
    fn a_terminal_without_room_for_the_table_has_sentences() {
        let variant = Some("a variant of a long name".to_owned());
        let note =
            Some("neither met nor missed; measured longer, or on a quieter machine, it may be decided then".to_owned());
        let wide = Checked { variant, unit: Unit::Ratio, value: Some(1.25), interval: None, note, ..checked() };
        let expected = "\
Requirements:
  p99<20ms, 'a variant of a long name', concurrency 4: 1.250 of the reference's,
      95% confidence not known: holds
  neither met nor missed; measured longer, or on a quieter machine, it may be
      decided then

";
        assert_eq!(on_terminal(std::slice::from_ref(&wide), Some(80)), expected);
        assert!(on_terminal(std::slice::from_ref(&wide), Some(200)).contains("  requirement  level"));
        assert_eq!(on_terminal(&[checked()], Some(80)), text(&[checked()]), "there is room");
    }

    #[test]
    fn hostile_words_make_no_markup() {
        let mut setup = plans::setup();
        setup.models = vec![crate::result::ModelIdentity {
            name: "</testsuite>\u{1b}\"&\u{ffff}".to_owned(),
            versions: Vec::new(),
            platform: String::new(),
            max_batch_size: 0,
            backend: String::new(),
            config_hash: None,
        }];
        let mut result = plans::result(&setup, &[]);
        result.requirements = vec![checked(), Checked { passes: false, ..checked() }];
        let xml = String::from_utf8(junit(&result).unwrap()).unwrap();
        assert!(xml.contains("&lt;/testsuite&gt;\u{fffd}&quot;&amp;\u{fffd}") && !xml.contains('\u{1b}'), "{xml}");
        assert!(xml.contains("tests=\"2\" failures=\"1\"") && xml.matches("<failure ").count() == 1, "{xml}");
        let mut reader = quick_xml::Reader::from_str(&xml);
        let mut names = 0;
        loop {
            match reader.read_event().unwrap() {
                Event::Eof => break,
                Event::Start(_) => names += 1,
                _ => {}
            }
        }
        assert_eq!(names, 7);
    }
}
