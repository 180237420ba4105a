//! Statistics as functions of values: no clock, no threads, no I/O.

mod distribution;
mod early_stopping;
mod interval;
mod samples;

pub use distribution::{binomial_cdf, student_t_quantile};
pub use early_stopping::{early_stopping_bound, early_stopping_floor};
pub use interval::{Interval, batch_means, percentile_interval};
pub use samples::{
    Autocorrelation, KolmogorovTest, effective_size, effective_size_of_batches, kolmogorov, littles_law_gap,
};
