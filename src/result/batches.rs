//! The batch sizes that the server executed.

use crate::summary::ServerSummary;

/// In which batches a model was executed.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutedBatches<'a> {
    /// The model's name.
    pub model: &'a str,
    /// Inferences an execution.
    pub average: f64,
    /// For each size, ascending, the share of the executions that it had, 0 to 1, and that of the inferences.
    pub sizes: Vec<(u64, f64, f64)>,
}

/// Those of a model and of all that it calls, except models for which the server reports no batches.
pub fn executed_batches(server: &ServerSummary) -> Vec<ExecutedBatches<'_>> {
    let batches = server.delta.batches.iter().map(|(size, executions)| (*size, *executions as f64));
    let executions: f64 = batches.clone().map(|(_, executions)| executions).sum();
    let inferences: f64 = batches.clone().map(|(size, executions)| size as f64 * executions).sum();
    let server_batches = (inferences > 0.0).then(|| ExecutedBatches {
        model: &server.name,
        average: inferences / executions,
        sizes: batches.map(|(size, count)| (size, count / executions, size as f64 * count / inferences)).collect(),
    });
    server_batches.into_iter().chain(server.composing.iter().flat_map(executed_batches)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::statistics::ModelStatistics;

    #[test]
    fn batches_are_counted_by_size() {
        let delta = ModelStatistics { batches: [(1, 3), (5, 1)].into(), ..ModelStatistics::default() };
        let (name, version) = ("m".to_owned(), "1".to_owned());
        let server =
            ServerSummary { name, version, delta, cached: false, several_versions: false, composing: Vec::new() };
        let batches = executed_batches(&server);
        assert_eq!((batches[0].average, batches[0].sizes.clone()), (2.0, vec![(1, 0.75, 0.375), (5, 0.25, 0.625)]));
        assert!(executed_batches(&ServerSummary { delta: ModelStatistics::default(), ..server }).is_empty());
    }
}
