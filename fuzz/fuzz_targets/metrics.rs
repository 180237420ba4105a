#![no_main]

use triton_bench::metrics::{MetricsFold, parse};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(page) = std::str::from_utf8(bytes) else { return };
    let mut fold = MetricsFold::new("m");
    fold.add(&parse(page));
    fold.add(&parse(page));
    let _ = (fold.gpus(), fold.host());
});
