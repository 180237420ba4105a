//! The lifecycle of a slot: counts the references to it, from the issue of a request until there are none.
//!
//! One atomic word counts every reference, so a single read shows whether any is left. References to the *request* are the
//! outstanding final response, the outstanding release callback (each held by the thread that delivers it), and every
//! thread that delivers another response. The thread that drops the last reference completes the request, and in the same
//! step becomes a *visitor*: a thread that needs the slot's memory, but not its request, which may be the next one by
//! then.
//!
//! Nothing here knows what a server is. `tests/loom` compiles this file and tries every interleaving.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use crate::backend::{Next, Request};
use crate::sync::{AtomicU64, Ordering, thread_local};

/// The final response is still outstanding.
const FINAL: u64 = 1;
/// The release callback is still outstanding.
const RELEASE: u64 = 1 << 1;
/// A thread that delivers a response other than the final one.
const RESPONDER: u64 = 1 << 2;
/// One thread that is inside the slot without a reference to its request.
const VISITOR: u64 = 1 << 16;
/// One response that carried data.
const RESPONSE: u64 = 1 << 32;

/// All references to the request.
const REQUEST: u64 = VISITOR - 1;
/// All references.
const REFERENCES: u64 = RESPONSE - 1;

/// The references to a slot, and how many responses its request, or its last one, has had.
#[derive(Default)]
pub(super) struct ReferenceCount(AtomicU64);

impl ReferenceCount {
    /// Whether there are no references, and will be none before the slot's owner issues a request.
    pub(super) fn is_idle(&self) -> bool {
        self.0.load(Ordering::Acquire) & REFERENCES == 0
    }

    /// Whether a request is outstanding.
    pub(super) fn is_outstanding(&self) -> bool {
        self.0.load(Ordering::Acquire) & REQUEST != 0
    }

    /// A request is about to be issued by the thread that has the slot: its owner, or one that `visits` it.
    #[inline]
    fn begin(&self, visits: bool) {
        let visitor = if visits { VISITOR } else { 0 };
        let word = self.0.load(Ordering::Acquire);
        if word & REFERENCES == visitor {
            // With no other reference, no other thread writes.
            self.0.store(visitor | FINAL | RELEASE, Ordering::Release);
        } else {
            // Visitors come and go, but without a request no responses are counted.
            self.0.fetch_add((FINAL | RELEASE).wrapping_sub(word & !REFERENCES), Ordering::AcqRel);
        }
    }

    /// The server did not accept the request.
    #[cold]
    fn withdraw(&self) {
        self.0.fetch_and(REFERENCES & !REQUEST, Ordering::AcqRel);
    }

    /// A thread delivers a response other than the final one, and holds the request from here on. Returns how many came
    /// before it; `None` if there is no outstanding request that it could belong to.
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

    /// Drops a reference to the request, and counts the response that it was for. `word` is the value last seen. The thread
    /// that drops the last reference becomes a visitor, and gets the number of responses.
    #[inline]
    fn give_up(&self, mut word: u64, reference: u64, count: u64) -> Option<u32> {
        loop {
            if reference != RESPONDER && word & reference == 0 {
                return None; // a server that ends a request twice
            }
            let left = (word - reference).wrapping_add(count);
            let is_over = left & REQUEST == 0;
            let next = if is_over { left + VISITOR } else { left };
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return is_over.then(|| responses(left)),
                Err(now) => word = now,
            }
        }
    }

    /// A visitor leaves. The slot may be gone when this returns.
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

/// The slot's actions at the stages of its life.
pub(super) trait Stages: Sized {
    /// Its references.
    fn references(&self) -> &ReferenceCount;

    /// Hands a request to the server; its callbacks may run meanwhile. Returns `false` if the server did not accept it.
    ///
    /// # Safety
    /// `slot` is live and owned by the caller: no one else holds its request.
    unsafe fn hand_over(slot: NonNull<Self>, request: Request) -> bool;

    /// Reports that the request is over, after this many responses. Returns what comes next.
    fn complete(&self, responses: u32) -> Next;
}

