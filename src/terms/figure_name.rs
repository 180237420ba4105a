//! Which figure is meant.

/// A figure of a level, by its key in the catalogue of figures (`result::figures`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FigureName {
    /// The key.
    pub key: &'static str,
    /// Which point, if the figure is a distribution.
    pub point: Option<Point>,
}

/// A point of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Point {
    /// Its mean.
    Mean,
    /// A percentile of it, above 0 and below 100.
    Percentile(f64),
}

impl Point {
    /// Its name in keys: `avg`, `p99`.
    pub fn name(self) -> String {
        match self {
            Self::Mean => "avg".to_owned(),
            Self::Percentile(percentile) => format!("p{percentile}"),
        }
    }

    /// Its name in sentences.
    pub fn label(self) -> String {
        match self {
            Self::Mean => "mean".to_owned(),
            Self::Percentile(percentile) => format!("percentile {percentile}"),
        }
    }
}
