//! Jobs of several components: command lines with `:`, and what becomes of the components behind
//! the first.

use super::{files, refusal};
use crate::Context;
use cosy_model::JobSpec;
use cosy_slurm::getopt::{self, GivenOption, Order};
use cosy_slurm::submit::components::{self, COLON};
use cosy_slurm::submit::options::SubmitOptions;
use cosy_slurm::submit::{Fault, Program, table};
use std::ffi::OsString;

/// The options of each component of a command line, and the words behind the last.
///
/// # Errors
/// The first usage error behind a colon.
pub fn of_line(
    program: Program,
    first: Vec<GivenOption>,
    words: Vec<OsString>,
) -> Result<(Vec<Vec<GivenOption>>, Vec<OsString>), getopt::UsageError> {
    let (mut components, mut words) = (vec![first], words);
    while words.first().is_some_and(|word| word == COLON) {
        let (found, rest) = next(program, &words[1..])?;
        components.push(found);
        words = rest;
    }
    Ok((components, words))
}

/// The options behind a colon, and the words behind them.
///
/// # Errors
/// The first usage error.
pub fn next(
    program: Program,
    words: &[OsString],
) -> Result<(Vec<GivenOption>, Vec<OsString>), getopt::UsageError> {
    let parsed = getopt::parse(&table::options(program), Order::Stop, words);
    match parsed.mistake {
        Some(mistake) => Err(mistake),
        None => Ok((parsed.found, parsed.words)),
    }
}

/// Gives a job its further components.
///
/// # Errors
/// Too many components, or values that cannot be read.
pub fn add(context: &Context, further: &[SubmitOptions], job: &mut JobSpec) -> Result<(), Fault> {
    let mut further = further.to_vec();
    further.iter_mut().try_for_each(files::read_host_files)?;
    components::add(&|| refusal::nodes(context), further, job)
}
