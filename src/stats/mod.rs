//! Statistics and random draws as functions of values: no clock, no threads, no I/O.
//!
//! A crate of its own, because simulations spend their time here: tests build it optimised and everything else quickly.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod clusters;
mod distribution;
mod early_stopping;
mod interval;
mod kolmogorov;
mod paired;
mod samples;
pub mod seed;
mod sequential;
mod slow_waves;

pub use clusters::{ALIKE_IF_UNKNOWN, Clustered, Part, Proportion, as_one, share_difference, share_interval};
pub use distribution::{beta_cdf, binomial_cdf, student_t_quantile};
pub use early_stopping::early_stopping_floor;
pub use interval::{Bounds, EffectiveSize, Interval, batch_means, percentile_bounds, percentile_interval};
pub use kolmogorov::{KolmogorovTest, kolmogorov};
pub use paired::{MIN_PAIRS, Paired, two_sample_t};
pub use samples::littles_law_gap;
pub use sequential::{Sequence, likeness_of_neighbours, median};
pub use slow_waves::{AIM, CERTAIN_HALF_WIDTH, MIN_TERMS, half_width, variance_of_sum};
