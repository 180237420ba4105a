//! The shape of the source, held to its budgets: modules in the order of docs/architecture.md, no circles of files, files
//! of at most 400 lines and functions of at most 60, at most 5 parameters, `unsafe` in three places only. Tests do not
//! count. A file that breaks a budget says why in a comment line `// budget: reason`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const MAX_FILE_LINES: usize = 400;
const MAX_FUNCTION_LINES: usize = 60;
const MAX_PARAMETERS: usize = 5;
const UNSAFE: [&str; 3] = ["backends/c_api/ffi/", "shm/posix.rs", "shm/cuda.rs"];

/// A source file, read for its shape.
struct Source {
    /// Path below `src`.
    path: String,
    /// The code without its tests; comments, strings and characters are blanks.
    code: String,
    /// Whether it has a reason to break budgets.
    excused: bool,
}

/// A function, as far as budgets go.
struct Function {
    name: String,
    lines: usize,
    parameters: usize,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut waiting, mut sources, mut tests) = (vec![root.clone()], Vec::new(), BTreeSet::new());
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            tests.extend(test_modules(&name, &text));
            let excused = text.lines().any(|line| line.trim_start().starts_with("// budget: "));
            sources.push(Source { path: name, code: without_tests(&blanked(&text)), excused });
        }
    }
    sources.retain(|source: &Source| !tests.contains(&source.path));
    assert!(sources.len() > 50, "the sources are where they were");
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

/// The files of modules that exist in tests only.
fn test_modules(path: &str, text: &str) -> Vec<String> {
    let path = Path::new(path);
    let is_root = matches!(path.file_stem().and_then(|stem| stem.to_str()), Some("mod" | "lib" | "main"));
    let folder = if is_root { path.parent().unwrap().to_owned() } else { path.with_extension("") };
    let declared = text.split("#[cfg(test)]").skip(1).filter_map(|after| {
        let line = after.trim_start().lines().find(|line| !line.trim_start().starts_with("#["))?;
        let name = line.split_once("mod ")?.1.strip_suffix(';')?;
        Some(folder.join(format!("{name}.rs")).to_str()?.to_owned())
    });
    declared.collect()
}

/// The text with comments, strings and characters replaced by blanks, line by line the same.
fn blanked(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (bytes.to_vec(), 0);
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => line_end(bytes, at),
            b'/' if bytes[at..].starts_with(b"/*") => find(bytes, at + 2, b"*/") + 2,
            b'r' if is_raw_string(bytes, at) => raw_string_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'\'' => character_end(bytes, at),
            _ => at,
        };
        let end = end.min(bytes.len());
        out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at = end.max(at + 1);
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    find(bytes, from, b"\n")
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> usize {
    (from..bytes.len()).find(|&at| bytes[at..].starts_with(what)).unwrap_or(bytes.len())
}

fn is_raw_string(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| bytes[before]);
    let in_word = before.is_some_and(|byte| byte.is_ascii_alphanumeric() && byte != b'b' || byte == b'_');
    let hashes = bytes[at + 1..].iter().take_while(|&&byte| byte == b'#').count();
    !in_word && bytes.get(at + 1 + hashes) == Some(&b'"')
}

fn raw_string_end(bytes: &[u8], at: usize) -> usize {
    let hashes = bytes[at + 1..].iter().take_while(|&&byte| byte == b'#').count();
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    find(bytes, at + 2 + hashes, &close) + close.len()
}

fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// The end of a character literal; `at` itself for a lifetime.
fn character_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        Some(b'\\') => find(bytes, at + 3, b"'") + 1,
        Some(_) => (at + 2..(at + 6).min(bytes.len())).find(|&end| bytes[end] == b'\'').map_or(at, |end| {
            let one = std::str::from_utf8(&bytes[at + 1..end]).is_ok_and(|text| text.chars().count() == 1);
            if one { end + 1 } else { at }
        }),
        None => at,
    }
}