thread_local! {
    /// The slot that this thread is handing to the server right now.
    static ISSUING: Cell<*const ()> = const { Cell::new(ptr::null()) };
    /// Set if that slot's request is already over, because its last callback ran on this stack: the number of its
    /// responses.
    static OVER: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Sends a request on behalf of the slot's owner, and whatever comes next while requests complete on this stack.
///
/// # Safety
/// `slot` is live until this returns, no request is outstanding, and no other thread issues one.
#[inline]
pub(super) unsafe fn issue<S: Stages>(slot: NonNull<S>, request: Request) {
    // SAFETY: guaranteed by the caller.
    unsafe { issue_while(slot, request, false) }
}

/// Like [`issue`]; a thread that `visits` needs no further guarantee that the slot is live.
#[inline]
unsafe fn issue_while<S: Stages>(slot: NonNull<S>, mut request: Request, mut visits: bool) {
    // SAFETY: live as long as this thread visits it, or else as long as its owner says.
    let live = unsafe { slot.as_ref() };
    loop {
        live.references().begin(visits);
        let outer = (ISSUING.with(|issuing| issuing.replace(slot.as_ptr().cast())), OVER.with(Cell::take));
        // SAFETY: no request was outstanding, so this thread has the slot.
        let is_taken = unsafe { S::hand_over(slot, request) };
        ISSUING.with(|issuing| issuing.set(outer.0));
        let over = OVER.with(|over| over.replace(outer.1));
        let responses = match over {
            _ if !is_taken => {
                live.references().withdraw();
                0
            }
            None => break,
            Some(responses) => {
                // Its end made this thread a visitor; one visit is enough.
                if visits {
                    live.references().leave();
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
        live.references().leave();
    }
}

/// A response other than the final one has arrived: `act` processes it, given how many came before it. If no request is
/// waiting for it, it is dropped with `act`.
///
/// # Safety
/// `slot` is live: its request is not over. It may be gone when this returns.
#[inline]
pub(super) unsafe fn respond<S: Stages>(slot: NonNull<S>, carries_data: bool, act: impl FnOnce(&S, u32)) {
    // SAFETY: guaranteed by the caller, and then the reference.
    let live = unsafe { slot.as_ref() };
    let Some(before) = live.references().enter(carries_data) else { return };
    act(live, before);
    let word = live.references().0.load(Ordering::Relaxed);
    if let Some(responses) = live.references().give_up(word, RESPONDER, 0) {
        // SAFETY: this thread has become a visitor.
        unsafe { end(slot, responses) }
    }
}

/// Like [`respond`], for the final one.
///
/// # Safety
/// As [`respond`].
#[inline]
pub(super) unsafe fn respond_last<S: Stages>(slot: NonNull<S>, carries_data: bool, act: impl FnOnce(&S, u32)) {
    // SAFETY: guaranteed by the caller: the final response is a reference until it is given up here.
    let live = unsafe { slot.as_ref() };
    let word = live.references().0.load(Ordering::Acquire);
    if word & FINAL == 0 {
        return;
    }
    act(live, responses(word));
    if let Some(responses) = live.references().give_up(word, FINAL, counted(carries_data)) {
        // SAFETY: this thread has become a visitor.
        unsafe { end(slot, responses) }
    }
}

/// The server has released the request.
///
/// # Safety
/// As [`respond`].
#[inline]
pub(super) unsafe fn release<S: Stages>(slot: NonNull<S>) {
    // SAFETY: guaranteed by the caller: the release is a reference until it is given up here.
    let references = unsafe { slot.as_ref() }.references();
    if let Some(responses) = references.give_up(references.0.load(Ordering::Relaxed), RELEASE, 0) {
        // SAFETY: this thread has become a visitor.
        unsafe { end(slot, responses) }
    }
}

/// Completes a request whose last hold this visitor gave up, unless its submission is still on this thread's stack,
/// which then does so.
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
        Next::Idle => live.references().leave(),
    }
}
