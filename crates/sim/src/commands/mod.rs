//! The commands of `cosy-sim`.

pub mod calibrate;
pub mod experiment;
pub mod generate;
pub mod run;
pub mod source;
pub mod try_policy;
