#![no_main]

libfuzzer_sys::fuzz_target!(init: cosy_fuzz::seeds::if_asked("pmi"), |bytes: &[u8]| cosy_fuzz::pmi::run(bytes));
