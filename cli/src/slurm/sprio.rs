//! `sprio`: factors of priorities. There are none to show: jobs go in the order of their
//! submission, as with Slurm's `priority/basic`, and Slurm's own command says the same then.
//! Source: a capture.

use super::looking;
use super::messages::say;
use crate::{Context, exit};
use cosy_slurm::plain::{Asked, SPRIO, read};

/// Runs `sprio`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    match read(SPRIO, context.args()) {
        Asked::Help => looking::help(context, SPRIO),
        Asked::Usage => looking::usage(context, SPRIO),
        Asked::Version => looking::version(),
        Asked::Mistake(mistake) => looking::mistake(context, &mistake),
        Asked::Report(_) => {
            say("You are not running a supported priority plugin");
            say("(priority/basic).");
            say("Only 'priority/multifactor' is supported.");
            exit::FAILED
        }
    }
}
