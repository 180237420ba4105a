#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| triton_bench::backends::tfserving::fuzzing::answer(bytes));
