#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((piece, file)) = bytes.split_first() {
        triton_bench::trace_files::file(usize::from(*piece), file);
    }
});
