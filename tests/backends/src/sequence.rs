//! The sequence accumulator: running sums per correlation ID, and the rules of a well-formed sequence.

use std::collections::HashMap;

/// Which sequence a request belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Correlation {
    /// None: ID 0 or the empty string.
    None,
    /// An integer ID.
    Number(u64),
    /// A string ID.
    Text(String),
}

/// Where in its sequence a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// First of its sequence.
    pub start: bool,
    /// Last of its sequence.
    pub end: bool,
}

/// All sequences of a model.
#[derive(Debug, Default)]
pub struct Sequences {
    open: HashMap<Correlation, Vec<i64>>,
    /// Sequences begun so far.
    pub started: u64,
    /// Sequences ended so far.
    pub ended: u64,
    /// Requests that broke a rule.
    pub violations: u64,
}

impl Sequences {
    /// Adds a request's values to its sequence; answers the sums, element by element, wrapping.
    ///
    /// # Errors
    /// A sentence on the rule that the request broke; it is counted as a violation.
    pub fn step(&mut self, id: &Correlation, place: Place, values: &[i64]) -> Result<Vec<i64>, String> {
        let result = self.advance(id, place, values);
        if result.is_err() {
            self.violations += 1;
        }
        result
    }

    fn advance(&mut self, id: &Correlation, place: Place, values: &[i64]) -> Result<Vec<i64>, String> {
        if *id == Correlation::None {
            return Err("the request has no correlation ID".to_owned());
        }
        let was_open = self.open.contains_key(id);
        if place.start {
            self.started += 1;
            self.open.insert(id.clone(), vec![0; values.len()]);
        }
        let Some(sums) = self.open.get_mut(id) else {
            return Err(format!("sequence {id:?} got data without having started, or after its end"));
        };
        let fits = sums.len() == values.len();
        let outcome = if fits {
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
            Ok(sums.clone())
        } else {
            Err(format!("sequence {id:?} began with {} elements and now has {}", sums.len(), values.len()))
        };
        if place.end {
            self.open.remove(id);
            self.ended += 1;
        }
        match place.start && was_open {
            true => Err(format!("sequence {id:?} started again before its end")),
            false => outcome,
        }
    }

    /// Sequences begun and not ended.
    pub fn open(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Place = Place { start: true, end: false };
    const MIDDLE: Place = Place { start: false, end: false };
    const END: Place = Place { start: false, end: true };
    const ONLY: Place = Place { start: true, end: true };

    #[test]
    fn sums_run_per_sequence() {
        let (a, b) = (Correlation::Number(1), Correlation::Text("1".into()));
        let mut all = Sequences::default();
        assert_eq!(all.step(&a, START, &[1, 10]).unwrap(), [1, 10]);
        assert_eq!(all.step(&b, START, &[5]).unwrap(), [5]);
        assert_eq!(all.step(&a, MIDDLE, &[2, 20]).unwrap(), [3, 30]);
        assert_eq!(all.step(&a, END, &[3, i64::MAX]).unwrap(), [6, i64::MIN + 29]);
        assert_eq!(all.step(&Correlation::Number(9), ONLY, &[]).unwrap(), [0i64; 0]);
        assert_eq!((all.started, all.ended, all.violations, all.open()), (3, 2, 0, 1));
    }

    #[test]
    fn each_broken_rule_is_an_error_and_a_count() {
        let id = Correlation::Number(7);
        let mut all = Sequences::default();
        assert!(all.step(&id, MIDDLE, &[1]).unwrap_err().contains("without having started"));
        assert!(all.step(&Correlation::None, START, &[1]).unwrap_err().contains("no correlation ID"));
        all.step(&id, START, &[1]).unwrap();
        assert!(all.step(&id, MIDDLE, &[1, 2]).unwrap_err().contains("began with 1"));
        assert!(all.step(&id, START, &[4]).unwrap_err().contains("started again"));
        assert_eq!(all.step(&id, END, &[1]).unwrap(), [5], "the restarted sequence goes on");
        assert!(all.step(&id, END, &[1]).unwrap_err().contains("after its end"));
        assert_eq!((all.started, all.ended, all.violations, all.open()), (2, 1, 5, 0));
    }
}
