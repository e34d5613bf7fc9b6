#![no_main]

libfuzzer_sys::fuzz_target!(init: cosy_fuzz::seeds::if_asked("local"), |bytes: &[u8]| cosy_fuzz::local::run(bytes));
