#![no_main]

libfuzzer_sys::fuzz_target!(init: cosy_fuzz::seeds::if_asked("peer"), |bytes: &[u8]| cosy_fuzz::peer::run(bytes));
