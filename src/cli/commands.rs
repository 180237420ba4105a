//! The commands.

use crate::subcommand::Subcommand;
use crate::{compare, doctor, help, init, models, pages, shell, trace_summary, tune};

/// All commands, the usual ones first.
pub const ALL: &[Subcommand] = &[
    compare::SUBCOMMAND,
    pages::SUBCOMMAND,
    models::SUBCOMMAND,
    init::SUBCOMMAND,
    tune::SUBCOMMAND,
    doctor::SUBCOMMAND,
    trace_summary::SUBCOMMAND,
    shell::COMPLETIONS,
    shell::MAN,
    help::SUBCOMMAND,
];
