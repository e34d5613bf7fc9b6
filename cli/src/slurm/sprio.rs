//! `sprio`: factors of priorities. There are none to show: jobs go in the order of their
//! submission, as with Slurm's `priority/basic`, and Slurm's own command says the same then.
//! Source: a capture.

use super::looking;
use super::messages::say;
use crate::{Context, exit};
use cosy_slurm::plain::{Invocation, SPRIO, read};

/// Runs `sprio`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    match read(SPRIO, context.args()) {
        Invocation::Help => looking::help(context, SPRIO),
        Invocation::Usage => looking::usage(context, SPRIO),
        Invocation::Version => looking::version(),
        Invocation::Mistake(mistake) => looking::mistake(context, &mistake),
        Invocation::Report(_) => {
            say("You are not running a supported priority plugin");
            say("(priority/basic).");
            say("Only 'priority/multifactor' is supported.");
            exit::FAILED
        }
    }
}
