//! Source files as syntax trees, with their tests removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Attribute, File, ImplItem, Item, ItemMod, ItemUse, Meta};

use crate::graph::spread;

/// A source file.
pub struct Source {
    /// Path below `src`.
    pub path: String,
    /// The file without what exists in tests only.
    pub file: File,
    /// Lines of that.
    pub lines: usize,
    /// Whether it has a reason to break budgets.
    pub excused: bool,
    /// All paths in the code, those in macros too: `a::b::c`, or a single word.
    pub paths: Vec<Vec<String>>,
    /// Modules that the file has or takes in, whose names mean these there.
    modules: BTreeSet<String>,
    /// Files and folders of its modules that exist in tests only, without their ending.
    tests: Vec<String>,
    /// The layer whose crate it belongs to, if that layer is a crate of its own.
    crate_of: Option<&'static str>,
    /// Layers that the root of its crate takes in from other crates: there, `crate::` and such a name is that layer.
    taken_in: BTreeSet<String>,
}

/// Layers that are crates of their own, with their names there.
const CRATES: [&str; 22] = [
    "backend", "backends", "cli", "data", "engine", "gate", "load", "measure", "model", "mpi", "plan", "program",
    "ranks", "record", "report", "result", "shm", "stats", "terms", "traces", "tune", "wire",
];
/// The crate with several layers.
const BASE: &str = "base";

impl Source {
    /// Reads `text`, which stands at `path`.
    pub fn parse(path: &str, text: &str) -> Self {
        let mut file = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let tests_elsewhere = test_modules(path, &file.items);
        let mut tests = Tests::default();
        tests.visit_file_mut(&mut file);
        let excused = text.lines().any(|line| line.trim_start().starts_with("// budget: "));
        let crate_of = CRATES.into_iter().find(|layer| path.split('/').next() == Some(layer));
        let lines = text.lines().count() - tests.lines;
        Self {
            path: path.to_owned(),
            paths: paths(&file.items),
            modules: file.items.iter().flat_map(modules_of).collect(),
            file,
            lines,
            excused,
            tests: tests_elsewhere,
            crate_of,
            taken_in: BTreeSet::new(),
        }
    }

    /// A path as if all layers were modules of one crate, which is how the layers are drawn.
    pub fn in_one_crate(&self, mut path: Vec<String>) -> Vec<String> {
        let first = path[0].clone();
        match self.crate_of {
            Some(_) if first == "crate" && path.get(1).is_some_and(|name| self.taken_in.contains(name)) => {}
            Some(layer) if first == "crate" => path.insert(1, layer.to_owned()),
            layer if layer != Some(&*first) && !self.modules.contains(&first) => return layered(path),
            _ => {}
        }
        path
    }

    /// The full paths of a `use` line as if all layers were modules of one crate, and the names that they have then.
    pub fn brought_in(&self, line: &ItemUse) -> Vec<(Vec<String>, String)> {
        let from_outside = line.leading_colon.is_some();
        let paths = spread(&line.tree).into_iter();
        paths.map(|(path, name)| (if from_outside { layered(path) } else { self.in_one_crate(path) }, name)).collect()
    }

    /// The module that the file is, as a path below the crate: none for its root.
    pub fn module(&self) -> Vec<String> {
        let path = self.path.trim_end_matches(".rs");
        let parts = path.split('/').filter(|part| *part != "mod").map(str::to_owned);
        let in_base = self.path.starts_with("base/") && self.path != "base/mod.rs";
        parts.skip(usize::from(in_base)).collect()
    }

    /// The root of its crate, if that is a layer.
    fn is_root(&self) -> bool {
        self.crate_of.is_some_and(|layer| self.path == format!("{layer}/mod.rs"))
    }

    /// The names that its `use` lines bring in from other crates of ours.
    fn taken_from_crates(&self) -> impl Iterator<Item = String> {
        let lines = self.file.items.iter().filter_map(|item| match item {
            Item::Use(line) => Some(spread(&line.tree)),
            _ => None,
        });
        let is_ours = |first: &str| first == BASE || CRATES.contains(&first) && !self.modules.contains(first);
        lines.flatten().filter(move |(path, _)| is_ours(&path[0])).map(|(_, name)| name)
    }
}

fn paths(items: &[Item]) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for item in items.iter().filter(|item| !matches!(item, Item::Use(_))) {
        gather(item.to_token_stream(), &mut paths);
    }
    paths
}

