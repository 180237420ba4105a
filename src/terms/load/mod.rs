//! Which load.

mod mode;
mod range;
mod stage;

pub use mode::{GapDistribution, LoadMode, Periodic, Recording, Spacing, TokenInput, TokenUse};
pub use range::{LevelValue, MAX_LEVELS, Range};
pub use stage::{Ramp, Stage, StageEdges, StageLength, StageLoad};
