//! A slot without a server: threads play the server by running the slot's callbacks from a script, and every state the
//! slot must never observe is an assertion.

use std::cell::{Cell, RefCell};
use std::mem;
use std::ptr::NonNull;
use std::rc::Rc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread::{self, JoinHandle};

use crate::backend::{Next, Request};
use crate::hand_over::HandOver;
use crate::slot_state::{self, ReferenceCount, Stages};

/// A callback of the server's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A response that is not the final one.
    Response,
    /// So many of these are inside the slot, or were: nothing may come after the final one, but it may come while others run.
    Await(u32),
    /// The final one.
    Final,
    /// The final one, without data.
    Null,
    Release,
}

/// How the server deals with one request.
#[derive(Clone, Default)]
pub struct Play {
    /// It refuses it.
    pub refused: bool,
    /// Callbacks before the issuing call returns, on its stack.
    pub on_stack: Vec<Event>,
    /// Callbacks on other threads, one list for each.
    pub threads: Vec<Vec<Event>>,
}

impl Play {
    /// Responses that carry data.
    fn responses(&self) -> u32 {
        let all = self.on_stack.iter().chain(self.threads.iter().flatten());
        all.filter(|event| matches!(event, Event::Response | Event::Final)).count() as u32
    }
}

/// What outlives the seat, and who watches it. Not part of what is checked, so nothing here is the checker's.
pub struct Stage {
    /// How the server deals with the seat's n-th request.
    plays: Vec<Play>,
    /// How many of them follow one another; the owner submits the others.
    chained: u32,
    cancels: bool,
    /// A server that breaks its promises: a callback may then find another request than its own.
    is_careless: bool,
    freed: Cell<bool>,
    outstanding: Cell<bool>,
    /// Threads inside a callback's own work.
    inside: Cell<u32>,
    pub completed: Cell<u32>,
    /// Responses of the last request that have come inside.
    entered: AtomicU32,
    threads: RefCell<Vec<JoinHandle<()>>>,
    /// Given when a request is over after which nothing is chained.
    signal: Mutex<bool>,
    wake: Condvar,
}

impl Stage {
    pub fn new(plays: Vec<Play>) -> Self {
        Self {
            chained: plays.len() as u32,
            plays,
            cancels: false,
            is_careless: false,
            freed: Cell::default(),
            outstanding: Cell::default(),
            inside: Cell::default(),
            completed: Cell::default(),
            entered: AtomicU32::default(),
            threads: RefCell::default(),
            signal: Mutex::default(),
            wake: Condvar::default(),
        }
    }

    /// The owner submits every request but the first `chained`, which follow one another.
    pub fn chained(self, chained: u32) -> Self {
        Self { chained, ..self }
    }

    pub fn cancels(self) -> Self {
        Self { cancels: true, ..self }
    }

    pub fn careless(self) -> Self {
        Self { is_careless: true, ..self }
    }

    /// Requests that are submitted in all.
    pub fn requests(&self) -> u32 {
        self.plays.len() as u32
    }

    /// Waits until the server's threads are gone.
    pub fn join(&self) {
        loop {
            let Some(thread) = self.threads.borrow_mut().pop() else { return };
            thread.join().unwrap();
        }
    }

    /// Sleeps until the sink has said that nothing follows.
    pub fn wait(&self) {
        let mut is_raised = self.signal.lock().unwrap();
        while !mem::take(&mut *is_raised) {
            is_raised = self.wake.wait(is_raised).unwrap();
        }
    }
}

/// The slot.
pub struct Seat {
    references: ReferenceCount,
    hand_over: HandOver,
    /// The number of the request that its object carries; changed for each one.
    object: UnsafeCell<u32>,
    /// Stands for all of its memory: whoever is inside reads it, and who frees it writes.
    memory: UnsafeCell<()>,
    stage: Rc<Stage>,
}

/// A pointer as C has it.
#[derive(Clone, Copy)]
pub struct Userp(NonNull<Seat>);

impl Userp {
    pub fn new(stage: &Rc<Stage>) -> Self {
        let seat = Seat {
            references: ReferenceCount::default(),
            hand_over: HandOver::default(),
            object: UnsafeCell::new(0),
            memory: UnsafeCell::new(()),
            stage: Rc::clone(stage),
        };
        Self(NonNull::from(Box::leak(Box::new(seat))))
    }

    fn seat(&self) -> &Seat {
        // SAFETY: the memory itself stays until the model's end; `Stages::references` tells who comes after `free`.
        unsafe { self.0.as_ref() }
    }

