//! The time axis shared by timeline and heat map: a run from its first level's warm-up to its last window.

use maud::{Markup, html};

use crate::clock::Stamp;
use crate::draw::{Anchor, Frame, Labels, Scale, Spot, dim, n};
use crate::number::short;
use crate::pictures::common::{Shown, level};
use crate::result::summary::LevelSummary;

/// A run's time, in seconds from its beginning.
pub struct TimeAxis<'a> {
    began: Stamp,
    /// From the beginning to the end.
    pub scale: Scale,
    /// Levels that have windows.
    pub levels: Vec<&'a LevelSummary>,
}

impl<'a> TimeAxis<'a> {
    /// The axis of a run; `None` without windows.
    pub fn new(shown: &Shown<'a>) -> Option<Self> {
        let with_windows = shown.result.levels.iter().filter(|level| !level.windows.is_empty());
        let mut levels: Vec<&LevelSummary> = with_windows.collect();
        // Levels that were measured once more come later than their position.
        levels.sort_by_key(|level| load_began(level));
        let began = levels.iter().map(|level| load_began(level)).min()?;
        let end = levels
            .iter()
            .filter_map(|level| level.windows.last())
            .map(|row| row.start.plus_duration(row.duration))
            .max()?;
        let high = (end - began).as_secs_f64().max(1e-3);
        Some(Self { began, scale: Scale::Linear { low: 0.0, high }, levels })
    }

    /// Seconds from the beginning.
    pub fn seconds(&self, at: Stamp) -> f64 {
        if at >= self.began { (at - self.began).as_secs_f64() } else { 0.0 }
    }

    /// `12 s`, `5 min`.
    pub fn label(&self, seconds: f64) -> String {
        let Scale::Linear { high, .. } = self.scale else { return short(seconds) };
        if high > 600.0 { format!("{} min", short(seconds / 60.0)) } else { format!("{} s", short(seconds)) }
    }

    /// The background: warm-up and other excluded time in grey, the edges of levels, and above them their names.
    pub fn background(&self, frame: &Frame, named: bool) -> Markup {
        let position = |at: Stamp| frame.x(self.scale.position(self.seconds(at)));
        let mut labels = Labels::within(frame.left, frame.right() + 6.0);
        let names = self.levels.iter().filter(|_| named).filter_map(|summary| {
            let spot = Spot { x: position(load_began(summary)) + 3.0, y: frame.top - 5.0, anchor: Anchor::Start };
            let name = level(summary);
            labels.place(&name, &[spot]).map(|(spot, hidden)| (spot, hidden, name))
        });
        let names: Vec<(Spot, bool, String)> = names.collect();
        html! {
            @for summary in &self.levels {
                @let (from, to) = (position(load_began(summary)), position(summary.windows[0].start));
                rect.idle x=(n(from)) y=(n(frame.top)) width=(n((to - from).max(0.0))) height=(n(frame.height)) fill="#dfe3e8" {}
                @for (from, to) in uncounted(summary) {
                    rect.aside x=(n(position(from))) y=(n(frame.top)) width=(n(position(to) - position(from))) height=(n(frame.height))
                        fill="#eef0f3" {}
                }
                line.edge x1=(n(from)) x2=(n(from)) y1=(n(frame.top)) y2=(n(frame.bottom())) stroke="#9aa5b1" {}
            }
            @for (spot, hidden, name) in &names {
                g.t2[*hidden] { (dim(spot.x, spot.y, spot.anchor, name)) }
            }
        }
    }
}

/// When a level's load began; if that is not known, its first window.
fn load_began(level: &LevelSummary) -> Stamp {
    let first = level.windows.first().map_or(level.client.start, |row| row.start);
    if level.timeline.began == Stamp::default() { first } else { level.timeline.began.min(first) }
}

/// Spans of windows that do not count.
fn uncounted(level: &LevelSummary) -> Vec<(Stamp, Stamp)> {
    let mut stretches: Vec<(Stamp, Stamp)> = Vec::new();
    for row in level.windows.iter().filter(|row| !row.counted) {
        let end = row.start.plus_duration(row.duration);
        match stretches.last_mut() {
            Some(last) if last.1 == row.start => last.1 = end,
            _ => stretches.push((row.start, end)),
        }
    }
    stretches
}