/// Where the block ends that opens at or after `from`; a semicolon before any block ends it, too.
fn block_end(code: &str, from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b';' if depth == 0 => return at + 1,
            b'{' => depth += 1,
            b'}' if depth <= 1 => return at + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn without_tests(code: &str) -> String {
    let mut rest = code.to_owned();
    while let Some(start) = rest.find("#[cfg(test)]") {
        let end = block_end(&rest, start);
        rest.replace_range(start..end, "");
    }
    rest
}

fn functions(code: &str) -> Vec<Function> {
    let starts = code.match_indices("fn ").filter(|&(at, _)| {
        let before = code[..at].bytes().next_back();
        before.is_none_or(|byte| !(byte.is_ascii_alphanumeric() || byte == b'_'))
    });
    let function = |(at, _): (usize, &str)| {
        let name: String = code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let signature = at + code[at..].find('(')?;
        (!name.is_empty()).then_some(())?;
        let end = block_end(code, at);
        let lines = code[at..end].lines().count();
        Some(Function { name, lines, parameters: parameters(&code[signature..end]) })
    };
    starts.filter_map(function).collect()
}

/// Parameters in the parentheses with which `text` starts, `self` left out.
fn parameters(text: &str) -> usize {
    let (mut depth, mut count, mut part) = (0_i32, 0, String::new());
    let counts = |part: &str| {
        let part = part.trim();
        !part.is_empty() && !part.split(':').next().unwrap_or_default().split([' ', '&']).any(|word| word == "self")
    };
    let mut before = ' ';
    for character in text.chars() {
        match character {
            '(' | '[' | '<' | '{' => depth += 1,
            '>' if before == '-' => {}
            ')' | ']' | '>' | '}' => depth -= 1,
            ',' if depth == 1 => {
                count += usize::from(counts(&part));
                part.clear();
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth > 1 || character != '(' {
            part.push(character);
        }
        before = character;
    }
    count + usize::from(counts(&part))
}

fn assert_none(broken: &[String], rule: &str) {
    assert!(broken.is_empty(), "{rule}; a file may break that with a line `// budget: reason`:\n{}", broken.join("\n"));
}

#[test]
fn files_are_short() {
    let long = sources().into_iter().filter(|source| !source.excused && source.code.lines().count() > MAX_FILE_LINES);
    let long: Vec<String> =
        long.map(|source| format!("{}: {} lines", source.path, source.code.lines().count())).collect();
    assert_none(&long, "a file has at most 400 lines without its tests");
}

#[test]
fn functions_are_short_and_take_little() {
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| !source.excused) {
        for function in functions(&source.code) {
            if function.lines > MAX_FUNCTION_LINES {
                broken.push(format!("{}: {} has {} lines", source.path, function.name, function.lines));
            }
            if function.parameters > MAX_PARAMETERS {
                broken.push(format!("{}: {} has {} parameters", source.path, function.name, function.parameters));
            }
        }
    }
    assert_none(&broken, "a function has at most 60 lines and 5 parameters");
}

#[test]
fn unsafe_code_is_in_three_places() {
    let has_unsafe =
        |source: &&Source| source.code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe");
    let allowed = |path: &str| UNSAFE.iter().any(|place| path.starts_with(place));
    let sources = sources();
    let elsewhere: Vec<&str> =
        sources.iter().filter(has_unsafe).map(|source| source.path.as_str()).filter(|path| !allowed(path)).collect();
    assert!(elsewhere.is_empty(), "unsafe belongs into {UNSAFE:?} only, but is in {elsewhere:?}");
    let doors: Vec<&str> = sources
        .iter()
        .flat_map(|source| source.code.split("allow(unsafe_code)").skip(1))
        .map(|after| after.split(';').next().unwrap_or_default().split_whitespace().next_back().unwrap_or_default())
        .collect();
    let names: BTreeSet<&str> = doors.iter().copied().collect();
    assert_eq!((doors.len(), names), (3, BTreeSet::from(["ffi", "posix", "cuda"])), "modules that allow unsafe code");
}

/// Which top-level modules each top-level module names.
fn dependencies(sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let top = |path: &str| path.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
    let inside = |path: &str| !matches!(top(path).as_str(), "lib" | "main" | "bin");
    let names: BTreeSet<String> = sources.iter().map(|source| top(&source.path)).collect();
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| inside(&source.path)) {
        let own = top(&source.path);
        let used = source.code.split("crate::").skip(1).flat_map(|rest| {
            let list = rest.strip_prefix('{').map_or(rest, |list| list.split_once(';').map_or(list, |(list, _)| list));
            let grouped = rest.starts_with('{');
            let words = list.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned);
            if grouped { words.collect::<Vec<_>>() } else { words.take(1).collect() }
        });
        let used = used.filter(|name| names.contains(name) && *name != own);
        graph.entry(own.clone()).or_default().extend(used.collect::<Vec<_>>());
    }
    graph
}

/// The files that each file's `use` lines name; a file that gathers a folder (`mod.rs`) is a door, not a room, and left out.
fn uses(sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let is_room = |path: &str| !path.ends_with("mod.rs") && path.contains('/');
    let module = |path: &str| path.trim_end_matches(".rs").trim_end_matches("/mod").to_owned();
    let rooms: BTreeMap<String, &str> = sources
        .iter()
        .map(|source| source.path.as_str())
        .filter(|path| is_room(path))
        .map(|path| (module(path), path))
        .collect();
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (own, path) in &rooms {
        let source = sources.iter().find(|source| source.path == *path).unwrap();
        let named = used_paths(&source.code).into_iter().filter_map(|path| {
            let mut words: Vec<&str> = path.split("::").collect();
            let mut folder: Vec<&str> = match words[0] {
                "crate" => Vec::new(),
                "super" => own.split('/').collect(),
                _ => return None,
            };
            while words.first().is_some_and(|word| ["crate", "super"].contains(word)) {
                words.remove(0);
                folder.pop();
            }
            let all = [folder, words].concat();
            (1..=all.len()).rev().map(|len| all[..len].join("/")).find(|module| rooms.contains_key(module))
        });
        graph.insert(own.clone(), named.filter(|module| module != own).collect());
    }
    graph
}

