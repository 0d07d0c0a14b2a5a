#![no_main]

#[allow(dead_code, reason = "every target is a binary of its own")]
#[path = "../../tests/fuzz/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::cost::holds(data));
