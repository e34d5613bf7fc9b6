//! `srun`: tasks of a program over the nodes of a job; outside of one, in a job of its own.
//!
//! What it asks for is read as Slurm reads it; then it goes the way of `cosy run`
//! ([`crate::launch`]) and speaks in Slurm's words. Source: srun(1), captures srun-*.

mod components;
mod inside;
mod layout;
mod outside;
mod prolog;
mod request;
mod step;
pub mod step_options;

use self::request::{Read, SRUN, SrunOptions, Stop};
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
        Err(mistake) => return submit::mistaken(SRUN, &mistake),
    };
    match components::read_all(components) {
        Ok(Read::Asked(asked)) => start(context, &asked),
        Ok(Read::Told(code)) => code,
        Err(fault) => fail(SRUN, &fault),
    }
}

fn start(context: &Context, asked: &SrunOptions) -> u8 {
    let done = match prolog::before(&asked.step_options) {
        Err(fault) => Err(fault.into()),
        Ok(()) => match inside::job(asked) {
            Some(job) => inside::run(context, asked, job),
            None => outside::run(context, asked),
        },
    };
    let code = done.unwrap_or_else(Stop::code);
    prolog::after(&asked.step_options);
    code
}
