//! The dependency graph of modules and files.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Item, ItemUse, UseTree, Visibility};

use crate::source::Source;

/// From each node to those that it uses.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

/// Which top-level modules each top-level module names.
pub fn modules(sources: &[Source]) -> Graph {
    let inside = |source: &&Source| !matches!(&*source.module()[0], "lib" | "main" | "bin" | "base");
    let names: BTreeSet<String> = sources.iter().filter(inside).map(|source| source.module()[0].clone()).collect();
    let mut graph = Graph::new();
    for source in sources.iter().filter(inside) {
        let module = source.module()[0].clone();
        let named = named(source, |_| true)
            .into_iter()
            .filter(|path| path[0] == "crate")
            .filter_map(|path| path.get(1).cloned());
        let others: Vec<String> = named.filter(|name| names.contains(name) && *name != module).collect();
        graph.entry(module).or_default().extend(others);
    }
    graph
}

/// Which files each file uses. What a module only passes on (`pub use`) is looked up where it comes from; what a file takes from
/// the module that it is a part of is left out.
pub fn files(sources: &[Source]) -> Graph {
    let tree = Tree::of(sources);
    let uses = |source: &Source| {
        let module = source.module();
        let is_private = |item: &ItemUse| matches!(item.vis, Visibility::Inherited);
        let others =
            named(source, is_private).into_iter().filter_map(|path| tree.file(&absolute(&module, &path, &tree)?, 0));
        others.filter(|other| *other != source.path && !is_inside(&source.path, other)).collect()
    };
    sources.iter().map(|source| (source.path.clone(), uses(source))).collect()
}

/// Whether a file is in the folder of a module.
fn is_inside(file: &str, module: &str) -> bool {
    let folder = module.strip_suffix("mod.rs").unwrap_or_else(|| module.trim_end_matches("rs"));
    file.starts_with(&folder.replace('.', "/"))
}

/// A path from a node back to itself.
pub fn cycle(graph: &Graph) -> Option<Vec<String>> {
    fn walk(graph: &Graph, path: &mut Vec<String>, done: &mut BTreeSet<String>) -> bool {
        let last = path.last().unwrap().clone();
        for next in graph.get(&last).into_iter().flatten() {
            if let Some(start) = path.iter().position(|module| module == next) {
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

/// What modules there are, what each defines, and what it passes on.
struct Tree<'a> {
    modules: BTreeMap<Vec<String>, Module<'a>>,
}

struct Module<'a> {
    path: &'a str,
    defined: BTreeSet<String>,
    /// Names that come from elsewhere, `*` for all that is there.
    passed_on: Vec<(String, Vec<String>)>,
}

impl<'a> Tree<'a> {
    fn of(sources: &'a [Source]) -> Self {
        let module = |source: &'a Source| {
            let passed_on = source.file.items.iter().filter_map(|item| match item {
                Item::Use(item) if !matches!(item.vis, Visibility::Inherited) => Some(source.brought_in(item)),
                _ => None,
            });
            let passed_on = passed_on.flatten().map(|(path, name)| (name, path)).collect();
            Module { path: &source.path, defined: defined(&source.file.items), passed_on }
        };
        Self { modules: sources.iter().map(|source| (source.module(), module(source))).collect() }
    }

    /// The file in which what `path` names is defined.
    fn file(&self, path: &[String], depth: usize) -> Option<String> {
        let length = (1..=path.len()).rev().find(|length| self.modules.contains_key(&path[..*length]))?;
        let module = &self.modules[&path[..length]];
        let Some(name) = path.get(length).filter(|name| !module.defined.contains(*name)) else {
            return Some(module.path.to_owned());
        };
        let from = module.passed_on.iter().find(|(passed, _)| passed == name);
        let all = module.passed_on.iter().filter(|(passed, _)| passed == "*");
        let candidates = from.into_iter().chain(all).filter(|_| depth < 8);
        let found = candidates.filter_map(|(passed, from)| {
            let mut target = absolute(&path[..length], from, self)?;
            if passed == "*" {
                target.push(name.clone());
            }
            self.file(&target, depth + 1)
        });
        found.into_iter().next().or_else(|| Some(module.path.to_owned()))
    }
}

fn defined(items: &[Item]) -> BTreeSet<String> {
    let name = |item: &Item| match item {
        Item::Const(item) => Some(item.ident.to_string()),
        Item::Enum(item) => Some(item.ident.to_string()),
        Item::Fn(item) => Some(item.sig.ident.to_string()),
        Item::Macro(item) => item.ident.as_ref().map(ToString::to_string),
        Item::Static(item) => Some(item.ident.to_string()),
        Item::Struct(item) => Some(item.ident.to_string()),
        Item::Trait(item) => Some(item.ident.to_string()),
        Item::Type(item) => Some(item.ident.to_string()),
        _ => None,
    };
    items.iter().filter_map(name).collect()
}

/// The paths that a file names: those of its `use` lines that count, and those in its code.
fn named(source: &Source, counts: fn(&ItemUse) -> bool) -> Vec<Vec<String>> {
    let lines = source.file.items.iter().filter_map(|item| match item {
        Item::Use(item) if counts(item) => Some(source.brought_in(item)),
        _ => None,
    });
    let used = lines.flatten().map(|(path, _)| path);
    let named = source.paths.iter().filter(|path| path.len() > 1).cloned();
    used.chain(named.map(|path| source.in_one_crate(path))).collect()
}

/// The full paths of a `use` line, and the names that they have then.
pub fn spread(tree: &UseTree) -> Vec<(Vec<String>, String)> {
    match tree {
        UseTree::Path(path) => spread(&path.tree)
            .into_iter()
            .map(|(tail, name)| ([vec![path.ident.to_string()], tail].concat(), name))
            .map(|(path, name)| {
                if name == "self" {
                    (path[..path.len() - 1].to_vec(), path[path.len() - 2].clone())
                } else {
                    (path, name)
                }
            })
            .collect(),
        UseTree::Name(name) => vec![(vec![name.ident.to_string()], name.ident.to_string())],
        UseTree::Rename(rename) => vec![(vec![rename.ident.to_string()], rename.rename.to_string())],
        UseTree::Glob(_) => vec![(Vec::new(), "*".to_owned())],
        UseTree::Group(group) => group.items.iter().flat_map(spread).collect(),
    }
}

/// `path` as `module` means it, from the crate's root; none if it leads out of the crate.
fn absolute(module: &[String], path: &[String], tree: &Tree<'_>) -> Option<Vec<String>> {
    let mut base = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => module.to_vec(),
        child => {
            let inside = [module, &[child.to_owned()]].concat();
            return tree.modules.contains_key(&inside).then(|| [module, path].concat());
        }
    };
    let mut remaining = path;
    while let Some((first, after)) = remaining.split_first() {
        match first.as_str() {
            "crate" | "self" => {}
            "super" => {
                base.pop()?;
            }
            _ => break,
        }
        remaining = after;
    }
    Some([&base, remaining].concat())
}
