//! Programs of the site that the daemon runs and waits for: no shell, an end in time.

use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How often a program is looked at that runs.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs it to its end. One that takes longer than `time` is ended with all that it has started; `look` is
/// called every now and then, and once more when it has ended.
///
/// # Errors
/// It could not be started, failed, or took too long: a sentence that begins with its path.
pub fn run(
    command: &mut Command,
    time: Duration,
    mut look: impl FnMut(&mut Child),
) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .process_group(0)
        .spawn()
        .map_err(|e| format!("{name}: {e}"))?;
    let until = Instant::now() + time;
    loop {
        look(&mut child);
        match child.try_wait() {
            Ok(Some(status)) => {
                look(&mut child);
                return match status.success() {
                    true => Ok(()),
                    false => Err(format!("{name} ended with {status}")),
                };
            }
            Ok(None) if Instant::now() < until => std::thread::sleep(PAUSE),
            Ok(None) => break,
            Err(e) => return Err(format!("{name}: {e}")),
        }
    }
    // What it has started, too.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
    look(&mut child);
    Err(format!("{name} had not ended after {} s and was ended", time.as_secs()))
}
