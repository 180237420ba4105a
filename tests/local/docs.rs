//! The documentation: every page is in the book's table of contents, every link leads somewhere, and the commands that it shows
//! are good.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use triton_bench::cli;
use triton_bench::exit::Codes;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages of the book, and those beside it.
fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect();
    pages.extend(["README.md", "CONTRIBUTING.md"].map(|name| root().join(name)));
    pages.sort();
    pages
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Blocks of code, and the lines outside them.
struct Parts {
    blocks: Vec<String>,
    prose: String,
}

fn parts(text: &str) -> Parts {
    let mut parts = Parts { blocks: Vec::new(), prose: String::new() };
    let mut inside = false;
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        match (fence, inside) {
            (true, false) => parts.blocks.push(String::new()),
            (false, true) => *parts.blocks.last_mut().unwrap() += &format!("{}\n", line.trim_start()),
            (false, false) => parts.prose += &format!("{line}\n"),
            (true, true) => {}
        }
        inside ^= fence;
    }
    assert!(!inside, "a block without an end");
    parts
}

/// Where links lead.
fn links(prose: &str) -> Vec<&str> {
    prose.match_indices("](").filter_map(|(at, _)| prose[at + 2..].split(')').next()).collect()
}

/// The anchors of a page, as GitHub and mdBook make them of its headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| {
        let kept = heading.to_lowercase().replace(' ', "-");
        kept.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let summary = text(&root().join("docs/SUMMARY.md"));
    let listed: BTreeSet<&str> = links(&summary).into_iter().collect();
    let names = pages().into_iter().filter(|path| path.parent() == Some(&root().join("docs")));
    let names: BTreeSet<String> = names.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    let names: BTreeSet<&str> = names.iter().map(String::as_str).filter(|name| *name != "SUMMARY.md").collect();
    assert_eq!(listed, names);
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut broken = Vec::new();
    for page in pages() {
        let whole = text(&page);
        for link in links(&parts(&whole).prose).into_iter().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let found = target.exists() && (anchor.is_empty() || anchors(&text(&target)).contains(anchor));
            if !found {
                broken.push(format!("{}: {link}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The commands of this program in a block: lines that call it, those that go on after a backslash joined.
fn commands(block: &str) -> Vec<String> {
    let joined = block.replace("\\\n", " ");
    let lines = joined.lines().map(|line| line.strip_prefix("$ ").unwrap_or(line).to_owned());
    // What a shell does with the output, or the program in place of something of its own, is not the program's.
    let alone = |line: &String| {
        line.starts_with("triton-bench ") && !["|", "$", "…", "..."].iter().any(|part| line.contains(part))
    };
    lines.filter(alone).collect()
}

/// A line without what a shell would take for itself: comments, and files that output goes to.
fn words(line: &str) -> Option<Vec<OsString>> {
    let words = shlex::split(line.split(" # ").next().unwrap_or_default().split(" > ").next()?)?;
    Some(words.into_iter().map(OsString::from).collect())
}

/// Files and folders that commands in the docs name are the reader's. The program says so, and nothing else may be wrong.
const READERS: [&str; 5] = ["No such file", "cannot be read", "does not exist", "is not a directory", "that exists"];

#[test]
fn every_command_shown_is_one_that_the_program_takes() {
    let mut refused = Vec::new();
    let mut count = 0;
    for page in pages() {
        for line in parts(&text(&page)).blocks.iter().flat_map(|block| commands(block)) {
            let Some(words) = words(&line) else { continue };
            count += 1;
            match cli::parse(words, Codes::Own) {
                Ok(_) => {}
                Err(error) if READERS.iter().any(|part| error.to_string().contains(part)) => {}
                Err(error) => refused.push(format!("{}: {line}: {error}", page.display())),
            }
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(count > 30, "only {count} were found");
}

/// The flags that take words, and these, by the tables of docs/cli.md: `--wait` takes `park|spin|hybrid`.
fn words_of_flags() -> BTreeMap<String, Vec<String>> {
    let table = text(&root().join("docs/cli.md"));
    let mut all = BTreeMap::new();
    for line in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split(" | ").collect();
        let flag = cells[0].split('`').find(|part| part.starts_with("--"));
        let values = cells.get(1).map(|cell| cell.trim_matches('`').replace("\\|", "|")).unwrap_or_default();
        let is_word =
            |value: &str| !value.is_empty() && value.chars().all(|c| c.is_ascii_lowercase() || "-_".contains(c));
        let values: Vec<String> = values.split('|').map(str::to_owned).collect();
        if let (Some(flag), true) = (flag, values.len() > 1 && values.iter().all(|value| is_word(value))) {
            all.insert(flag.to_owned(), values);
        }
    }
    all
}

#[test]
fn flags_in_sentences_have_values_that_they_take() {
    let alternatives = words_of_flags();
    assert!(alternatives.len() > 15 && alternatives["--wait"] == ["park", "spin", "hybrid"], "{alternatives:?}");
    let mut wrong = Vec::new();
    for page in pages() {
        for code in parts(&text(&page)).prose.split('`').skip(1).step_by(2) {
            let words: Vec<&str> = code.split_whitespace().collect();
            let refused = |pair: &&[&str]| {
                alternatives.get(pair[0]).is_some_and(|values| !values.iter().any(|value| value == pair[1]))
            };
            wrong
                .extend(words.windows(2).filter(refused).map(|pair| format!("{}: {}", page.display(), pair.join(" "))));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A heading's text, up to the next one.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let tail = page.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no heading {heading}")).1;
    tail.split("\n#").next().unwrap_or(tail)
}

#[test]
fn every_kind_of_remark_is_told_among_remarks_and_no_other() {
    let schema: Value = serde_json::from_str(&text(&root().join("docs/result.schema.json"))).unwrap();
    let kinds = schema["$defs"]["RemarkKind"]["oneOf"].as_array().expect("kinds with a description each");
    let kinds: BTreeSet<&str> = kinds.iter().map(|kind| kind["const"].as_str().unwrap()).collect();
    let page = text(&root().join("docs/measurement.md"));
    let rows = section(&page, "### Remarks").lines().filter(|line| line.starts_with("| `"));
    let described: BTreeSet<&str> =
        rows.flat_map(|row| row.split(" | ").next().unwrap().split('`').skip(1).step_by(2)).collect();
    assert_eq!(described, kinds);
}

/// `scripts/refresh-docs` on a page of this test, with a program that answers with `output`: whether every line was found,
/// the page afterwards, and what was said.
fn refreshed(shown: &str, output: &str, flags: &[&str]) -> (bool, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let (program, page) = (folder.path().join("triton-bench"), folder.path().join("page.md"));
    fs::write(&program, format!("#!/bin/sh\ncat <<'END'\n{output}END\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&page, shown).unwrap();
    let mut refresh = Command::new(root().join("scripts/refresh-docs"));
    refresh.arg("--folder").arg(folder.path()).arg("--programs").arg(folder.path()).arg("--page").arg(&page);
    let ended = refresh.args(flags).output().unwrap();
    (ended.status.success(), text(&page), String::from_utf8_lossy(&ended.stderr).into_owned())
}

const SHOWN: &str = "Before.\n\n```\n$ triton-bench -m mlp \\\n    -p 100\n...\n  p99 latency: 20 usec\n\n\
    Concurrency: 1, throughput: 5.5 infer/sec, latency 192 usec\n```\n\nAfter.\n";

#[test]
fn shown_outputs_are_refreshed_and_those_of_another_shape_are_told() {
    let today =
        "Header\n  p99 latency: 31 usec\n\nConcurrency: 1, throughput: 6 infer/sec, latency 7 usec [unstable]\nMore\n";
    let (whole, page, message) = refreshed(SHOWN, today, &[]);
    let expected = SHOWN.replace(": 20 usec", ": 31 usec").replace("5.5", "6").replace("192 usec", "7 usec [unstable]");
    assert_eq!((whole, page), (true, expected), "{message}");
    let (whole, page, _) = refreshed(SHOWN, today, &["--check"]);
    assert_eq!((whole, page.as_str()), (true, SHOWN), "nothing is written");
    let (whole, _, message) = refreshed(SHOWN, &today.replace("p99 latency:", "p99:"), &["--check"]);
    assert!(!whole && message.contains("no line of the output has the shape of:   p99 latency: 20 usec"), "{message}");
    assert!(message.contains("1 blocks, 1 lines out of date"), "{message}");
}

#[test]
fn figures_are_those_of_the_level_and_the_percentile_that_are_shown() {
    let block = |load: u32, figures: [u32; 2], remark: &str| {
        let [p90, p99] = figures.map(|usec| format!("{usec} usec"));
        format!("Request concurrency: {load}\n  p90 latency: {p90}\n  p99 latency: {p99}\n  Verdict: valid{remark}\n")
    };
    let busy = ", while other processes used 43% of the processors";
    let last = "Concurrency: 4, throughput: 42 infer/sec, latency 42 usec";
    let remark = " [while other processes used 43% of the processors]\n";
    let today = block(1, [11, 12], busy) + &block(4, [41, 42], busy) + last + remark;
    let shown = |figure: u32| {
        let last = last.replace("42", &figure.to_string());
        let lines = format!("Request concurrency: 4\n  p99 latency: {figure} usec\n  Verdict: valid\n{last}\n");
        format!("```\n$ triton-bench -m mlp\n...\n{lines}```\n")
    };
    let (whole, page, message) = refreshed(&shown(7), &today, &[]);
    assert_eq!((whole, page), (true, shown(42)), "{message}");
}

#[test]
fn sentences_are_refreshed_wherever_their_lines_are_broken() {
    let shown = "```\n./scripts/quickstart\ntriton-bench -m mlp\n```\n\n```\n...\n  p99 latency: 20 usec\n\n\
        Knee: 9829 infer/s at concurrency 4 (p95 510 to 525 usec); as far as is known it\n    \
        may be anywhere from concurrency 4 to concurrency 8\n```\n";
    let longer = "Knee: 19829.5 infer/s at concurrency 4 (p95 1510 to 1525 usec); as far as is\n    \
        known it may be anywhere from concurrency 4 to concurrency 8\n";
    let (whole, page, message) = refreshed(shown, &format!("  p99 latency: 31 usec\n\n{longer}"), &[]);
    assert!(whole && page.contains(longer) && page.contains(": 31 usec"), "{page}{message}");
    let (whole, page, _) =
        refreshed(shown, &format!("  p99 latency: 31 usec\n\n{}", longer.replace("anywhere", "any")), &[]);
    assert!(
        !whole && page.contains("9829 infer/s at concurrency 4 (p95 510"),
        "other words are another sentence: {page}"
    );
}
