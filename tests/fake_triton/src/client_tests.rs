//! Calls the exported functions as clients would, correct ones and careless ones.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use crate::abi::{RELEASE_ALL, Status};
use crate::allocator::*;
use crate::error::*;
use crate::issue::*;
use crate::ledger::lock;
use crate::options::*;
use crate::query::*;
use crate::request::*;
use crate::response::*;
use crate::server::*;
use crate::trace::*;

const INT32: c_int = 8;

fn ok(status: Status) {
    assert!(status.is_null(), "{}", message(status));
}

fn message(status: Status) -> String {
    assert!(!status.is_null(), "the call succeeded");
    let code = unsafe { CStr::from_ptr(TRITONSERVER_ErrorCodeString(status)) }.to_string_lossy().into_owned();
    let text = unsafe { CStr::from_ptr(TRITONSERVER_ErrorMessage(status)) }.to_string_lossy().into_owned();
    TRITONSERVER_ErrorDelete(status);
    format!("{code}: {text}")
}

/// What a slot's callbacks saw.
#[derive(Default)]
struct Slot {
    output: Mutex<[i32; 4]>,
    /// `r` for a response, `e` for an error, `F` for a final flag, `n` for a null response, `R` for the release.
    callbacks: Mutex<String>,
    errors: Mutex<Vec<String>>,
    kept: Mutex<Vec<usize>>,
    keep: AtomicU32,
    refuse: AtomicU32,
    releases: AtomicUsize,
}

unsafe extern "C" fn alloc(
    _: *mut Allocator,
    _: *const c_char,
    bytes: usize,
    _: c_int,
    _: i64,
    userp: *mut c_void,
    buffer: *mut *mut c_void,
    buffer_userp: *mut *mut c_void,
    memory: *mut c_int,
    device: *mut i64,
) -> Status {
    let slot = unsafe { &*userp.cast::<Slot>() };
    if slot.refuse.load(SeqCst) == 1 {
        return TRITONSERVER_ErrorNew(1, c"no memory today".as_ptr());
    }
    assert!(bytes <= 16);
    unsafe {
        *buffer = slot.output.lock().as_mut_ptr().cast();
        *buffer_userp = userp;
        *memory = 0;
        *device = 0;
    }
    OK
}

unsafe extern "C" fn free(_: *mut Allocator, _: *mut c_void, userp: *mut c_void, _: usize, _: c_int, _: i64) -> Status {
    unsafe { &*userp.cast::<Slot>() }.releases.fetch_add(1, SeqCst);
    OK
}

unsafe extern "C" fn on_response(response: *mut Response, flags: u32, userp: *mut c_void) {
    let slot = unsafe { &*userp.cast::<Slot>() };
    let mut callbacks = String::new();
    if response.is_null() {
        callbacks.push('n');
    } else {
        let error = TRITONSERVER_InferenceResponseError(response);
        callbacks.push(if error.is_null() { 'r' } else { 'e' });
        if !error.is_null() {
            slot.errors.lock().push(message(error));
        }
        if slot.keep.load(SeqCst) == 1 {
            slot.kept.lock().push(response as usize);
        } else {
            ok(TRITONSERVER_InferenceResponseDelete(response));
        }
    }
    if flags == 1 {
        callbacks.push('F');
    }
    slot.callbacks.lock().push_str(&callbacks);
}

unsafe extern "C" fn on_release(_: *mut Request, flags: u32, userp: *mut c_void) {
    assert_eq!(flags, RELEASE_ALL);
    unsafe { &*userp.cast::<Slot>() }.callbacks.lock().push('R');
}

struct Session {
    _alone: MutexGuard<'static, ()>,
    server: *mut Server,
    allocator: *mut Allocator,
    skip: usize,
}

extern "C" fn remove_folder() {
    let _ = std::fs::remove_dir_all(folder());
}

fn folder() -> &'static std::path::Path {
    static FOLDER: OnceLock<std::path::PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("fake-triton-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        // SAFETY: under the tests' lock, before any other thread reads the environment.
        unsafe {
            std::env::set_var("FAKE_TRITON_SCRIPT", folder.join("script"));
            std::env::set_var("FAKE_TRITON_LOG", folder.join("log"));
            // The library keeps its files open until the process ends.
            libc::atexit(remove_folder);
        }
        folder
    })
}

