//! What KServe v2 servers may lack: everything that Triton has beyond the required protocol. MLServer, the KServe
//! Python server and OpenVINO Model Server speak the protocol and support few of its extensions.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::model::ModelSpec;
use crate::stdio::note;

/// The extensions that a server lists in its metadata, as far as they matter here.
#[derive(Debug, Default)]
pub struct Extensions {
    /// It counts inferences.
    pub statistics: bool,
    /// Over HTTP, tensors may follow the JSON in binary.
    pub binary_tensors: bool,
    reported: AtomicBool,
    undescribed: AtomicBool,
}

impl Extensions {
    /// The extensions in a list.
    pub fn new(names: &[String]) -> Self {
        let lists = |wanted: &str| names.iter().any(|name| name == wanted);
        Self {
            statistics: lists("statistics"),
            binary_tensors: lists("binary_tensor_data"),
            reported: AtomicBool::new(false),
            undescribed: AtomicBool::new(false),
        }
    }

    /// Reports once that the server does not say what a model takes: MLServer and TorchServe say it only of models whose
    /// settings do.
    pub fn say_if_undescribed(&self, model: &ModelSpec) {
        if model.inputs.is_empty() && !self.undescribed.swap(true, Ordering::Relaxed) {
            note!(
                "the server does not say what model '{}' takes, so requests to it carry nothing; its settings must describe its \
                 inputs (with MLServer in model-settings.json)",
                model.id
            );
        }
    }

    /// Reports once, in one line, what the server at `url` lacks and what follows from that. `config`: it reports model
    /// configurations; `json`: tensors travel as JSON because it accepts nothing else.
    pub fn say_what_lacks(&self, url: &str, config: bool, json: bool) {
        let lacks = [
            (!config, "model configurations (models do not batch, unless -b is given and the first dimension is -1)"),
            (!self.statistics, "statistics (the report has no server figures)"),
            (json, "binary tensors over HTTP (they are sent as JSON)"),
        ];
        let named: Vec<&str> = lacks.into_iter().filter_map(|(lacking, feature)| lacking.then_some(feature)).collect();
        if !named.is_empty() && !self.reported.swap(true, Ordering::Relaxed) {
            note!("the server at {url} has no {}", named.join(", no "));
        }
    }
}
