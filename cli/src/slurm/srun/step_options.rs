//! The options of `srun` that are not about the job: how its tasks run and what becomes of
//! their output. Source: srun(1).

use crate::launch::supervisors;
use cosy_model::JobId;
use cosy_model::step::{DisplayNodes, GpuBind};
use cosy_slurm::getopt::GivenOption;
use cosy_slurm::submit::binding::{self, CpuBind};
use cosy_slurm::submit::options::SubmitOptions;
use cosy_slurm::submit::{Fault, components};
use std::ffi::OsString;
use std::time::Duration;

/// The options of `srun` about the step.
#[derive(Clone, Debug, Default)]
pub struct StepOptions {
    /// The number of its task stands before each line of output (`--label`).
    pub label: bool,
    /// Output goes on as it comes, not line by line (`--unbuffered`).
    pub unbuffered: bool,
    /// Whether the first task with a bad exit code ends the others (`--kill-on-bad-exit`).
    pub kill_on_bad_exit: Option<bool>,
    /// After the first end of a task the others have so long (`--wait`); none is no limit.
    pub wait: Option<Duration>,
    /// The command is a file that says which task runs which program (`--multi-prog`).
    pub multi_prog: bool,
    /// The first task gets a terminal (`--pty`).
    pub pty: bool,
    /// Nodes on which programs find a display (`--x11`).
    pub x11: Option<DisplayNodes>,
    /// Name of the MPI plugin, or `none` (`--mpi`).
    pub mpi: Option<String>,
    /// The step may share cores with other steps of the job (`--overlap`).
    pub overlap: bool,
    /// What tasks are bound to (`--cpu-bind`).
    pub cpu_bind: Option<CpuBind>,
    /// Which GPUs tasks see unless `--gpu-bind` says it (`--accel-bind`).
    pub accelerators: GpuBind,
    /// The running job to start the step in (`--jobid`, or `SLURM_JOB_ID`).
    pub job: Option<JobId>,
    /// Longest wait for a start (`--immediate`).
    pub immediate: Option<Duration>,
    /// First node of the step, counted from 0 within the job (`--relative`).
    pub relative: Option<u32>,
    /// The environment goes to the tasks as it is (`--preserve-env`).
    pub preserve: bool,
    /// One interrupt ends the step, instead of two (`--quit-on-interrupt`).
    pub quit_on_interrupt: bool,
    /// Interrupts go on to the tasks instead of listing them (`--disable-status`).
    pub disable_status: bool,
    /// Level of messages of the nodes' supervisors (`--slurmd-debug`).
    pub supervisors: u32,
    /// Tasks stop before they begin, for a debugger (`--debugger-test`).
    pub stopped: bool,
    /// Program that runs here before the step (`--prolog`).
    pub prolog: Option<String>,
    /// Program that runs here after the step (`--epilog`).
    pub epilog: Option<String>,
    /// Program that runs before each task (`--task-prolog`).
    pub task_prolog: Option<String>,
    /// Program that runs after each task (`--task-epilog`).
    pub task_epilog: Option<String>,
    /// The program is copied to the nodes first: to this file or folder, relative to the working
    /// directory, which an empty one stands for (`--bcast`).
    pub bcast: Option<OsString>,
    /// Shared libraries are asked to be copied along with the program (`--send-libs`).
    pub send_libraries: bool,
    /// Components of a heterogeneous job that the step runs on (`--het-group`).
    pub het_groups: Option<Vec<u32>>,
}

impl StepOptions {
    /// Reads them, later ones over earlier ones.
    ///
    /// # Errors
    /// A value that cannot be read.
    pub fn read(options: &[GivenOption]) -> Result<Self, Fault> {
        let mut own = Self::default();
        for found in options {
            own.apply(found)?;
        }
        Ok(own)
    }

    fn apply(&mut self, found: &GivenOption) -> Result<(), Fault> {
        let text = || found.text();
        let program = || Some(found.text()).filter(|p| !p.is_empty() && p != "none");
        match found.name {
            "label" => self.label = true,
            "unbuffered" => self.unbuffered = true,
            "kill-on-bad-exit" => self.kill_on_bad_exit = Some(text() != "0"),
            "wait" => {
                let seconds = number(&text(), "wait")?;
                self.wait = (seconds > 0).then(|| Duration::from_secs(seconds));
            }
            "multi-prog" => self.multi_prog = true,
            "pty" => self.pty = true,
            "x11" => self.x11 = Some(x11(found)?),
            "mpi" => self.mpi = Some(text()),
            "overlap" => self.overlap = true,
            "cpu-bind" => self.cpu_bind = Some(binding::read(&text())?),
            "accel-bind" => self.accelerators = binding::accelerators(&text())?,
            "jobid" => self.job = Some(JobId(number(&text(), "jobid")?)),
            "immediate" => self.immediate = Some(immediate(found)?),
            "relative" => self.relative = Some(relative(&text())?),
            "preserve-env" => self.preserve = true,
            "quit-on-interrupt" => self.quit_on_interrupt = true,
            "disable-status" => self.disable_status = true,
            "slurmd-debug" => self.supervisors = supervisors::level(&text()),
            "debugger-test" => self.stopped = true,
            "prolog" => self.prolog = program(),
            "epilog" => self.epilog = program(),
            "task-prolog" => self.task_prolog = program(),
            "task-epilog" => self.task_epilog = program(),
            "bcast" => self.bcast = Some(found.value.clone().unwrap_or_default()),
            "send-libs" => self.send_libraries = yes(found)?,
            "het-group" => self.het_groups = Some(components::numbers(&text())?),
            _ => {}
        }
        Ok(())
    }
}

