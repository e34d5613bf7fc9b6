//! `csub`: makes a [`Submission`] of options, script and submitting process, and sends it.

pub mod directives;
pub mod options;
pub mod script;

use crate::job_options::JobOptions;
use crate::native::{arg, last_time};
use crate::{Context, exit, output, submitter, times};
use anyhow::{Context as _, anyhow};
use clap::ArgMatches;
use cosy_model::api::{JobRef, Reply, Request, Submission};
use cosy_model::job::ResourceRequest;
use cosy_model::limits::{ARGUMENTS, NAME_BYTES};
use cosy_model::resources::CountedResources;
use cosy_model::{JobId, JobSpec, OsText, Program, Time};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

/// What the job runs, by the command line.
pub enum Target {
    /// A batch script, whose text is sent to the controller.
    Script {
        /// Path of the script; `None` is standard input.
        file: Option<OsString>,
        /// Arguments of the script.
        args: Vec<OsString>,
    },
    /// A program without a script (`csub -- COMMAND`).
    Command {
        /// The program and its arguments.
        argv: Vec<OsString>,
    },
}

/// Runs `csub`.
///
/// # Errors
/// Bad input, a refusal, or no controller.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let (submission, options) = prepare(context.args(), matches)?;
    if options.follow {
        may_follow(&submission, &options)?;
    }
    if !options.quiet
        && let Some(note) = directives::foreign(&String::from_utf8_lossy(&submission.script.0))
    {
        output::complain(context.program(), &note);
    }
    let (name, asked) = (submission.spec.name.clone(), last_time::Asked::of(&submission.spec));
    let reply = context.ask(Request::Submit(Box::new(submission)))?;
    let Reply::Submitted { job, tasks, note } = reply else {
        return Err(cosy_client::CallError::Unexpected.into());
    };
    if !note.is_empty() && !options.quiet {
        output::complain(context.program(), &note);
    }
    if !(options.quiet || options.parsable || options.json) {
        last_time::say(context.program(), job, &name, asked);
    }
    if options.follow {
        return follow(context, &options, job);
    }
    if options.wait {
        return wait(context, &options, job, tasks);
    }
    if options.json {
        output::print(&format!("{}\n", json!({ "job": job.0, "tasks": tasks })));
    } else {
        announce(&options, job);
    }
    Ok(exit::OK)
}

fn announce(options: &JobOptions, job: JobId) {
    if options.parsable {
        output::print(&format!("{job}\n"));
    } else if !options.quiet {
        output::print(&format!("Submitted job {job}\n"));
    }
}

/// Whether the job is one whose output can be followed.
fn may_follow(submission: &Submission, options: &JobOptions) -> anyhow::Result<()> {
    if options.json || options.parsable {
        let text = "--follow shows what the job writes: leave out --json and --parsable";
        return Err(exit::usage(text));
    }
    if submission.array.is_some() {
        let text = "--follow shows one job: submit the array without, then 'cosy tail ID_TASK'";
        return Err(exit::usage(text));
    }
    Ok(())
}

/// Standard output is the job's: the command speaks beside it.
fn follow(context: &Context, options: &JobOptions, job: JobId) -> anyhow::Result<u8> {
    if !options.quiet {
        let text = format!(
            "submitted job {job}; Ctrl-C leaves it running, 'cosy tail {job}' shows it again"
        );
        output::complain(context.program(), &text);
    }
    crate::native::follow::after_submission(context, job)
}

fn wait(context: &Context, options: &JobOptions, job: JobId, tasks: u32) -> anyhow::Result<u8> {
    if !options.json {
        announce(options, job);
    }
    let jobs = vec![JobRef { job, task: None }];
    let Reply::Ended(ended) = context.ask(Request::Wait { jobs })? else {
        return Err(cosy_client::CallError::Unexpected.into());
    };
    if options.json {
        let ended = crate::native::wait::json(&ended);
        let whole = json!({ "job": job.0, "tasks": tasks, "ended": ended });
        output::print(&format!("{whole}\n"));
    } else if !options.quiet {
        crate::native::wait::complain_of(context, &ended);
    }
    Ok(exit::of_jobs(&ended))
}

/// The job that the command line describes, with its options.
///
/// # Errors
/// A script that cannot be read, or options that make no sense.
pub fn prepare(
    args: &[OsString],
    matches: &ArgMatches,
) -> anyhow::Result<(Submission, JobOptions)> {
    let target = target(args, matches);
    let text = match &target {
        Target::Script { file, .. } => script::read(file.as_deref())?,
        Target::Command { .. } => Vec::new(),
    };
    assemble(target, text, matches)
}

