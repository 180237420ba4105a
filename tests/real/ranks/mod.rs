//! Several processes that a launcher has started: one load in parts, or loads of their own, on both MPIs; and whatever may happen to
//! one of them.

mod distance;
mod faults;
mod hosts;
mod joint;
mod mpi;
mod separate;
mod sessions;
mod shapes;
