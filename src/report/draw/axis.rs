//! Axes: lines, round values and titles.

use maud::{Markup, html};

use crate::draw::basics::{Anchor, Frame, dim, n};
use crate::draw::labels::{FONT, NARROW_FONT, width};
use crate::draw::scale::{Scale, Tick};

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
        @for tick in fitting(frame, x) {
            @let at = frame.x(x.scale.position(tick.value));
            line.grid x1=(n(at)) x2=(n(at)) y1=(n(frame.top)) y2=(n(frame.bottom() + 4.0)) stroke="#e3e7eb" {}
            (label(&tick, &dim(at, frame.bottom() + 20.0, Anchor::Middle, &(x.label)(tick.value))))
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
            @let at = frame.y(y.scale.position(tick.value));
            line.grid x1=(n(frame.left)) x2=(n(frame.right())) y1=(n(at)) y2=(n(at)) stroke="#e3e7eb" {}
            (label(tick, &dim(frame.left - 7.0, at + 4.0, Anchor::End, &(y.label)(tick.value))))
        }
        @if !y.title.is_empty() {
            (dim(4.0, frame.top - 24.0, Anchor::Start, y.title))
        }
    }
}

/// Those ticks of a horizontal axis whose labels leave each other room; minor, if only a wide screen has it.
fn fitting(frame: &Frame, x: &Axis<'_>) -> Vec<Tick> {
    let narrow = apart(frame, x, &x.ticks, NARROW_FONT);
    let narrow = |tick: &Tick| !tick.minor && narrow.contains(tick);
    apart(frame, x, &x.ticks, FONT).into_iter().map(|tick| Tick { minor: !narrow(&tick), ..tick }).collect()
}

/// From left to right, minor ones last, every tick whose label does not touch one that is already there.
fn apart(frame: &Frame, x: &Axis<'_>, ticks: &[Tick], font: f64) -> Vec<Tick> {
    let ends = |tick: &Tick| {
        let (at, half) = (frame.x(x.scale.position(tick.value)), width(&(x.label)(tick.value), font) / 2.0);
        (at - half, at + half)
    };
    let mut kept: Vec<Tick> = Vec::new();
    let (major, minor): (Vec<Tick>, Vec<Tick>) = ticks.iter().partition(|tick| !tick.minor);
    for tick in major.into_iter().chain(minor) {
        let (left, right) = ends(&tick);
        if kept.iter().map(ends).all(|(from, to)| right < from || to < left) {
            kept.push(tick);
        }
    }
    kept
}

/// Labels that narrow screens may hide have a class.
fn label(tick: &Tick, text: &Markup) -> Markup {
    if tick.minor {
        html! { g.t2 { (text) } }
    } else {
        text.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame = Frame { left: 0.0, top: 0.0, width: 450.0, height: 100.0 };

    fn nines(decades: i32) -> Vec<Tick> {
        let minor = [2.0, 4.0, 20.0].map(|value| Tick { value, minor: true });
        let major = (0..=decades).map(|power| Tick { value: 10_f64.powi(power), minor: false });
        major.chain(minor).collect()
    }

    fn shown(decades: i32) -> (Vec<f64>, Vec<f64>) {
        let scale = Scale::Log { low: 1.0, high: 10_f64.powi(decades) };
        let label = |value: f64| format!("{:.*} %", (value.log10() as usize).saturating_sub(2), 100.0 - 100.0 / value);
        let fitting = fitting(&FRAME, &Axis { scale, ticks: nines(decades), label: &label, title: "" });
        let wide = fitting.iter().map(|tick| tick.value).collect();
        (wide, fitting.iter().filter(|tick| !tick.minor).map(|tick| tick.value).collect())
    }

    #[test]
    fn labels_leave_each_other_room() {
        assert_eq!(shown(2), (vec![1.0, 10.0, 100.0, 2.0, 4.0, 20.0], vec![1.0, 10.0, 100.0]));
        assert_eq!(shown(5).0, [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 4.0], "50 % and 95 % are too near");
        let (wide, narrow) = shown(6);
        assert_eq!(wide, [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
        assert_eq!(narrow, [1.0, 10.0, 100.0, 1e3, 1e5]);
        assert!(shown(12).0.len() < 10, "{:?}", shown(12));
    }
}
