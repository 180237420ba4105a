//! What became of the requirements (`--require`): lines of the report, and JUnit's XML.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

use crate::error::{Error, Result};
use crate::report::number::significant;
use crate::report::{Interrupts, SafeFile, level_and_batch};
use crate::result::{Checked, Judgement, RunResult, Unit};
use crate::stdio::{acts, shown};

/// The lines, with an empty one at the end; nothing where there are no requirements.
pub fn text(all: &[Checked]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut text = "Requirements:\n".to_owned();
    for checked in all {
        let word = if checked.passes { "holds" } else { "does not hold" };
        let _ = writeln!(text, "  {}: {}{}", shown(&checked.text), word, details(checked));
    }
    text.push('\n');
    text
}

/// `, concurrency 4: 12.3 ms, 95% confidence 12.0 to 12.9 [undecided]`.
fn details(checked: &Checked) -> String {
    let mut text = checked.variant.as_ref().map(|name| format!(", '{}'", shown(name))).unwrap_or_default();
    text += &level(checked).map(|level| format!(", {level}")).unwrap_or_default();
    if let Some(value) = checked.value {
        let show = |value: f64| number(value, checked.unit, reference(checked));
        let known = checked.interval.map_or_else(
            || "not known how well".to_owned(),
            |known| format!("95% confidence {} to {}", show(known.low), show(known.high)),
        );
        let _ = write!(text, ": {}, {known}", show(value));
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
    checked.level.map(|load| level_and_batch(load, checked.batch_size))
}

/// The value of a requirement and its interval, for a table.
pub fn cells(checked: &Checked) -> (String, String) {
    let show = |value: f64| number(value, checked.unit, reference(checked));
    let interval = checked.interval.map(|known| format!("{} to {}", show(known.low), show(known.high)));
    (checked.value.map(show).unwrap_or_default(), interval.unwrap_or_else(|| "not known".to_owned()))
}

/// What became of it, in words.
pub fn word(checked: &Checked) -> &'static str {
    match (checked.passes, checked.outcome) {
        (true, Judgement::Undecided) => "undecided, passes",
        (false, Judgement::Undecided) => "undecided, fails",
        (true, _) => "holds",
        (false, _) => "does not hold",
    }
}

/// What a change is held against.
fn reference(checked: &Checked) -> &'static str {
    if checked.variant.is_some() { "reference" } else { "baseline" }
}

fn number(value: f64, unit: Unit, reference: &str) -> String {
    match unit {
        Unit::PerSecond => format!("{} infer/sec", significant(value)),
        Unit::Nanoseconds => format!("{} usec", significant(value / 1e3)),
        Unit::Share => format!("{}%", significant(100.0 * value)),
        Unit::Ratio => format!("{value:.3} of the {reference}'s"),
    }
}

/// Writes a test case for each requirement and level.
///
/// # Errors
/// Where the file cannot be written.
pub fn write_junit((path, interrupts): (&Path, Interrupts), result: &RunResult) -> Result<()> {
    write_xml(path, interrupts, result).map_err(|error| {
        let rule = "cannot be written";
        Error::output(format!("--junit {}: {rule}: {error}; free space or name another file", path.display()))
    })
}

fn write_xml(path: &Path, interrupts: Interrupts, result: &RunResult) -> io::Result<()> {
    let mut file = SafeFile::create(path, interrupts)?;
    file.write_all(&junit(result)?)?;
    file.finish()
}

