#![no_main]

use triton_bench::backends::triton_json::{model, statistics};
use triton_bench::model::ModelId;

// Statistics, and metadata and configuration, as the C API and HTTP carry them.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(bytes) else { return };
    if let Ok(snapshot) = statistics(&json) {
        assert!(snapshot.since(&snapshot).models.len() == snapshot.models.len());
    }
    let _ = model(&ModelId::latest("m"), &json["metadata"], &json["config"]);
});
