//! `--verbose`: prints the options, and given twice the limits and mask that the job inherits.

use crate::slurm::messages::say;
use cosy_client::cluster;
use cosy_model::MiB;
use cosy_slurm::getopt::GivenOption;
use cosy_slurm::submit::options::{Memory, SubmitOptions};
use cosy_slurm::submit::{self, Program};
use cosy_slurm::times;

/// Prints the options that were given, by name.
pub fn describe(program: Program, options: &[GivenOption]) {
    let name = program.name();
    let rule = format!("{name}: {0} {0}", "-".repeat(20));
    say(&format!("{name}: defined options"));
    say(&rule);
    let mut names: Vec<&str> = options.iter().map(|f| f.name).collect();
    names.sort_unstable();
    names.dedup();
    for option in names {
        let given = options.iter().filter(|f| f.name == option);
        let last = given.clone().next_back();
        let value = match last {
            Some(found) if found.value.is_some() => value_text(found),
            _ if option == "verbose" => given.count().to_string(),
            _ => "set".to_owned(),
        };
        say(&format!("{name}: {option:<20}: {value}"));
    }
    say(&rule);
    say(&format!("{name}: end of defined options"));
}

/// A value as the program understood it.
fn value_text(found: &GivenOption) -> String {
    let text = found.text();
    let better = match found.name {
        "time" | "time-min" => submit::times::limit(&text).map(times::duration),
        "mem" | "mem-per-cpu" | "mem-per-gpu" | "tmp" => text.parse().ok().map(size),
        "output" | "error" | "input" if text == "none" => Some("/dev/null".to_owned()),
        _ => None,
    };
    better.unwrap_or(text)
}

fn size(size: MiB) -> String {
    match size.0 {
        mib if mib > 0 && mib % 1024 == 0 => format!("{}G", mib / 1024),
        mib => mib.to_string(),
    }
}

/// Prints what a job takes along and whom this speaks to: for `-vv`.
pub fn details(program: Program, job_options: &SubmitOptions) {
    if job_options.verbose < 2 {
        return;
    }
    let debug = |text: String| say(&format!("{}: debug:  {text}", program.name()));
    if program == Program::Sbatch {
        let limits = crate::submitter::rlimits();
        for (name, soft, _) in limits.iter().filter(|l| job_options.propagate.takes(&l.0)) {
            debug(format!("propagating RLIMIT_{name}={soft}"));
        }
        let mask = crate::submitter::umask();
        debug(format!("propagating UMASK={:04o}", mask & 0o777));
    }
    if let Memory::PerNode(MiB(0)) = job_options.memory {
        debug("all memory of a node is asked for: it is taken whole".to_owned());
    }
    let sockets = cluster::find();
    let sockets: Vec<String> = sockets.iter().map(|s| s.display().to_string()).collect();
    debug(format!("the controller is asked at {}", sockets.join(", ")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let check = |name: &'static str, value: &str, want: &str| {
            let value = Some(value.into());
            assert_eq!(value_text(&GivenOption { name, value }), want, "{name}");
        };
        check("time", "3", "00:03:00");
        check("time", "2-0", "2-00:00:00");
        check("time", "foo", "foo");
        check("mem", "1000mb", "1000");
        check("mem", "2G", "2G");
        check("output", "none", "/dev/null");
        check("nodes", "1-2", "1-2");
    }
}
