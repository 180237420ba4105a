//! Shared memory registered with a network server: registered by name, unregistered when it is no longer used.
//!
//! A region of inputs is registered once, for all clients; the outputs of each slot have their own region. Names carry
//! our process id and a number drawn at start, because several programs may use one server, and those in containers may
//! have the same process id. The protocol implements the calls: [`RegionCalls`]. A server that is started again during a
//! run knows no region any more: [`Registry::register_again`].

mod forget;
mod outputs;
mod stale;
mod unregister;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Once, Weak};
use std::time::Duration;

use base::debug;
use parking_lot::Mutex;

pub use self::forget::forget_all;
pub use self::outputs::{OutputLayout, OutputPlace, SlotOutputs};
pub use self::stale::ListedRegion;
use self::unregister::Unregistration;
use crate::backend::InferError;
use crate::data::Payload;
use crate::engine::is_unanswered;
use crate::error::{Error, Result};
use crate::kserve::refusals::Refusal;
use crate::shm::{Placement, Region};

/// Width of a slot's tag.
pub const TAG_WIDTH: usize = 13;
/// Number of clients, and of slots of each, with distinct tags.
pub const TAGS: u32 = 1_000_000;
/// How long a server may take for a region before the load.
const SETUP_LIMIT: Duration = Duration::from_secs(10);
/// The same when it is back during the load, which waits for it.
const AGAIN_LIMIT: Duration = Duration::from_millis(1500);

/// What a server needs to open a region.
#[derive(Clone, Copy, Debug)]
pub enum Handle<'a> {
    /// The name for `shm_open`, with its slash.
    System {
        /// The name.
        key: &'a str,
    },
    /// CUDA's handle for other processes.
    Cuda {
        /// The device that the memory is on.
        device: u32,
        /// The handle's bytes.
        raw: [u8; 64],
    },
}

/// The two kinds of shared memory, which the protocol keeps apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// POSIX.
    System,
    /// CUDA.
    Cuda,
}

/// A protocol's calls for shared memory.
pub trait RegionCalls: Send + Sync {
    /// The protocol in names of regions, such as `http`.
    fn protocol(&self) -> &'static str;

    /// The server, for messages.
    fn server(&self) -> String;

    /// Registers a region of `bytes` bytes, for which the server may take `limit`.
    ///
    /// # Errors
    /// The server's reason if it refuses, or why there is no answer.
    fn register(&self, name: &str, handle: Handle<'_>, bytes: u64, limit: Duration) -> Result<(), InferError>;

    /// Unregisters a region.
    ///
    /// # Errors
    /// As [`RegionCalls::register`].
    fn unregister(&self, name: &str, kind: Kind) -> Result<(), InferError>;

    /// The regions of POSIX shared memory that the server knows.
    ///
    /// # Errors
    /// As [`RegionCalls::register`].
    fn listed(&self) -> Result<Vec<ListedRegion>, InferError>;
}

/// Whether memory of this kind can be registered with a server.
pub fn is_shared(placement: Placement) -> bool {
    matches!(placement, Placement::System | Placement::Cuda(_))
}

/// A region registered under a name, until this is dropped.
pub struct Registration {
    name: String,
    kind: Kind,
    region: Arc<Region>,
    calls: Arc<dyn RegionCalls>,
    unregistration: Arc<Unregistration>,
}

impl Registration {
    /// The region itself.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The name that it is registered under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Registers it with a server that may know it.
    fn register_again(&self) -> Result<(), InferError> {
        match handle_of(&self.region) {
            Ok((handle, _)) => self.calls.register(&self.name, handle, self.region.len() as u64, AGAIN_LIMIT),
            Err(error) => Err(InferError::new("Memory", error.to_string())),
        }
    }
}

/// What a server needs to open a region, and its kind.
fn handle_of(region: &Region) -> Result<(Handle<'_>, Kind)> {
    match (region.placement(), region.key(), region.ipc_handle()?) {
        (Placement::System, Some(key), _) => Ok((Handle::System { key }, Kind::System)),
        (Placement::Cuda(device), _, Some(raw)) => Ok((Handle::Cuda { device, raw }, Kind::Cuda)),
        (placement, ..) => Err(Error::machine(format!("a server cannot be given memory in {placement}"))),
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let forgotten = self.unregistration.ask(|| self.calls.unregister(&self.name, self.kind));
        forget::remove(&self.name);
        // A device's memory must stay for as long as a server may have it open; POSIX memory stays by itself.
        if !forgotten && self.kind == Kind::Cuda {
            std::mem::forget(Arc::clone(&self.region));
        }
    }
}

/// All registrations of a backend.
pub struct Registry {
    calls: Arc<dyn RegionCalls>,
    unregistration: Arc<Unregistration>,
    prefix: String,
    inputs: Mutex<HashMap<usize, Weak<Registration>>>,
    /// All of them in their order; some are over.
    registered: Mutex<Vec<Weak<Registration>>>,
    /// Whether the server went away again while it was given all regions.
    midway: AtomicBool,
    /// It has been rid of what others have left.
    cleared: Once,
    next_input: AtomicU32,
    next_client: AtomicU32,
}

/// The regions that contain inputs, by address of the region.
#[derive(Default)]
pub struct InputRegions(HashMap<usize, Arc<Registration>>);

impl InputRegions {
    /// The name that `region` is registered under, if it is.
    pub fn name_of(&self, region: &Arc<Region>) -> Option<&str> {
        self.0.get(&(Arc::as_ptr(region) as usize)).map(|registration| registration.name())
    }
}

impl Registry {
    /// An empty registry, which uses `calls`.
    pub fn new(calls: Arc<dyn RegionCalls>) -> Self {
        // The standard library keys its hashes at random, once per process and map.
        let number = std::hash::RandomState::new().build_hasher().finish() as u32;
        let prefix = format!("triton_bench_{}_{}_{number:08x}_", calls.protocol(), std::process::id());
        Self {
            calls,
            unregistration: Arc::default(),
            prefix,
            inputs: Mutex::default(),
            registered: Mutex::default(),
            midway: AtomicBool::new(false),
            cleared: Once::new(),
            next_input: AtomicU32::new(0),
            next_client: AtomicU32::new(0),
        }
    }

