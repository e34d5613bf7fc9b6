//! The program `cosy`; everything is in the library so that tests reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(cosy_cli::main())
}
