//! Labels that leave each other room, on wide screens and on narrow ones, whose text is larger.

use crate::draw::basics::Anchor;

/// The size of a label.
pub const FONT: f64 = 11.0;
/// The same on a narrow screen (`style.css`).
pub const NARROW_FONT: f64 = 19.0;
/// Half the width of a point.
const POINT: f64 = 4.0;

/// About the width of words with the room around them: browsers differ, and the widest of the usual fonts counts.
pub fn width(words: &str, font: f64) -> f64 {
    0.64 * font * words.chars().count() as f64 + 0.3 * font
}

/// A place for a label: where its baseline is anchored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spot {
    /// The horizontal coordinate.
    pub x: f64,
    /// The vertical coordinate.
    pub y: f64,
    /// Which end of the label is there.
    pub anchor: Anchor,
}

/// The labels of a picture so far, and what else they must not cover.
#[derive(Debug)]
pub struct Labels {
    left: f64,
    right: f64,
    wide: Vec<Area>,
    narrow: Vec<Area>,
}

impl Labels {
    /// Labels between `left`, where those of the axis end, and `right`.
    pub fn within(left: f64, right: f64) -> Self {
        Self { left, right, wide: Vec::new(), narrow: Vec::new() }
    }

    /// Labels keep away from the point at `(x, y)`.
    pub fn avoid(&mut self, x: f64, y: f64) {
        let area = Area { left: x - POINT, right: x + POINT, top: y - POINT, bottom: y + POINT };
        self.wide.push(area);
        self.narrow.push(area);
    }

    /// The first of `spots` where these words touch no earlier label, and whether narrow screens have to hide them;
    /// `None` if there is no room.
    pub fn place(&mut self, words: &str, spots: &[Spot]) -> Option<(Spot, bool)> {
        let fits = |spot: &&Spot, taken: &[Area], font: f64| {
            let area = Area::new(words, **spot, font);
            area.left >= self.left && area.right <= self.right && area.is_free(taken)
        };
        let wide = || spots.iter().filter(|spot| fits(spot, &self.wide, FONT));
        let shared_spot = wide().find(|spot| fits(spot, &self.narrow, NARROW_FONT)).copied();
        let spot = shared_spot.or_else(|| wide().next().copied())?;
        self.wide.push(Area::new(words, spot, FONT));
        self.narrow.extend(shared_spot.map(|spot| Area::new(words, spot, NARROW_FONT)));
        Some((spot, shared_spot.is_none()))
    }
}

/// What a label covers.
#[derive(Clone, Copy, Debug)]
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Area {
    fn new(words: &str, Spot { x, y, anchor }: Spot, font: f64) -> Self {
        let width = width(words, font);
        let left = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::End => x - width,
        };
        Self { left, right: left + width, top: y - 0.93 * font, bottom: y + 0.24 * font }
    }

    /// Whether it touches none of these.
    fn is_free(&self, taken: &[Self]) -> bool {
        let touches = |other: &Self| {
            self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
        };
        !taken.iter().any(touches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn spot(x: f64, y: f64, anchor: Anchor) -> Spot {
        Spot { x, y, anchor }
    }

    #[test]
    fn a_label_does_not_cover_those_of_the_axis() {
        let (left_of_a_point, right_of_it) = (spot(92.0, 50.0, Anchor::End), spot(108.0, 50.0, Anchor::Start));
        let spots = [left_of_a_point, right_of_it];
        assert_eq!(Labels::within(0.0, 640.0).place("c 4", &spots), Some((left_of_a_point, false)));
        assert_eq!(Labels::within(80.0, 640.0).place("c 4", &spots), Some((right_of_it, false)));
    }

    #[test]
    fn a_label_takes_the_first_place_where_it_touches_no_other() {
        let mut labels = Labels::within(0.0, 640.0);
        let spots = [spot(100.0, 50.0, Anchor::End), spot(100.0, 50.0, Anchor::Start), spot(100.0, 80.0, Anchor::End)];
        let taken = [(); 4].map(|()| labels.place("c 16", &spots));
        assert_eq!(taken, [Some((spots[0], false)), Some((spots[1], false)), Some((spots[2], false)), None]);
    }

    #[test]
    fn narrow_screens_hide_what_their_larger_letters_have_no_room_for() {
        let mut labels = Labels::within(0.0, 640.0);
        let at = |y: f64| [spot(100.0, y, Anchor::Start)];
        assert_eq!(labels.place("c 16", &at(50.0)), Some((at(50.0)[0], false)));
        assert_eq!(labels.place("c 32", &at(65.0)), Some((at(65.0)[0], true)));
        assert_eq!(labels.place("c 64", &at(80.0)), Some((at(80.0)[0], false)), "what is hidden takes no room");
        assert_eq!(labels.place("c 64", &[spot(20.0, 200.0, Anchor::End)]), None, "outside");
        labels.avoid(300.0, 100.0);
        assert_eq!(labels.place("c 64", &[spot(305.0, 103.0, Anchor::End)]), None, "over a point");
    }
}
