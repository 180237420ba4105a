#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((piece, frames)) = bytes.split_first() {
        triton_bench::wire::fuzzing::frames(usize::from(*piece), frames);
    }
});