/// The full paths of all `use` lines, groups taken apart.
fn used_paths(code: &str) -> Vec<String> {
    fn spread(before: &str, group: &str, paths: &mut Vec<String>) {
        let (mut depth, mut start) = (0, 0);
        let ends = group.char_indices().chain([(group.len(), ',')]);
        for (at, character) in ends {
            match character {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    let part = group[start..at].trim();
                    start = at + 1;
                    match part.split_once('{') {
                        Some((path, inner)) => {
                            spread(
                                &format!("{before}{}", path.trim()),
                                inner.strip_suffix('}').unwrap_or(inner),
                                paths,
                            );
                        }
                        None if !part.is_empty() => paths.push(format!("{before}{part}")),
                        None => {}
                    }
                }
                _ => {}
            }
        }
    }
    let mut paths = Vec::new();
    for line in code.split("use ").skip(1) {
        let line: String = line.split(';').next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        spread("", &line, &mut paths);
    }
    paths
}

/// A path from a module back to itself.
fn cycle(graph: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn walk(graph: &BTreeMap<String, BTreeSet<String>>, path: &mut Vec<String>, done: &mut BTreeSet<String>) -> bool {
        let last = path.last().unwrap().clone();
        for next in graph.get(&last).into_iter().flatten() {
            if let Some(start) = path.iter().position(|known| known == next) {
                path.drain(..start);
                path.push(next.clone());
                return true;
            }
            if !done.contains(next) {
                path.push(next.clone());
                if walk(graph, path, done) {
                    return true;
                }
                path.pop();
            }
        }
        done.insert(last);
        false
    }
    let mut done = BTreeSet::new();
    graph.keys().find_map(|start| {
        let mut path = vec![start.clone()];
        walk(graph, &mut path, &mut done).then_some(path)
    })
}

#[test]
fn modules_depend_on_those_below_them_in_the_table() {
    let table = include_str!("../docs/architecture.md").lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = table.filter_map(|line| line.split(" | ").next());
    let order: Vec<&str> =
        cells.flat_map(|cell| cell.split("`, `")).map(|name| name.split(['`', ':']).next().unwrap()).collect();
    let graph = dependencies(&sources());
    let place = |module: &str| order.iter().position(|&name| name == module);
    assert!(place("cli") < place("stats"), "the table is found: {order:?}");
    assert!(graph["app"].contains("measure"), "dependencies are found: {graph:?}");
    for (module, used) in &graph {
        let own = place(module).unwrap_or_else(|| panic!("'{module}' is not in the table: {order:?}"));
        for other in used {
            assert!(place(other) > Some(own), "'{module}' uses '{other}', which is not below it in the table");
        }
    }
}

#[test]
fn files_depend_in_one_direction() {
    let graph = uses(&sources());
    assert!(graph["load/feed"].contains("load/walk"), "neighbours are found: {graph:#?}");
    assert!(graph["app/session"].contains("load/feed"), "others are found: {graph:#?}");
    assert_eq!(cycle(&graph), None, "files go round in a circle");
}

#[test]
fn the_yardsticks_measure() {
    let code = blanked(
        "fn a(&self, b: Vec<(u8, u8)>, c: impl Fn(u8) -> u8) {\n '{'; \"}\"; r#\"{\"#; // {\n}\nfn d<'a>() {}\n",
    );
    let found = functions(&code);
    let shapes: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.lines, f.parameters)).collect();
    assert_eq!(shapes, [("a", 3, 2), ("d", 1, 0)]);
    assert_eq!(without_tests("a\n#[cfg(test)]\nmod tests { {} }\nb\n#[cfg(test)]\nmod t;\nc"), "a\n\nb\n\nc");
    assert_eq!(
        used_paths("use a::b;\nuse crate::{c, g, d::{self, e as f}};\n"),
        ["a::b", "crate::c", "crate::g", "crate::d::self", "crate::d::e as f"]
    );
    let graph = |edges: &[(&str, &str)]| {
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        edges.iter().for_each(|(from, to)| {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        });
        graph
    };
    assert_eq!(cycle(&graph(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    assert_eq!(cycle(&graph(&[("a", "b"), ("b", "c"), ("c", "b")])).unwrap(), ["b", "c", "b"]);
}