    /// A number for a client, for the names of its slots' regions.
    pub fn client_number(&self) -> u32 {
        self.next_client.fetch_add(1, Ordering::Relaxed)
    }

    /// The prefix of a slot's tag in the name of the region of its outputs.
    pub fn output_prefix(&self) -> String {
        format!("{}output_", self.prefix)
    }

    /// Registers the shared regions among the payloads' inputs.
    ///
    /// # Errors
    /// The server's reason if it refuses.
    pub fn inputs(&self, payloads: &[Payload]) -> Result<InputRegions> {
        let mut held = HashMap::new();
        for input in payloads.iter().flat_map(|payload| &payload.inputs) {
            let key = Arc::as_ptr(&input.region) as usize;
            if is_shared(input.region.placement()) && !held.contains_key(&key) {
                held.insert(key, self.input(key, &input.region)?);
            }
        }
        Ok(InputRegions(held))
    }

    fn input(&self, key: usize, region: &Arc<Region>) -> Result<Arc<Registration>> {
        let mut inputs = self.inputs.lock();
        if let Some(registration) = inputs.get(&key).and_then(Weak::upgrade) {
            return Ok(registration);
        }
        let number = self.next_input.fetch_add(1, Ordering::Relaxed);
        let registration = self.register(format!("{}input_{number}", self.prefix), Arc::clone(region))?;
        inputs.insert(key, Arc::downgrade(&registration));
        Ok(registration)
    }

    /// Makes and registers a region for the outputs of one slot.
    ///
    /// # Errors
    /// If memory is lacking or the server refuses.
    pub fn outputs(&self, layout: &Arc<OutputLayout>, tag: [u8; TAG_WIDTH]) -> Result<SlotOutputs> {
        let region = Arc::new(Region::zeroed(layout.next_placement(), layout.size())?);
        let name = format!("{}{}", self.output_prefix(), String::from_utf8_lossy(&tag));
        Ok(SlotOutputs::new(self.register(name, region)?, Arc::clone(layout)))
    }

