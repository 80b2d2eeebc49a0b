#![no_main]

libfuzzer_sys::fuzz_target!(|data: &str| quorlock::fuzzing::url(data));