fn modules_of(item: &Item) -> Vec<String> {
    match item {
        Item::Mod(module) => vec![module.ident.to_string()],
        Item::Use(line) => {
            let longer = spread(&line.tree).into_iter().filter(|(path, _)| path.len() > 1);
            longer.map(|(_, taken)| taken).collect()
        }
        _ => Vec::new(),
    }
}

/// A path that begins with the name of a crate as if all layers were modules of one.
fn layered(mut path: Vec<String>) -> Vec<String> {
    if path[0] == BASE && path.len() > 1 {
        path[0] = "crate".to_owned();
    } else if CRATES.contains(&&*path[0]) {
        path.insert(0, "crate".to_owned());
    }
    path
}

/// Every source file of the program, tests left out.
pub fn all() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src");
    let mut files = Vec::new();
    walk(&root, &mut files);
    files.sort();
    let read = |path: &PathBuf| {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
        Source::parse(name, &fs::read_to_string(path).unwrap())
    };
    let mut sources: Vec<Source> = files.iter().map(read).collect();
    let tests: BTreeSet<String> = sources.iter().flat_map(|source| source.tests.clone()).collect();
    let is_test =
        |path: &str| tests.iter().any(|test| path == format!("{test}.rs") || path.starts_with(&format!("{test}/")));
    sources.retain(|source| !is_test(&source.path));
    take_in(&mut sources);
    assert!(sources.len() > 50, "the sources are where they were");
    sources
}

/// Tells every file of a crate what the root of that crate takes in.
pub fn take_in(sources: &mut [Source]) {
    let taken: BTreeMap<_, BTreeSet<String>> = sources
        .iter()
        .filter(|source| source.is_root())
        .map(|root| (root.crate_of, root.taken_from_crates().collect()))
        .collect();
    for source in sources {
        source.taken_in = taken.get(&source.crate_of).cloned().unwrap_or_default();
    }
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn test_modules(path: &str, items: &[Item]) -> Vec<String> {
    let path = Path::new(path);
    let is_root = matches!(path.file_stem().and_then(|stem| stem.to_str()), Some("mod" | "lib" | "main"));
    let folder = if is_root { path.parent().unwrap().to_owned() } else { path.with_extension("") };
    let named = |item: &Item| match item {
        Item::Mod(ItemMod { attrs, ident, content: None, .. }) if is_test(attrs) => {
            Some(folder.join(ident.to_string()).to_str().unwrap().to_owned())
        }
        _ => None,
    };
    items.iter().filter_map(named).collect()
}

/// Takes away what exists in tests only, and counts its lines.
#[derive(Default)]
struct Tests {
    lines: usize,
}

impl Tests {
    fn keeps(&mut self, attributes: &[Attribute], item: &impl Spanned) -> bool {
        let goes = is_test(attributes);
        if goes {
            let span = item.span();
            self.lines += span.end().line - span.start().line + 1;
        }
        !goes
    }
}

impl VisitMut for Tests {
    fn visit_file_mut(&mut self, file: &mut File) {
        file.items.retain(|item| self.keeps(attributes(item), item));
        syn::visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut ItemMod) {
        if let Some((_, items)) = &mut module.content {
            items.retain(|item| self.keeps(attributes(item), item));
        }
        syn::visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, block: &mut syn::ItemImpl) {
        block.items.retain(|item| match item {
            ImplItem::Fn(function) => self.keeps(&function.attrs, item),
            ImplItem::Const(value) => self.keeps(&value.attrs, item),
            _ => true,
        });
        syn::visit_mut::visit_item_impl_mut(self, block);
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// `#[cfg(test)]`, or what tests of other crates use, too: `#[cfg(any(test, feature = "testing"))]`.
fn is_test(attributes: &[Attribute]) -> bool {
    let in_tests = ["test", "any(test,feature=\"testing\")"];
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && in_tests.contains(&&*list.tokens.to_string().replace(' ', "")),
        _ => false,
    })
}

/// Identifiers that `::` joins, wherever they stand.
fn gather(tokens: TokenStream, paths: &mut Vec<Vec<String>>) {
    let mut colons = 0;
    let mut path: Vec<String> = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                if colons != 2 {
                    paths.extend((!path.is_empty()).then(|| std::mem::take(&mut path)));
                }
                path.push(plain(&ident));
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            other => {
                paths.extend((!path.is_empty()).then(|| std::mem::take(&mut path)));
                colons = 0;
                if let TokenTree::Group(group) = other {
                    gather(group.stream(), paths);
                }
            }
        }
    }
    paths.extend((!path.is_empty()).then_some(path));
}

fn plain(ident: &Ident) -> String {
    ident.to_string().trim_start_matches("r#").to_owned()
}
