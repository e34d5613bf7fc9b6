//! `sprio`: factors of priorities. There are none to show: jobs go in the order of their
//! submission, as with Slurm's `priority/basic`, and Slurm's own command says the same then.
//! Source: a capture.

use super::messages::say;
use super::reports;
use crate::{Context, exit};
use cosy_slurm::small_reports::{Invocation, SPRIO, read};

/// Runs `sprio`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    match read(SPRIO, context.args()) {
        Invocation::Help => reports::help(context, SPRIO),
        Invocation::Usage => reports::usage(context, SPRIO),
        Invocation::Version => reports::version(),
        Invocation::UsageError(mistake) => reports::mistake(context, &mistake),
        Invocation::Report(_) => {
            say("You are not running a supported priority plugin");
            say("(priority/basic).");
            say("Only 'priority/multifactor' is supported.");
            exit::FAILED
        }
    }
}
