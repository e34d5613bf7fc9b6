#![no_main]

libfuzzer_sys::fuzz_target!(init: cosy_fuzz::seeds::if_asked("judge"), |bytes: &[u8]| cosy_fuzz::judge::run(bytes));
