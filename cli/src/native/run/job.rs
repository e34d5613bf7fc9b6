//! The job that `calloc` and `cosy run` submit where there is none to start a step in.

use crate::job_options::JobOptions;
use crate::launch::options::RunOptions;
use crate::native::submit;
use crate::{exit, submitter};
use anyhow::anyhow;
use cosy_model::api::Submission;
use cosy_model::device::GpuRequest;
use cosy_model::{JobSpec, OsText, Program};

/// The allocation that the options describe, for steps of `tasks` tasks.
///
/// # Errors
/// Options that make no sense.
pub fn allocation(
    job: &JobOptions,
    name: String,
    attended: bool,
    mpi: Option<String>,
) -> anyhow::Result<Submission> {
    let workdir = submitter::workdir(job.chdir.as_deref()).map_err(|e| anyhow!(e))?;
    let spec = JobSpec {
        queue: job.queue.clone(),
        account: job.account.clone(),
        qos: job.qos.clone(),
        reservation: job.reservation,
        comment: job.comment.clone().unwrap_or_default(),
        request: submit::request(job),
        licenses: job.licenses.clone().unwrap_or_default(),
        time_limit: job.time,
        begin: submit::begin(job)?,
        nice: job.nice.unwrap_or(0),
        dependencies: job.depend.clone(),
        open_mode: job.open_mode.unwrap_or_default(),
        umask: submitter::umask(),
        rlimits: submitter::rlimits(),
        attended,
        mpi,
        mail: job.mail(),
        submit_host: submitter::hostname(),
        submit_session: submitter::session_id(),
        submit_line: submitter::command_line(),
        ..JobSpec::plain(name, Program::Allocation, workdir)
    };
    Ok(Submission {
        spec,
        script: OsText::default(),
        array: None,
    })
}

/// The options of the job for a step with these options and number of tasks.
///
/// # Errors
/// GPUs for each task, when it is not known how many tasks a node has.
pub fn around(options: &RunOptions, tasks: Option<u32>) -> anyhow::Result<JobOptions> {
    let mut job = options.job.clone();
    job.tasks = tasks;
    (job.output, job.error, job.input) = (None, None, None);
    let Some(each) = &options.gpus_per_task else {
        return Ok(job);
    };
    let on_a_node = match (job.tasks_per_node, job.nodes, tasks) {
        (Some(n), _, _) => n,
        (None, Some(nodes), Some(tasks)) => tasks.div_ceil(nodes),
        (None, _, None | Some(1)) => 1,
        (None, None, Some(_)) => {
            return Err(exit::usage(
                "--gpus-per-task needs --nodes or --tasks-per-node, so that it is known how many \
                 GPUs a node must have",
            ));
        }
    };
    let needed = each.times(on_a_node);
    let enough = |g: &GpuRequest| {
        g.count >= needed.count && (g.types == needed.types || needed.types.is_empty())
    };
    if !job.gpus.as_ref().is_some_and(enough) {
        job.gpus = Some(needed);
    }
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::spec::step;
    use cosy_model::Span;
    use cosy_model::step::StepCommand;

    fn parse(args: &[&str]) -> RunOptions {
        let matches = super::super::options::command()
            .try_get_matches_from([&["run"], args].concat())
            .unwrap();
        RunOptions::from_matches(&matches).unwrap()
    }

    #[test]
    fn steps() {
        let request = step(&parse(&[
            "-n",
            "4",
            "-N",
            "2",
            "--mem",
            "1G",
            "-t",
            "5",
            "-o",
            "f",
            "--mpi",
            "none",
            "/bin/true",
            "x",
        ]))
        .unwrap();
        let spec = &request.spec;
        assert_eq!((&*spec.name, spec.tasks, spec.nodes), ("true", Some(4), Some(2)));
        assert_eq!(spec.memory, Some(cosy_model::MiB(1024)));
        assert_eq!(spec.time_limit, Some(Span::from_minutes(5)));
        let StepCommand::Run { argv, expand } = &spec.programs[0].command else {
            panic!("{spec:?}")
        };
        assert_eq!((argv.len(), *expand), (2, false));
        assert_eq!(request.error.local, crate::launch::files::LocalTarget::Same);
        assert!(spec.pty.is_none());
        let error = step(&parse(&["--mem-per-core", "1G", "x"])).err().unwrap();
        assert!(error.to_string().contains("--mem"));
    }

    #[test]
    fn gpus_of_the_job() {
        let check = |args: &[&str], want: Option<Option<&str>>| {
            let options = parse(&[args, &["x"]].concat());
            let got = around(&options, options.job.tasks).ok().map(|j| j.gpus);
            let want = want.map(|w| w.map(|w| w.parse().unwrap()));
            assert_eq!(got, want, "{args:?}");
        };
        check(&["-n", "4"], Some(None));
        check(&["-n", "4", "--gpus", "2"], Some(Some("2")));
        check(&["--gpus-per-task", "2"], Some(Some("2")));
        check(&["-n", "2", "-N", "1", "--gpus-per-task", "t4,a"], Some(Some("a:2,t4:2")));
        check(&["--gpus", "a:3", "--gpus-per-task", "1"], Some(Some("a:3")));
        check(&["--gpus", "3", "--gpus-per-task", "a"], Some(Some("a")));
        check(&["-n", "4", "-N", "2", "--gpus-per-task", "2"], Some(Some("4")));
        check(&["-n", "4", "--tasks-per-node", "1", "--gpus-per-task", "1"], Some(Some("1")));
        check(&["-n", "4", "--gpus-per-task", "1"], None);
    }

    #[test]
    fn allocations() {
        let options = parse(&["-n", "4", "-q", "day", "-o", "f", "-t", "5", "x"]);
        let job = around(&options, Some(4)).unwrap();
        let s = allocation(&job, "x".into(), true, None).unwrap();
        assert_eq!(s.spec.program, Program::Allocation);
        assert!(s.spec.attended && !s.spec.requeue && s.spec.stdout.is_none());
        assert_eq!(s.spec.request.tasks, Some(4));
        assert_eq!(s.spec.queue.as_deref(), Some("day"));
    }
}
