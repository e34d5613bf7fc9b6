//! `scontrol wait_job`: waits for a job's nodes; `scontrol write`: saves a job's
//! script or the configuration.

use super::session::{Session, too_few};
use crate::slurm::messages::{error, say};
use crate::slurm::words;
use crate::{exit, output};
use cosy_client::CallError;
use cosy_model::api::{JobField, JobRef, Reply, Request};
use cosy_model::{JobState, OsText, RefusalCode};
use cosy_slurm::{sentences, targets};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

/// Pause between two requests for the state of a job.
const PAUSE: Duration = Duration::from_millis(200);

impl Session<'_> {
    /// Waits until a job's nodes are ready for it.
    pub(super) fn wait_job(&self, keyword: &str, rest: &[String]) -> u8 {
        let Some(word) = rest.first() else {
            return too_few(keyword);
        };
        let Some(job) = one_of(word) else {
            error(self.context, &format!("Invalid job_id {word}"));
            return exit::FAILED;
        };
        loop {
            let state = match self.table(vec![job], &[JobField::State], true) {
                Ok(table) if table.rows > 0 => state_of(table.text(0, JobField::State)),
                Ok(_) => None,
                Err(e) => {
                    error(self.context, words::of_call(&e));
                    return exit::FAILED;
                }
            };
            match state {
                Some(JobState::Running | JobState::Suspended) => return exit::OK,
                Some(state) if !state.is_end() => std::thread::sleep(PAUSE),
                Some(_) | None => {
                    error(self.context, &format!("Job {word} is no longer active"));
                    return exit::FAILED;
                }
            }
        }
    }

    pub(super) fn write(&self, keyword: &str, rest: &[String]) -> u8 {
        let Some((what, rest)) = rest.split_first() else {
            return too_few(keyword);
        };
        let is = |word: &str| {
            what.len() >= 5
                && word
                    .get(..what.len())
                    .is_some_and(|w| w.eq_ignore_ascii_case(what))
        };
        if is("config") {
            return self.write_config(rest.first());
        }
        if !is("batch_script") {
            say(&format!("invalid write argument:{what}"));
            return exit::FAILED;
        }
        match rest {
            [] => too_few(keyword),
            [job, more @ ..] => self.write_script(job, more.first()),
        }
    }

    fn write_script(&self, word: &str, file: Option<&String>) -> u8 {
        let Some(job) = one_of(word) else {
            say(&format!("job script retrieval failed: {}", sentences::NO_JOB));
            return exit::OK;
        };
        match self.context.ask(Request::Script { job }) {
            Ok(Reply::Script(script)) => {
                let own = format!("slurm-{word}.sh");
                let path = file.map_or(own.as_str(), String::as_str);
                let what = format!("batch script for job {word}");
                save(self, &script, path, 0o700, &what)
            }
            // Slurm gives the exit code 0 here.
            Ok(_) => refused(&CallError::Unexpected),
            Err(_) if self.is_anothers(job) => {
                say(&format!("job script retrieval failed: {}", sentences::NOT_YOURS));
                exit::OK
            }
            Err(e) => refused(&e),
        }
    }

    /// Whether a job is visible and belongs to another user.
    fn is_anothers(&self, job: JobRef) -> bool {
        let own = i64::from(rustix::process::getuid().as_raw());
        let table = self.table(vec![job], &[JobField::Uid], true);
        table.is_ok_and(|t| t.number(0, JobField::Uid).is_some_and(|uid| uid != own))
    }

    fn write_config(&self, file: Option<&String>) -> u8 {
        let Some(text) = self.config_text() else {
            say("slurm_write_config error: the controller does not answer");
            return exit::FAILED;
        };
        let now = crate::times::now().strftime("%Y%m%d%H%M%S").to_string();
        let base = file.map_or("slurm.conf", String::as_str);
        let path = format!("{base}.{now}");
        save(self, &OsText::from(text), &path, 0o644, "configuration")
    }
}

fn refused(e: &CallError) -> u8 {
    let why = match e {
        CallError::Refused(refusal) if refusal.code == RefusalCode::Forbidden => {
            sentences::NOT_YOURS
        }
        other => words::of_call(other),
    };
    say(&format!("job script retrieval failed: {why}"));
    exit::OK
}

fn one_of(word: &str) -> Option<JobRef> {
    let target = targets::parse(word).filter(|t| t.step.is_none())?;
    match target.jobs.as_slice() {
        [one] => Some(*one),
        _ => None,
    }
}

fn state_of(word: &str) -> Option<JobState> {
    word.parse().ok()
}

/// To a file, or to standard output for `-`.
fn save(session: &Session<'_>, text: &OsText, path: &str, mode: u32, what: &str) -> u8 {
    if path == "-" {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(&text.0).and_then(|()| out.flush());
        return exit::OK;
    }
    let file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path);
    if let Err(e) = file.and_then(|mut file| file.write_all(&text.0)) {
        say(&format!("cannot write {path}: {e}"));
        return exit::FAILED;
    }
    if !session.quiet {
        output::print(&format!("{what} written to {path}\n"));
    }
    exit::OK
}
