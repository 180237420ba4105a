//! Server options: every call is recorded in order.

use std::ffi::{c_char, c_int, c_uint};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::abi::{INVALID_ARG, Status};
use crate::error::{OK, fail, give, live, text};
use crate::ledger::{self, Kind, Object, lock};
use crate::logger;

/// Options under construction.
#[derive(Default)]
pub struct Options {
    calls: Mutex<Vec<Vec<Value>>>,
}

impl Object for Options {
    const KIND: Kind = Kind::Options;
}

impl Options {
    /// The calls so far: name without prefix, then the arguments.
    pub fn calls(&self) -> Vec<Vec<Value>> {
        lock(&self.calls).clone()
    }

    /// First arguments of all calls of that name.
    pub fn values(&self, name: &str) -> Vec<Value> {
        let calls = lock(&self.calls);
        calls.iter().filter(|call| call[0] == name).filter_map(|call| call.get(1).cloned()).collect()
    }
}

trait Argument {
    fn to_value(self) -> Value;
}

impl Argument for *const c_char {
    fn to_value(self) -> Value {
        if self.is_null() { Value::Null } else { json!(text(self)) }
    }
}

macro_rules! plain_arguments {
    ($($kind:ty),*) => {$(impl Argument for $kind { fn to_value(self) -> Value { json!(self) } })*};
}
plain_arguments!(bool, c_int, c_uint, u64, usize, f64);

macro_rules! setters {
    ($($(#[$attribute:meta])* $symbol:ident = $name:literal ($($argument:ident: $kind:ty),*);)*) => {$(
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $symbol(options: *mut Options, $($argument: $kind),*) -> Status {
            let options = live!(options, $name);
            let call = vec![json!($name), $(Argument::to_value($argument)),*];
            logger::set($name, &call[1]);
            lock(&options.calls).push(call);
            OK
        }
    )*};
}

type Text = *const c_char;

setters! {
    TRITONSERVER_ServerOptionsSetServerId = "SetServerId" (id: Text);
    TRITONSERVER_ServerOptionsSetModelRepositoryPath = "SetModelRepositoryPath" (path: Text);
    TRITONSERVER_ServerOptionsSetModelControlMode = "SetModelControlMode" (mode: c_int);
    TRITONSERVER_ServerOptionsSetStartupModel = "SetStartupModel" (model: Text);
    TRITONSERVER_ServerOptionsSetStrictModelConfig = "SetStrictModelConfig" (strict: bool);
    TRITONSERVER_ServerOptionsSetPinnedMemoryPoolByteSize = "SetPinnedMemoryPoolByteSize" (size: u64);
    TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize = "SetCudaMemoryPoolByteSize" (gpu: c_int, size: u64);
    TRITONSERVER_ServerOptionsSetMinSupportedComputeCapability = "SetMinSupportedComputeCapability" (version: f64);
    TRITONSERVER_ServerOptionsSetExitOnError = "SetExitOnError" (exit: bool);
    TRITONSERVER_ServerOptionsSetStrictReadiness = "SetStrictReadiness" (strict: bool);
    TRITONSERVER_ServerOptionsSetExitTimeout = "SetExitTimeout" (seconds: c_uint);
    TRITONSERVER_ServerOptionsSetLogInfo = "SetLogInfo" (log: bool);
    TRITONSERVER_ServerOptionsSetLogWarn = "SetLogWarn" (log: bool);
    TRITONSERVER_ServerOptionsSetLogError = "SetLogError" (log: bool);
    TRITONSERVER_ServerOptionsSetLogVerbose = "SetLogVerbose" (level: c_int);
    TRITONSERVER_ServerOptionsSetMetrics = "SetMetrics" (metrics: bool);
    TRITONSERVER_ServerOptionsSetGpuMetrics = "SetGpuMetrics" (metrics: bool);
    TRITONSERVER_ServerOptionsSetBackendDirectory = "SetBackendDirectory" (path: Text);
    TRITONSERVER_ServerOptionsSetBackendConfig = "SetBackendConfig" (backend: Text, setting: Text, value: Text);
}

setters! {
    TRITONSERVER_ServerOptionsSetBufferManagerThreadCount = "SetBufferManagerThreadCount" (count: c_uint);
    TRITONSERVER_ServerOptionsSetRepoAgentDirectory = "SetRepoAgentDirectory" (path: Text);
    TRITONSERVER_ServerOptionsSetHostPolicy = "SetHostPolicy" (policy: Text, setting: Text, value: Text);
    TRITONSERVER_ServerOptionsSetRateLimiterMode = "SetRateLimiterMode" (mode: c_int);
    TRITONSERVER_ServerOptionsAddRateLimiterResource = "AddRateLimiterResource" (name: Text, count: usize, device: c_int);
    TRITONSERVER_ServerOptionsSetMetricsInterval = "SetMetricsInterval" (milliseconds: u64);
    TRITONSERVER_ServerOptionsSetLogFormat = "SetLogFormat" (format: c_int);
    TRITONSERVER_ServerOptionsSetLogFile = "SetLogFile" (path: Text);
    TRITONSERVER_ServerOptionsSetModelLoadThreadCount = "SetModelLoadThreadCount" (count: c_uint);
    TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit = "SetModelLoadDeviceLimit" (kind: c_int, device: c_int, fraction: f64);
    TRITONSERVER_ServerOptionsSetResponseCacheByteSize = "SetResponseCacheByteSize" (size: u64);
    TRITONSERVER_ServerOptionsSetCpuMetrics = "SetCpuMetrics" (metrics: bool);
    TRITONSERVER_ServerOptionsSetCacheConfig = "SetCacheConfig" (cache: Text, json: Text);
    TRITONSERVER_ServerOptionsSetCacheDirectory = "SetCacheDirectory" (path: Text);
    TRITONSERVER_ServerOptionsSetModelNamespacing = "SetModelNamespacing" (enable: bool);
    TRITONSERVER_ServerOptionsSetMetricsConfig = "SetMetricsConfig" (name: Text, setting: Text, value: Text);
    TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize = "SetCudaVirtualAddressSize" (gpu: c_int, size: usize);
    TRITONSERVER_ServerOptionsSetModelLoadRetryCount = "SetModelLoadRetryCount" (count: c_uint);
    TRITONSERVER_ServerOptionsSetModelConfigName = "SetModelConfigName" (name: Text);
    TRITONSERVER_ServerOptionsSetEnablePeerAccess = "SetEnablePeerAccess" (enable: bool);
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerOptionsNew(options: *mut *mut Options) -> Status {
    give(options, ledger::create(Options::default()));
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerOptionsDelete(options: *mut Options) -> Status {
    match ledger::destroy(options, "ServerOptionsDelete") {
        Some(_) => OK,
        None => fail(INVALID_ARG, "ServerOptionsDelete: dead handle"),
    }
}
