#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((prefix, rest)) = data.split_first() else { return };
    let (prefix, name) = rest.split_at(rest.len().min(usize::from(*prefix)));
    quorlock::fuzzing::name(prefix, name);
});