/// The same for a script whose text is there already.
///
/// # Errors
/// Options that make no sense.
pub fn assemble(
    target: Target,
    text: Vec<u8>,
    matches: &ArgMatches,
) -> anyhow::Result<(Submission, JobOptions)> {
    let mut options = match &target {
        Target::Script { file, .. } => {
            let name = script_name(file.as_deref());
            directives::read(&String::from_utf8_lossy(&text), &name).map_err(exit::usage)?
        }
        Target::Command { .. } => JobOptions::default(),
    };
    options.apply(matches).map_err(exit::usage)?;
    let spec = spec(&options, target)?;
    let submission = Submission {
        spec,
        script: OsText(text),
        array: options.array.clone(),
    };
    Ok((submission, options))
}

/// The script or command behind the options. After `--` it is a command; everything that follows
/// the first word belongs to the program, a further `--` too.
fn target(args: &[OsString], matches: &ArgMatches) -> Target {
    let mut words: Vec<OsString> = arg::list(matches, "words");
    let options = args.len() - words.len().min(args.len());
    if !words.is_empty() && args[..options].last().is_some_and(|a| a == "--") {
        return Target::Command { argv: words };
    }
    let file = (!words.is_empty()).then(|| words.remove(0));
    Target::Script { file, args: words }
}

fn script_name(file: Option<&OsStr>) -> String {
    match file.filter(|f| *f != "-") {
        Some(file) => file.to_string_lossy().into_owned(),
        None => script::STANDARD_INPUT.to_owned(),
    }
}

fn spec(options: &JobOptions, target: Target) -> anyhow::Result<JobSpec> {
    let default_name = default_name(&target);
    let begin = begin(options)?;
    let name = options.name.clone().unwrap_or(default_name);
    let workdir = submitter::workdir(options.chdir.as_deref()).map_err(|e| anyhow!(e))?;
    Ok(JobSpec {
        queue: options.queue.clone(),
        account: options.account.clone(),
        qos: options.qos.clone(),
        reservation: options.reservation,
        comment: options.comment.clone().unwrap_or_default(),
        request: with_spares(request(options), options.spares)?,
        licenses: options.licenses.clone().unwrap_or_default(),
        time_limit: options.time,
        begin,
        hold: options.hold,
        nice: options.nice.unwrap_or(0),
        dependencies: options.depend.clone(),
        requeue: options.requeue.unwrap_or(true),
        requeue_terms: options.requeue_terms,
        spares: options.spares,
        no_kill: options.no_kill,
        stdout: options.output.clone(),
        stderr: options.error.clone(),
        stdin: options.input.clone(),
        open_mode: options.open_mode.unwrap_or_default(),
        environment: submitter::environment(&options.env_items(), std::env::vars_os())
            .map_err(|e| anyhow!(e))?,
        login_environment: options.login,
        umask: submitter::umask(),
        rlimits: submitter::rlimits(),
        warn: options.signal,
        mpi: options.mpi.clone(),
        container: crate::launch::spec::container(options)?,
        mail: options.mail(),
        submit_host: submitter::hostname(),
        submit_session: submitter::session_id(),
        submit_line: submitter::command_line(),
        ..JobSpec::plain(name, program(target)?, workdir)
    })
}

/// The time that `--begin` names.
///
/// # Errors
/// The value of `--begin` is no time.
pub fn begin(options: &JobOptions) -> anyhow::Result<Option<Time>> {
    let Some(text) = &options.begin else {
        return Ok(None);
    };
    let time = times::parse(text, &times::now(), times::Direction::Future);
    time.map(Some)
        .map_err(|e| exit::usage(format!("--begin: '{text}' is {e}")))
}

/// The resources and places that the options ask for.
pub fn request(options: &JobOptions) -> ResourceRequest {
    let mut other_per_node = CountedResources::default();
    for (name, amount) in &options.other {
        other_per_node.set(name, *amount);
    }
    let gpus = options.gpus.clone().unwrap_or_default();
    ResourceRequest {
        nodes: options.nodes,
        tasks: options.tasks,
        tasks_per_node: options.tasks_per_node,
        cores_per_task: options.cores_per_task.unwrap_or(1),
        memory: options.memory.unwrap_or_default(),
        disk_per_node: options.disk.unwrap_or_default(),
        gpus_per_node: gpus.count,
        gpu_types: gpus.types,
        other_per_node,
        exclusive: options.exclusive,
        features: options.features.clone(),
        require: options.require.clone(),
        avoid: options.avoid.clone(),
        prefer: options.prefer.clone(),
        sets: options.sets.clone(),
        switches: options.switches,
        segment: options.segment,
        contiguous: options.contiguous,
        ..ResourceRequest::default()
    }
}

