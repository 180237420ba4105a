//! Statistics as functions of values: no clock, no threads, no I/O.

mod distribution;
mod early_stopping;
mod interval;
#[cfg(test)]
mod kolmogorov;
mod samples;

pub use distribution::{binomial_cdf, student_t_quantile};
pub use early_stopping::early_stopping_floor;
pub use interval::{Interval, batch_means, percentile_interval};
#[cfg(test)]
pub use kolmogorov::kolmogorov;
pub use samples::{effective_size_of_batches, littles_law_gap};
