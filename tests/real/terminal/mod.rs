//! The program on a terminal: what it shows while it measures, and what remains afterwards.

mod dashboard;
mod progress;
