//! `strigger`: programs that Slurm's controller runs when something happens.
//!
//! There are none here: `cadm events --follow` tells what happens as it happens, and jobs
//! send mail. A list of them is empty; making or removing one is refused. Source:
//! strigger(1).

use super::{error, read};
use crate::{Context, exit};
use cosy_slurm::getopt::{Opt, Takes};
use cosy_slurm::table::Row;

const USAGE: &str = "strigger [--set | --get | --clear] [OPTIONS]";

/// What makes up a trigger is read, so that a command line that is fine is refused for what
/// it wants and not for how it is written.
const OPTIONS: &[Row] = &[
    Row::long_flag("set", "create a trigger: refused, there are none here"),
    Row::long_flag("get", "get trigger information: a list without lines"),
    Row::long_flag("clear", "delete a trigger: refused, there are none here"),
    Row::hidden(Opt::both(b'a', "primary_slurmctld_failure", Takes::Nothing)),
    Row::hidden(Opt::both(
        b'A',
        "primary_slurmctld_resumed_operation",
        Takes::Nothing,
    )),
    Row::hidden(Opt::both(b'c', "backup_controller_failure", Takes::Nothing)),
    Row::hidden(Opt::both(b'd', "down", Takes::Nothing)),
    Row::hidden(Opt::both(b'D', "drained", Takes::Nothing)),
    Row::hidden(Opt::both(b'f', "fini", Takes::Nothing)),
    Row::hidden(Opt::both(b'F', "fail", Takes::Nothing)),
    Row::value(b'i', "id", "ID", "only this trigger"),
    Row::hidden(Opt::both(b'I', "idle", Takes::Nothing)),
    Row::value(b'j', "jobid", "ID", "only those of this job"),
    Row::value(b'M', "cluster", "NAME", "cluster: only this one here"),
    Row::value(b'n', "node", "host", "only those of these nodes").perhaps(),
    Row::flag(b'N', "noheader", "without the line of titles"),
    Row::value(b'o', "offset", "SECONDS", "how long before or after"),
    Row::value(b'p', "program", "PATH", "what to run"),
    Row::flag(b'Q', "quiet", "say nothing but errors"),
    Row::hidden(Opt::both(b'r', "reconfig", Takes::Nothing)),
    Row::hidden(Opt::both(b't', "time", Takes::Nothing)),
    Row::hidden(Opt::both(b'u', "up", Takes::Nothing)),
    Row::long_value("flags", "FLAGS", "flags of a trigger"),
    Row::long_value("user", "NAME", "only those of this user"),
    Row::flag(b'v', "verbose", "print detailed messages: accepted"),
    Row::flag(b'V', "version", "say the version, and exit"),
    Row::long_flag("help", "say what options there are, and exit"),
    Row::long_flag("usage", "say how it is called, and exit"),
];

/// Runs `strigger`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    let parsed = match read(context, USAGE, OPTIONS) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    let asked = |name: &str| parsed.found.iter().any(|f| f.name == name);
    if asked("set") || asked("clear") {
        let text = "there are no triggers here: 'cadm events --follow' tells what happens";
        error(context, text);
        return exit::FAILED;
    }
    if asked("get") {
        return exit::OK;
    }
    error(context, "You must specify --set, --get or --clear");
    exit::FAILED
}
