//! Reports against upstream's, and the results that tests of reports show.

pub(crate) mod sample;
mod upstream;
