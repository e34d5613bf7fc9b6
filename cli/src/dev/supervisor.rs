//! sup
pub const HIDDEN_NAME: &str = "dev-supervisor";
pub fn main(_: &[std::ffi::OsString]) -> u8 {
    0
}
