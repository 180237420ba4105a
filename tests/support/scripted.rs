//! The scripted server library: takes a script, and returns its log of what the client did.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Program, artifact};

/// The scripted server library, as the workspace's build leaves it.
const LIBRARY: &str = "libfake_triton.so";

/// The functions of the C API that releases after 20.10 added.
pub const SINCE_20_10: &[&str] = &[
    "TRITONSERVER_BufferAttributesByteSize",
    "TRITONSERVER_BufferAttributesCudaIpcHandle",
    "TRITONSERVER_BufferAttributesDelete",
    "TRITONSERVER_BufferAttributesMemoryType",
    "TRITONSERVER_BufferAttributesMemoryTypeId",
    "TRITONSERVER_BufferAttributesNew",
    "TRITONSERVER_BufferAttributesSetByteSize",
    "TRITONSERVER_BufferAttributesSetCudaIpcHandle",
    "TRITONSERVER_BufferAttributesSetMemoryType",
    "TRITONSERVER_BufferAttributesSetMemoryTypeId",
    "TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes",
    "TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy",
    "TRITONSERVER_InferenceRequestCancel",
    "TRITONSERVER_InferenceRequestIsCancelled",
    "TRITONSERVER_InferenceRequestSetBoolParameter",
    "TRITONSERVER_InferenceRequestSetCorrelationIdString",
    "TRITONSERVER_InferenceRequestSetDoubleParameter",
    "TRITONSERVER_InferenceRequestSetIntParameter",
    "TRITONSERVER_InferenceRequestSetPriorityUInt64",
    "TRITONSERVER_InferenceRequestSetStringParameter",
    "TRITONSERVER_InferenceTraceNew",
    "TRITONSERVER_InferenceTraceRequestId",
    "TRITONSERVER_InferenceTraceTensorNew",
    "TRITONSERVER_ParameterBytesNew",
    "TRITONSERVER_ParameterDelete",
    "TRITONSERVER_ParameterNew",
    "TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction",
    "TRITONSERVER_ResponseAllocatorSetQueryFunction",
    "TRITONSERVER_ServerLoadModelWithParameters",
    "TRITONSERVER_ServerOptionsAddRateLimiterResource",
    "TRITONSERVER_ServerOptionsSetBufferManagerThreadCount",
    "TRITONSERVER_ServerOptionsSetCacheConfig",
    "TRITONSERVER_ServerOptionsSetCacheDirectory",
    "TRITONSERVER_ServerOptionsSetCpuMetrics",
    "TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize",
    "TRITONSERVER_ServerOptionsSetEnablePeerAccess",
    "TRITONSERVER_ServerOptionsSetHostPolicy",
    "TRITONSERVER_ServerOptionsSetLogFile",
    "TRITONSERVER_ServerOptionsSetLogFormat",
    "TRITONSERVER_ServerOptionsSetMetricsConfig",
    "TRITONSERVER_ServerOptionsSetMetricsInterval",
    "TRITONSERVER_ServerOptionsSetModelConfigName",
    "TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit",
    "TRITONSERVER_ServerOptionsSetModelLoadRetryCount",
    "TRITONSERVER_ServerOptionsSetModelLoadThreadCount",
    "TRITONSERVER_ServerOptionsSetModelNamespacing",
    "TRITONSERVER_ServerOptionsSetRateLimiterMode",
    "TRITONSERVER_ServerOptionsSetRepoAgentDirectory",
    "TRITONSERVER_ServerOptionsSetResponseCacheByteSize",
    "TRITONSERVER_ServerSetExitTimeout",
    "TRITONSERVER_ServerUnloadModelAndDependents",
];

/// Gives these functions other names of the same length wherever the library names them.
fn hide(functions: &[&str], library: &mut [u8]) {
    const START: &[u8] = b"\0TRITONSERVER_";
    let starts = library.windows(START.len()).enumerate().filter(|(_, text)| *text == START).map(|(at, _)| at + 1);
    let starts: Vec<usize> = starts.collect();
    let mut hidden = BTreeSet::new();
    for start in starts {
        let length = library[start..].iter().position(|&byte| byte == 0).expect("names end");
        let name = str::from_utf8(&library[start..start + length]).expect("names of symbols are text");
        if let Some(function) = functions.iter().find(|function| **function == name) {
            hidden.insert(*function);
            library[start] = b'-';
        }
    }
    assert_eq!(hidden, functions.iter().copied().collect(), "the library has all that is to be hidden");
}

/// A script with a model whose requests may have any number of responses.
pub fn decoupled(requests: &Value) -> Value {
    json!({
        "models": [{"name": "fake", "config": {
            "max_batch_size": 0,
            "model_transaction_policy": {"decoupled": true},
            "input": [{"name": "INPUT0", "data_type": "TYPE_INT32", "dims": [-1]}],
            "output": [{"name": "OUTPUT0", "data_type": "TYPE_INT32", "dims": [-1]}]
        }}],
        "requests": requests
    })
}

