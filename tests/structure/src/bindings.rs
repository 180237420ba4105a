//! Local names that say nothing of what they hold: pronouns and participles, which a reader has to look up.

use syn::visit::Visit;
use syn::{Pat, PatIdent, PatSlice, PatType, Type};

use crate::source::Source;

/// Names that fit anything, and so tell nothing.
const VAGUE: [&str; 14] =
    ["known", "told", "own", "one", "rest", "place", "of", "said", "seen", "given", "both", "it", "this", "what"];

/// The bindings of `let`, parameters, closures and patterns that have such a name, as `file:line: name`. A name that is its
/// type's (`given: &Given`) is none of them, nor is the `rest` of a slice pattern.
pub fn vague(sources: &[Source]) -> Vec<String> {
    let in_source = |source: &Source| {
        let mut bindings = Bindings { path: &source.path, found: Vec::new() };
        bindings.visit_file(&source.file);
        bindings.found
    };
    sources.iter().flat_map(in_source).collect()
}

struct Bindings<'a> {
    path: &'a str,
    found: Vec<String>,
}

impl<'a> Visit<'a> for Bindings<'_> {
    fn visit_pat_ident(&mut self, binding: &'a PatIdent) {
        if VAGUE.iter().any(|name| binding.ident == name) {
            let line = binding.ident.span().start().line;
            self.found.push(format!("{}:{line}: {}", self.path, binding.ident));
        }
        syn::visit::visit_pat_ident(self, binding);
    }

    fn visit_pat_type(&mut self, typed: &'a PatType) {
        if !is_named_as_its_type(typed) {
            syn::visit::visit_pat_type(self, typed);
        }
    }

    fn visit_pat_slice(&mut self, slice: &'a PatSlice) {
        for element in slice.elems.iter().filter(|element| !is_rest(element)) {
            self.visit_pat(element);
        }
    }
}

/// `rest @ ..`
fn is_rest(element: &Pat) -> bool {
    let Pat::Ident(PatIdent { ident, subpat: Some((_, pattern)), .. }) = element else { return false };
    ident == "rest" && matches!(**pattern, Pat::Rest(_))
}

/// `given: &Given`
fn is_named_as_its_type(typed: &PatType) -> bool {
    let Pat::Ident(binding) = &*typed.pat else { return false };
    type_name(&typed.ty).is_some_and(|name| binding.ident == name.to_lowercase())
}

/// The last word of a type's path, or of one that it refers to.
fn type_name(ty: &Type) -> Option<String> {
    match ty {
        Type::Reference(reference) => type_name(&reference.elem),
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}
