//! Parameters that are tuples: values without names, which a caller can swap.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{FnArg, ItemType, ItemUse, Pat, Signature, Type};

use crate::source::Source;

/// The functions that take a tuple, by pattern, by type or by the name of such a type, as `file:line: function`.
pub fn takers(sources: &[Source]) -> Vec<String> {
    let mut aliases = Aliases::default();
    for source in sources {
        aliases.module = source.module();
        aliases.visit_file(&source.file);
    }
    let in_source = |source: &Source| {
        let mut takers = Takers { names: names_in(source, &aliases.found), path: &source.path, found: Vec::new() };
        takers.visit_file(&source.file);
        takers.found
    };
    sources.iter().flat_map(in_source).collect()
}

/// A name for a tuple, such as `type Way = (Connect, Ranks);`.
struct Alias {
    module: Vec<String>,
    name: String,
}

#[derive(Default)]
struct Aliases {
    module: Vec<String>,
    found: Vec<Alias>,
}

impl<'a> Visit<'a> for Aliases {
    fn visit_item_type(&mut self, item: &'a ItemType) {
        if is_tuple(&item.ty, &BTreeSet::new()) {
            self.found.push(Alias { module: self.module.clone(), name: item.ident.to_string() });
        }
    }
}

/// The names for tuples that a file defines, or imports in a `use` that names their module.
fn names_in(source: &Source, aliases: &[Alias]) -> BTreeSet<String> {
    let mut imports = Imports::default();
    imports.visit_file(&source.file);
    let imports = |alias: &Alias| {
        let has = |words: &BTreeSet<String>| {
            words.contains(&alias.name) && alias.module.last().is_none_or(|module| words.contains(module))
        };
        imports.0.iter().any(has)
    };
    let module = source.module();
    let is_known = |alias: &&Alias| alias.module == module || imports(alias);
    aliases.iter().filter(is_known).map(|alias| alias.name.clone()).collect()
}

/// The words of each `use`.
#[derive(Default)]
struct Imports(Vec<BTreeSet<String>>);

impl<'a> Visit<'a> for Imports {
    fn visit_item_use(&mut self, item: &'a ItemUse) {
        let mut words = BTreeSet::new();
        gather(item.tree.to_token_stream(), &mut words);
        self.0.push(words);
    }
}

fn gather(tokens: TokenStream, words: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            proc_macro2::TokenTree::Ident(ident) => drop(words.insert(ident.to_string())),
            proc_macro2::TokenTree::Group(group) => gather(group.stream(), words),
            _ => {}
        }
    }
}

struct Takers<'a> {
    names: BTreeSet<String>,
    path: &'a str,
    found: Vec<String>,
}

impl<'a> Visit<'a> for Takers<'_> {
    fn visit_signature(&mut self, signature: &'a Signature) {
        let takes = |input: &FnArg| match input {
            FnArg::Typed(input) => matches!(*input.pat, Pat::Tuple(_)) || is_tuple(&input.ty, &self.names),
            FnArg::Receiver(_) => false,
        };
        if signature.inputs.iter().any(takes) {
            self.found.push(format!("{}:{}: {}", self.path, signature.span().start().line, signature.ident));
        }
        syn::visit::visit_signature(self, signature);
    }
}

/// Whether a value of that type is a tuple, or a reference to one.
fn is_tuple(ty: &Type, names: &BTreeSet<String>) -> bool {
    match ty {
        Type::Tuple(tuple) => !tuple.elems.is_empty(),
        Type::Reference(reference) => is_tuple(&reference.elem, names),
        Type::Paren(paren) => is_tuple(&paren.elem, names),
        Type::Path(path) => path.path.segments.len() == 1 && names.contains(&path.path.segments[0].ident.to_string()),
        _ => false,
    }
}
