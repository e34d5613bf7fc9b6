#![no_main]

libfuzzer_sys::fuzz_target!(init: cosy_fuzz::seeds::if_asked("link"), |bytes: &[u8]| cosy_fuzz::link::run(bytes));
