//! Pictures and tables of results for people.

use std::path::PathBuf;

use crate::terms::PictureFile;

/// Pictures and tables of results for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// The report, a self-contained page.
    pub html: Option<PathBuf>,
    /// Single pictures.
    pub figures: Vec<PictureFile>,
    /// A table for a pull request.
    pub markdown: Option<PathBuf>,
}

/// What the command `report` reads and writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportOf {
    /// Results, starting with the one that the others are compared with.
    pub results: Vec<PathBuf>,
    /// What is made from them.
    pub pages: Pages,
}
