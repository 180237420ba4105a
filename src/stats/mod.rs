//! Statistics as functions of values: no clock, no threads, no I/O.

mod distribution;
mod early_stopping;
mod interval;
#[cfg(test)]
mod kolmogorov;
mod samples;
mod slow_waves;

pub use distribution::{beta_cdf, binomial_cdf, student_t_quantile};
pub use early_stopping::early_stopping_floor;
pub use interval::{Interval, batch_means, percentile_interval, share_interval};
#[cfg(test)]
pub use kolmogorov::kolmogorov;
pub use samples::littles_law_gap;
pub use slow_waves::{TERMS, variance_of_sum};
