//! Marks of points: a shape for each line, which tells lines apart where colours do not.

use maud::{Markup, html};

use crate::draw::basics::{Colour, n, of_kind};

/// How far a mark reaches from its middle.
const REACH: f64 = 3.6;

/// The mark of a line's points.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Its number: a circle, a square, a triangle, a diamond, a triangle on its tip, a plus, and from the first again.
    pub shape: usize,
    /// Its colour.
    pub colour: Colour,
    /// Whether only its edge is drawn.
    pub hollow: bool,
    /// How much larger than usual it is.
    pub times: f64,
}

impl Mark {
    /// That of a line among others, by its number.
    pub fn of_line(number: usize) -> Self {
        Self { shape: number, colour: of_kind(number), hollow: false, times: 1.0 }
    }

    /// At a place; `tip` is what a pointer over it is told, if anything.
    pub fn at(&self, x: f64, y: f64, tip: &str) -> Markup {
        let Self { colour, hollow, .. } = *self;
        let class = if hollow { format!("mark hollow s{}", colour.class) } else { format!("mark f{}", colour.class) };
        let (fill, stroke) = (if hollow { "#ffffff" } else { colour.light }, hollow.then_some(colour.light));
        html! {
            path class=(class) d=(self.outline(x, y)) fill=(fill) stroke=[stroke] { @if !tip.is_empty() { title { (tip) } } }
        }
    }

    /// Shapes of about the same area.
    fn outline(&self, x: f64, y: f64) -> String {
        let r = REACH * self.times;
        let corners: &[(f64, f64)] = match self.shape % 6 {
            0 => {
                return format!(
                    "M{} {}a{r} {r} 0 1 0 {w} 0a{r} {r} 0 1 0 -{w} 0z",
                    n(x - r),
                    n(y),
                    r = n(r),
                    w = n(2.0 * r)
                );
            }
            1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            2 => &[(0.0, -1.3), (1.25, 0.9), (-1.25, 0.9)],
            3 => &[(0.0, -1.4), (1.4, 0.0), (0.0, 1.4), (-1.4, 0.0)],
            4 => &[(0.0, 1.3), (1.25, -0.9), (-1.25, -0.9)],
            _ => &[
                (-0.45, -1.3),
                (0.45, -1.3),
                (0.45, -0.45),
                (1.3, -0.45),
                (1.3, 0.45),
                (0.45, 0.45),
                (0.45, 1.3),
                (-0.45, 1.3),
                (-0.45, 0.45),
                (-1.3, 0.45),
                (-1.3, -0.45),
                (-0.45, -0.45),
            ],
        };
        let all: Vec<String> =
            corners.iter().map(|(right, down)| format!("{} {}", n(x + r * right), n(y + r * down))).collect();
        format!("M{}z", all.join("L"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_differ_in_shape_and_not_only_in_colour() {
        let outlines: std::collections::BTreeSet<String> =
            (0..6).map(|number| Mark::of_line(number).outline(10.0, 10.0)).collect();
        assert_eq!(outlines.len(), 6, "{outlines:?}");
        assert_eq!(Mark::of_line(1).outline(10.0, 10.0), "M6.8 6.8L13.2 6.8L13.2 13.2L6.8 13.2z");
        let hollow = Mark { hollow: true, ..Mark::of_line(2) }.at(1.0, 2.0, "a <b>").into_string();
        assert!(hollow.contains("mark hollow s2") && hollow.contains("<title>a &lt;b&gt;</title>"), "{hollow}");
        assert!(!Mark::of_line(0).at(1.0, 2.0, "").into_string().contains("<title>"));
    }
}
