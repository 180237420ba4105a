//! Which service a load is for: the command line's, else the file's, else the one that inference-perf measures.

use std::ffi::OsString;

use crate::config::flags::{name_of, value_of};

/// What the command line says that the meaning of a file hangs on.
pub struct CommandLine<'a> {
    arguments: &'a [OsString],
}

/// Which service the requests go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// A server of language models.
    OpenAi,
    /// Any other on the network.
    Network,
    /// Triton in this process.
    InProcess,
    /// None: requests are answered at once.
    Mock,
}

impl Service {
    /// Whether requests go over connections.
    pub fn has_connections(self) -> bool {
        matches!(self, Self::OpenAi | Self::Network)
    }
}

impl<'a> CommandLine<'a> {
    /// The command line of these words.
    pub fn new(arguments: &'a [OsString]) -> Self {
        Self { arguments }
    }

    /// Whether a flag is given.
    pub fn has(&self, name: &str) -> bool {
        self.arguments.iter().any(|word| name_of(word) == name)
    }

    /// The service that the command line names; that of the file if it names none.
    pub fn service(&self, is_mock: bool) -> Service {
        let kind = self.arguments.iter().rev().find(|word| name_of(word) == "service-kind");
        let kind = kind.map(|word| value_of(word).to_string_lossy().to_ascii_lowercase());
        match kind.as_deref() {
            Some("openai") => Service::OpenAi,
            Some("triton_c_api") => Service::InProcess,
            Some("null") => Service::Mock,
            Some(_) => Service::Network,
            None if self.has("model-repository") => Service::InProcess,
            None if is_mock => Service::Mock,
            None => Service::OpenAi,
        }
    }
}
