//! The target `replay_file` as a program for cargo-fuzz.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    ferroce_fuzz::replay_file::run(input);
});
