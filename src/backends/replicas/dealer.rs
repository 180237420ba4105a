//! [`Dealer`]: which server a request goes to.

use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam::utils::CachePadded;

use crate::plan::Spread;

/// Deals requests to servers, for all clients of a run together.
pub(super) struct Dealer {
    spread: Spread,
    turn: CachePadded<AtomicUsize>,
    /// Slots that have a home.
    homes: AtomicUsize,
    /// Requests with each server.
    outstanding: Box<[CachePadded<AtomicUsize>]>,
}

impl Dealer {
    /// For that many servers, at least one.
    pub(super) fn new(spread: Spread, servers: usize) -> Self {
        let outstanding = (0..servers).map(|_| CachePadded::default()).collect();
        Self { spread, turn: CachePadded::default(), homes: AtomicUsize::new(0), outstanding }
    }

    /// Number of servers.
    pub(super) fn servers(&self) -> usize {
        self.outstanding.len()
    }

    /// Whether slots keep their servers.
    pub(super) fn is_sticky(&self) -> bool {
        self.spread == Spread::Sticky
    }

    /// The home of another slot. A load may add slots while it runs, which must not take a server's turn.
    pub(super) fn next_home(&self) -> usize {
        self.homes.fetch_add(1, Ordering::Relaxed) % self.servers()
    }

    /// The server whose turn it is.
    fn turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed) % self.servers()
    }

    /// The server for a request, or for a sequence of requests, of a slot that is at `home` with one of them.
    pub(super) fn choose(&self, home: usize) -> usize {
        match self.spread {
            Spread::Sticky => home,
            Spread::RoundRobin => self.turn(),
            Spread::LeastOutstanding => {
                let first = self.turn();
                let servers = (0..self.servers()).map(|number| (first + number) % self.servers());
                servers.min_by_key(|&server| self.outstanding[server].load(Ordering::Relaxed)).unwrap_or(first)
            }
        }
    }

    /// A request is about to go to that server.
    pub(super) fn sent(&self, server: usize) {
        self.outstanding[server].fetch_add(1, Ordering::Relaxed);
    }

    /// A request of that server is over.
    pub(super) fn over(&self, server: usize) {
        self.outstanding[server].fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_round_and_what_is_sticky_stays_at_home() {
        let dealer = Dealer::new(Spread::RoundRobin, 3);
        assert_eq!((0..7).map(|_| dealer.choose(2)).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!((0..2).map(|_| dealer.next_home()).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(dealer.choose(2), 1, "another slot takes no turn");
        let dealer = Dealer::new(Spread::Sticky, 3);
        assert!((0..7).all(|_| dealer.choose(2) == 2));
    }

    #[test]
    fn the_server_with_the_fewest_requests_gets_the_next() {
        let dealer = Dealer::new(Spread::LeastOutstanding, 3);
        [0, 0, 2].into_iter().for_each(|server| dealer.sent(server));
        assert!((0..5).all(|_| dealer.choose(0) == 1));
        dealer.sent(1);
        dealer.sent(1);
        assert!((0..5).all(|_| dealer.choose(0) == 2));
        dealer.sent(2);
        let mut chosen: Vec<_> = (0..3).map(|_| dealer.choose(0)).collect();
        chosen.sort_unstable();
        assert_eq!(chosen, [0, 1, 2], "equals take turns");
        dealer.over(0);
        assert_eq!(dealer.choose(2), 0);
    }
}
