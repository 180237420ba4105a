//! Primitives of pictures: SVG without a library. Colours and sizes are attributes, so that a picture looks the same
//! where style sheets are forbidden; additional classes let the report's style sheet turn it dark.
//!
//! The same picture is shown on anything from 320 px to paper: units are those of a `viewBox` 640 wide, and the style
//! sheet enlarges text on narrow screens. So there is room for that, and every second label has the class `t2`, which
//! narrow screens hide.

mod arms;
mod axis;
mod basics;
mod labels;
mod marks;
mod scale;
mod series;

pub use arms::{Arms, BEYOND, near};
pub use axis::{Axis, axes, grid};
pub use basics::{
    Anchor, Colour, Frame, HEAT, KINDS, WIDTH, coloured, colours, dim, n, of_kind, of_order, picture, text,
};
pub use labels::{Labels, Spot};
pub use marks::Mark;
pub use scale::{Scale, Scales, Tick};
pub use series::{Polyline, dash, peaks, spread, step_path};
