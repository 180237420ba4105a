//! Intervals as arms; one that goes beyond its axis ends in an arrowhead at the edge.

use maud::{Markup, html};

use crate::draw::basics::{Colour, Frame, n};
use crate::draw::scale::Scale;
use crate::draw::series::Polyline;
use crate::stats::Interval;

/// Half the width of an arrowhead.
const HALF: f64 = 3.5;
/// Its length.
const LENGTH: f64 = 6.0;

/// What the head of an arm says.
pub const BEYOND: &str = "goes on beyond the axis";

/// The ends of arms as far as an axis has to reach: `by` times as far as any value; what is further is cut off and marked.
pub fn near(values: &[f64], arms: impl Iterator<Item = Interval>, by: f64) -> Vec<f64> {
    let positive = values.iter().filter(|value| value.is_finite() && **value > 0.0);
    let (least, most) = positive.fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(*value), high.max(*value)));
    if most == 0.0 {
        return Vec::new();
    }
    arms.flat_map(|arm| [arm.low, arm.high]).map(|end| end.clamp(least / by, most * by)).collect()
}

/// Draws the arms of points along one axis of a frame.
pub struct Arms<'a> {
    /// The frame.
    pub frame: &'a Frame,
    /// The scale of the axis.
    pub scale: Scale,
    /// The colour.
    pub colour: Colour,
}

impl Arms<'_> {
    /// One along the horizontal axis, at the height `up`.
    pub fn level(&self, up: f64, interval: Interval) -> Markup {
        self.drawn(interval, |share, aside| (self.frame.x(share), up + aside), LENGTH / self.frame.width)
    }

    /// One along the vertical axis, at `x`.
    pub fn upright(&self, x: f64, interval: Interval) -> Markup {
        self.drawn(interval, |share, aside| (x + aside, self.frame.y(share)), LENGTH / self.frame.height)
    }

    /// `point` turns a share of the axis and an offset across it into a position; a head takes that share.
    fn drawn(&self, interval: Interval, point: impl Fn(f64, f64) -> (f64, f64), head: f64) -> Markup {
        let ends = [interval.low, interval.high];
        let shares = ends.map(|end| self.scale.position(end));
        let heads = ends.into_iter().filter(|end| !self.scale.holds(*end)).map(|end| {
            let edge = self.scale.position(end);
            let base = if edge > 0.5 { edge - head } else { edge + head };
            [point(edge, 0.0), point(base, -HALF), point(base, HALF)]
        });
        html! {
            (Polyline { colour: self.colour, width: 1.6, dashes: "" }.through(&shares.map(|share| point(share, 0.0))))
            @for [tip, left, right] in heads {
                path class={ "f" (self.colour.class) } fill=(self.colour.light)
                    d={ "M" (n(tip.0)) " " (n(tip.1)) "L" (n(left.0)) " " (n(left.1)) "L" (n(right.0)) " " (n(right.1)) "Z" } {
                    title { (BEYOND) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::of_kind;

    #[test]
    fn an_arm_beyond_the_axis_has_a_head_at_the_edge() {
        let frame = Frame { left: 0.0, top: 0.0, width: 100.0, height: 100.0 };
        let arms = Arms { frame: &frame, scale: Scale::Log { low: 1.0, high: 100.0 }, colour: of_kind(0) };
        let heads = |low, high| arms.level(5.0, Interval { low, high }).into_string().matches('Z').count();
        assert_eq!([heads(1.0, 100.0), heads(0.1, 10.0), heads(0.1, 1e3), heads(2.0, 101.0)], [0, 1, 2, 1]);
        let arm = |low, high| std::iter::once(Interval { low, high });
        assert_eq!(near(&[2.0, 4.0], arm(1.9, 5.0), 2.0), [1.9, 5.0], "all of it");
        assert_eq!(near(&[2.0, 4.0, f64::NAN], arm(0.0, f64::INFINITY), 2.0), [1.0, 8.0], "as far as it is near");
        assert!(near(&[0.0], arm(1.0, 2.0), 2.0).is_empty());
        let drawn = arms.upright(7.0, Interval { low: 10.0, high: 1e4 }).into_string();
        assert!(drawn.contains("M7 0L3.5 6L10.5 6Z"), "{drawn}");
    }
}
