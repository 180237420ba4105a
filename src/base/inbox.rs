//! A queue from threads that must not wait to one that does their slow work.
//!
//! Items go through a bounded lock-free queue that the receiver polls every few milliseconds, so the sender takes no
//! lock, allocates nothing and wakes no thread. Events are rare, may come from any thread, and wake the receiver; an
//! event that was sent after an item is received after it.

use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use crossbeam::queue::ArrayQueue;

/// How often an idle receiver polls for items.
const EVENT_POLL: Duration = Duration::from_millis(2);

/// The sending end of an [`Inbox`].
#[derive(Debug)]
pub struct Outbox<T, E> {
    items: Arc<ArrayQueue<T>>,
    events: Sender<E>,
}

impl<T, E> Clone for Outbox<T, E> {
    fn clone(&self) -> Self {
        Self { items: Arc::clone(&self.items), events: self.events.clone() }
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct Inbox<T, E> {
    items: Arc<ArrayQueue<T>>,
    events: Receiver<E>,
    /// An event that was taken from its channel, but must wait for the items before it.
    event: Option<E>,
    /// Number of items to be received before anything else.
    before: usize,
    idle: bool,
}

/// What was received.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<T, E> {
    /// An item.
    Item(T),
    /// An event.
    Event(E),
}

/// An inbox for up to `capacity` items at once, and its sending end.
pub fn inbox<T, E>(capacity: usize) -> (Outbox<T, E>, Inbox<T, E>) {
    let (items, (events, received)) = (Arc::new(ArrayQueue::new(capacity.max(1))), unbounded());
    let inbox = Inbox { items: Arc::clone(&items), events: received, event: None, before: 0, idle: true };
    (Outbox { items, events }, inbox)
}

impl<T, E> Outbox<T, E> {
    /// Hands an item over. Neither waits nor allocates.
    ///
    /// # Errors
    /// The item, where there is no room for it.
    pub fn give(&self, item: T) -> Result<(), T> {
        self.items.push(item)
    }

    /// Sends an event; returns `false` if the receiver is gone.
    pub fn send(&self, event: E) -> bool {
        self.events.send(event).is_ok()
    }
}

impl<T, E> Iterator for Inbox<T, E> {
    type Item = Received<T, E>;

    /// Waits for the next item or event; `None` once all senders are gone and everything was received.
    fn next(&mut self) -> Option<Received<T, E>> {
        loop {
            while self.before > 0 {
                self.before -= 1;
                if let Some(item) = self.items.pop() {
                    return Some(Received::Item(item));
                }
            }
            if let Some(event) = self.event.take() {
                return Some(Received::Event(event));
            }
            let patience = if self.idle { EVENT_POLL } else { Duration::ZERO };
            let event = self.events.recv_timeout(patience);
            self.before = self.items.len();
            self.idle = self.before == 0;
            match event {
                Ok(event) => self.event = Some(event),
                Err(RecvTimeoutError::Disconnected) if self.idle => return None,
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_before_the_events_that_were_told_after_them() {
        let (outbox, mut inbox) = inbox(3);
        (1..=3).for_each(|item| assert_eq!(outbox.give(item), Ok(())));
        assert_eq!(outbox.give(4), Err(4), "there is no room");
        assert!(outbox.send("told"));
        let mut next = || inbox.next().unwrap();
        assert_eq!([next(), next(), next()], [1, 2, 3].map(Received::Item));
        assert_eq!(next(), Received::Event("told"));
        assert_eq!(outbox.give(5), Ok(()));
        drop(outbox);
        assert_eq!((inbox.next(), inbox.next()), (Some(Received::Item(5)), None));
    }

    #[test]
    fn an_event_is_received_however_fast_items_come() {
        let (outbox, mut inbox) = inbox(64);
        let busy = outbox.clone();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                (0..).take_while(|_| busy.give(()) == Ok(()) || Arc::strong_count(&busy.items) > 1).count()
            });
            assert!(outbox.send(()));
            drop(outbox);
            while inbox.next() != Some(Received::Event(())) {}
            drop(inbox);
        });
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        // Every step costs Miri a thousandfold.
        let items = if cfg!(miri) { 50 } else { 10_000 };
        let (outbox, inbox) = inbox::<u64, ()>(16);
        let sum = std::thread::scope(|scope| {
            for _ in 0..3 {
                let outbox = outbox.clone();
                scope.spawn(move || {
                    for mut item in 1..=items {
                        while let Err(back) = outbox.give(item) {
                            item = back;
                            std::thread::yield_now();
                        }
                    }
                });
            }
            drop(outbox);
            inbox.map(|next| if let Received::Item(item) = next { item } else { 0 }).sum::<u64>()
        });
        assert_eq!(sum, 3 * items * (items + 1) / 2);
    }
}
