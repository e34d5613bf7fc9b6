//! `sbatch`: a script and its options become a job. Source: sbatch(1), captures.

use super::messages::{fail, say};
use super::submit::{self, files, refusal};
use crate::{Context, exit, output};
use cosy_model::api::{EndedJob, JobRef, Reply, Request, Submission};
use cosy_model::{JobId, OsText, Program as Runs};
use cosy_slurm::getopt::GivenOption;
use cosy_slurm::submit::components::passed_on;
use cosy_slurm::submit::options::{SubmitOptions, check_together};
use cosy_slurm::submit::{Fault, Program, array, directives};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

const SBATCH: Program = Program::Sbatch;

/// Runs `sbatch`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    let parsed = match submit::command_line(context, SBATCH) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    match sbatch(context, &parsed.found, &parsed.words) {
        Ok(code) => code,
        Err(Failure::Fault(fault)) => fail(SBATCH, &fault),
        Err(Failure::Reported(code)) => code,
    }
}

/// Why there is no job.
enum Failure {
    Fault(Fault),
    /// The reason was printed; this is the exit code.
    Reported(u8),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

fn sbatch(context: &Context, line: &[GivenOption], words: &[OsString]) -> Result<u8, Failure> {
    let report_error = |m| Failure::Reported(submit::report_usage_error(SBATCH, &m));
    let (lines, words) =
        submit::components::of_line(SBATCH, line.to_vec(), words.to_vec()).map_err(report_error)?;
    let line: Vec<GivenOption> = lines.concat();
    let batch = Batch::read(&line, &words)?;
    let environment = submit::environment(SBATCH);
    let ignore_pbs = [&environment[..], &line]
        .iter()
        .any(|o| has(o, "ignore-pbs"));
    let scripts = batch.options(ignore_pbs)?;
    let several = lines.len().max(scripts.len()) > 1;
    if several && has(&[&scripts.concat()[..], &line].concat(), "array") {
        return Err(Fault::refusal(array::INVALID).into());
    }
    let mut components = options_of_components(&environment, scripts, lines)?.into_iter();
    let Some((all, job_options)) = components.next() else {
        return Err(Failure::Reported(exit::FAILED));
    };
    let further: Vec<SubmitOptions> = components.map(|(_, job_options)| job_options).collect();
    if job_options.verbose > 0 {
        submit::describe(SBATCH, &all);
        submit::details(SBATCH, &job_options);
    }
    submit::remarks(SBATCH, &job_options);
    let name = batch.default_name();
    let program = batch.program();
    let (mut spec, array) = submit::job(context, SBATCH, job_options.clone(), program, &name)?;
    submit::components::add(context, &further, &mut spec)?;
    let text = match &job_options.preamble {
        Some(file) => files::with_preamble(&batch.text, file)?,
        None => batch.text,
    };
    let submission = Submission {
        spec,
        script: OsText(text),
        array,
    };
    if job_options.test_only {
        return Ok(submit::test_only::run(context, SBATCH, &submission));
    }
    send(context, &job_options, submission)
}

/// The options of each component of the job: of the script, the environment and the command line.
fn options_of_components(
    environment: &[GivenOption],
    scripts: Vec<Vec<GivenOption>>,
    lines: Vec<Vec<GivenOption>>,
) -> Result<Vec<(Vec<GivenOption>, SubmitOptions)>, Fault> {
    let count = lines.len().max(scripts.len());
    let padded = |mut components: Vec<Vec<GivenOption>>| {
        components.resize(count, Vec::new());
        passed_on(components)
    };
    let both = padded(scripts).into_iter().zip(padded(lines));
    let component = |(script, line): (Vec<GivenOption>, Vec<GivenOption>)| {
        let all: Vec<GivenOption> = [&script[..], environment, &line].concat();
        let written = [&script[..], &line].concat();
        check_together(environment, &written)?;
        let (job_options, _) = submit::job_options(SBATCH, &all)?;
        Ok((all, job_options))
    };
    both.map(component).collect()
}

fn has(options: &[GivenOption], name: &str) -> bool {
    options.iter().any(|f| f.name == name)
}

/// The script as it is submitted.
struct Batch {
    /// Absolute path of the script; empty where it came from standard input or `--wrap`.
    path: OsString,
    /// Name of the job where the script has no path.
    called: &'static str,
    text: Vec<u8>,
    args: Vec<OsString>,
}

impl Batch {
    fn read(line: &[GivenOption], words: &[OsString]) -> Result<Self, Fault> {
        if let Some(wrap) = line.iter().rev().find(|f| f.name == "wrap") {
            return Self::wrap(wrap, words);
        }
        let script = files::script(words.first())?;
        Ok(Self {
            path: script.path.into_os_string(),
            called: "sbatch",
            text: script.text,
            args: words.iter().skip(1).cloned().collect(),
        })
    }