/// Checks what `--bcast` is asked for together with.
///
/// # Errors
/// Options that would run something else than the copy, or the copy with other libraries.
pub(super) fn check_bcast(
    step_options: &StepOptions,
    job_options: &SubmitOptions,
) -> Result<(), Fault> {
    if step_options.bcast.is_none() {
        return Ok(());
    }
    if step_options.send_libraries {
        return Err(Fault::error(
            "--send-libs is not available: the nodes' own libraries are used. Copy others with \
             sbcast and name their folder in LD_LIBRARY_PATH",
        ));
    }
    if step_options.multi_prog {
        return Err(Fault::error(
            "--bcast copies one program, not those of --multi-prog: copy them with sbcast",
        ));
    }
    if job_options.container.container().ok().flatten().is_some() {
        return Err(Fault::error(
            "--bcast copies to the nodes, not into containers: copy the program with sbcast to a \
             folder that --container-mounts names",
        ));
    }
    Ok(())
}

/// Checks a step over several components.
///
/// # Errors
/// It is asked for with `--bcast`: their programs would need copies each.
pub(super) fn no_bcast(step_options: &StepOptions) -> Result<(), Fault> {
    match step_options.bcast {
        None => Ok(()),
        Some(_) => Err(Fault::error(
            "--bcast is for steps in one component: copy the programs with sbcast",
        )),
    }
}

/// `--send-libs[=yes|no]`.
///
/// # Errors
/// Another word.
fn yes(found: &GivenOption) -> Result<bool, Fault> {
    match found.text().to_ascii_lowercase().as_str() {
        "" | "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(Fault::error(format!("Invalid --{} argument: yes or no is needed", found.name))),
    }
}

fn number(text: &str, option: &str) -> Result<u64, Fault> {
    let fine = (1..=18).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let number = fine.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| {
        let text: String = text.chars().take(200).collect();
        Fault::error(format!("Invalid numeric value \"{text}\" for --{option}."))
    })
}

fn relative(text: &str) -> Result<u32, Fault> {
    let number = number(text, "relative")?;
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

/// `--x11[=all|first|last|batch]`: on all nodes without a word.
///
/// # Errors
/// Another word.
pub fn x11(found: &GivenOption) -> Result<DisplayNodes, Fault> {
    let Some(_) = found.value else {
        return Ok(DisplayNodes::All);
    };
    let nodes = found.text().to_ascii_lowercase().parse();
    nodes.map_err(|why| Fault::error(format!("Invalid --x11 argument: {why}")))
}

/// `--immediate[=SECONDS]`: at most so long; a moment without a number.
///
/// # Errors
/// No number.
pub fn immediate(found: &GivenOption) -> Result<Duration, Fault> {
    match &found.value {
        None => Ok(Duration::from_secs(1)),
        Some(_) => number(&found.text(), "immediate").map(|s| Duration::from_secs(s.max(1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let found = |name, value: &str| GivenOption {
            name,
            value: Some(value.into()),
        };
        let read = |name, value| StepOptions::read(&[found(name, value)]);
        assert_eq!(read("wait", "2").unwrap().wait, Some(Duration::from_secs(2)));
        assert_eq!(read("wait", "0").unwrap().wait, None);
        assert_eq!(read("kill-on-bad-exit", "0").unwrap().kill_on_bad_exit, Some(false));
        assert_eq!(read("jobid", "12").unwrap().job, Some(JobId(12)));
        assert_eq!(read("bcast", "d/").unwrap().bcast, Some("d/".into()));
        assert!(read("send-libs", "Yes").unwrap().send_libraries);
        assert!(!read("send-libs", "no").unwrap().send_libraries);
        assert_eq!(read("prolog", "none").unwrap().prolog, None);
        assert_eq!(read("x11", "Last").unwrap().x11, Some(DisplayNodes::Last));
        let alone = GivenOption {
            name: "x11",
            value: None,
        };
        assert_eq!(StepOptions::read(&[alone]).unwrap().x11, Some(DisplayNodes::All));
        for (name, value) in [
            ("wait", "x"),
            ("jobid", ""),
            ("immediate", "-1"),
            ("relative", "-1"),
            ("send-libs", "maybe"),
            ("x11", "everywhere"),
        ] {
            assert!(read(name, value).is_err(), "{name}={value}");
        }
    }

    #[test]
    fn what_would_run_something_else_is_refused() {
        let check_one = |change: fn(&mut StepOptions, &mut SubmitOptions), word: Option<&str>| {
            let mut step_options = StepOptions {
                bcast: Some(OsString::new()),
                ..StepOptions::default()
            };
            let mut job_options = SubmitOptions::default();
            change(&mut step_options, &mut job_options);
            let told = check_bcast(&step_options, &job_options).err();
            let told = told.map(|fault| fault.text(cosy_slurm::submit::Program::Srun));
            match (told, word) {
                (None, None) => {}
                (Some(told), Some(word)) => assert!(told.contains(word), "{told}"),
                other => panic!("{other:?}"),
            }
        };
        check_one(|_, _| {}, None);
        check_one(|own, _| own.send_libraries = true, Some("LD_LIBRARY_PATH"));
        check_one(|own, _| own.multi_prog = true, Some("--multi-prog"));
        check_one(
            |_, job| assert!(job.container.apply("container-image", "debian").is_ok()),
            Some("--container-mounts"),
        );
        check_one(
            |own, _| {
                own.bcast = None;
                own.send_libraries = true;
            },
            None,
        );
    }
}
