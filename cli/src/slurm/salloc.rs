//! `salloc`: an allocation, and a shell or command in it on this host. Source: salloc(1),
//! captures salloc-*.

use super::messages::{error, fail, say};
use super::srun::step_options::{immediate, x11};
use super::submit;
use super::waiting::{self, WaitOptions};
use crate::allocation::finish::finish;
use crate::allocation::job_connection::{Allocated, JobConnection};
use crate::allocation::shell;
use crate::launch::start::{with_display, with_variables};
use crate::launch::{display, step_socket};
use crate::{Context, exit};
use cosy_model::api::EndedJob;
use cosy_model::step::DisplayNodes;
use cosy_model::{Dialect, JobId, JobSpec, JobState, OsText, Program as Runs, variables};
use cosy_slurm::environment::AllocationFacts;
use cosy_slurm::getopt::GivenOption;
use cosy_slurm::submit::components::passed_on;
use cosy_slurm::submit::options::{SubmitOptions, check_together};
use cosy_slurm::submit::{Fault, Program};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

const SALLOC: Program = Program::Salloc;

/// The options of `salloc` that are not about the job.
#[derive(Clone, Debug, Default)]
struct SallocOptions {
    no_shell: bool,
    /// Signal for the command when the job ends (`--kill-command`).
    kill: Option<i32>,
    immediate: Option<Duration>,
    bell: bool,
    /// Nodes on which programs of its steps find a display (`--x11`).
    x11: Option<DisplayNodes>,
}

impl SallocOptions {
    fn read(options: &[GivenOption]) -> Result<Self, Fault> {
        let mut salloc_options = Self::default();
        for found in options {
            match found.name {
                "no-shell" => salloc_options.no_shell = true,
                "kill-command" => salloc_options.kill = Some(signal(found)?),
                "immediate" => salloc_options.immediate = Some(immediate(found)?),
                "x11" => salloc_options.x11 = Some(x11(found)?),
                "bell" => salloc_options.bell = true,
                "no-bell" => salloc_options.bell = false,
                _ => {}
            }
        }
        Ok(salloc_options)
    }
}

fn signal(found: &GivenOption) -> Result<i32, Fault> {
    let text = found.text();
    if text.is_empty() {
        return Ok(signal_hook::consts::SIGTERM);
    }
    let number = cosy_model::signal::number(&text);
    number.ok_or_else(|| Fault::specification("kill-command"))
}

/// Runs `salloc`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    let parsed = match submit::command_line(context, SALLOC) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    let (lines, words) = match submit::components::of_line(SALLOC, parsed.found, parsed.words) {
        Ok(components) => components,
        Err(mistake) => return submit::report_usage_error(SALLOC, &mistake),
    };
    let environment = submit::environment(SALLOC);
    let read = |line: Vec<GivenOption>| -> Result<(Vec<GivenOption>, SubmitOptions, SallocOptions), Fault> {
        let options: Vec<GivenOption> = [&environment[..], &line].concat();
        check_together(&environment, &line)?;
        let (job_options, salloc_options) = submit::job_options(SALLOC, &options)?;
        Ok((options, job_options, SallocOptions::read(&salloc_options)?))
    };
    let components: Result<Vec<_>, Fault> = passed_on(lines).into_iter().map(read).collect();
    let mut components = match components {
        Ok(components) => components.into_iter(),
        Err(fault) => return fail(SALLOC, &fault),
    };
    let Some((options, job_options, salloc_options)) = components.next() else {
        return exit::FAILED;
    };
    if job_options.verbose > 0 {
        submit::describe(SALLOC, &options);
        submit::details(SALLOC, &job_options);
    }
    submit::remarks(SALLOC, &job_options);
    let further: Vec<SubmitOptions> = components.map(|(_, job_options, _)| job_options).collect();
    allocate(context, (&job_options, &further), &salloc_options, words)
}

fn allocate(
    context: &Context,
    (job_options, further): (&SubmitOptions, &[SubmitOptions]),
    salloc_options: &SallocOptions,
    command: Vec<OsString>,
) -> u8 {
    let name = if salloc_options.no_shell {
        "no-shell"
    } else {
        "interactive"
    };
    if let Err(fault) = check_display(salloc_options) {
        return fail(SALLOC, &fault);
    }
    let built = submit::job(context, SALLOC, job_options.clone(), Runs::Allocation, name);
    let built = built.and_then(|(mut spec, array)| {
        submit::components::add(context, further, &mut spec)?;
        Ok((spec, array))
    });
    let (spec, environment) = match built {
        Ok((spec, _)) => without_environment(spec, salloc_options),
        Err(fault) => return fail(SALLOC, &fault),
    };
    let wait_options = WaitOptions {
        max_wait: salloc_options.immediate,
        quiet: job_options.quiet,
    };
    let (job_connection, allocated) = match waiting::get(context, SALLOC, spec, &wait_options) {
        Ok(got) => got,
        Err(code) => return code,
    };
    let job = job_connection.job();
    let report = |text: &str| {
        if !job_options.quiet {
            say(&format!("salloc: {text}"));
        }
    };
    report(&format!("Granted job allocation {job}"));
    if salloc_options.bell {
        crate::output::print("\x07");
    }
    if salloc_options.no_shell {
        return exit::OK;
    }
    let inside = LocalCommand {
        context,
        salloc_options,
        quiet: job_options.quiet,
        workdir: job_options.chdir.clone(),
        variables: with_display(variables(&environment, &allocated), salloc_options.x11, job),
        command,
    };
    inside.run(job_connection)
}

