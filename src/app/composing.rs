//! The models that a model calls: steps of an ensemble, however deep, and the models that a BLS model is declared to
//! call.

use std::collections::{HashMap, HashSet};

use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::measure::server::{MAX_DEPTH, MAX_PARTS};
use crate::model::{CorrelationForm, ModelId, ModelSpec, Scheduler};
use crate::stdio::note;

/// Limit on the models that a model calls, directly or through others.
const MAX_MODELS: usize = 1_000;

/// The models `roots`, and every model that they call, each once. Roots that call a sequence model are marked as taking
/// sequences, because the server passes a request's correlation ID on.
///
/// # Errors
/// If a model is not available, or models call each other without end.
pub fn with_composing(backend: &dyn Backend, roots: &mut [ModelSpec], bls: &[ModelId]) -> Result<Vec<ModelSpec>> {
    let mut all = roots.to_vec();
    let mut known_ids: HashSet<ModelId> = all.iter().map(|model| model.id.clone()).collect();
    let mut layer: Vec<ModelId> = called(roots, bls).filter(|id| known_ids.insert(id.clone())).collect();
    let mut depth = 1;
    while !layer.is_empty() {
        depth += 1;
        if depth > MAX_DEPTH || known_ids.len() > MAX_MODELS {
            let (root, last) = (&roots[0].id, &layer[0]);
            return Err(Error::server(format!(
                "model '{root}': its calls lead down to '{last}', {depth} deep and {} models in total; at most \
                    {MAX_DEPTH} deep and {MAX_MODELS} in total are followed; measure a part of it",
                known_ids.len()
            )));
        }
        let models = layer.iter().map(|id| backend.model(id)).collect::<Result<Vec<_>>>()?;
        layer = called(&models, &[]).filter(|id| known_ids.insert(id.clone())).collect();
        all.extend(models);
    }
    let graph = Graph { models: all.iter().map(|model| (&model.id, model)).collect(), bls };
    for root in roots {
        let sequential = graph.sequence_models(root);
        root.sequences = !sequential.is_empty();
        // One that declares nothing takes either form.
        let wants_text = sequential.iter().any(|model| model.correlation == CorrelationForm::Text);
        root.correlation = if wants_text { CorrelationForm::Text } else { CorrelationForm::Number };
        if graph.parts(root) > MAX_PARTS {
            note!(
                "model '{}': its models call each other in more than {MAX_PARTS} ways; the server's figures leave \
                    out the rest",
                root.id
            );
        }
    }
    Ok(all)
}

/// The models that some models call, and the further ones that BLS models call.
fn called<'a>(models: &'a [ModelSpec], bls: &'a [ModelId]) -> impl Iterator<Item = ModelId> + 'a {
    models.iter().flat_map(|model| &model.composing).chain(bls).cloned()
}

/// The graph of calls between models.
struct Graph<'a> {
    models: HashMap<&'a ModelId, &'a ModelSpec>,
    /// Models called by BLS roots.
    bls: &'a [ModelId],
}

impl<'a> Graph<'a> {
    fn find(&self, ids: &'a [ModelId]) -> impl Iterator<Item = &'a ModelSpec> {
        ids.iter().filter_map(|id| self.models.get(id).copied())
    }

    /// Of a root and the models that it calls, those that are scheduled by sequences.
    fn sequence_models(&self, root: &ModelSpec) -> Vec<&'a ModelSpec> {
        let mut found = Vec::new();
        let mut waiting: Vec<&ModelSpec> = self.models.get(&root.id).copied().into_iter().collect();
        waiting.extend(self.find(self.bls));
        let mut known_ids: HashSet<&ModelId> = waiting.iter().map(|model| &model.id).collect();
        while let Some(model) = waiting.pop() {
            if model.scheduler == Scheduler::Sequence {
                found.push(model);
            }
            waiting.extend(self.find(&model.composing).filter(|called| known_ids.insert(&called.id)));
        }
        found
    }

    /// Number of parts of a root's server figures: a model counts once for each path on which it is reached.
    fn parts(&self, root: &ModelSpec) -> usize {
        let mut counts = HashMap::new();
        let root_parts = self.models.get(&root.id).map_or(0, |root| self.parts_of(root, &mut counts));
        self.find(self.bls).map(|called| self.parts_of(called, &mut counts)).fold(root_parts, usize::saturating_add)
    }

