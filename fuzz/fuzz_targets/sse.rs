#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((piece, events)) = bytes.split_first() {
        triton_bench::wire::fuzzing::events(usize::from(*piece), events);
    }
});
