//! Pictures as pixels: `--svg FIGURE:FILE.png`, for programs that take no SVG.
//!
//! Text is set in a font of this machine. Without any, a chart would have neither axes nor names, so that is refused before
//! anything is measured. A program that was built without PNG refuses such a file on its command line.

use std::path::Path;

/// Whether a picture is written as PNG: the end of its name says so.
pub fn is_png(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png"))
}

#[cfg(feature = "png")]
mod pixels;
#[cfg(feature = "png")]
pub use pixels::{check, png};

/// What a program says that was built without PNG; the command line has refused such a file before.
#[cfg(not(feature = "png"))]
const WITHOUT: &str = "this program was built without PNG";

/// Fails: there is nothing here that could make it.
///
/// # Errors
/// Always.
#[cfg(not(feature = "png"))]
pub fn check() -> Result<(), String> {
    Err(WITHOUT.to_owned())
}

/// Fails: there is nothing here that could make it.
///
/// # Errors
/// Always.
#[cfg(not(feature = "png"))]
pub fn png(_: &str) -> Result<Vec<u8>, String> {
    Err(WITHOUT.to_owned())
}
