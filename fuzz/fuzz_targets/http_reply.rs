#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((piece, reply)) = bytes.split_first() {
        triton_bench::backends::kserve_http::fuzzing::reply(usize::from(*piece), reply);
    }
});