    fn register(&self, name: String, region: Arc<Region>) -> Result<Arc<Registration>> {
        let (handle, kind) = handle_of(&region)?;
        self.calls.register(&name, handle, region.len() as u64, SETUP_LIMIT).map_err(|error| {
            let placement = region.placement();
            let needs = match kind {
                Kind::System => "share its /dev/shm with us",
                Kind::Cuda => "see this GPU under this number, which a server without CUDA does not",
            };
            let next = error.advice().unwrap_or("have it allow that");
            Error::server(format!(
                "--shared-memory: the server at {} does not take {placement} as region '{name}': {error}; {next} \
                 (it must also run on this machine and {needs}), or leave out --shared-memory",
                self.calls.server()
            ))
        })?;
        let (calls, unregistration) = (Arc::clone(&self.calls), Arc::clone(&self.unregistration));
        forget::add(&name, kind, &calls);
        let registration = Arc::new(Registration { name, kind, region, calls, unregistration });
        self.keep(&registration);
        // A server that has opened memory of ours runs on this system, where its regions' names say whether their owners do.
        if kind == Kind::System {
            self.cleared.call_once(|| stale::forget(&*self.calls));
        }
        Ok(registration)
    }

    fn keep(&self, registration: &Arc<Registration>) {
        let mut registered = self.registered.lock();
        if registered.len() == registered.capacity() {
            registered.retain(|registration| registration.strong_count() > 0);
        }
        registered.push(Arc::downgrade(registration));
    }

    /// Registers all regions again with a server that has come back. One that knows the first, the oldest, has not been started
    /// again since, and knows them all. What it refuses it will refuse to each request, too, with its reason.
    ///
    /// # Errors
    /// Why it does not answer.
    pub fn register_again(&self) -> Result<(), InferError> {
        let regions: Vec<_> = self.registered.lock().iter().filter_map(Weak::upgrade).collect();
        // Then it may know the first without the others.
        let midway = self.midway.swap(true, Ordering::Relaxed);
        for registration in &regions {
            match registration.register_again() {
                Err(error) if is_unanswered(&error) => return Err(error),
                Err(error) if Refusal::RegionKnown.is_in(&error.message) && !midway => break,
                Err(error) => debug!("region '{}' is not registered again: {error}", registration.name),
                Ok(()) => debug!("region '{}' is registered again", registration.name),
            }
        }
        self.midway.store(false, Ordering::Relaxed);
        self.unregistration.note_answer();
        Ok(())
    }
}

/// The tag of a client's slot, in the name of the region of its outputs. All tags have the same width.
pub fn slot_tag(client: u32, slot: usize) -> [u8; TAG_WIDTH] {
    let mut tag = [b'_'; TAG_WIDTH];
    let text = format!("{:06}_{:06}", client % TAGS, slot % TAGS as usize);
    tag.copy_from_slice(text.as_bytes());
    tag
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::backend::ConnectionFault;

    /// Accepts the first `takes` regions, and records its calls.
    struct Server {
        takes: usize,
        calls: Mutex<Vec<String>>,
        listed: Vec<ListedRegion>,
    }

    impl RegionCalls for Server {
        fn protocol(&self) -> &'static str {
            "test"
        }

        fn server(&self) -> String {
            "here:1".to_owned()
        }

        fn register(&self, name: &str, handle: Handle<'_>, bytes: u64, _: Duration) -> Result<(), InferError> {
            assert!(matches!(handle, Handle::System { key } if key.starts_with('/')) && bytes >= 64);
            let mut calls = self.calls.lock();
            calls.push(format!("+{name}"));
            let refusal = || InferError::new("No", "not from you");
            if calls.len() > self.takes { Err(refusal()) } else { Ok(()) }
        }

        fn unregister(&self, name: &str, kind: Kind) -> Result<(), InferError> {
            assert_eq!(kind, Kind::System);
            self.calls.lock().push(format!("-{name}"));
            Ok(())
        }

        fn listed(&self) -> Result<Vec<ListedRegion>, InferError> {
            Ok(self.listed.clone())
        }
    }

    #[test]
    fn what_was_registered_is_unregistered_and_a_refusal_gives_the_reason() {
        let server = Arc::new(Server { takes: 2, calls: Mutex::default(), listed: Vec::new() });
        let registry = Registry::new(Arc::clone(&server) as Arc<dyn RegionCalls>);
        let layout = Arc::new(outputs::tests::layout(&[4], 2));
        let held: Result<Vec<_>> = (0..3).map(|slot| registry.outputs(&layout, slot_tag(7, slot))).collect();
        let error = held.err().unwrap().to_string();
        for words in ["--shared-memory", "here:1", "system shared memory", "_output_000007_000002'", "No: not from you"]
        {
            assert!(error.contains(words), "{words}: {error}");
        }
        let mut calls = server.calls.lock().clone();
        assert!(calls[0].starts_with(&format!("+triton_bench_test_{}_", std::process::id())), "{calls:?}");
        let gone = calls.split_off(3);
        let came: Vec<_> = calls[..2].iter().map(|line| line.replace('+', "-")).collect();
        assert_eq!(gone, came);
    }

