//! `sshare`: shares of accounts. There is no fair share here, so that the list is empty, as
//! that of a Slurm without accounting. Source: a capture.

use super::messages::error;
use super::reports;
use crate::{Context, exit, output};
use cosy_slurm::getopt::Parsed;
use cosy_slurm::small_reports::{
    Invocation, MORE_SHARES, SHARES, SSHARE, read, share_heading, shares,
};

/// Runs `sshare`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    match read(SSHARE, context.args()) {
        Invocation::Help => reports::help(context, SSHARE),
        Invocation::Usage => reports::usage(context, SSHARE),
        Invocation::Version => reports::version(),
        Invocation::UsageError(mistake) => reports::mistake(context, &mistake),
        Invocation::Report(parsed) => report(context, &parsed),
    }
}

fn report(context: &Context, parsed: &Parsed) -> u8 {
    let (mut columns, mut separated, mut bare) = (SHARES.to_vec(), None, false);
    for found in &parsed.found {
        match found.name {
            "helpformat" => {
                let names = SHARES.iter().chain(&MORE_SHARES);
                let names: Vec<&str> = names.map(|s| s.0).collect();
                output::print(&format!("{}\n", names.join("  ")));
                return exit::OK;
            }
            "format" => match shares(&found.text()) {
                Ok(chosen) => columns = chosen,
                Err(word) => {
                    error(context, &format!("Unknown field '{word}'"));
                    return exit::FAILED;
                }
            },
            "noheader" => bare = true,
            "parsable" => separated = Some(true),
            "parsable2" => separated = Some(false),
            // Other options choose among rows, and there are none.
            _ => {}
        }
    }
    if !bare {
        output::print(&share_heading(&columns, separated));
    }
    exit::OK
}
