#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((piece, answer)) = bytes.split_first() {
        triton_bench::backends::openai::fuzzing::answer(usize::from(*piece), answer);
    }
});
