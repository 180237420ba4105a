//! Chooses the points that take part in the race.

use std::collections::HashSet;

use crate::calibration::{Calibration, DOUBT, Prediction};
use crate::reason::Reason;
use crate::space::{Place, Space};

/// Maximum number of racing points; steps from the best one examine those left out.
pub const MAX_RACING: usize = 60;

/// Minimum number, however little time there is.
pub const MIN_RACING: usize = 5;

/// A point that does not race, and why.
pub type Excluded = (Place, Reason);

/// What is known before the race.
pub struct Forecast<'a> {
    /// All points.
    pub space: &'a Space,
    /// Measurements along each dimension.
    pub calibration: &'a Calibration,
    /// Whether a point could not be loaded or measured.
    pub failed: &'a dyn Fn(&Place) -> bool,
    /// Whether a point has been dropped for good.
    pub behind: &'a dyn Fn(&Place) -> bool,
    /// The best score measured with the constraints met.
    pub best: Option<f64>,
    /// Standard deviations of scores and of violations at one point.
    pub noise: (f64, f64),
    /// Number of points that there is time for.
    pub capacity: usize,
}

impl Forecast<'_> {
    /// The points that race, the most promising first, and those that are ruled out.
    pub fn choose(&self) -> (Vec<Place>, Vec<Excluded>) {
        let mut promising = Vec::new();
        let mut excluded = Vec::new();
        for place in self.space.places().filter(|place| !(self.behind)(place)) {
            match self.exclusion(&place) {
                Some(reason) => excluded.push((place, reason)),
                None => {
                    let predicted = self.calibration.predict(&place);
                    promising.push((place, predicted));
                }
            }
        }
        promising.sort_by(|(_, left), (_, right)| {
            (left.violation > DOUBT).cmp(&(right.violation > DOUBT)).then(right.score.total_cmp(&left.score))
        });
        // If there is room for few, the most promising is among them.
        let first = promising.first().map(|(place, _)| place.clone());
        let mut chosen: Vec<Place> = first.into_iter().chain(self.starts()).collect();
        chosen.extend(promising.into_iter().map(|(place, _)| place));
        let mut distinct = HashSet::new();
        chosen.retain(|place| distinct.insert(place.clone()));
        excluded.retain(|(place, _)| !distinct.contains(place));
        chosen.truncate(self.capacity.clamp(MIN_RACING, MAX_RACING));
        (chosen, excluded)
    }

    /// Points that race whatever is predicted: the base, and the cheapest with the largest batches.
    fn starts(&self) -> Vec<Place> {
        let batched = self.space.dimensions.iter().map(|dimension| match dimension.rank {
            _ if dimension.is_late => dimension.present.unwrap_or(0),
            1 => dimension.values.len() - 1,
            _ => 0,
        });
        let starts = [self.space.base(), batched.collect()];
        starts.into_iter().filter(|place| self.failed_setting(place).is_none() && !(self.behind)(place)).collect()
    }

    /// A setting of the point that alone kept another point from loading.
    pub fn failed_setting(&self, place: &Place) -> Option<String> {
        let base = self.space.base();
        let alone = |(dimension, index): (usize, &usize)| {
            let mut other = base.clone();
            other[dimension] = *index;
            let searched = &self.space.dimensions[dimension];
            (other != base && (self.failed)(&other)).then(|| format!("{} {}", searched.path, searched.values[*index]))
        };
        place.iter().enumerate().find_map(alone)
    }

    /// Why a point is not measured, if there is a reason.
    pub fn exclusion(&self, place: &Place) -> Option<Reason> {
        match self.failed_setting(place) {
            Some(setting) => Some(Reason::NotLoaded(setting)),
            None => self.against(place, self.calibration.predict(place)),
        }
    }

    /// The calibration's reason against a point.
    fn against(&self, place: &Place, predicted: Prediction) -> Option<Reason> {
        let Prediction { score, violation } = predicted;
        if !self.calibration.is_bracketed(place) {
            return None;
        }
        // A prediction contains the errors of several measurements.
        let terms = if self.calibration.saw(place) { 2.0 } else { 2.0 * self.space.dimensions.len() as f64 + 2.0 };
        let doubt = |noise: f64| DOUBT + 2.0 * noise * f64::sqrt(terms);
        if violation > doubt(self.noise.1) {
            return Some(Reason::PredictedToMiss(violation.exp()));
        }
        let best = self.best?;
        (score + doubt(self.noise.0) < best).then(|| Reason::Predicted((score - best).exp()))
    }
}
