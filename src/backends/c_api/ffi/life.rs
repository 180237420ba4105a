//! The life of a slot: who has a hold on it, from the issue of a request until nobody has.
//!
//! One atomic word counts every hold, so that one look at it tells whether anyone is left. Holds on the *request* are the
//! final response and the release callback as long as they are to come (each is the hold of the thread that brings it), and
//! threads that bring any other response. Who gives up the last of them completes the request, and in the same step becomes a
//! *visitor*: a thread that needs the slot's memory, but not its request, which may be the next one by then.
//!
//! Nothing here knows what a server is. `tests/loom` compiles this file and tries every order.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use crate::backend::{Next, Request};
use crate::sync::{AtomicU64, Ordering, thread_local};

/// The final response is still to come.
const FINAL: u64 = 1;
/// The release callback is still to come.
const RELEASE: u64 = 1 << 1;
/// One thread that brings a response which is not the final one.
const RESPONDER: u64 = 1 << 2;
/// One thread that is inside the slot without a hold on its request.
const VISITOR: u64 = 1 << 16;
/// One response that carried data.
const RESPONSE: u64 = 1 << 32;

/// All holds on the request.
const REQUEST: u64 = VISITOR - 1;
/// All holds.
const HOLDS: u64 = RESPONSE - 1;

/// Who has a hold on a slot, and how many responses its request, or its last one, has had.
#[derive(Default)]
pub(super) struct Holds(AtomicU64);

impl Holds {
    /// Whether nobody has a hold, nor will have one before the slot's owner issues a request.
    pub(super) fn is_idle(&self) -> bool {
        self.0.load(Ordering::Acquire) & HOLDS == 0
    }

    /// Whether a request is outstanding.
    pub(super) fn is_outstanding(&self) -> bool {
        self.0.load(Ordering::Acquire) & REQUEST != 0
    }

    /// A request is about to be issued by whoever has the slot: its owner, or one who `visits` it.
    #[inline]
    fn begin(&self, visits: bool) {
        let own = if visits { VISITOR } else { 0 };
        let word = self.0.load(Ordering::Acquire);
        if word & HOLDS == own {
            // Without another hold there is nobody else who writes.
            self.0.store(own | FINAL | RELEASE, Ordering::Release);
        } else {
            // Visitors come and go, but without a request nobody counts responses.
            self.0.fetch_add((FINAL | RELEASE).wrapping_sub(word & !HOLDS), Ordering::AcqRel);
        }
    }

    /// The server did not take the request.
    #[cold]
    fn withdraw(&self) {
        self.0.fetch_and(HOLDS & !REQUEST, Ordering::AcqRel);
    }

