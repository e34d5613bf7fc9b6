#![no_main]

libfuzzer_sys::fuzz_target!(init: cosy_fuzz::seeds::if_asked("pmix"), |bytes: &[u8]| cosy_fuzz::pmix::run(bytes));