    fn wrap(wrap: &GivenOption, words: &[OsString]) -> Result<Self, Fault> {
        if !words.is_empty() {
            return Err(Fault::error("Script arguments not permitted with --wrap option"));
        }
        let mut text = b"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n".to_vec();
        text.extend(wrap.value.clone().unwrap_or_default().into_vec());
        text.push(b'\n');
        Ok(Self {
            path: OsString::new(),
            called: "wrap",
            text,
            args: Vec::new(),
        })
    }

    /// The options in the script, of each component of the job.
    fn options(&self, ignore_pbs: bool) -> Result<Vec<Vec<GivenOption>>, Failure> {
        let text = String::from_utf8_lossy(&self.text);
        let report_error = |m| Failure::Reported(submit::report_usage_error(SBATCH, &m));
        directives::read_components(&text, ignore_pbs).map_err(report_error)
    }

    fn default_name(&self) -> String {
        let name = Path::new(&self.path).file_name();
        name.map_or_else(|| self.called.to_owned(), |n| n.to_string_lossy().into_owned())
    }

    fn program(&self) -> Runs {
        let text = |t: &OsString| OsText(t.clone().into_vec());
        Runs::Script {
            name: text(&self.path),
            args: self.args.iter().map(text).collect(),
        }
    }
}

fn send(
    context: &Context,
    job_options: &SubmitOptions,
    submission: Submission,
) -> Result<u8, Failure> {
    let (spec, array) = (submission.spec.clone(), submission.array.clone());
    let reply = context.ask(Request::Submit(Box::new(submission)));
    let (job, note) = match reply {
        Ok(Reply::Submitted { job, note, .. }) => (job, note),
        Ok(_) => return Err(Fault::refusal(cosy_slurm::sentences::VERSION).into()),
        Err(e) => return Err(refusal::explain(context, &spec, array.as_ref(), &e).into()),
    };
    if !note.is_empty() && !job_options.quiet {
        say(&format!("sbatch: {note}"));
    }
    announce(job_options, job);
    if job_options.wait {
        return Ok(wait(context, job));
    }
    Ok(exit::OK)
}

fn announce(job_options: &SubmitOptions, job: JobId) {
    let cluster = job_options.clusters.as_deref().filter(|c| *c != "all");
    if job_options.parsable {
        let cluster = cluster.map(|c| format!(";{c}")).unwrap_or_default();
        output::print(&format!("{job}{cluster}\n"));
    } else if !job_options.quiet {
        let cluster = cluster
            .map(|c| format!(" on cluster {c}"))
            .unwrap_or_default();
        output::print(&format!("Submitted batch job {job}{cluster}\n"));
    }
}

/// Waits for the end; the exit code is the job's, 1 where a signal or anything else than
/// its script ended it.
fn wait(context: &Context, job: JobId) -> u8 {
    let jobs = vec![JobRef { job, task: None }];
    match context.ask(Request::Wait { jobs }) {
        Ok(Reply::Ended(ended)) => ended.iter().map(code).max().unwrap_or(exit::OK),
        Ok(_) | Err(_) => exit::FAILED,
    }
}

fn code(ended: &EndedJob) -> u8 {
    let fine = ended.state == cosy_model::JobState::Completed;
    match (ended.exit_code, ended.signal) {
        (0, 0) if fine => exit::OK,
        (code, 0) if code != 0 => u8::try_from(code).unwrap_or(u8::MAX),
        (_, _) => exit::FAILED,
    }
}
