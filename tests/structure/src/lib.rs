//! Source budgets: modules in the order of docs/architecture.md, no cycles among files, files of at most 400 lines and
//! functions of at most 60, at most 5 parameters and none of them a tuple, names of bindings that are nouns, `unsafe` only in a few places. Tests do not
//! count. A file that breaks a budget of size gives its reason in a comment line `// budget: reason`. Types that wrap a
//! backend pass every call on.

#![cfg(test)]

mod bindings;
mod graph;
mod source;
mod tuples;
mod walks;
mod wrappers;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{FnArg, ItemMod, Signature};

use graph::{Graph, cycle};
use source::Source;

const MAX_FILE_LINES: usize = 400;
const MAX_FUNCTION_LINES: usize = 60;
const MAX_PARAMETERS: usize = 5;
/// The median file is no longer than that.
const MEDIAN_FILE_LINES: usize = 150;
/// Bindings whose names say nothing of what they hold: as many as are left, most of them of a type `Place`. The number goes down only.
const VAGUE_BINDINGS: usize = 59;
/// The only files that tell one load from another, one for each layer; all others ask `terms/load/mode.rs`, where they are.
const LOADS: [&str; 4] = ["app/levels.rs", "cli/load.rs", "load/recorded.rs", "report/loads.rs"];
/// The only file that tells one rule for a window's end from another: its flag. All others ask `terms/window.rs`, where they are.
const WINDOW_RULES: [&str; 1] = ["cli/measurement.rs"];
/// Layers that do not know others: a result stands alone, however it was asked for and measured.
const STRANGERS: [(&str, [&str; 4]); 2] =
    [("result", ["measure", "gate", "plan", "load"]), ("report", ["measure", "gate", "plan", "load"])];
const UNSAFE: [&str; 6] =
    ["backends/c_api/ffi/", "base/clock/cycles.rs", "base/socket.rs", "shm/posix.rs", "shm/cuda.rs", "mpi/border/"];

/// A function, as far as budgets go.
#[derive(Debug, PartialEq)]
struct Function {
    name: String,
    lines: usize,
    parameters: usize,
}

/// The functions of a file.
#[derive(Default)]
struct Functions(Vec<Function>);

impl Functions {
    fn of(source: &Source) -> Vec<Function> {
        let mut found = Self::default();
        found.visit_file(&source.file);
        found.0
    }

    fn add(&mut self, signature: &Signature, end: usize) {
        let parameters = signature.inputs.iter().filter(|input| matches!(input, FnArg::Typed(_))).count();
        let lines = end - signature.span().start().line + 1;
        self.0.push(Function { name: signature.ident.to_string(), lines, parameters });
    }
}

impl<'a> Visit<'a> for Functions {
    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.add(&function.sig, function.block.span().end().line);
        syn::visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        self.add(&function.sig, function.block.span().end().line);
        syn::visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'a syn::TraitItemFn) {
        self.add(&function.sig, function.span().end().line);
        syn::visit::visit_trait_item_fn(self, function);
    }
}

fn assert_none(broken: &[String], rule: &str) {
    assert!(broken.is_empty(), "{rule}; a file may break that with a line `// budget: reason`:\n{}", broken.join("\n"));
}

fn files_are_short(sources: &[Source]) {
    let long = sources.iter().filter(|source| !source.excused && source.lines > MAX_FILE_LINES);
    let long: Vec<String> = long.map(|source| format!("{}: {} lines", source.path, source.lines)).collect();
    assert_none(&long, "a file has at most 400 lines without its tests");
    let mut lengths: Vec<usize> = sources.iter().map(|source| source.lines).collect();
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    assert!(median <= MEDIAN_FILE_LINES, "the median file has {median} lines, and may have {MEDIAN_FILE_LINES}");
}

fn functions_are_short_and_take_little(sources: &[Source]) {
    let mut broken = Vec::new();
    for source in sources.iter().filter(|source| !source.excused) {
        for Function { name, lines, parameters } in Functions::of(source) {
            if lines > MAX_FUNCTION_LINES {
                broken.push(format!("{}: {name} has {lines} lines", source.path));
            }
            if parameters > MAX_PARAMETERS {
                broken.push(format!("{}: {name} has {parameters} parameters", source.path));
            }
        }
    }
    assert_none(&broken, "a function has at most 60 lines and 5 parameters");
}