/// The same with nodes that take the place of lost ones, each with as much as the others.
fn with_spares(mut request: ResourceRequest, spares: u32) -> anyhow::Result<ResourceRequest> {
    if spares == 0 {
        return Ok(request);
    }
    let Some(nodes) = request.nodes else {
        return Err(anyhow!("--spares needs --nodes: so many more of them are asked for"));
    };
    let all = nodes.saturating_add(spares);
    if let Some(tasks) = request.tasks {
        if tasks % nodes != 0 {
            return Err(anyhow!(
                "--spares: {tasks} tasks cannot be shared out evenly over {nodes} nodes, so that any node can take the place of another"
            ));
        }
        request.tasks = Some((tasks / nodes).saturating_mul(all));
    }
    request.nodes = Some(all);
    Ok(request)
}

fn program(target: Target) -> anyhow::Result<Program> {
    let texts = |all: Vec<OsString>| -> anyhow::Result<Vec<OsText>> {
        if all.len() > ARGUMENTS {
            let n = all.len();
            return Err(anyhow!("{n} arguments are too many; at most {ARGUMENTS} are allowed"));
        }
        Ok(all.into_iter().map(|a| OsText(a.into_vec())).collect())
    };
    Ok(match target {
        Target::Command { argv } => Program::Command { argv: texts(argv)? },
        Target::Script { file, args } => Program::Script {
            name: OsText(
                file.filter(|f| f != "-")
                    .unwrap_or_else(|| script::STANDARD_INPUT.into())
                    .into_vec(),
            ),
            args: texts(args).context("too many arguments")?,
        },
    })
}

