//! The pictures of the report, each a function of results.

mod common;
mod failures;
mod forest;
mod heat;
mod load_curve;
mod pareto;
mod rounds;
mod sizes;
mod spectrum;
mod time_axis;
mod timeline;
mod tokens;
mod waterfall;

use maud::Markup;

use crate::terms::Picture;

pub use common::{Shown, figure_name, full_name, letter, level, load, variant_figure};
pub use failures::none as no_failures;
pub use forest::{MARGIN, change};
pub use pareto::draw as tuned;
pub use rounds::draw as of_rounds;
pub use sizes::{OverSize, draw as over_size};
pub use waterfall::{Part, parts};

pub use crate::number::{rate, short, time};

/// Draws a picture; `None` if the results have nothing to show in it. Of several results, what happened over time is
/// that of `main`.
pub fn draw(picture: Picture, results: &[Shown<'_>], main: usize) -> Option<Markup> {
    match picture {
        Picture::Throughput => load_curve::draw(results),
        Picture::Tokens => tokens::times(results),
        Picture::Interactivity => tokens::interactivity(results),
        Picture::Spectrum => spectrum::draw(results),
        Picture::Timeline => timeline::draw(results.get(main)?),
        Picture::Heatmap => heat::draw(results.get(main)?),
        Picture::Waterfall => waterfall::draw(results.get(main)?),
        Picture::Failures => failures::draw(results.get(main)?),
        Picture::Comparison => forest::draw(results),
        Picture::Sizes => over_size(results.get(main)?.result.variants.as_ref()?, 0, OverSize::Latency),
        Picture::Bandwidth => over_size(results.get(main)?.result.variants.as_ref()?, 0, OverSize::Bandwidth),
        Picture::Rounds => {
            let variants = results.get(main)?.result.variants.as_ref()?;
            of_rounds(variants, variants.cells.first()?)
        }
    }
}
