//! The program on a terminal: what it shows while it measures, and what is left when it is over.

mod dashboard;
mod progress;
