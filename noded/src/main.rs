//! The program `noded`: the node daemon, and in its other role the nursery of shepherds.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // First of all: a nursery and its shepherds have nothing that they do not need.
    if args.next().is_some_and(|first| first == "--nursery") {
        let Some(directory) = args.next() else {
            return ExitCode::from(2);
        };
        let lifeline = args.next().is_some_and(|a| a == "--lifeline");
        noded::shepherd::nursery::run_and_exit(Path::new(&directory), lifeline);
    }
    ExitCode::from(noded::cli::main())
}