fn junit(result: &RunResult) -> io::Result<Vec<u8>> {
    let all = &result.requirements;
    let failures = all.iter().filter(|checked| !checked.passes).count();
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let (tests, failures) = (all.len().to_string(), failures.to_string());
    let model = result.setup.models.first().map_or("", |model| model.name.as_str());
    let suite = [("name", model), ("tests", &tests), ("failures", &failures), ("errors", "0")];
    let suite = suite.map(|(name, value)| (name, plain(value)));
    let attributes = suite.iter().map(|(name, value)| (*name, value.as_str()));
    writer.write_event(Event::Start(BytesStart::new("testsuite").with_attributes(attributes)))?;
    for checked in all {
        let level = level(checked).unwrap_or_else(|| "no level".to_owned());
        let variant = checked.variant.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        let (name, class) = (plain(&checked.text), plain(&format!("{model}{variant} {level}")));
        let case = [("name", name.as_str()), ("classname", class.as_str())];
        writer.write_event(Event::Start(BytesStart::new("testcase").with_attributes(case)))?;
        let told = plain(details(checked).trim_start_matches(", "));
        let element = if checked.passes { "system-out" } else { "failure" };
        writer.write_event(Event::Start(BytesStart::new(element)))?;
        writer.write_event(Event::Text(BytesText::new(&told)))?;
        writer.write_event(Event::End(BytesEnd::new(element)))?;
        writer.write_event(Event::End(BytesEnd::new("testcase")))?;
    }
    writer.write_event(Event::End(BytesEnd::new("testsuite")))?;
    let mut bytes = writer.into_inner();
    bytes.push(b'\n');
    Ok(bytes)
}

/// XML has no way to say most control characters, and those that turn the direction of writing would turn what stands around them.
fn plain(text: &str) -> String {
    text.chars().map(|character| if acts(character) { '\u{fffd}' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::summary::LevelLoad;
    use crate::report::tests::sample as plans;
    use crate::stats::Interval;

    fn checked() -> Checked {
        Checked {
            text: "p99<20ms".to_owned(),
            variant: None,
            level: Some(LevelLoad::Concurrency(4)),
            batch_size: None,
            unit: Unit::Nanoseconds,
            value: Some(12_345_678.0),
            interval: Some(Interval { low: 12e6, high: 13e6 }),
            bound: Some(2e7),
            outcome: Judgement::Passed,
            passes: true,
            note: None,
        }
    }

    #[test]
    fn each_has_its_line() {
        let note = Some("so that".to_owned());
        let open = Checked { outcome: Judgement::Undecided, interval: None, note, ..checked() };
        let none = Checked { text: "errors<1%".to_owned(), level: None, value: None, passes: false, ..checked() };
        let ratio = Checked { unit: Unit::Ratio, value: Some(1.25), interval: None, ..checked() };
        let expected = "\
Requirements:
  p99<20ms: holds, concurrency 4: 12345.7 usec, 95% confidence 12000 usec to 13000 usec
  p99<20ms: holds, concurrency 4: 12345.7 usec, not known how well [undecided] (so that)
  errors<1%: does not hold
  p99<20ms: holds, concurrency 4: 1.250 of the baseline's, not known how well

";
        assert_eq!(text(&[checked(), open, none, ratio]), expected);
        assert_eq!(text(&[]), "");
    }

    #[test]
    fn hostile_words_make_no_markup() {
        let mut setup = plans::setup();
        setup.models = vec![crate::result::ModelIdentity {
            name: "</testsuite>\u{1b}\"&".to_owned(),
            versions: Vec::new(),
            platform: String::new(),
            max_batch_size: 0,
            backend: String::new(),
            config_hash: None,
        }];
        let mut result = plans::result(&setup, &[]);
        result.requirements = vec![checked(), Checked { passes: false, ..checked() }];
        let xml = String::from_utf8(junit(&result).unwrap()).unwrap();
        assert!(xml.contains("&lt;/testsuite&gt;\u{fffd}&quot;&amp;") && !xml.contains('\u{1b}'), "{xml}");
        assert!(xml.contains("tests=\"2\" failures=\"1\"") && xml.matches("<failure>").count() == 1, "{xml}");
        let mut reader = quick_xml::Reader::from_str(&xml);
        let mut names = 0;
        loop {
            match reader.read_event().unwrap() {
                Event::Eof => break,
                Event::Start(_) => names += 1,
                _ => {}
            }
        }
        assert_eq!(names, 5);
    }
}