    /// A thread brings a response that is not the final one, and holds the request from here on. Returns how many came before
    /// it; `None`: no request is outstanding that it could belong to.
    #[inline]
    fn enter(&self, carries_data: bool) -> Option<u32> {
        let step = RESPONDER + counted(carries_data);
        let mut word = self.0.load(Ordering::Relaxed);
        while word & REQUEST != 0 {
            match self.0.compare_exchange_weak(word, word.wrapping_add(step), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(responses(word)),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Gives up a hold on the request, and counts a response that it was for. `word` is what was seen last. Who gives up the
    /// last hold becomes a visitor, and learns how many responses there were.
    #[inline]
    fn give_up(&self, mut word: u64, hold: u64, count: u64) -> Option<u32> {
        loop {
            if hold != RESPONDER && word & hold == 0 {
                return None; // a server that ends a request twice
            }
            let left = (word - hold).wrapping_add(count);
            let is_over = left & REQUEST == 0;
            let next = if is_over { left + VISITOR } else { left };
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return is_over.then(|| responses(left)),
                Err(now) => word = now,
            }
        }
    }

    /// A visitor goes. The slot may be gone when this returns.
    #[inline]
    fn leave(&self) {
        self.0.fetch_sub(VISITOR, Ordering::Release);
    }
}

fn responses(word: u64) -> u32 {
    (word / RESPONSE) as u32
}

fn counted(carries_data: bool) -> u64 {
    u64::from(carries_data) * RESPONSE
}

/// What a slot does at the turns of its life.
pub(super) trait Stages: Sized {
    /// Who has a hold on it.
    fn holds(&self) -> &Holds;

    /// Hands a request to the server; its callbacks may come meanwhile. `false`: the server did not take it.
    ///
    /// # Safety
    /// `slot` is live, and the caller has it: nobody else has a hold on its request.
    unsafe fn hand_over(slot: NonNull<Self>, request: Request) -> bool;

    /// Tells that the request is over, after so many responses. Says what comes next.
    fn complete(&self, responses: u32) -> Next;
}

thread_local! {
    /// The slot that this thread is handing to the server right now.
    static ISSUING: Cell<*const ()> = const { Cell::new(ptr::null()) };
    /// After how many responses that slot's request is over, if it is: its last callback came on this stack.
    static OVER: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Sends a request on behalf of the slot's owner, and whatever comes next as long as requests complete on this stack.
///
/// # Safety
/// `slot` is live until this returns, no request is outstanding, and nobody else issues one.
#[inline]
pub(super) unsafe fn issue<S: Stages>(slot: NonNull<S>, request: Request) {
    // SAFETY: the caller's promise.
    unsafe { issue_while(slot, request, false) }
}

/// As [`issue`]; the thread that `visits` needs no other promise that the slot is live.
#[inline]
unsafe fn issue_while<S: Stages>(slot: NonNull<S>, mut request: Request, mut visits: bool) {
    // SAFETY: live as long as this thread visits it, or else as long as its owner says.
    let live = unsafe { slot.as_ref() };
    loop {
        live.holds().begin(visits);
        let outer = (ISSUING.with(|issuing| issuing.replace(slot.as_ptr().cast())), OVER.with(Cell::take));
        // SAFETY: no request was outstanding, so this thread has the slot.
        let is_taken = unsafe { S::hand_over(slot, request) };
        ISSUING.with(|issuing| issuing.set(outer.0));
        let over = OVER.with(|over| over.replace(outer.1));
        let responses = match over {
            _ if !is_taken => {
                live.holds().withdraw();
                0
            }
            None => break,
            Some(responses) => {
                // Its end made this thread a visitor; once is enough.
                if visits {
                    live.holds().leave();
                }
                visits = true;
                responses
            }
        };
        match live.complete(responses) {
            Next::Issue(next) => request = next,
            Next::Idle => break,
        }
    }
    if visits {
        live.holds().leave();
    }
}

/// A response has come that is not the final one: `act` takes it in, told how many came before it. One that no request waits for
/// is dropped with `act`.
///
/// # Safety
/// `slot` is live: its request is not over. It may be gone when this returns.
#[inline]
pub(super) unsafe fn respond<S: Stages>(slot: NonNull<S>, carries_data: bool, act: impl FnOnce(&S, u32)) {
    // SAFETY: the caller's promise, and then the hold.
    let live = unsafe { slot.as_ref() };
    let Some(before) = live.holds().enter(carries_data) else { return };
    act(live, before);
    let word = live.holds().0.load(Ordering::Relaxed);
    if let Some(responses) = live.holds().give_up(word, RESPONDER, 0) {
        // SAFETY: this thread has become a visitor.
        unsafe { end(slot, responses) }
    }
}

/// As [`respond`], for the final one.
///
/// # Safety
/// As [`respond`].
#[inline]
pub(super) unsafe fn respond_last<S: Stages>(slot: NonNull<S>, carries_data: bool, act: impl FnOnce(&S, u32)) {
    // SAFETY: the caller's promise: the final response is a hold until it is given up here.
    let live = unsafe { slot.as_ref() };
    let word = live.holds().0.load(Ordering::Acquire);
    if word & FINAL == 0 {
        return;
    }
    act(live, responses(word));
    if let Some(responses) = live.holds().give_up(word, FINAL, counted(carries_data)) {
        // SAFETY: this thread has become a visitor.
        unsafe { end(slot, responses) }
    }
}

/// The server has let go of the request.
///
/// # Safety
/// As [`respond`].
#[inline]
pub(super) unsafe fn release<S: Stages>(slot: NonNull<S>) {
    // SAFETY: the caller's promise: the release is a hold until it is given up here.
    let holds = unsafe { slot.as_ref() }.holds();
    if let Some(responses) = holds.give_up(holds.0.load(Ordering::Relaxed), RELEASE, 0) {
        // SAFETY: this thread has become a visitor.
        unsafe { end(slot, responses) }
    }
}

/// Completes a request whose last hold this visitor gave up, unless its submission is still on this thread's stack and will.
#[inline]
unsafe fn end<S: Stages>(slot: NonNull<S>, responses: u32) {
    if ptr::eq(ISSUING.with(Cell::get), slot.as_ptr().cast()) {
        return OVER.with(|over| over.set(Some(responses)));
    }
    // SAFETY: live while this thread visits it.
    let live = unsafe { slot.as_ref() };
    match live.complete(responses) {
        // SAFETY: the sink has no other request for the slot, and this thread visits it.
        Next::Issue(next) => unsafe { issue_while(slot, next, true) },
        Next::Idle => live.holds().leave(),
    }
}
