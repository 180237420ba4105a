//! Settings of runs on TorchServe.

/// Settings of runs on TorchServe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TorchServePlan {
    /// Where it is managed; `None` asks nothing of it.
    pub management_url: Option<String>,
    /// The key that it wants there; `None` leaves the headers as they are.
    pub management_key: Option<String>,
}
