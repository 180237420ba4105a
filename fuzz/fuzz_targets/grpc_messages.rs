#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((piece, messages)) = bytes.split_first() {
        triton_bench::wire::fuzzing::messages(usize::from(*piece), messages);
    }
});
