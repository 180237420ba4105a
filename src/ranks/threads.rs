//! [`Peers`] between threads of one process, for tests.

use std::cell::Cell;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::Result;
use crate::{Member, Part, Peers, Ranks};

/// Everybody's messages, by exchange and rank.
type Board = Mutex<Vec<Vec<Option<Vec<u8>>>>>;

/// A thread among others.
struct Thread {
    part: Part,
    board: Arc<Board>,
    /// Exchanges begun.
    begun: Cell<usize>,
}

impl Peers for Thread {
    fn part(&self) -> Part {
        self.part
    }

    fn begin(&self, message: Vec<u8>) -> Result<()> {
        let mut board = self.board.lock();
        let (number, size) = (self.begun.get(), self.part.size);
        if board.len() == number {
            board.push(vec![None; size]);
        }
        board[number][self.part.rank] = Some(message);
        self.begun.set(number + 1);
        Ok(())
    }

    fn poll(&self) -> Result<Option<Vec<Vec<u8>>>> {
        Ok(self.board.lock()[self.begun.get() - 1].iter().cloned().collect())
    }

    fn missing(&self) -> Vec<usize> {
        let board = self.board.lock();
        let last = &board[self.begun.get() - 1];
        (0..self.part.size).filter(|&rank| last[rank].is_none()).collect()
    }

    fn abort(&self, _: u8) {}

    fn leave(&self) -> Result<()> {
        Ok(())
    }
}

/// Runs `act` in `size` threads, each of which is a rank; returns everybody's result.
pub fn together<T: Send>(size: usize, act: impl Fn(Ranks) -> T + Sync) -> Vec<T> {
    apart(size, |peers, rank| {
        let member = Member::new(format!("host{rank}"), "one".to_owned());
        act(Ranks::meet(peers, &member).unwrap())
    })
}

/// The same before they have met.
pub fn apart<T: Send>(size: usize, act: impl Fn(Box<dyn Peers>, usize) -> T + Sync) -> Vec<T> {
    let board = Arc::new(Board::default());
    std::thread::scope(|scope| {
        let rank = |rank| {
            let (board, act) = (Arc::clone(&board), &act);
            scope.spawn(move || act(Box::new(Thread { part: Part { rank, size }, board, begun: Cell::new(0) }), rank))
        };
        let threads: Vec<_> = (0..size).map(rank).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::Error;
    use crate::{ANSWER_LIMIT, Mode};

    #[test]
    fn all_hear_all_and_only_the_first_where_it_speaks_alone() {
        let received = together(3, |ranks| {
            let rank = ranks.part().rank;
            let all = ranks.exchange(&(rank * 2), ANSWER_LIMIT).unwrap();
            let first = ranks.receive_first((rank == 0).then_some(&"zero".to_owned()), ANSWER_LIMIT).unwrap();
            assert!(ranks.is_joint() && ranks.neighbours().is_empty());
            (all, first)
        });
        assert!(received.iter().all(|received| *received == (vec![0, 2, 4], "zero".to_owned())), "{received:?}");
    }

    #[test]
    fn whoever_cannot_go_on_ends_all_and_is_named() {
        let messages = together(3, |ranks| {
            if ranks.part().rank == 1 {
                ranks.give_up(&Error::input("no such file"));
                return ranks.over().unwrap().to_string();
            }
            let message = ranks.exchange(&1, ANSWER_LIMIT).unwrap_err().to_string();
            assert_eq!(ranks.exchange(&1, ANSWER_LIMIT).unwrap_err().to_string(), message, "it stays so");
            message
        });
        assert_eq!(messages, ["rank 1 (host1): no such file", "no such file", "rank 1 (host1): no such file"]);
    }

    #[test]
    fn whoever_does_not_answer_is_named() {
        let messages = together(3, |ranks| {
            let silent = ranks.part().rank == 2;
            (!silent).then(|| ranks.exchange(&1, Duration::from_secs(2)).unwrap_err().to_string())
        });
        assert_eq!(messages[0].as_deref(), Some("rank 2 (host2) was lost: it does not answer"));
    }

    #[test]
    fn other_programs_are_refused_and_other_tasks_are_separate() {
        let met = |version: &str, task: &str| {
            apart(2, |peers, rank| {
                let mut member = Member { task: "task".to_owned(), ..Member::new("host".to_owned(), "one".to_owned()) };
                if rank == 1 {
                    (member.version, member.task) = (version.to_owned(), task.to_owned());
                }
                Ranks::meet(peers, &member).map(|ranks| ranks.mode.get()).map_err(|error| error.to_string())
            })
        };
        let current = env!("CARGO_PKG_VERSION");
        assert!(met("0.0.1", "task")[0].as_ref().unwrap_err().contains("is triton-bench 0.0.1 (protocol 3)"));
        assert_eq!(met(current, "task"), [Ok(Mode::Joint), Ok(Mode::Joint)]);
        assert_eq!(met(current, "other"), [Ok(Mode::Separate), Ok(Mode::Separate)]);
    }
}
