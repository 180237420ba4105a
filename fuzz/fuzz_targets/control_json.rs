#![no_main]

use triton_bench::model::statistics::StatisticsSnapshot;
use triton_bench::model::{ModelId, ModelSpec};

// Statistics, and metadata and configuration, as the C API and HTTP carry them.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(bytes) else { return };
    if let Ok(snapshot) = StatisticsSnapshot::from_json(&json) {
        assert!(snapshot.since(&snapshot).models.len() == snapshot.models.len());
    }
    let _ = ModelSpec::from_json(&ModelId::latest("m"), &json["metadata"], &json["config"]);
});
