//! Statistics as functions of values: no clock, no threads, no I/O.

mod distribution;
mod early_stopping;
mod interval;
mod paired;
mod samples;
mod slow_waves;
#[cfg(test)]
pub(crate) mod tests;

pub use distribution::{beta_cdf, binomial_cdf, student_t_quantile};
pub use early_stopping::early_stopping_floor;
pub use interval::{
    Bounds, Interval, batch_means, percentile_bounds, percentile_interval, share_difference, share_interval,
};
pub use paired::{MIN_PAIRS, Paired, two_sample_t};
pub use samples::littles_law_gap;
pub use slow_waves::{AIM, CERTAIN_HALF_WIDTH, MIN_TERMS, half_width, variance_of_sum};