fn no_parameter_is_a_tuple(sources: &[Source]) {
    let found = tuples::takers(sources);
    assert!(found.is_empty(), "{} functions take a tuple, whose parts want names:\n{}", found.len(), found.join("\n"));
}

fn bindings_say_what_they_hold(sources: &[Source]) {
    let found = bindings::vague(sources);
    assert!(
        found.len() <= VAGUE_BINDINGS,
        "{} bindings want a noun for their name, and {VAGUE_BINDINGS} were left:\n{}",
        found.len(),
        found.join("\n")
    );
    assert_eq!(found.len(), VAGUE_BINDINGS, "fewer are left: lower VAGUE_BINDINGS");
}

/// Modules that may hold unsafe code: those with `#[allow(unsafe_code)]`.
#[derive(Default)]
struct Doors(Vec<String>);

impl<'a> Visit<'a> for Doors {
    fn visit_item_mod(&mut self, module: &'a ItemMod) {
        let allows = |attribute: &syn::Attribute| match &attribute.meta {
            syn::Meta::List(list) => list.path.is_ident("allow") && list.tokens.to_string() == "unsafe_code",
            _ => false,
        };
        self.0.extend(module.attrs.iter().any(allows).then(|| module.ident.to_string()));
        syn::visit::visit_item_mod(self, module);
    }
}

fn unsafe_code_is_in_few_places(sources: &[Source]) {
    let has_unsafe = |source: &&Source| source.paths.iter().flatten().any(|word| word == "unsafe");
    let allowed = |path: &str| UNSAFE.iter().any(|prefix| path.starts_with(prefix));
    let elsewhere: Vec<&str> =
        sources.iter().filter(has_unsafe).map(|source| source.path.as_str()).filter(|path| !allowed(path)).collect();
    assert!(elsewhere.is_empty(), "unsafe belongs into {UNSAFE:?} only, but is in {elsewhere:?}");
    let mut doors = Doors::default();
    sources.iter().for_each(|source| doors.visit_file(&source.file));
    let names: BTreeSet<&str> = doors.0.iter().map(String::as_str).collect();
    let count = doors.0.len();
    assert_eq!(
        (count, names),
        (6, BTreeSet::from(["ffi", "cycles", "socket", "posix", "cuda", "border"])),
        "modules that allow unsafe code"
    );
}

/// The files that name a variant of `choice`.
fn files_that_tell_apart<'a>(choice: &str, sources: &'a [Source]) -> Vec<&'a str> {
    let is_variant = |pair: &[String]| pair[0] == choice && pair[1].starts_with(char::is_uppercase);
    let tells = |source: &&Source| source.paths.iter().any(|path| path.windows(2).any(is_variant));
    sources.iter().filter(tells).map(|source| source.path.as_str()).collect()
}

fn one_file_of_each_layer_tells_loads_apart(sources: &[Source]) {
    let found = files_that_tell_apart("LoadMode", sources);
    assert_eq!(found, LOADS, "what differs between loads is a question to LoadMode");
}

fn the_flag_tells_rules_for_windows_apart(sources: &[Source]) {
    let found = files_that_tell_apart("WindowRule", sources);
    assert_eq!(found, WINDOW_RULES, "what differs between rules for a window's end is a question to WindowRule");
}

fn modules_depend_on_those_below_them_in_the_table(sources: &[Source]) {
    let table = include_str!("../../../docs/architecture.md").lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = table.filter_map(|line| line.split(" | ").next());
    let order: Vec<&str> =
        cells.flat_map(|cell| cell.split("`, `")).map(|name| name.split(['`', ':']).next().unwrap()).collect();
    let graph = graph::modules(sources);
    let row = |module: &str| order.iter().position(|&name| name == module);
    assert!(row("cli") < row("stats"), "the table is found: {order:?}");
    assert!(graph["app"].contains("measure"), "dependencies are found: {graph:?}");
    assert!(graph["app"].contains("tune") && graph["tune"].contains("stats"), "those of crates, too: {graph:?}");
    assert!(graph["shm"].contains("error") && graph["limits"].contains("error"), "and of those in base: {graph:?}");
    for (module, used) in &graph {
        let module_row = row(module).unwrap_or_else(|| panic!("'{module}' is not in the table: {order:?}"));
        for other in used {
            assert!(row(other) > Some(module_row), "'{module}' uses '{other}', which is not below it in the table");
        }
    }
}

