//! The terms in which a run is asked for and its result is told: loads, rules of measuring, statistics, figures, pictures. They
//! are data: a plan holds them, a result keeps them, and whatever measures or reports reads them.

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod figure_name;
mod flag;
mod folder;
mod load;
mod measurement;
mod number;
mod percentiles;
mod picture;
mod rounds;
mod setting;
mod stop_rule;
mod window;

use ::stats::seed;
use base::seconds;

pub use figure_name::{FigureName, Point};
pub use flag::Flag;
pub use folder::{ReportFolder, ReportPart};
pub use load::{
    GapDistribution, LevelValue, LoadMode, MAX_LEVELS, Periodic, Ramp, Range, Recording, Spacing, Stage, StageEdges,
    StageLength, StageLoad, TokenInput, TokenUse,
};
pub use measurement::{
    DecoupledLatency, Goodput, LatencyEnd, LatencyOrigin, MeasurementPlan, OnDisturbance, Precision, StabilityRule,
    Statistic,
};
pub use number::{msec, significant};
pub use percentiles::{ALL_PERCENTILES, FAR_TAIL, FEW_PERCENTILES, PERCENTILES, TAIL};
pub use picture::{Picture, PictureFile};
pub use rounds::{Order, Rounds};
pub use setting::asked;
pub use stop_rule::StopRule;
pub use window::WindowRule;

/// The version of perf_analyzer whose flags and outputs we follow.
pub const UPSTREAM_VERSION: &str = "2.51.0";