    /// The regions of a server elsewhere may be those of runs elsewhere, whose processes have other numbers here.
    #[test]
    fn a_server_keeps_what_others_have_left_until_it_has_taken_memory_of_ours() {
        for (takes, expected) in [(0, &["+"][..]), (9, &["+", "-theirs", "+"][..])] {
            let listed = vec![stale::tests::left("theirs")];
            let server = Arc::new(Server { takes, calls: Mutex::default(), listed });
            let registry = Registry::new(Arc::clone(&server) as Arc<dyn RegionCalls>);
            let layout = Arc::new(outputs::tests::layout(&[4], 2));
            let slots = 0..expected.iter().filter(|call| **call == "+").count();
            let held: Vec<_> = slots.map(|slot| registry.outputs(&layout, slot_tag(7, slot)).ok()).collect();
            let calls: Vec<_> =
                server.calls.lock().iter().map(|call| call.split("triton").next().unwrap().to_owned()).collect();
            assert_eq!(calls, expected);
            assert!(held.iter().all(|slot| slot.is_some() == (takes > 0)));
        }
    }

    /// Knows what it was given since it was started.
    struct Restarted {
        known: Mutex<Vec<String>>,
        asked: AtomicUsize,
        /// How many calls it answers.
        answers: AtomicUsize,
    }

    impl Restarted {
        fn restart(&self, answers: usize) {
            self.known.lock().clear();
            self.asked.store(0, Ordering::Relaxed);
            self.answers.store(answers, Ordering::Relaxed);
        }
    }

    impl RegionCalls for Restarted {
        fn protocol(&self) -> &'static str {
            "test"
        }

        fn server(&self) -> String {
            "here:1".to_owned()
        }

        fn register(&self, name: &str, _: Handle<'_>, _: u64, _: Duration) -> Result<(), InferError> {
            if self.asked.fetch_add(1, Ordering::Relaxed) >= self.answers.load(Ordering::Relaxed) {
                return Err(InferError::new(ConnectionFault::TimedOut, "the server did not answer in time"));
            }
            let mut names = self.known.lock();
            if names.iter().any(|other| other == name) {
                return Err(InferError::new("Exists", format!("shared memory region '{name}' already in manager")));
            }
            names.push(name.to_owned());
            Ok(())
        }

        fn unregister(&self, name: &str, _: Kind) -> Result<(), InferError> {
            self.known.lock().retain(|other| other != name);
            Ok(())
        }

        fn listed(&self) -> Result<Vec<ListedRegion>, InferError> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_server_that_has_forgotten_regions_gets_those_in_use_and_one_that_has_not_is_asked_once() {
        let server = Restarted { known: Mutex::default(), asked: 0.into(), answers: usize::MAX.into() };
        let server = Arc::new(server);
        let registry = Registry::new(Arc::clone(&server) as Arc<dyn RegionCalls>);
        let layout = Arc::new(outputs::tests::layout(&[4], 2));
        let mut held: Vec<_> =
            (0..5).map(|slot| registry.outputs(&layout, slot_tag(7, slot)).expect("it is taken")).collect();
        let all = server.known.lock().clone();
        registry.register_again().unwrap();
        assert_eq!(server.asked.load(Ordering::Relaxed), 5 + 1);
        server.restart(3);
        registry.register_again().unwrap_err();
        assert_eq!(*server.known.lock(), all[..3]);
        // It knows the first, and not all.
        server.answers.store(usize::MAX, Ordering::Relaxed);
        registry.register_again().unwrap();
        assert_eq!(*server.known.lock(), all);
        held.remove(0);
        server.restart(usize::MAX);
        registry.register_again().unwrap();
        assert_eq!(*server.known.lock(), all[1..]);
        assert_eq!(server.asked.load(Ordering::Relaxed), 4);
    }
}
