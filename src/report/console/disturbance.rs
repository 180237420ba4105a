//! The line about disturbed windows of a level.

use crate::result::summary::{Disturbances, LevelSummary};

/// The line; empty if there were none.
pub fn line(level: &LevelSummary) -> String {
    let Disturbances { windows, disturbed, replaced, worst } = level.disturbances;
    let Some(worst) = worst else { return String::new() };
    let plural = |count| if count == 1 { "window" } else { "windows" };
    match disturbed {
        0 => format!("  Disturbed: {replaced} {}, measured again; {worst}\n", plural(replaced)),
        _ => format!("  Disturbed: {disturbed} of {windows} {}; {worst}\n", plural(windows)),
    }
}

/// What others took while the result was measured; none if they took nothing that counts.
pub fn meanwhile(level: &LevelSummary) -> Option<String> {
    let Disturbances { disturbed, worst, .. } = level.disturbances;
    worst.filter(|_| disturbed > 0).map(|worst| worst.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::disturbance::{Cause, Disturbance};
    use crate::result::summary::{LevelLoad, sample};

    #[test]
    fn what_was_taken_is_said() {
        let worst = Some(Disturbance::new(Cause::Others, 0.48));
        let line_of = |windows, disturbed, replaced, worst| {
            let disturbances = Disturbances { windows, disturbed, replaced, worst };
            line(&LevelSummary { disturbances, ..sample::level(LevelLoad::Concurrency(1), 100, 1_000) })
        };
        assert_eq!(line_of(3, 0, 0, None), "");
        assert_eq!(
            line_of(3, 2, 0, worst),
            "  Disturbed: 2 of 3 windows; other processes used 48% of the processors\n"
        );
        assert_eq!(
            line_of(3, 0, 1, worst),
            "  Disturbed: 1 window, measured again; other processes used 48% of the processors\n"
        );
    }
}
