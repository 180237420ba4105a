//! Axes: lines, round values and titles.

use maud::{Markup, html};

use crate::report::draw::basics::{Anchor, Frame, dim, n};
use crate::report::draw::scale::{Scale, Tick};

/// An axis.
pub struct Axis<'a> {
    /// Its scale.
    pub scale: Scale,
    /// Which values are labelled.
    pub ticks: Vec<Tick>,
    /// The text of a label.
    pub label: &'a dyn Fn(f64) -> String,
    /// What the values are, with the unit if the labels have none.
    pub title: &'a str,
}

/// Both axes of a frame and the grid between them. The title of the vertical one is above it.
pub fn axes(frame: &Frame, x: &Axis<'_>, y: &Axis<'_>) -> Markup {
    html! {
        (grid(frame, y))
        @for tick in &x.ticks {
            @let at = frame.x(x.scale.place(tick.value));
            line.grid x1=(n(at)) x2=(n(at)) y1=(n(frame.top)) y2=(n(frame.bottom() + 4.0)) stroke="#e3e7eb" {}
            (label(tick, &dim(at, frame.bottom() + 20.0, Anchor::Middle, &(x.label)(tick.value))))
        }
        line.axis x1=(n(frame.left)) x2=(n(frame.right())) y1=(n(frame.bottom())) y2=(n(frame.bottom())) stroke="#7b8794" {}
        @if !x.title.is_empty() {
            (dim(frame.right(), frame.bottom() + 42.0, Anchor::End, x.title))
        }
    }
}

/// The vertical axis alone, with its grid lines.
pub fn grid(frame: &Frame, y: &Axis<'_>) -> Markup {
    html! {
        @for tick in &y.ticks {
            @let at = frame.y(y.scale.place(tick.value));
            line.grid x1=(n(frame.left)) x2=(n(frame.right())) y1=(n(at)) y2=(n(at)) stroke="#e3e7eb" {}
            (label(tick, &dim(frame.left - 7.0, at + 4.0, Anchor::End, &(y.label)(tick.value))))
        }
        @if !y.title.is_empty() {
            (dim(4.0, frame.top - 24.0, Anchor::Start, y.title))
        }
    }
}

/// Labels that narrow screens may hide have a class.
fn label(tick: &Tick, text: &Markup) -> Markup {
    if tick.minor {
        html! { g.t2 { (text) } }
    } else {
        text.clone()
    }
}
