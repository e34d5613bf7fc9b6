//! `sattach`: the output of a step that runs, from now on. Source: sattach(1), capture
//! acct-sattach.

use super::command_line::read;
use super::messages::{error, say};
use crate::launch::interrupt::InterruptMode;
use crate::launch::node_request::{self, NodeReply};
use crate::launch::session::{self, SessionOptions, SessionResources, Step};
use crate::launch::signal_pipe::SignalPipe;
use crate::launch::sink::Sinks;
use crate::launch::start::connect_to_job;
use crate::{Context, exit, output};
use cosy_model::step::{StepAsk, StepLayout};
use cosy_model::{Dialect, JobId, StepId};
use cosy_proto::lines::{self, Style};
use cosy_slurm::getopt::GivenOption;
use cosy_slurm::table::Row;

const USAGE: &str = "sattach [OPTIONS] <jobid.stepid>";
pub(crate) const OPTIONS: &[Row] = &[
    Row::long_value("input-filter", "TASK", "accepted: input is not taken"),
    Row::long_value("output-filter", "TASK", "only the output of this task, or 'all'"),
    Row::long_value("error-filter", "TASK", "only the errors of this task, or 'all'"),
    Row::flag(b'l', "label", "each line with its task's number"),
    Row::long_flag("layout", "print where the tasks are, and exit"),
    Row::flag(b'Q', "quiet", "say only what went wrong"),
    Row::flag(b'v', "verbose", "say more"),
    Row::flag(b'V', "version", "say the version, and exit"),
    Row::flag(b'h', "help", "say what options there are, and exit"),
    Row::flag(b'u', "usage", "say how it is called, and exit"),
];

/// Runs `sattach`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    let parsed = match read(context, USAGE, OPTIONS) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    let has = |name: &str| parsed.found.iter().any(|f| f.name == name);
    let [word] = &parsed.words[..] else {
        error(context, "exactly one step is needed: <jobid.stepid>");
        return exit::FAILED;
    };
    let text = word.to_string_lossy();
    let Some((job, step)) = step(&text) else {
        error(context, &format!("\"{text}\" is not a valid step: <jobid.stepid>"));
        return exit::FAILED;
    };
    let verbose = parsed.found.iter().filter(|f| f.name == "verbose").count();
    if verbose > 0 {
        report_options(job, step, verbose);
    }
    let only = match filters(&parsed.found) {
        Ok(only) => only,
        Err(mistake) => {
            error(context, &mistake);
            return exit::FAILED;
        }
    };
    match attach(context, job, step) {
        Some(step) if has("layout") => {
            output::print(&layout(&step.layout));
            exit::OK
        }
        Some(step) => follow(context, step, has("label"), only),
        None => {
            let text = "Could not get job step info: Job/step already completing or completed";
            error(context, text);
            exit::FAILED
        }
    }
}

/// Prints the options (`--verbose`).
fn report_options(job: JobId, step: StepId, verbose: usize) {
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    let line = |name: &str, value: &str| say(&format!("sattach: {name:<15}: {value}"));
    say("sattach: defined options for program `sattach'");
    say("sattach: --------------- ---------------------");
    line("job ID", &job.to_string());
    line("step ID", &step.0.to_string());
    line("user", &format!("`{}'", crate::users::name(uid)));
    line("uid", &uid.to_string());
    line("gid", &gid.to_string());
    line("verbose", &verbose.to_string());
}

/// Reads a job and its step, as in `12.0`.
fn step(text: &str) -> Option<(JobId, StepId)> {
    let (job, step) = text.split_once('.')?;
    Some((JobId(job.parse().ok()?), StepId(step.parse().ok()?)))
}

fn attach(context: &Context, job: JobId, step: StepId) -> Option<Step> {
    let stream = connect_to_job(context, job).ok()?;
    let ask = StepAsk::Attach { job, step };
    match node_request::send(stream, &ask, None, &mut |_| ()).ok()? {
        NodeReply::Step(step) => Some(*step),
        NodeReply::Other(_) => None,
    }
}

fn layout(layout: &StepLayout) -> String {
    let nodes = layout.nodes_with_tasks();
    let list = cosy_model::fold(nodes);
    let (tasks, count) = (layout.tasks, nodes.len());
    let mut text = format!("Job step layout:\n\t{tasks} tasks, {count} nodes ({list})\n\n");
    for (number, name) in (0u32..).zip(nodes) {
        let ranks = layout.ranks_of(number);
        let list: Vec<String> = ranks.iter().map(u32::to_string).collect();
        text.push_str(&format!(
            "\tNode {number} ({name}), {} task(s): {}\n",
            ranks.len(),
            list.join(" ")
        ));
    }
    text
}

/// The tasks whose output and errors are shown; all without.
fn filters(found: &[GivenOption]) -> Result<[Option<u32>; 2], String> {
    let one = |name: &str| {
        let Some(found) = found.iter().rfind(|f| f.name == name) else {
            return Ok(None);
        };
        match found.text().as_str() {
            "all" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                let text: String = text.chars().take(100).collect();
                format!("--{name}={text} is no task: use its number, or 'all'")
            }),
        }
    };
    Ok([one("output-filter")?, one("error-filter")?])
}

fn follow(context: &Context, step: Step, label: bool, only: [Option<u32>; 2]) -> u8 {
    let style = match (label, step.layout.tasks) {
        (true, tasks) => Style::Label(lines::width(tasks)),
        (false, 0 | 1) => Style::Raw,
        (false, _) => Style::Whole,
    };
    let Ok(signals) = SignalPipe::new(&[]) else {
        return exit::FAILED;
    };
    let resources = SessionResources {
        sinks: Sinks::to_streams(style).only_of(only),
        input: None,
        clients: None,
        signals,
        job_connection: None,
    };
    let options = SessionOptions {
        program: context.program().to_owned(),
        kill_on_bad_exit: false,
        observer: true,
        raw: false,
        quiet: false,
        verbose: false,
        supervisors: Default::default(),
        dialect: Dialect::Slurm,
        interrupts: InterruptMode::default(),
        wait: None,
    };
    session::run(step, options, resources).map_or(exit::FAILED, |outcome| outcome.code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::step::RankRun;

    #[test]
    fn steps() {
        let check = |text: &str, want: Option<(u64, u32)>| {
            let want = want.map(|(j, s)| (JobId(j), StepId(s)));
            assert_eq!(step(text), want, "{text}");
        };
        check("12.0", Some((12, 0)));
        check("12", None);
        check("12.batch", None);
        check("x.1", None);
    }

    #[test]
    fn layouts() {
        let run = |first, count| {
            vec![RankRun {
                first,
                count,
                stride: 1,
            }]
        };
        let step = StepLayout {
            nodes: vec!["n1".into(), "n2".into()],
            ranks: vec![run(0, 2), run(2, 1)],
            tasks: 3,
            cores_per_task: 1,
        };
        assert_eq!(
            layout(&step),
            "Job step layout:\n\t3 tasks, 2 nodes (n[1-2])\n\n\tNode 0 (n1), 2 task(s): 0 1\n\t\
             Node 1 (n2), 1 task(s): 2\n"
        );
    }
}