/// A server directory with the scripted library, and a script.
pub struct Scripted {
    scratch: TempDir,
}

impl Scripted {
    /// A server whose requests behave as `requests` says, in turn.
    pub fn requests(requests: Value) -> Self {
        Self::script(&json!({ "requests": requests }))
    }

    /// A server that plays `script`.
    pub fn script(script: &Value) -> Self {
        let scripted = Self::bare();
        symlink(artifact(LIBRARY), scripted.library()).unwrap();
        fs::write(scripted.scratch.path().join("script.json"), script.to_string()).unwrap();
        scripted
    }

    /// A server without these functions, as an older release is, and without a script.
    ///
    /// The library is copied, and the functions get other names in the copy's table of symbols, so that a look-up does not find them.
    pub fn without(functions: &[&str]) -> Self {
        let scripted = Self::bare();
        let mut library = fs::read(artifact(LIBRARY)).unwrap();
        hide(functions, &mut library);
        fs::write(scripted.library(), library).unwrap();
        scripted
    }

    fn bare() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir_all(scratch.path().join("server/lib")).unwrap();
        fs::create_dir_all(scratch.path().join("models/fake")).unwrap();
        fs::write(scratch.path().join("script.json"), "{}").unwrap();
        Self { scratch }
    }

    fn library(&self) -> PathBuf {
        self.path("server/lib/libtritonserver.so")
    }

    /// A file or folder of it: `server`, `models`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// What the program says on standard error as a user who owns nothing here. Tests that run as another user than root are
    /// strangers to nobody, and take their own rights away.
    pub fn as_stranger(&self, arguments: &[&str]) -> String {
        // Folders for temporary files are their owner's alone.
        fs::set_permissions(self.scratch.path(), Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_triton-bench"));
        command.args(self.arguments().into_iter().skip(1)).args(arguments).envs(self.environment()).uid(65534);
        let output = command.output().expect("tests of rights run as root");
        String::from_utf8(output.stderr).unwrap()
    }

    /// The program on this server's model `fake`, whose input has this many elements.
    pub fn program(&self) -> Program {
        let program = self.arguments().into_iter().skip(1).fold(Program::new(), Program::arg);
        self.environment().into_iter().fold(program, |program, (name, value)| program.env(name, value))
    }

    /// Its command line.
    pub fn arguments(&self) -> Vec<OsString> {
        let [server, models] = ["server", "models"].map(|name| self.scratch.path().join(name).into_os_string());
        let start = "triton-bench -m fake --shape INPUT0:4 --service-kind triton_c_api --triton-server-directory";
        let mut arguments: Vec<OsString> = start.split(' ').map(OsString::from).collect();
        arguments.extend([server, "--model-repository".into(), models]);
        arguments
    }

    /// What the library reads.
    pub fn environment(&self) -> [(&'static str, PathBuf); 2] {
        [("FAKE_TRITON_SCRIPT", self.scratch.path().join("script.json")), ("FAKE_TRITON_LOG", self.log_path())]
    }

    fn log_path(&self) -> PathBuf {
        self.scratch.path().join("log")
    }

    /// How many events of one kind a server that still runs has logged.
    pub fn logged(&self, kind: &str) -> usize {
        let text = fs::read_to_string(self.log_path()).unwrap_or_default();
        text.matches(&format!("\"event\":\"{kind}\"")).count()
    }

    /// Everything that the library logged.
    pub fn log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.log_path()).expect("the library wrote a log");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until so many requests have been issued, by a script with `log_requests`.
    pub fn wait_for_requests(&self, count: usize) {
        let started = Instant::now();
        let issued =
            || fs::read_to_string(self.log_path()).unwrap_or_default().matches("\"event\":\"request\"").count();
        while issued() < count {
            assert!(started.elapsed() < Duration::from_secs(60), "{} of {count} requests were issued", issued());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Events of one kind.
    pub fn events(&self, kind: &str) -> Vec<Value> {
        self.log().into_iter().filter(|event| event["event"] == kind).collect()
    }

    /// The counters of the one server that was deleted, after checking that the client broke no rule and left nothing behind.
    pub fn clean(&self) -> Value {
        let violations = self.events("violation");
        assert!(violations.is_empty(), "{} violations, the first: {}", violations.len(), violations[0]);
        let exits = self.events("exit");
        let [exit] = &exits[..] else { panic!("the library was left {} times", exits.len()) };
        let live = exit["live"].as_object().unwrap();
        assert!(live.values().all(|count| count == 0), "left behind: {live:?}");
        let deleted = self.events("server_delete");
        let [deleted] = &deleted[..] else { panic!("{} servers were deleted", deleted.len()) };
        deleted["counters"].clone()
    }
}