    fn parts_of(&self, model: &'a ModelSpec, counts: &mut HashMap<&'a ModelId, usize>) -> usize {
        // Calls of a model to itself are not followed again.
        if let Some(&parts) = counts.get(&model.id) {
            return parts;
        }
        counts.insert(&model.id, 0);
        let parts =
            self.find(&model.composing).map(|called| self.parts_of(called, counts)).fold(1, usize::saturating_add);
        counts.insert(&model.id, parts);
        parts
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::backend::{Capabilities, Client, ClientSpec, CompletionSink};
    use crate::backends::null::NullBackend;
    use crate::model::statistics::StatisticsSnapshot;

    /// A server whose models call what `calls` says; those called `seq…` take sequences.
    struct Server<F>(F);

    impl<F: Fn(&str) -> Vec<String> + Send + Sync> Backend for Server<F> {
        fn capabilities(&self) -> Capabilities {
            NullBackend.capabilities()
        }

        fn model(&self, id: &ModelId) -> Result<ModelSpec> {
            let composing = (self.0)(&id.name).into_iter().map(ModelId::latest).collect();
            let sequence = id.name.starts_with("seq");
            let scheduler = if sequence { Scheduler::Sequence } else { Scheduler::Default };
            Ok(ModelSpec { composing, scheduler, sequences: sequence, ..NullBackend.model(id)? })
        }

        fn statistics(&self, id: &ModelId) -> Result<StatisticsSnapshot> {
            NullBackend.statistics(id)
        }

        fn metrics(&self, _: usize, line: &mut dyn FnMut(&str)) -> Result<()> {
            NullBackend.metrics(0, line)
        }

        fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
            NullBackend.open_client(spec, sink)
        }
    }

    /// The models of a root, and whether the root takes sequences.
    fn traverse(calls: impl Fn(&str) -> Vec<String> + Send + Sync, bls: &[&str]) -> Result<(usize, bool)> {
        let server = Server(calls);
        let mut roots = [server.model(&ModelId::latest("root"))?];
        let bls: Vec<_> = bls.iter().map(|name| ModelId::latest(*name)).collect();
        with_composing(&server, &mut roots, &bls).map(|all| (all.len(), roots[0].sequences))
    }

    #[test]
    fn sequences_are_found_however_deep_and_each_model_once() {
        let calls = |deepest: &'static str| {
            move |name: &str| match name {
                "root" => vec!["a".to_owned(), "b".to_owned()],
                "a" => vec!["b".to_owned(), "root".to_owned()],
                "b" => vec![deepest.to_owned(), "a".to_owned()],
                _ => Vec::new(),
            }
        };
        assert_eq!(traverse(calls("plain"), &[]).unwrap(), (4, false));
        assert_eq!(traverse(calls("seq"), &[]).unwrap(), (4, true));
        assert_eq!(traverse(|_| Vec::new(), &["x", "seq"]).unwrap(), (3, true), "a BLS model");
        assert_eq!(
            traverse(|name| if name == "x" { vec!["seq".to_owned()] } else { vec![] }, &["x"]).unwrap(),
            (3, true)
        );
    }

    #[test]
    fn what_has_no_end_is_refused_and_many_ways_are_not() {
        let ever_new = |name: &str| vec![format!("{name}+")];
        let message = traverse(ever_new, &[]).unwrap_err().to_string();
        assert!(message.starts_with("model 'root': ") && message.contains("at most 16 deep"), "{message}");
        let many = |name: &str| if name == "root" { (0..2000).map(|n| n.to_string()).collect() } else { vec![] };
        assert!(traverse(many, &[]).unwrap_err().to_string().contains("1000 in total"));
        // 6^14 ways through 14 layers of 6.
        let layers = |name: &str| {
            let layer: usize = name.split('.').next().unwrap().parse().unwrap_or(0);
            if layer < 14 { (0..6).map(|n| format!("{}.{n}", layer + 1)).collect() } else { vec![] }
        };
        assert_eq!(traverse(layers, &[]).unwrap(), (1 + 6 * 14, false));
    }
}