fn results_stand_alone(sources: &[Source]) {
    let graph = graph::modules(sources);
    let pairs = STRANGERS.map(|(module, strangers)| strangers.map(|other| (module, other)));
    let violations: Vec<_> = pairs.iter().flatten().filter(|(module, other)| graph[*module].contains(*other)).collect();
    assert!(violations.is_empty(), "these modules use what they must not know: {violations:?}");
}

fn files_depend_in_one_direction(sources: &[Source]) {
    let graph = graph::files(sources);
    assert!(graph["load/input_source.rs"].contains("load/entry_order.rs"), "neighbours are found: {graph:#?}");
    assert!(graph["app/session.rs"].contains("load/input_source.rs"), "others are found: {graph:#?}");
    assert_eq!(cycle(&graph), None, "files go round in a circle");
}

/// A rule, which panics where the source breaks it.
type Rule = fn(&[Source]);

/// What all source files are held to. Each rule is a function, so that reading and parsing them takes its time once.
const RULES: [(&str, Rule); 12] = [
    ("files are short", files_are_short),
    ("functions are short and take little", functions_are_short_and_take_little),
    ("no parameter is a tuple", no_parameter_is_a_tuple),
    ("bindings say what they hold", bindings_say_what_they_hold),
    ("unsafe code is in few places", unsafe_code_is_in_few_places),
    ("one file of each layer tells loads apart", one_file_of_each_layer_tells_loads_apart),
    ("the flag tells rules for windows apart", the_flag_tells_rules_for_windows_apart),
    ("modules depend on those below them in the table", modules_depend_on_those_below_them_in_the_table),
    ("results stand alone", results_stand_alone),
    ("files depend in one direction", files_depend_in_one_direction),
    ("the walks through the source are true", walks::the_walks_are_true),
    ("a wrapped backend is asked everything", wrappers::a_wrapped_backend_is_asked_everything),
];

#[test]
fn the_source_keeps_its_rules() {
    let sources = source::all();
    let breaks = |rule: fn(&[Source])| catch_unwind(AssertUnwindSafe(|| rule(&sources))).is_err();
    let broken: Vec<&str> = RULES.iter().filter(|(_, rule)| breaks(*rule)).map(|(name, _)| *name).collect();
    assert!(broken.is_empty(), "see above: {broken:?}");
}

#[test]
fn the_yardsticks_measure() {
    let text = "fn a(&self, b: Vec<(u8, u8)>, c: impl Fn(u8) -> u8) {\n '{'; \"}\"; r#\"{\"#; // {\n}\n\
                #[cfg(test)]\nmod tests {\n    unsafe fn c() {}\n}\nfn d<'a>() {\n    x!(crate::y::z());\n}\n";
    let source = Source::parse("a.rs", text);
    let expected = [("a", 3, 2), ("d", 3, 0)];
    let expected = expected.map(|(name, lines, parameters)| Function { name: name.to_owned(), lines, parameters });
    assert_eq!(Functions::of(&source), expected);
    assert_eq!(source.lines, 6);
    let paths = &source.paths;
    assert!(paths.contains(&["crate", "y", "z"].map(str::to_owned).to_vec()), "{paths:?}");
    assert!(!paths.iter().flatten().any(|word| word == "unsafe"));
}

#[test]
fn tuples_are_found_by_pattern_by_type_and_by_name() {
    let sources = [
        Source::parse(
            "a.rs",
            "pub type Way = (u8, u8);\nfn pattern((a, b): Pair) {}\nfn kind(a: &(u8, u8)) {}\nfn unit(a: ()) {}",
        ),
        Source::parse(
            "b.rs",
            "use crate::a::{Other, Way};\nimpl X {\n    fn name(&self, a: Way) {}\n}\nfn list(a: &[(u8, u8)]) {}",
        ),
        Source::parse("c.rs", "use crate::d::Way;\nfn another(a: Way) -> (u8, u8) {}"),
    ];
    assert_eq!(tuples::takers(&sources), ["a.rs:2: pattern", "a.rs:3: kind", "b.rs:3: name"]);
}

