//! The files of a run's single requests.

use std::path::Path;
use std::sync::Arc;

use crate::app::session::Session;
use crate::clock::WallAnchor;
use crate::error::Result;
use crate::interrupt;
use crate::report::export::{ExportSpec, ExportWriter, RequestFile, table};

impl Session {
    /// The files of single requests that the plan asks for.
    pub(super) fn request_files(&self) -> Result<Vec<Box<dyn RequestFile>>> {
        let output = &self.plan.output;
        let json = output.profile_export.as_deref().map(|path| {
            ExportWriter::create(self.export_spec(path)).map(|writer| Box::new(writer) as Box<dyn RequestFile>)
        });
        let table = output.requests.as_deref().map(|path| table::create(self.export_spec(path)));
        json.into_iter().chain(table).collect()
    }

    fn export_spec(&self, path: &Path) -> ExportSpec {
        let plan = &self.plan;
        let outputs = self.models.iter().flat_map(|model| &model.outputs);
        ExportSpec {
            path: path.to_owned(),
            anchor: WallAnchor::take(),
            payloads: Arc::clone(&self.payloads),
            outputs: outputs.map(|output| output.name.clone()).collect(),
            service_kind: self.backend.capabilities().exported_kind(),
            as_upstream: plan.output.as_upstream,
            endpoint: plan.target.openai.endpoint.clone(),
            headline: self.setup.headline,
            entries: self.setup.entries.iter().map(|entry| entry.name.clone()).collect(),
            unnumbered: plan.load.mode.sessions().is_some() || plan.load.mode.is_fixed_schedule(),
            interrupts: interrupt::counter(),
        }
    }
}
