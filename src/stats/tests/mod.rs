//! What tests of samples need.

mod kolmogorov;

pub(crate) use kolmogorov::kolmogorov;
