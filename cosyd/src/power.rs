//! Programs that switch nodes off and on. Source of their interface: slurm.conf(5), `SuspendProgram`,
//! `ResumeProgram`: the nodes are one argument, a host list; what is switched on for whom is in the file
//! that `SLURM_RESUME_FILE` names.

use crate::program;
use cosy_control::{PowerOrder, PowerProgram};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// So much of the end of what a program says is told when it fails.
const SAID: usize = 300;
/// Bytes that are read of it in one look.
const LOOK: usize = 64 << 10;

/// Runs it to its end.
///
/// # Errors
/// Why it failed, with the last that it has said.
pub fn run(order: &PowerOrder, dir: &Path) -> Result<(), String> {
    let Some((path, args)) = order.command.split_first() else {
        return Ok(());
    };
    let file = match order.program {
        PowerProgram::Resume => Some(ResumeFile::write(dir, order).map_err(|e| {
            format!("the file of what is resumed cannot be written in {}: {e}", dir.display())
        })?),
        PowerProgram::Suspend | PowerProgram::ResumeFailed => None,
    };
    let mut command = Command::new(path);
    command
        .args(args)
        .arg(cosy_model::fold(&order.nodes))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    if let Some(file) = &file {
        command.env("SLURM_RESUME_FILE", &file.0);
    }
    let time = Duration::from_millis(u64::try_from(order.time.ms()).unwrap_or(0));
    let mut said = Said::default();
    let ended = program::run(&mut command, time, |child| {
        if let Some(stderr) = child.stderr.as_mut() {
            said.read(stderr);
        }
    });
    ended.map_err(|why| said.beside(why))
}

/// The last of what a program has said.
#[derive(Default)]
struct Said {
    text: Vec<u8>,
}

impl Said {
    /// Takes what there is to read, without waiting for more: what the program has started may keep the
    /// other end.
    fn read(&mut self, from: &mut ChildStderr) {
        if rustix::io::ioctl_fionbio(&*from, true).is_err() {
            return;
        }
        let mut buffer = [0; 4096];
        let mut left = LOOK;
        while left > 0 {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    self.text
                        .extend_from_slice(buffer.get(..count).unwrap_or_default());
                    left = left.saturating_sub(count);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let over = self.text.len().saturating_sub(SAID);
        self.text.drain(..over);
    }

    fn beside(&self, why: String) -> String {
        let text = String::from_utf8_lossy(&self.text);
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let last = text.lines().rfind(|line| !line.trim().is_empty());
        match last {
            Some(line) => format!("{why}: {}", line.trim().chars().map(plain).collect::<String>()),
            None => why,
        }
    }
}

/// The file that tells for whom nodes are switched on; it is gone with its program.
struct ResumeFile(PathBuf);

impl ResumeFile {
    fn write(dir: &Path, order: &PowerOrder) -> std::io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!("resume.{}.{number}.json", std::process::id()));
        // One that an earlier daemon with this number has left.
        let _ = std::fs::remove_file(&path);
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let written = Self(path);
        file.write_all(document(order).to_string().as_bytes())?;
        Ok(written)
    }
}

impl Drop for ResumeFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// As Slurm writes it. A job here is given its nodes when they are up, so those that are switched on for
/// it are all that are known.
fn document(order: &PowerOrder) -> Value {
    let job = |job: &cosy_control::ResumedJob| {
        let nodes = cosy_model::fold(&job.nodes);
        json!({
            "extra": null,
            "features": job.features.join("&"),
            "job_id": job.job.0,
            "nodes_alloc": nodes,
            "nodes_resume": nodes,
            "oversubscribe": "OK",
            "exclusive": job.exclusive,
            "partition": job.queue,
            "reservation": null,
        })
    };
    json!({
        "all_nodes_resume": cosy_model::fold(&order.nodes),
        "jobs": order.jobs.iter().map(job).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_control::ResumedJob;
    use cosy_model::{JobId, Span};

    fn order(program: PowerProgram, script: &str) -> PowerOrder {
        PowerOrder {
            program,
            command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            nodes: ["n1", "n2", "n4"].map(str::to_owned).to_vec(),
            jobs: vec![ResumedJob {
                job: JobId(7),
                nodes: ["n1", "n2"].map(str::to_owned).to_vec(),
                queue: "day".into(),
                features: vec!["fast".into()],
                exclusive: true,
            }],
            time: Span::from_secs(60),
        }
    }

    #[test]
    fn nodes_are_one_argument_and_the_file_tells_for_whom() {
        let dir = tempfile::tempdir().unwrap();
        let script = format!(
            "echo \"$0\" > {0}/args; cp \"$SLURM_RESUME_FILE\" {0}/copy",
            dir.path().display()
        );
        run(&order(PowerProgram::Resume, &script), dir.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(read("args"), "n[1-2,4]\n");
        let told: Value = serde_json::from_str(&read("copy")).unwrap();
        assert_eq!(told["all_nodes_resume"], "n[1-2,4]");
        assert_eq!(told["jobs"][0]["job_id"], 7);
        assert_eq!(told["jobs"][0]["nodes_resume"], "n[1-2]");
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 2, "the file is gone with the program");
    }

    #[test]
    fn a_failure_is_told_with_the_last_that_was_said() {
        let dir = tempfile::tempdir().unwrap();
        let failed =
            |script: &str| run(&order(PowerProgram::Suspend, script), dir.path()).unwrap_err();
        let why = failed(
            "test -z \"$SLURM_RESUME_FILE\" && echo one >&2 && echo 'no such \u{7}vm' >&2; exit 3",
        );
        assert_eq!(why, "/bin/sh ended with exit status: 3: no such  vm");
        assert_eq!(failed("exit 4"), "/bin/sh ended with exit status: 4");
        // One that says very much, and one whose child keeps the pipe.
        assert!(failed("head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1").ends_with("xxx"));
        assert!(failed("sleep 1000 & echo $! >&2; kill $!; exit 1").starts_with("/bin/sh ended"));
        let mut long = order(PowerProgram::Suspend, "sleep 1000 & wait");
        long.time = Span(20);
        assert!(run(&long, dir.path()).unwrap_err().contains("was ended"));
        long.command = vec!["/nowhere/off".into()];
        assert!(
            run(&long, dir.path())
                .unwrap_err()
                .starts_with("/nowhere/off: ")
        );
    }
}