/// Windows of steps can be shown here, where that is asked for. Their commands connect to the display.
///
/// # Errors
/// There is no display, or there will be no shell for such commands.
fn check_display(salloc_options: &SallocOptions) -> Result<(), Fault> {
    let Some(nodes) = salloc_options.x11 else {
        return Ok(());
    };
    if salloc_options.no_shell {
        let text = "--x11 is for steps from the shell of salloc; with --no-shell give it to srun";
        return Err(Fault::error(text));
    }
    let found = display::real::find(nodes, Dialect::Slurm);
    found.map(drop).map_err(|e| Fault::error(format!("{e:#}")))
}

/// The allocation without its variables, and the variables, which only the local command gets.
fn without_environment(spec: JobSpec, salloc_options: &SallocOptions) -> (JobSpec, OsText) {
    let environment = spec.environment.clone();
    let spec = JobSpec {
        attended: !salloc_options.no_shell,
        environment: OsText::default(),
        ..spec
    };
    (spec, environment)
}

fn variables(environment: &OsText, allocated: &Allocated) -> OsText {
    let mut all = with_variables(environment, &allocated.variables);
    if let Some(facts) = AllocationFacts::read(&allocated.variables.0) {
        let report: Vec<String> = facts.allocation().texts().collect();
        all = with_variables(&all, &report.join("\0").into());
    }
    // Where the nodes cannot be reached, the commands that need them report it.
    if let Ok((_, socket)) = step_socket::connect_outside(&allocated.entry) {
        let mut variable = format!("{}=", variables::STEP_SOCKET).into_bytes();
        variable.extend(socket.into_os_string().into_vec());
        all = with_variables(&all, &OsText(variable));
    }
    all
}

struct LocalCommand<'a> {
    context: &'a Context,
    salloc_options: &'a SallocOptions,
    quiet: bool,
    workdir: Option<OsString>,
    variables: OsText,
    command: Vec<OsString>,
}

impl LocalCommand<'_> {
    fn run(self, mut job_connection: JobConnection) -> u8 {
        let job = job_connection.job();
        let words = self.words();
        let ended = shell::run(self.shell_options(job), self.process(&words), &mut job_connection);
        let (code, job_ended) = match &ended {
            Ok(ended) => (ended.exit_code, ended.job_ended),
            Err(_) => {
                let shown = words[0].to_string_lossy();
                let text = format!("_fork_command: Unable to find command \"{shown}\"");
                error(self.context, &text);
                (i32::from(exit::FAILED), false)
            }
        };
        let signal = ended.as_ref().map_or(0, |e| e.signal);
        if !job_ended {
            self.say(&format!("Relinquishing job allocation {job}"));
            finish(self.context, job, code, signal);
        }
        drop(job_connection);
        let killed = job_ended && signal != 0;
        // As in the original, a signal that ended the command is no failure of its own.
        if killed {
            exit::FAILED
        } else {
            u8::try_from(code).unwrap_or(u8::MAX)
        }
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            say(&format!("salloc: {text}"));
        }
    }

    /// What happens to the command when the job ends before it.
    fn shell_options(&self, job: JobId) -> shell::ShellOptions<'_> {
        let interactive = self.command.is_empty() && std::io::stdin().is_terminal();
        let kill = self
            .salloc_options
            .kill
            .or(interactive.then_some(signal_hook::consts::SIGHUP));
        let quiet = self.quiet;
        shell::ShellOptions {
            program: self.context.program(),
            kill,
            report_end: Box::new(move |ended| report_job_end(job, ended, quiet)),
        }
    }

    fn process(&self, words: &[OsString]) -> std::process::Command {
        let mut command = std::process::Command::new(&words[0]);
        command.args(&words[1..]).env_clear();
        for variable in self.variables.0.split(|b| *b == 0) {
            if let Some(at) = variable.iter().position(|b| *b == b'=') {
                let part = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
                command.env(part(&variable[..at]), part(&variable[at + 1..]));
            }
        }
        if let Some(workdir) = &self.workdir {
            command.current_dir(workdir);
        }
        command
    }

    fn words(&self) -> Vec<OsString> {
        if !self.command.is_empty() {
            return self.command.clone();
        }
        let shell = std::env::var_os("SHELL").filter(|s| !s.is_empty());
        vec![shell.unwrap_or_else(|| "/bin/sh".into())]
    }
}

/// Prints that the job has ended before its command.
fn report_job_end(job: JobId, ended: Option<&EndedJob>, quiet: bool) {
    if quiet {
        return;
    }
    say(&match ended.map(|e| e.state) {
        Some(JobState::TimedOut) => format!(
            "salloc: Job {job} has exceeded its time limit and its allocation has been revoked."
        ),
        _ => format!("salloc: Job allocation {job} has been revoked."),
    });
}
