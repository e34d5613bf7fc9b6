//! The commands of `cosy-sim`.

pub mod calibrate;
pub mod experiment;
pub mod generate;
pub mod output;
pub mod pages;
pub mod progress;
pub mod report;
pub mod run;
pub mod source;
pub mod try_policy;
pub mod try_report;
