#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((piece, answer)) = bytes.split_first() {
        triton_bench::backends::torchserve::fuzzing::answer(usize::from(*piece), answer);
    }
});
