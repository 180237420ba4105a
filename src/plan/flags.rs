//! What the program knows of each flag of a run, in one row: whose it is, which services and processes it is for, and whether
//! it says what is measured or only what is shown.
//!
//! A rule that is about a few flags together names them where it stands. What is asked of every flag is a property here.

use crate::ServiceKind;

mod table;

pub use table::FLAGS;

/// A flag of a run.
#[derive(Clone, Copy, Debug)]
pub struct FlagTraits {
    /// Its name as in the help: `--async`, `-m`.
    pub name: &'static str,
    /// Its long name where the help shows the short one.
    long: &'static str,
    /// perf_analyzer has it.
    pub upstream: bool,
    /// It defines a load, of which there is one.
    pub load: bool,
    /// The loads that it shapes; none if it is about all.
    pub shapes: &'static [&'static str],
    /// It says where other flags come from, what is written where or what is shown, and nothing of what is measured.
    pub output: bool,
    /// It names a file that the run writes.
    pub file: bool,
    /// It is about the file of flags, which cannot contain it.
    pub of_file: bool,
    /// A result is judged by it when it is there.
    pub gate: bool,
    /// It is for the server in this process alone.
    pub embedded: bool,
    /// It is for servers on the network alone.
    pub network: bool,
    /// It means nothing without encryption.
    pub tls: bool,
    /// The services that it is for; none if it is for all.
    pub services: &'static [ServiceKind],
    /// For other services perf_analyzer ignores it.
    pub ignored_elsewhere: bool,
    /// It is about one server at a time.
    pub one_server: bool,
    /// Processes that share a load may each have another value.
    pub per_process: bool,
    /// It is about all variants of a run together.
    pub whole_run: bool,
    /// Where its values may hold credentials.
    pub secret: Option<Secret>,
    /// A search heeds it as a run does.
    pub tuned: bool,
    /// What to say in a search instead of it.
    pub instead: &'static str,
}

/// Where a value holds credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secret {
    /// From its first letter.
    Whole,
    /// Behind a colon; before it is a name.
    Named,
    /// Behind the name of a parameter that looks like one.
    Parameter,
    /// In parameters of models, behind a question mark.
    Mix,
    /// In the flags that it consists of.
    Flags,
}

const fn flag(name: &'static str) -> FlagTraits {
    FlagTraits {
        name,
        long: "",
        upstream: false,
        load: false,
        shapes: &[],
        output: false,
        file: false,
        of_file: false,
        gate: false,
        embedded: false,
        network: false,
        tls: false,
        services: &[],
        ignored_elsewhere: false,
        one_server: false,
        per_process: false,
        whole_run: false,
        secret: None,
        tuned: false,
        instead: "leave it out",
    }
}

impl FlagTraits {
    /// Its long name, without hyphens.
    pub fn long(&self) -> &'static str {
        if self.long.is_empty() { self.name.trim_start_matches('-') } else { self.long }
    }

    const fn short_for(self, long: &'static str) -> Self {
        Self { long, ..self }
    }

    const fn upstream(self) -> Self {
        Self { upstream: true, ..self }
    }

    const fn load(self) -> Self {
        Self { load: true, ..self }
    }

    const fn output(self) -> Self {
        Self { output: true, ..self }
    }

    const fn gate(self) -> Self {
        Self { gate: true, ..self }
    }

    const fn embedded(self) -> Self {
        Self { embedded: true, ..self }
    }

    const fn network(self) -> Self {
        Self { network: true, ..self }
    }

    const fn tls(self) -> Self {
        Self { tls: true, ..self }
    }

    const fn ignored_elsewhere(self) -> Self {
        Self { ignored_elsewhere: true, ..self }
    }

    const fn one_server(self) -> Self {
        Self { one_server: true, ..self }
    }

    const fn per_process(self) -> Self {
        Self { per_process: true, ..self }
    }

    const fn whole_run(self) -> Self {
        Self { whole_run: true, ..self }
    }

    const fn tuned(self) -> Self {
        Self { tuned: true, ..self }
    }

    const fn file(self) -> Self {
        Self { output: true, file: true, ..self }
    }

    const fn of_file(self) -> Self {
        Self { output: true, of_file: true, ..self }
    }

    const fn shapes(self, shapes: &'static [&'static str]) -> Self {
        Self { shapes, ..self }
    }

    const fn only(self, services: &'static [ServiceKind]) -> Self {
        Self { services, ..self }
    }

    const fn secret(self, secret: Secret) -> Self {
        Self { secret: Some(secret), ..self }
    }

    const fn instead(self, instead: &'static str) -> Self {
        Self { instead, ..self }
    }
}

/// The flag of that name, as in the help.
pub fn find(name: &str) -> Option<&'static FlagTraits> {
    FLAGS.iter().find(|flag| flag.name == name)
}

/// The flag of that long name, without hyphens.
pub fn find_long(long: &str) -> Option<&'static FlagTraits> {
    FLAGS.iter().find(|flag| flag.long() == long)
}
