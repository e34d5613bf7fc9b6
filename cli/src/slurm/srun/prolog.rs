//! Programs that `srun` itself runs here before and after its step: `--prolog`, `--epilog`.

use super::step_options::StepOptions;
use cosy_slurm::submit::Fault;
use std::process::Command;

/// Runs the program of `--prolog`.
///
/// # Errors
/// A task's prolog without a whole path: nothing could find it on the nodes.
pub fn before(own: &StepOptions) -> Result<(), Fault> {
    if let Some(program) = &own.prolog {
        run(program);
    }
    Ok(())
}

/// Runs the program of `--epilog`.
pub fn after(own: &StepOptions) {
    if let Some(program) = &own.epilog {
        run(program);
    }
}

/// Runs a program; its exit code is ignored.
fn run(program: &str) {
    let _ = Command::new(program).status();
}