    fn stage(&self) -> &Stage {
        &self.seat().stage
    }

    pub fn is_idle(self) -> bool {
        self.seat().references().is_idle()
    }

    pub fn is_outstanding(self) -> bool {
        self.seat().references().is_outstanding()
    }

    /// What the slot's owner does.
    pub fn submit(self, number: u32) {
        assert!(!self.is_outstanding(), "the last request is outstanding");
        // SAFETY: as the assertion says; the owner is the caller.
        unsafe { slot_state::issue(self.0, Request(number)) }
    }

    /// As `Slot::cancel`.
    pub fn cancel(self) -> bool {
        self.seat().hand_over.if_done(|| {
            self.seat().object.with(|_| assert!(self.seat().stage.outstanding.get(), "the request is over"));
            true
        })
    }

    /// Takes the memory away, if nobody has a hold on it.
    pub fn free_if_idle(self) -> bool {
        if !self.is_idle() {
            return false;
        }
        let seat = self.seat();
        assert!(!seat.stage.outstanding.get() && seat.stage.inside.get() == 0, "freed while in use");
        // Whoever was inside before, and did not say that it is done, is a race here.
        seat.memory.with_mut(|_| seat.stage.freed.set(true));
        true
    }

    /// One callback of the server's.
    fn call(self, event: Event) {
        let look = |seat: &Seat, _before: u32| {
            let stage = &seat.stage;
            stage.inside.set(stage.inside.get() + 1);
            seat.object.with(|_| assert!(stage.is_careless || stage.outstanding.get(), "a response after the end"));
            // Others may have their turn here.
            stage.entered.fetch_add(1, Ordering::Relaxed);
            seat.object.with(|_| assert!(stage.is_careless || stage.outstanding.get(), "it ended meanwhile"));
            stage.inside.set(stage.inside.get() - 1);
        };
        // SAFETY: the callbacks come as the protocol allows; `Stages::references` tells who comes too late.
        unsafe {
            match event {
                // Relaxed: what a server's threads know of each other is no help to the slot.
                Event::Await(responses) => {
                    while self.stage().entered.load(Ordering::Relaxed) < responses {
                        thread::yield_now();
                    }
                }
                Event::Response => slot_state::respond(self.0, true, look),
                Event::Final => slot_state::respond_last(self.0, true, look),
                Event::Null => slot_state::respond_last(self.0, false, look),
                Event::Release => slot_state::release(self.0),
            }
        }
    }
}

impl Stages for Seat {
    fn references(&self) -> &ReferenceCount {
        assert!(!self.stage.freed.get(), "the slot is gone");
        self.memory.with(|_| ());
        &self.references
    }

    unsafe fn hand_over(slot: NonNull<Self>, request: Request) -> bool {
        let userp = Userp(slot);
        let (seat, number) = (userp.seat(), request.0);
        let stage = Rc::clone(&seat.stage);
        let play = stage.plays[number as usize - 1].clone();
        seat.object.with_mut(|object| {
            // SAFETY: a race is found by the cell.
            unsafe { *object = number };
        });
        assert!(!stage.outstanding.replace(true), "two requests at once");
        stage.entered.store(0, Ordering::Relaxed);
        if stage.cancels {
            seat.hand_over.begin(number);
        }
        if play.refused {
            return false;
        }
        for events in play.threads {
            stage.threads.borrow_mut().push(thread::spawn(move || events.iter().for_each(|event| userp.call(*event))));
        }
        play.on_stack.iter().for_each(|event| userp.call(*event));
        if stage.cancels {
            userp.seat().hand_over.end(number);
        }
        // The caller has it, or visits it: the slot is still there.
        seat.references();
        true
    }

    fn complete(&self, responses: u32) -> Next {
        if self.stage.cancels {
            self.hand_over.over();
        }
        let stage = &self.stage;
        assert!(stage.outstanding.replace(false), "completed twice");
        let number = stage.completed.get() + 1;
        stage.completed.set(number);
        let play = &stage.plays[number as usize - 1];
        if !stage.is_careless {
            assert_eq!(stage.inside.get(), 0, "a response is still looked at");
            assert_eq!(responses, if play.refused { 0 } else { play.responses() }, "responses of request {number}");
        }
        if number < stage.chained {
            return Next::Issue(Request(number + 1));
        }
        *stage.signal.lock().unwrap() = true;
        stage.wake.notify_one();
        Next::Idle
    }
}
