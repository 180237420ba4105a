//! The commands.

use crate::cli::word::Word;
use crate::cli::{compare, doctor, help, init, models, pages, shell, trace_summary, tune};

/// All commands, the usual ones first.
pub const ALL: &[Word] = &[
    compare::WORD,
    pages::WORD,
    models::WORD,
    init::WORD,
    tune::WORD,
    doctor::WORD,
    trace_summary::WORD,
    shell::COMPLETIONS,
    shell::MAN,
    help::WORD,
];
