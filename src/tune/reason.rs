//! [`Reason`]: why a candidate is measured no further.

/// Shares and factors are multiples, 1 being alike.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// Others were more promising, and the time was used for them.
    NoTime,
    /// A step to it from its neighbour gained nothing.
    NoBetterThanNeighbour,
    /// It is proven worse: at this share of the best.
    Worse(f64),
    /// It is at this share of the best, too far below to be compared any more.
    FarBehind(f64),
    /// It was in the worse half of a rung, at this share of the best.
    WorseHalf(f64),
    /// It was at this share of the best when each candidate had been measured once.
    BehindAtFirst(f64),
    /// It misses what is demanded by this factor.
    Misses(f64),
    /// It missed what is demanded when each candidate had been measured once.
    MissedAtFirst,
    /// Others' measurements say that it would miss what is demanded by this factor.
    PredictedToMiss(f64),
    /// Others' measurements say that it would reach this share of the best.
    Predicted(f64),
    /// This setting's value could not be loaded in another candidate.
    NotLoaded(String),
}

impl Reason {
    /// In words; `demand` is what is missed, such as "a constraint".
    pub fn sentence(&self, demand: &str) -> String {
        let percent = |share: &f64| format!("{:.0} %", share * 100.0);
        match self {
            Self::NoTime => "no time to measure it".to_owned(),
            Self::NoBetterThanNeighbour => "no better than its neighbour".to_owned(),
            Self::Worse(share) => format!("{:.1} % worse than the best", (1.0 - share) * 100.0),
            Self::FarBehind(share) => format!("far behind, at {} of the best", percent(share)),
            Self::WorseHalf(share) => format!("in the worse half, at {} of the best", percent(share)),
            Self::BehindAtFirst(share) => format!("at {} of the best at a first look", percent(share)),
            Self::Misses(factor) => format!("misses {demand} by a factor of {factor:.2}"),
            Self::MissedAtFirst => format!("misses {demand} at a first look"),
            Self::PredictedToMiss(factor) => format!("predicted to miss {demand} by a factor of {factor:.1}"),
            Self::Predicted(share) => format!("predicted to reach {} of the best that was measured", percent(share)),
            Self::NotLoaded(setting) => format!("{setting} could not be loaded"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_names_what_is_missed_and_by_how_much() {
        assert_eq!(Reason::Misses(1.3).sentence("the rate"), "misses the rate by a factor of 1.30");
        assert_eq!(
            Reason::PredictedToMiss(2.0).sentence("a constraint"),
            "predicted to miss a constraint by a factor of 2.0"
        );
        assert_eq!(Reason::Worse(0.875).sentence("a constraint"), "12.5 % worse than the best");
        assert_eq!(Reason::FarBehind(0.4).sentence("a constraint"), "far behind, at 40 % of the best");
    }
}
