#![no_main]

use triton_bench::metrics::{MetricsFold, Page};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut fold = MetricsFold::new("m");
    for _ in 0..2 {
        let mut page = Page::new("m");
        text.lines().for_each(|line| page.line(line));
        fold.absorb(&page.fold());
    }
    let _ = (fold.gpus(), fold.host());
});
