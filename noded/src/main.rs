//! The program `noded`: the node daemon, and in its other roles the nursery of shepherds,
//! the PMIx helper of a step, a user's reader of files, and the helper that looks for GPUs.

use std::path::Path;
use std::process::ExitCode;

/// A fault ends the process at once: nothing of it may unwind over a fork, or leave a daemon
/// or a supervisor without one of its parts. Jobs go on, and a successor takes up the rest.
fn end_at_faults() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |fault| {
        tell(fault);
        std::process::abort();
    }));
}

fn main() -> ExitCode {
    end_at_faults();
    let mut args = std::env::args_os().skip(1);
    let role = args.next().unwrap_or_default();
    // First of all: a nursery and its shepherds have nothing that they do not need.
    if role == "--nursery" {
        let Some(directory) = args.next() else {
            return ExitCode::from(2);
        };
        let mut option = args.next();
        let lifeline = option.as_ref().is_some_and(|a| a == "--lifeline");
        if lifeline {
            option = args.next();
        }
        let file = option.filter(|a| a == "--shutdown-file");
        if let Some(file) = file.and_then(|_| args.next()) {
            noded::shepherd::shutdown::look_at(file.into());
        }
        noded::shepherd::nursery::run_and_exit(Path::new(&directory), lifeline);
    }
    if role == "--hold-jobs" {
        return match noded::cgroup::jobs_unit::hold() {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("noded: no control group for jobs: {e}");
                ExitCode::FAILURE
            }
        };
    }
    if role == "--find-gpus" {
        noded::gpus::find::run_and_exit(&args.collect::<Vec<_>>());
    }
    if role == "--read" {
        noded::reader::run_and_exit(&args.collect::<Vec<_>>());
    }
    if role == "--pmix" {
        let fd = args.next().and_then(|fd| fd.to_str()?.parse().ok());
        noded::pmix::serve::run_and_exit(fd.unwrap_or(-1));
    }
    ExitCode::from(noded::cli::main())
}
