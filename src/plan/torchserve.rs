//! What a run on TorchServe has of its own.

/// What a run on TorchServe has of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TorchServePlan {
    /// Where its metrics are, which hold counters of the models; `None` leaves the server's side out of the report.
    pub metrics_url: Option<String>,
    /// Where it is managed; `None` asks nothing of it.
    pub management_url: Option<String>,
    /// The key that it wants there; `None` leaves the headers as they are.
    pub management_key: Option<String>,
}
