#![no_main]

libfuzzer_sys::fuzz_target!(init: cosy_fuzz::seeds::if_asked("rest"), |bytes: &[u8]| cosy_fuzz::rest::run(bytes));
