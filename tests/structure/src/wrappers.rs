//! A type that wraps a backend implements every method of the trait: where it leaves one out, the trait's own answer
//! takes the place of the wrapped backend's.

use std::collections::{BTreeMap, BTreeSet};

use quote::ToTokens;
use syn::visit::Visit;
use syn::{ImplItem, ItemImpl, ItemStruct, ItemTrait, TraitItem, Type};

use crate::source::Source;

/// Names of methods.
type Methods = BTreeSet<String>;

/// What sources contain of a trait: its methods, the types that have a field of `dyn Trait`, and what each type implements.
#[derive(Default)]
struct Found<'a> {
    name: &'a str,
    methods: Methods,
    holders: BTreeSet<String>,
    implemented: BTreeMap<String, Methods>,
}

impl<'a> Visit<'a> for Found<'_> {
    fn visit_item_trait(&mut self, item: &'a ItemTrait) {
        if item.ident == self.name {
            self.methods.extend(item.items.iter().filter_map(|item| match item {
                TraitItem::Fn(method) => Some(method.sig.ident.to_string()),
                _ => None,
            }));
        }
    }

    fn visit_item_struct(&mut self, item: &'a ItemStruct) {
        let holds = |field: &syn::Field| {
            let text = field.ty.to_token_stream().to_string();
            let words: Vec<&str> = text.split_whitespace().collect();
            ["dyn", self.name].iter().all(|word| words.contains(word))
        };
        if item.fields.iter().any(holds) {
            self.holders.insert(item.ident.to_string());
        }
    }

    fn visit_item_impl(&mut self, item: &'a ItemImpl) {
        let of_trait = item.trait_.as_ref().and_then(|(path, _)| path.segments.last());
        let Type::Path(self_type) = &*item.self_ty else { return };
        let (Some(implemented), Some(self_type)) = (of_trait, self_type.path.segments.last()) else { return };
        if implemented.ident == self.name {
            let methods = item.items.iter().filter_map(|item| match item {
                ImplItem::Fn(method) => Some(method.sig.ident.to_string()),
                _ => None,
            });
            self.implemented.entry(self_type.ident.to_string()).or_default().extend(methods);
        }
    }
}

/// The types that implement the trait `name` and have a field of `dyn name`, each with the methods that it leaves out.
fn left_out(sources: &[Source], name: &str) -> BTreeMap<String, Methods> {
    let mut found = Found { name, ..Found::default() };
    sources.iter().for_each(|source| found.visit_file(&source.file));
    let Found { methods, holders, mut implemented, .. } = found;
    implemented.retain(|name, _| holders.contains(name));
    implemented.into_iter().map(|(name, has)| (name, methods.difference(&has).cloned().collect())).collect()
}

/// Every wrapper of a backend passes every call on.
pub fn a_wrapped_backend_is_asked_everything(sources: &[Source]) {
    let wrappers = left_out(sources, "Backend");
    assert!(wrappers.contains_key("CountedTokens"), "wrappers are found: {wrappers:?}");
    let gaps: Vec<_> = wrappers.iter().filter(|(_, methods)| !methods.is_empty()).collect();
    assert!(gaps.is_empty(), "the trait answers in place of the wrapped backend: {gaps:?}");
}

#[test]
fn what_a_wrapper_leaves_out_is_found() {
    let sources = [
        Source::parse("a.rs", "trait T { fn a(&self); fn b(&self) {} }\nstruct W { inner: Arc<dyn T> }"),
        Source::parse(
            "b.rs",
            "impl T for W { fn a(&self) {} }\nstruct Own;\nimpl crate::a::T for Own { fn a(&self) {} }",
        ),
    ];
    assert_eq!(left_out(&sources, "T"), BTreeMap::from([("W".to_owned(), Methods::from(["b".to_owned()]))]));
}