/// The last part of the program's path, made a name.
fn default_name(target: &Target) -> String {
    let path = match target {
        Target::Command { argv } => argv.first().cloned().unwrap_or_default(),
        Target::Script { file, .. } => script_name(file.as_deref()).into(),
    };
    let base = std::path::Path::new(&path).file_name().unwrap_or(&path);
    let mut name: String = base
        .to_string_lossy()
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    while name.len() > NAME_BYTES {
        name.pop();
    }
    if name.is_empty() {
        "job".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::job::{MemoryRequest, OpenMode};
    use cosy_model::{DependencyKind, MiB, Span};

    fn parse(args: &[&str]) -> Result<(Submission, JobOptions), String> {
        let matches = options::command()
            .try_get_matches_from([&["csub"], args].concat())
            .map_err(|e| arg::error_line(&e).unwrap_or_default())?;
        let args: Vec<OsString> = args.iter().map(Into::into).collect();
        prepare(&args, &matches).map_err(|e| format!("{e:#}"))
    }

    fn fine(args: &[&str]) -> Submission {
        parse(args).unwrap_or_else(|e| panic!("{args:?}: {e}")).0
    }

    #[test]
    fn options_reach_the_job() {
        let s = fine(&[
            "-q",
            "day",
            "-N2",
            "-n",
            "8",
            "--tasks-per-node",
            "4",
            "-c",
            "2",
            "--mem=2G",
            "--disk",
            "10G",
            "--gpus",
            "a100:1",
            "--other",
            "fpga=2",
            "-t",
            "1:30:00",
            "-J",
            "name",
            "-o",
            "out.%j",
            "-e",
            "err",
            "-i",
            "in",
            "--open-mode",
            "append",
            "-D",
            "/w",
            "--prefer",
            "n[1-2]",
            "--avoid",
            "n3",
            "--require",
            "n4",
            "--sets",
            "a,b",
            "-C",
            "x,y",
            "--begin",
            "2026-11-21T10:00:00Z",
            "-H",
            "--nice",
            "-5",
            "-d",
            "afterok:3",
            "-a",
            "1-10%2",
            "--no-requeue",
            "--exclusive",
            "--account",
            "acc",
            "--qos",
            "high",
            "--comment",
            "c c",
            "--signal",
            "B:USR1@30",
            "--mail-type",
            "END,FAIL",
            "--mail-user",
            "me@x",
            "--login",
            "--",
            "prog",
            "-x",
            "--",
            "y",
        ]);
        let spec = &s.spec;
        let r = &spec.request;
        assert_eq!(spec.queue.as_deref(), Some("day"));
        assert_eq!((r.nodes, r.tasks, r.tasks_per_node), (Some(2), Some(8), Some(4)));
        assert_eq!((r.cores_per_task, r.gpus_per_node), (2, 1));
        assert_eq!(r.gpu_types.iter().collect::<Vec<_>>(), [("a100", 1)]);
        assert_eq!(r.memory, MemoryRequest::PerNode(MiB(2048)));
        assert_eq!(r.disk_per_node, MiB(10 << 10));
        assert_eq!(r.other_per_node.get("fpga"), 2);
        assert_eq!(spec.time_limit, Some(Span::from_minutes(90)));
        assert_eq!(spec.stdout, Some("out.%j".into()));
        assert_eq!(spec.open_mode, OpenMode::Append);
        assert_eq!(spec.workdir, "/w".into());
        assert_eq!(r.prefer, ["n1", "n2"]);
        assert_eq!((&*r.avoid[0], &*r.require[0]), ("n3", "n4"));
        assert_eq!((r.sets.join("+"), r.features.join("+")), ("a+b".into(), "x+y".into()));
        assert_eq!(spec.begin.map(|t| t.secs()), Some(1_795_255_200));
        assert!(spec.hold && r.exclusive && !spec.requeue && spec.login_environment);
        assert_eq!((spec.account.as_deref(), spec.qos.as_deref()), (Some("acc"), Some("high")));
        assert_eq!(spec.nice, -5);
        assert_eq!(spec.dependencies[0].kind, DependencyKind::AfterOk);
        assert_eq!(s.array.as_ref().map(|a| (a.count(), a.at_once)), Some((10, Some(2))));
        let warn = spec.warn.unwrap();
        assert_eq!((warn.signal, warn.before.secs(), warn.script_only), (10, 30, true));
        assert!(spec.mail.end && spec.mail.fail && !spec.mail.begin);
        assert_eq!(spec.mail.to, "me@x");
        let argv = ["prog", "-x", "--", "y"].map(OsText::from).to_vec();
        assert_eq!(spec.program, Program::Command { argv });
    }

    #[test]
    fn scripts_and_their_arguments() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("s.sh");
        std::fs::write(&file, "#!/bin/sh\n#COSY -N 2 -J fromfile -q a\nls\n").unwrap();
        let file = file.to_str().unwrap();
        let s = fine(&["-q", "b", "--", "prog", file, "--"]);
        let argv = ["prog", file, "--"].map(OsText::from).to_vec();
        assert_eq!(s.spec.program, Program::Command { argv });
        let s = fine(&["-q", "b", file, "-N", "7", "--", "x"]);
        assert_eq!(s.spec.name, "fromfile");
        assert_eq!(s.spec.queue.as_deref(), Some("b"));
        assert_eq!(s.spec.request.nodes, Some(2));
        assert!(s.spec.requeue);
        let args = ["-N", "7", "--", "x"].map(OsText::from).to_vec();
        let name = file.into();
        assert_eq!(s.spec.program, Program::Script { name, args });
        assert_eq!(fine(&["-J", "x", file]).spec.name, "x");
    }

    #[test]
    fn nonsense() {
        let check = |args: &[&str], want: &str| {
            let args = [args, &["--", "true"]].concat();
            let error = parse(&args).expect_err(&format!("{args:?}"));
            assert!(error.contains(want), "{args:?}: {error}");
            assert!(!error.contains('\n'), "{error}");
        };
        for option in ["-N", "-n", "-c", "--tasks-per-node"] {
            for value in ["x", "-1", "", "1.5", "99999999999999999999", "0x10", "é"] {
                check(&[option, value], "a whole number");
            }
        }
        for value in ["-1", "", "1.5", "99999999999999999999", "1025"] {
            check(&["--gpus", value], "a whole number");
        }
        check(&["--gpus", "a100:x"], "'x' is no whole number");
        check(&["--gpus", "é"], "no name of a type");
        check(&["--gpus", "a,a:2"], "asked for once");
        check(&["-N", "0"], "from 1 to");
        for value in ["", "x", "-1", "0", "1.5G", "9999999999999999999T"] {
            check(&["--mem", value], "size");
        }
        for value in ["", "x", "-5", "1:2:3:4", "0", "999999999999999999999"] {
            check(&["-t", value], "");
        }
        for option in ["--prefer", "--avoid", "--require"] {
            check(&[option, "n[1-1000000000]"], "1000000000 names");
            check(&[option, "n[3-1]"], "no host list");
            check(&[option, ""], "no host list");
        }
        check(&["-a", "1-1000000000"], "larger than");
        check(&["-a", "x"], "no array");
        check(&["-d", "sometime"], "no condition");
        check(&["--begin", "sometime"], "no point in time");
        check(&["--nice", "x"], "whole number");
        check(&["--signal", "FOO"], "no signal");
        check(&["--signal", "USR1@x"], "whole number");
        check(&["--open-mode", "x"], "truncate or append");
        check(&["--mail-type", "x"], "BEGIN");
        check(&["--env", "=x"], "missing");
        check(&["--other", "fpga"], "like fpga=2");
        check(&["-J", ""], "a name is needed");
        check(&["-J", &"x".repeat(300)], "300 bytes");
        check(&["-J", "a\nb"], "control characters");
        check(&["-o", ""], "a file name is needed");
        check(&["-o", &"x".repeat(5000)], "5000 bytes");
        check(&["--comment", &"x".repeat(5000)], "5000 bytes");
        check(&["--mem", "1G", "--mem-per-core", "1G"], "exclude each other");
        check(&["--nonsense"], "unexpected argument");
        assert!(parse(&["--", ""]).is_ok(), "the controller judges commands");
    }
}
