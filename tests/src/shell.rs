//! Lines of a shell in which a cluster's commands are found, as users of Slurm type them.

use crate::Cluster;
use crate::run::{Output, run};
use cosy_model::JobId;
use std::fs;
use std::process::Command;

/// Where programs are looked for: the cluster's own, then the system's.
fn path_variable(c: &Cluster) -> String {
    format!("{}/bin:/usr/bin:/bin", c.dir().display())
}

/// A shell with a whole line, in the cluster's working directory.
pub fn shell_command(c: &Cluster, line: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", line])
        .current_dir(c.work())
        .env("PATH", path_variable(c))
        .env("COSY_SOCKET", c.socket());
    command
}

/// A whole line as a shell has it, with nothing on standard input.
///
/// # Panics
/// When it hangs.
#[track_caller]
pub fn shell(c: &Cluster, line: &str) -> Output {
    run(&mut shell_command(c, line))
}

/// Runs `line` and compares exit code, standard output and standard error.
///
/// # Panics
/// When one of them is another.
#[track_caller]
pub fn check(c: &Cluster, line: &str, code: i32, stdout: &str, stderr: &str) {
    let output = shell(c, line);
    let got = (output.code, output.out.as_str(), output.err.as_str());
    assert_eq!(got, (code, stdout, stderr), "{line}");
}

/// The id that `sbatch --parsable` with these words prints.
///
/// # Panics
/// When it prints none.
#[track_caller]
pub fn submit(c: &Cluster, words: &str) -> JobId {
    let output = shell(c, &format!("sbatch --parsable {words}"));
    let id = output.out.trim().parse();
    JobId(id.unwrap_or_else(|_| panic!("{words}: {}", output.err)))
}

/// Submits a script of this text, in which the cluster's commands are found.
///
/// # Panics
/// When it is refused.
#[track_caller]
pub fn submit_text(c: &Cluster, options: &str, text: &str) -> JobId {
    let text = format!("#!/bin/sh\nPATH={}\n{text}\n", path_variable(c));
    let script = c.work().join("script.sh");
    fs::write(&script, text).unwrap_or_else(|e| panic!("{}: {e}", script.display()));
    submit(c, &format!("{options} script.sh"))
}

/// The same, and its output when it has ended.
///
/// # Panics
/// When it is refused, or does not end.
#[track_caller]
pub fn batch(c: &Cluster, options: &str, text: &str) -> (JobId, String) {
    let job = submit_text(c, options, text);
    c.until_end(job);
    (job, read(c, &format!("slurm-{job}.out")))
}

/// A file in the working directory; empty when it is not there.
pub fn read(c: &Cluster, name: &str) -> String {
    fs::read_to_string(c.work().join(name)).unwrap_or_default()
}
