//! What the server reports: metadata, configuration, statistics, index, metrics.

use std::ffi::{CString, c_char, c_int};

use serde_json::{Value, json};

use crate::abi::{INVALID_ARG, NOT_FOUND, Status, UNAVAILABLE};
use crate::delivery::Served;
use crate::error::{Message, OK, fail, give, give_message, live, text};
use crate::ledger::{self, Kind, Object, lock};
use crate::script::ModelScript;
use crate::server::{Loading, Server};

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerMetadata(server: *mut Server, message: *mut *mut Message) -> Status {
    let server = live!(server, "ServerMetadata");
    let version = &server.script.server.version;
    give_message(message, &json!({"name": "triton", "version": version, "extensions": ["statistics"]}))
}

fn of_model(
    server: *mut Server,
    name: *const c_char,
    version: i64,
    message: *mut *mut Message,
    report: impl FnOnce(&ModelScript) -> Value,
) -> Status {
    let server = live!(server, "a query about a model");
    let Some(model) = server.model(text(name)) else {
        return fail(NOT_FOUND, &format!("Request for unknown model: '{}' is not found", text(name)));
    };
    if server.is_loaded(&model.name) != Some(true) {
        return fail(UNAVAILABLE, &format!("Request for unknown model: '{}' has no available versions", model.name));
    }
    if version != -1 && !model.versions.contains(&version.to_string()) {
        return fail(NOT_FOUND, &format!("Request for unknown model: '{}' version {version} is not found", model.name));
    }
    give_message(message, &report(model))
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerModelMetadata(
    server: *mut Server,
    name: *const c_char,
    version: i64,
    message: *mut *mut Message,
) -> Status {
    of_model(server, name, version, message, ModelScript::metadata)
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerModelConfig(
    server: *mut Server,
    name: *const c_char,
    version: i64,
    config_version: u32,
    message: *mut *mut Message,
) -> Status {
    if config_version != 1 {
        return fail(INVALID_ARG, "model configuration version must be 1");
    }
    of_model(server, name, version, message, ModelScript::config)
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerModelStatistics(
    server: *mut Server,
    name: *const c_char,
    _version: i64,
    message: *mut *mut Message,
) -> Status {
    let server = live!(server, "ServerModelStatistics");
    let wanted = text(name);
    let served = lock(&server.delivery.shared.served).clone();
    let chosen = server.script.models.iter().filter(|model| wanted.is_empty() || model.name == wanted);
    let ready = chosen.filter(|model| server.is_loaded(&model.name) == Some(true));
    let list: Vec<Value> =
        ready.map(|model| statistics(model, served.get(&model.name).copied().unwrap_or_default())).collect();
    if list.is_empty() && !wanted.is_empty() {
        return fail(INVALID_ARG, &format!("requested model '{wanted}' is not available"));
    }
    give_message(message, &json!({"model_stats": list}))
}

fn statistics(model: &ModelScript, served: Served) -> Value {
    let duration = |count: u64, ns: u64| json!({"count": count, "ns": ns});
    let compute = duration(served.success, served.success_ns);
    let none = duration(served.success, 0);
    model.statistics.clone().unwrap_or_else(|| {
        json!({
            "name": model.name, "version": model.versions.first(), "last_inference": 0,
            "inference_count": served.success, "execution_count": served.success,
            "inference_stats": {
                "success": compute, "fail": duration(served.fail, served.fail_ns), "queue": none,
                "compute_input": none, "compute_infer": compute, "compute_output": none,
                "cache_hit": duration(0, 0), "cache_miss": duration(0, 0),
            },
            "response_stats": {}, "batch_stats": [], "memory_usage": [],
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerModelIndex(server: *mut Server, flags: u32, message: *mut *mut Message) -> Status {
    const READY_ONLY: u32 = 1;
    let server = live!(server, "ServerModelIndex");
    let mut list = Vec::new();
    for (name, loading) in lock(&server.models).iter_mut() {
        let (state, reason) = match *loading {
            Loading::Never => ("", ""),
            Loading::Ready => ("READY", ""),
            Loading::Unloading(_) => ("UNLOADING", ""),
            Loading::Unloaded => ("UNAVAILABLE", "unloaded"),
            Loading::Failed => ("UNAVAILABLE", "load failed"),
        };
        if let Loading::Unloading(left) = *loading {
            *loading = if left <= 1 { Loading::Unloaded } else { Loading::Unloading(left - 1) };
        }
        match state {
            state if flags & READY_ONLY != 0 && state != "READY" => {}
            "" => list.push(json!({"name": name})),
            state => {
                let version = server.model(name).and_then(|model| model.versions.first().cloned());
                list.push(json!({"name": name, "version": version, "state": state, "reason": reason}));
            }
        }
    }
    give_message(message, &Value::Array(list))
}

/// A reading of the metrics.
pub struct Metrics {
    text: CString,
}

impl Object for Metrics {
    const KIND: Kind = Kind::Metrics;
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerMetrics(server: *mut Server, metrics: *mut *mut Metrics) -> Status {
    let server = live!(server, "ServerMetrics");
    let text = CString::new(server.script.server.metrics.as_str()).unwrap_or_default();
    give(metrics, ledger::create(Metrics { text }));
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_MetricsFormatted(
    metrics: *mut Metrics,
    _format: c_int,
    base: *mut *const c_char,
    bytes: *mut usize,
) -> Status {
    let metrics = live!(metrics, "MetricsFormatted");
    give(base, metrics.text.as_ptr());
    give(bytes, metrics.text.as_bytes().len());
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_MetricsDelete(metrics: *mut Metrics) -> Status {
    match ledger::destroy(metrics, "MetricsDelete") {
        Some(_) => OK,
        None => fail(INVALID_ARG, "MetricsDelete: dead handle"),
    }
}