#[test]
fn vague_names_are_found_in_every_kind_of_binding() {
    let text = "fn a(told: u8, given: &Given, one: crate::One, known: Option<u8>) {\n    let Some(it) = known else { return };\n    \
                let Pair { of, what: noun } = pair;\n    list.map(|(said, next)| said.of);\n    if let [first, rest @ ..] = list {}\n    \
                for place in list {}\n    match it {\n        seen @ 1.. => own(seen),\n        this => {}\n    }\n}\n\
                #[cfg(test)]\nmod tests {\n    fn b(both: u8) {}\n}\n";
    let expected = [
        "a.rs:1: told",
        "a.rs:1: known",
        "a.rs:2: it",
        "a.rs:3: of",
        "a.rs:4: said",
        "a.rs:6: place",
        "a.rs:8: seen",
        "a.rs:9: this",
    ];
    assert_eq!(bindings::vague(&[Source::parse("a.rs", text)]), expected);
    let whole = Source::parse("b.rs", "fn a() {\n    let rest = list;\n    let [own, ..] = rest;\n}\n");
    assert_eq!(bindings::vague(&[whole]), ["b.rs:2: rest", "b.rs:3: own"]);
}

#[test]
fn what_is_passed_on_is_looked_up_where_it_comes_from() {
    let sources = [
        Source::parse("m/mod.rs", "mod a;\nmod b;\npub use a::A;\npub use b::*;\npub struct Own;"),
        Source::parse("m/a.rs", "pub struct A;"),
        Source::parse("m/b.rs", "pub struct B;\nuse super::A;"),
        Source::parse("c.rs", "use crate::m::{A, B, Own, a::{self}};"),
    ];
    let graph = graph::files(&sources);
    let used = |file: &str| graph[file].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(used("c.rs"), ["m/a.rs", "m/b.rs", "m/mod.rs"]);
    assert_eq!((used("m/b.rs"), used("m/mod.rs")), (vec!["m/a.rs"], vec![]));
}

#[test]
fn what_a_crate_takes_in_is_a_layer() {
    let mut sources = [
        Source::parse("base/clock.rs", "pub struct Stamp;"),
        Source::parse("tune/mod.rs", "mod race;\nuse base::clock;\nuse stats::seed;"),
        Source::parse("tune/race.rs", "use crate::clock::Stamp;\nfn draw() {\n    crate::seed::draw();\n}"),
        Source::parse("stats/mod.rs", "pub mod seed;"),
        Source::parse("stats/seed.rs", "pub fn draw() {}"),
    ];
    source::take_in(&mut sources);
    let graph = graph::files(&sources);
    let used = |file: &str| graph[file].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(used("tune/race.rs"), ["base/clock.rs"]);
    assert_eq!(graph::modules(&sources)["tune"], BTreeSet::from(["clock", "stats"].map(str::to_owned)));
}

#[test]
fn a_path_that_begins_with_colons_leads_to_another_crate() {
    let mut sources = [
        Source::parse("data/mod.rs", "pub struct Corpus;"),
        Source::parse("plan/mod.rs", "mod data;\nuse ::data::Corpus;\nuse data::DataPlan;"),
        Source::parse("plan/data.rs", "pub struct DataPlan;\nuse ::data::Corpus;"),
        Source::parse("plan/tune.rs", "use crate::data::DataPlan;"),
    ];
    source::take_in(&mut sources);
    let graph = graph::files(&sources);
    let used = |file: &str| graph[file].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(used("plan/mod.rs"), ["data/mod.rs", "plan/data.rs"]);
    assert_eq!((used("plan/data.rs"), used("plan/tune.rs")), (vec!["data/mod.rs"], vec!["plan/data.rs"]));
    assert_eq!(graph::modules(&sources)["plan"], BTreeSet::from(["data".to_owned()]));
}

#[test]
fn circles_are_found() {
    let graph = |edges: &[(&str, &str)]| {
        let mut graph: Graph = BTreeMap::new();
        edges.iter().for_each(|(from, to)| {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        });
        graph
    };
    assert_eq!(cycle(&graph(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    assert_eq!(cycle(&graph(&[("a", "b"), ("b", "c"), ("c", "b")])).unwrap(), ["b", "c", "b"]);
}