fn log_lines() -> Vec<Value> {
    let text = std::fs::read_to_string(folder().join("log")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl Session {
    fn begin(requests: &str) -> Session {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = lock(&ALONE);
        std::fs::write(
            folder().join("script"),
            format!(r#"{{"server":{{"log_requests":true}},"requests":[{requests}]}}"#),
        )
        .unwrap();
        let skip = log_lines().len();
        let (mut options, mut server, mut allocator) = (null_mut(), null_mut(), null_mut());
        ok(TRITONSERVER_ServerOptionsNew(&mut options));
        ok(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, c"/models".as_ptr()));
        ok(TRITONSERVER_ServerNew(&mut server, options));
        ok(TRITONSERVER_ServerOptionsDelete(options));
        ok(TRITONSERVER_ResponseAllocatorNew(&mut allocator, Some(alloc), Some(free), None));
        Session { _alone: alone, server, allocator, skip }
    }

    fn request(&self, slot: &Slot, data: &[i32; 4]) -> *mut Request {
        let (mut request, slot) = (null_mut(), (&raw const *slot).cast_mut().cast::<c_void>());
        ok(TRITONSERVER_InferenceRequestNew(&mut request, self.server, c"fake".as_ptr(), -1));
        ok(TRITONSERVER_InferenceRequestAddInput(request, c"INPUT0".as_ptr(), INT32, [4].as_ptr(), 1));
        ok(TRITONSERVER_InferenceRequestAppendInputData(request, c"INPUT0".as_ptr(), data.as_ptr().cast(), 16, 0, 0));
        ok(TRITONSERVER_InferenceRequestSetReleaseCallback(request, Some(on_release), slot));
        ok(TRITONSERVER_InferenceRequestSetResponseCallback(request, self.allocator, slot, Some(on_response), slot));
        request
    }

    fn issue(&self, request: *mut Request) -> Status {
        TRITONSERVER_ServerInferAsync(self.server, request, null_mut())
    }

    fn end(self) -> BTreeMap<String, usize> {
        let status = TRITONSERVER_ServerDelete(self.server);
        if !status.is_null() {
            TRITONSERVER_ErrorDelete(status);
        }
        ok(TRITONSERVER_ResponseAllocatorDelete(self.allocator));
        let mut rules = BTreeMap::new();
        for line in log_lines().into_iter().skip(self.skip).filter(|line| line["event"] == "violation") {
            *rules.entry(line["rule"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        rules
    }
}

impl Slot {
    fn wait(&self, callbacks: &str) {
        let begin = Instant::now();
        while self.callbacks.lock().len() < callbacks.len() && begin.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(self.callbacks.lock().as_str(), callbacks);
        self.callbacks.lock().clear();
    }
}

const DATA: [i32; 4] = [1, -2, 3, 4];

fn one(rule: &str) -> BTreeMap<String, usize> {
    BTreeMap::from([(rule.to_owned(), 1)])
}

#[test]
fn a_careful_client_reuses_a_request_and_breaks_no_rule() {
    let session = Session::begin(
        r#"{}, {"thread":"caller"}, {"order":"release_first","responses":3,"final":"null"}, {"responses":0}"#,
    );
    let slot = Slot::default();
    let request = session.request(&slot, &DATA);
    for callbacks in ["rFR", "rFR", "RrrrnF", "nFR", "rFR"] {
        ok(session.issue(request));
        slot.wait(callbacks);
    }
    assert_eq!(*slot.output.lock(), DATA);
    assert_eq!(slot.releases.load(SeqCst), 6);
    ok(TRITONSERVER_InferenceRequestDelete(request));
    let skip = session.skip;
    assert_eq!(session.end(), BTreeMap::new());
    let lines: Vec<Value> = log_lines().into_iter().skip(skip).collect();
    assert_eq!(lines[0]["options"], serde_json::json!([["SetModelRepositoryPath", "/models"]]));
    assert_eq!(lines[1]["inputs"][0]["data"], "01000000feffffff0300000004000000");
    let counters = &lines.iter().find(|line| line["event"] == "server_delete").unwrap()["counters"];
    assert_eq!((&counters["issued"], &counters["finals"], &counters["responses"]), (&5.into(), &5.into(), &6.into()));
}

#[test]
fn caller_thread_completes_inside_the_call() {
    let session = Session::begin(r#"{"thread":"caller","responses":2}"#);
    let slot = Slot::default();
    let request = session.request(&slot, &DATA);
    ok(session.issue(request));
    assert_eq!(slot.callbacks.lock().as_str(), "rrFR");
    ok(TRITONSERVER_InferenceRequestDelete(request));
    assert_eq!(session.end(), BTreeMap::new());
}

#[test]
fn failures_are_played() {
    let error = |code: &str| format!(r#"{{"code":"{code}","message":"scripted"}}"#);
    let session = Session::begin(&format!(
        r#"{{"submit_error":{}}}, {{"error":{},"responses":3,"error_at":1}}"#,
        error("UNAVAILABLE"),
        error("NOT_FOUND")
    ));
    let slot = Slot::default();
    let request = session.request(&slot, &DATA);
    assert_eq!(message(session.issue(request)), "Unavailable: scripted");
    ok(session.issue(request));
    slot.wait("reFR");
    assert_eq!(*slot.errors.lock(), ["Not found: scripted"]);
    ok(TRITONSERVER_InferenceRequestRemoveAllInputData(request, c"INPUT0".as_ptr()));
    assert!(message(session.issue(request)).contains("0 bytes, expected 16"));
    ok(TRITONSERVER_InferenceRequestDelete(request));
    assert_eq!(session.end(), BTreeMap::new());
}

#[test]
fn a_refused_buffer_is_an_error_or_a_null_output() {
    let session = Session::begin(r#"{}, {"on_alloc_failure":"null_output"}"#);
    let slot = Slot::default();
    slot.refuse.store(1, SeqCst);
    let request = session.request(&slot, &DATA);
    for callbacks in ["eFR", "rFR"] {
        ok(session.issue(request));
        slot.wait(callbacks);
    }
    ok(TRITONSERVER_InferenceRequestDelete(request));
    assert_eq!(session.end(), BTreeMap::new());
}

#[test]
fn a_hanging_request_ends_when_cancelled() {
    let session = Session::begin(r#"{"never_complete":"all","honour_cancel":true}"#);
    let slot = Slot::default();
    let request = session.request(&slot, &DATA);
    ok(session.issue(request));
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(slot.callbacks.lock().as_str(), "");
    ok(TRITONSERVER_InferenceRequestCancel(request));
    slot.wait("eFR");
    assert_eq!(*slot.errors.lock(), ["Cancelled: the request was cancelled"]);
    ok(TRITONSERVER_InferenceRequestDelete(request));
    assert_eq!(session.end(), BTreeMap::new());
}

#[test]
fn misuse_of_a_request_in_flight_is_reported() {
    let session = Session::begin(r#"{"delay_us":100000}"#);
    let (slot, mut data) = (Slot::default(), DATA);
    let request = session.request(&slot, &data);
    ok(session.issue(request));
    assert!(message(session.issue(request)).contains("in flight"));
    assert!(message(TRITONSERVER_InferenceRequestDelete(request)).contains("in flight"));
    ok(TRITONSERVER_InferenceRequestSetFlags(request, 1));
    data[0] = 99;
    std::hint::black_box(&data);
    slot.wait("rFR");
    ok(TRITONSERVER_InferenceRequestDelete(request));
    let expected = ["issued_in_flight", "deleted_in_flight", "touched_in_flight", "inputs_changed_in_flight"];
    assert_eq!(session.end(), expected.map(|rule| (rule.to_owned(), 1)).into());
}

#[test]
fn a_slot_reused_before_its_final_response_is_reported() {
    let session = Session::begin(r#"{"order":"release_first","responses":2,"gap_us":100000}"#);
    let slot = Slot::default();
    let request = session.request(&slot, &DATA);
    ok(session.issue(request));
    std::thread::sleep(Duration::from_millis(30));
    ok(session.issue(request));
    let begin = Instant::now();
    while slot.callbacks.lock().matches('F').count() < 2 && begin.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(1));
    }
    ok(TRITONSERVER_InferenceRequestDelete(request));
    assert_eq!(session.end(), one("issued_before_final"));
}

#[test]
fn output_memory_of_a_live_response_must_not_be_offered_again() {
    let session = Session::begin(r#"{"responses":2}"#);
    let slot = Slot::default();
    slot.keep.store(1, SeqCst);
    let request = session.request(&slot, &DATA);
    ok(session.issue(request));
    slot.wait("rrFR");
    for kept in slot.kept.lock().drain(..) {
        ok(TRITONSERVER_InferenceResponseDelete(kept as *mut Response));
    }
    ok(TRITONSERVER_InferenceRequestDelete(request));
    assert_eq!(session.end(), one("buffer_shared"));
}

#[test]
fn leaks_dead_handles_and_missing_callbacks_are_reported() {
    let session = Session::begin("{}");
    let mut bare = null_mut();
    ok(TRITONSERVER_InferenceRequestNew(&mut bare, session.server, c"fake".as_ptr(), 1));
    assert!(message(session.issue(bare)).contains("callbacks"));
    ok(TRITONSERVER_InferenceRequestDelete(bare));
    assert!(message(TRITONSERVER_InferenceRequestDelete(bare)).contains("dead handle"));
    let error = TRITONSERVER_ErrorNew(3, c"kept".as_ptr());
    let expected = ["callbacks_missing", "dead_handle", "leak"];
    let rules = session.end();
    TRITONSERVER_ErrorDelete(error);
    assert_eq!(rules, expected.map(|rule| (rule.to_owned(), 1)).into());
}

#[test]
fn stopping_under_live_requests_and_deleting_a_used_allocator_are_reported() {
    let session = Session::begin("{}");
    let slot = Slot::default();
    let request = session.request(&slot, &DATA);
    assert!(message(TRITONSERVER_ServerStop(session.server)).contains("Exit timeout expired"));
    let rules = session.end();
    let expected = ["stopped_with_live_requests", "allocator_in_use", "leak"];
    assert_eq!(rules, expected.map(|rule| (rule.to_owned(), 1)).into());
    ok(TRITONSERVER_InferenceRequestDelete(request));
}

#[test]
fn queries_answer_json() {
    let session = Session::begin("{}");
    let read = |ask: &dyn Fn(*mut *mut Message) -> Status| -> Value {
        let (mut message, mut base, mut bytes) = (null_mut(), null(), 0);
        ok(ask(&mut message));
        ok(TRITONSERVER_MessageSerializeToJson(message, &mut base, &mut bytes));
        let json = unsafe { CStr::from_ptr(base) }.to_str().unwrap().to_owned();
        assert_eq!(json.len(), bytes);
        ok(TRITONSERVER_MessageDelete(message));
        serde_json::from_str(&json).unwrap()
    };
    let (server, name) = (session.server, CString::new("fake").unwrap());
    assert_eq!(read(&|to| TRITONSERVER_ServerMetadata(server, to))["version"], "2.51.0");
    assert_eq!(read(&|to| TRITONSERVER_ServerModelConfig(server, name.as_ptr(), 1, 1, to))["name"], "fake");
    let metadata = read(&|to| TRITONSERVER_ServerModelMetadata(server, name.as_ptr(), -1, to));
    assert_eq!(metadata["inputs"][0]["datatype"], "INT32");
    let slot = Slot::default();
    let request = session.request(&slot, &DATA);
    ok(session.issue(request));
    slot.wait("rFR");
    ok(TRITONSERVER_InferenceRequestDelete(request));
    let statistics = read(&|to| TRITONSERVER_ServerModelStatistics(server, c"".as_ptr(), -1, to));
    assert_eq!(statistics["model_stats"][0]["inference_stats"]["success"]["count"], 1);
    assert_eq!(read(&|to| TRITONSERVER_ServerModelIndex(server, 0, to))[0]["state"], "READY");
    assert!(
        message(TRITONSERVER_ServerModelConfig(server, c"nobody".as_ptr(), 1, 1, null_mut())).starts_with("Not found")
    );
    assert_eq!(session.end(), BTreeMap::new());
}

unsafe extern "C" fn on_activity(_: *mut Trace, activity: c_int, ns: u64, userp: *mut c_void) {
    assert!(ns > 0);
    unsafe { &*userp.cast::<Slot>() }.callbacks.lock().push_str(&activity.to_string());
}

unsafe extern "C" fn on_trace_release(trace: *mut Trace, userp: *mut c_void) {
    unsafe { &*userp.cast::<Slot>() }.callbacks.lock().push('T');
    ok(TRITONSERVER_InferenceTraceDelete(trace));
}

#[test]
fn traces_tell_the_steps_and_are_given_back() {
    let session = Session::begin(r#"{"thread":"caller"}"#);
    let (slot, steps, mut trace) = (Slot::default(), Slot::default(), null_mut());
    let request = session.request(&slot, &DATA);
    let userp = (&raw const steps).cast_mut().cast();
    ok(TRITONSERVER_InferenceTraceNew(&mut trace, 4, 0, Some(on_activity), Some(on_trace_release), userp));
    ok(TRITONSERVER_ServerInferAsync(session.server, request, trace));
    assert_eq!(steps.callbacks.lock().as_str(), "0123456T");
    ok(TRITONSERVER_InferenceRequestDelete(request));
    assert_eq!(session.end(), BTreeMap::new());
}
