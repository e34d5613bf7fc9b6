//! `srun`: tasks of a program over the nodes of a job; outside of one, in a job of its own.
//!
//! Options are read as Slurm reads them; the step then runs with the code of `cosy run`
//! ([`crate::launch`]), and messages are Slurm's. Source: srun(1), captures srun-*.

mod bcast;
mod components;
mod in_job;
mod layout;
mod own_job;
mod prolog;
mod request;
mod step;
pub mod step_options;

use self::request::{Failure, ReadResult, SRUN, SrunOptions};
use super::messages::fail;
use super::submit;
use crate::Context;

/// Runs `srun`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    let parsed = match submit::command_line(context, SRUN) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    let components = match components::of_line(parsed.found, parsed.words) {
        Ok(components) => components,
        Err(mistake) => return submit::report_usage_error(SRUN, &mistake),
    };
    match components::read_all(components) {
        Ok(ReadResult::Request(srun_options)) => start(context, &srun_options),
        Ok(ReadResult::Answered(code)) => code,
        Err(fault) => fail(SRUN, &fault),
    }
}

fn start(context: &Context, srun_options: &SrunOptions) -> u8 {
    let done = match prolog::before(&srun_options.step_options) {
        Err(fault) => Err(fault.into()),
        Ok(()) => match in_job::job(srun_options) {
            Some(job) => in_job::run(context, srun_options, job),
            None => own_job::run(context, srun_options),
        },
    };
    let code = done.unwrap_or_else(Failure::code);
    prolog::after(&srun_options.step_options);
    code
}
