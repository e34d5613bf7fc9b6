//! The job that comes of a description.

use super::options::{Described, Person};
use crate::fault::{FAIL_PARSING, Fault, INVALID_JOBS_DESC, Warning};
use cosy_model::api::{NodeInfo, QueueInfo, Submission};
use cosy_model::limits::{ARGUMENTS, ENVIRONMENT_BYTES, SCRIPT_BYTES};
use cosy_model::{OsText, Program as Runs, ReservationId, Time};
use cosy_slurm::environment::Requested;
use cosy_slurm::error_numbers::ERRORS;
use cosy_slurm::getopt::{GivenOption, Order, parse};
use cosy_slurm::submit::binding::without_resource;
use cosy_slurm::submit::options::{OptionSources, SubmitOptions, check_together};
use cosy_slurm::submit::spec::{self, SubmissionContext};
use cosy_slurm::submit::{self, Line, Program, components, script, spread, table};
use jiff::Zoned;
use std::ffi::OsString;

/// Number of a job without variables.
const ENVIRONMENT_MISSING: u32 = 2127;
/// Number of a job without a script.
const SCRIPT_MISSING: u32 = 2009;
/// The mask of files that jobs get that say nothing of it.
const UMASK: u32 = 0o022;

/// Who submits, from where, and when.
#[derive(Clone, Copy, Debug)]
pub struct Submitter<'s> {
    /// The user who asks.
    pub person: Person<'s>,
    /// Whether the user may choose priorities.
    pub admin: bool,
    /// Name of the host that the job is submitted on.
    pub host: &'s str,
    /// The time, in the zone of the cluster.
    pub now: &'s Zoned,
}

/// A job that was read, before what it names has been looked up.
#[derive(Clone, Debug)]
pub struct Draft {
    described: Described,
    /// Its options as `sbatch` has them.
    pub options: SubmitOptions,
    /// Those of its further components.
    pub further: Vec<SubmitOptions>,
}

/// What was looked up for a job.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The reservation that it names.
    pub reservation: Option<ReservationId>,
    /// All nodes, where their number matters.
    pub nodes: Vec<NodeInfo>,
    /// All queues, where it may go to several.
    pub queues: Vec<QueueInfo>,
}

impl Draft {
    /// Reads the options of descriptions, one for each component; gives what has no effect too.
    ///
    /// # Errors
    /// What `sbatch` would refuse, a job without script, variables or working directory, and a component
    /// with something of its own that only a job has.
    pub fn read(
        mut components: Vec<Described>,
        submitter: &Submitter<'_>,
    ) -> Result<(Self, Vec<Warning>), Fault> {
        if components.is_empty() {
            return Err(Fault::new(INVALID_JOBS_DESC, "there is no job in the body", "job"));
        }
        let described = components.remove(0);
        complete(&described)?;
        let mut warnings = described.warnings.clone();
        let (options, given) = read(&described, submitter)?;
        let mut further = Vec::new();
        for component in &components {
            let (options, own) = read(component, submitter)?;
            belongs(component, &described, &own, &given)?;
            warnings.extend(component.warnings.iter().cloned());
            further.push(options);
        }
        let mut all = std::iter::once(&options).chain(&further);
        if !further.is_empty() && all.any(|options| options.array.is_some()) {
            return Err(of_submit(submit::Fault::refusal(submit::array::INVALID)));
        }
        let all = std::iter::once(&options).chain(&further);
        let remarks = all.flat_map(|options| &options.remarks);
        warnings.extend(remarks.map(|line| Warning::new("job", line.as_str())));
        if described
            .script
            .lines()
            .any(|line| line.starts_with("#SBATCH"))
        {
            let why =
                "lines #SBATCH of the script are not read: fields of the job say what they would";
            warnings.push(Warning::new("script", why));
        }
        let draft = Self {
            described,
            options,
            further,
        };
        Ok((draft, warnings))
    }

    /// The job to submit.
    ///
    /// # Errors
    /// What `sbatch` would refuse.
    pub fn submission(
        mut self,
        found: &Found,
        submitter: &Submitter<'_>,
    ) -> Result<Submission, Fault> {
        spread::over_nodes(&|| found.nodes.clone(), &mut self.options);
        let described = &self.described;
        let name = self
            .options
            .name
            .clone()
            .unwrap_or_else(|| "openapi".to_owned());
        let context = SubmissionContext {
            now: Time(submitter.now.timestamp().as_millisecond()),
            program: Runs::Script {
                name: OsText::default(),
                args: described
                    .arguments
                    .iter()
                    .map(|a| a.as_str().into())
                    .collect(),
            },
            default_name: name.clone(),
            workdir: described.workdir.as_deref().unwrap_or_default().into(),
            environment: self.environment(&name, submitter.host)?,
            umask: UMASK,
            rlimits: described.rlimits.clone().into(),
            host: Some(submitter.host.to_owned()).filter(|host| !host.is_empty()),
            session: None,
            line: String::new(),
            reservation: found.reservation,
            root: submitter.admin,
        };
        let (mut job, array) = spec::build(&self.options, context).map_err(of_submit)?;
        job.admin_comment = described.admin_comment.clone();
        if let Some(points) = described.site_factor {
            job.site_factor = points;
        }
        let several = self
            .options
            .partition
            .as_deref()
            .unwrap_or_default()
            .split(',');
        let several: Vec<String> = several
            .filter(|q| !q.is_empty())
            .map(str::to_owned)
            .collect();
        if several.len() > 1 {
            let known = |name: &&String| found.queues.iter().any(|q| q.spec.name == **name);
            if let Some(name) = several.iter().find(|name| !known(name)) {
                return Err(Fault::new(
                    2000,
                    format!("invalid partition specified: {name}"),
                    "partition",
                ));
            }
            // It waits in the first and goes to whichever could start it.
            job.queues = several;
        }
        components::add(&|| found.nodes.clone(), self.further, &mut job).map_err(of_submit)?;
        Ok(Submission {
            spec: job,
            script: OsText(self.described.script.into_bytes()),
            array,
        })
    }

    /// The given variables, and those that say how the job was requested.
    fn environment(&self, name: &str, host: &str) -> Result<OsText, Fault> {
        let options = &self.options;
        let workdir = self.described.workdir.clone().unwrap_or_default();
        let dealt = || {
            let nodes = options.nodes.map_or(1, |nodes| nodes.least);
            Some(nodes.saturating_mul(options.tasks_per_node?))
        };
        let gpu_bind = options.gpu_bind.as_deref().map(without_resource);
        let requested = Requested {
            name: name.to_owned(),
            tasks: options.tasks.or_else(dealt),
            tasks_per_node: options.tasks_per_node,
            cores_per_task: options.cores_per_task,
            overcommit: options.overcommit,
            memory: None,
            gpus: options.gpus.clone(),
            gpus_per_node: options.gpus_per_node.clone(),
            gpus_per_task: options.gpus_per_task.clone(),
            gpu_bind: gpu_bind.map(str::to_owned),
            submit_dir: workdir,
            submit_host: host.to_owned(),
            export: None,
            user_env: false,
            process_nice: None,
            distribution: options.distribution.as_ref().map(|d| d.text.clone()),
            plane_size: options.distribution.as_ref().and_then(|d| d.plane_size()),
            umask: None,
        };
        let made: Vec<String> = requested.variables().texts().collect();
        let name_of = |text: &str| text.split('=').next().unwrap_or_default().to_owned();
        let given = self.described.environment.iter().flatten();
        let anew = |text: &&String| made.iter().all(|own| name_of(own) != name_of(text));
        let all: Vec<&str> = given
            .filter(anew)
            .chain(&made)
            .map(String::as_str)
            .collect();
        let block = all.join("\0");
        if block.len() > ENVIRONMENT_BYTES {
            let why = format!(
                "the variables have {} bytes; at most {ENVIRONMENT_BYTES} are taken",
                block.len()
            );
            return Err(Fault::value("environment", why));
        }
        Ok(OsText(block.into_bytes()))
    }
}

/// The options of one component, and as they were given.
fn read(
    described: &Described,
    submitter: &Submitter<'_>,
) -> Result<(SubmitOptions, Vec<GivenOption>), Fault> {
    let args: Vec<OsString> = described.options.iter().map(OsString::from).collect();
    let parsed = parse(&table::options(Program::Sbatch), Order::Stop, &args);
    if let Some(mistake) = parsed.mistake {
        return Err(Fault::value("job", mistake.text("sbatch")));
    }
    check_together(&[], &parsed.found).map_err(of_submit)?;
    let sources = OptionSources {
        program: Program::Sbatch,
        now: &|| submitter.now.clone(),
        root: submitter.admin,
    };
    let mut options = SubmitOptions::default();
    for found in &parsed.found {
        options.apply(found, &sources).map_err(of_submit)?;
    }
    Ok((options, parsed.found))
}

/// Whether a further component says nothing but what one can have for itself, or what the first says too.
fn belongs(
    component: &Described,
    first: &Described,
    own: &[GivenOption],
    given: &[GivenOption],
) -> Result<(), Fault> {
    let alone = |found: &&GivenOption| {
        !components::is_own(found) && found.name != "job-name" && !given.contains(found)
    };
    if let Some(found) = own.iter().find(alone) {
        return Err(Fault::unsupported(format!("{} of a component alone", found.name)));
    }
    let same = |here: &Option<String>, there: &Option<String>| here.is_none() || here == there;
    let shared = (component.script.is_empty() || component.script == first.script)
        && same(&component.workdir, &first.workdir)
        && (component.environment.is_none() || component.environment == first.environment)
        && (component.arguments.is_empty() || component.arguments == first.arguments)
        && (component.rlimits.is_empty() || component.rlimits == first.rlimits);
    match shared {
        true => Ok(()),
        false => Err(Fault::unsupported(
            "script, environment, folder, arguments or limits of a component alone",
        )),
    }
}

/// What every job needs.
fn complete(described: &Described) -> Result<(), Fault> {
    let text = described.script.as_bytes();
    if text.is_empty() {
        return Err(Fault::new(SCRIPT_MISSING, "the job has no script", "script"));
    }
    if text.len() > SCRIPT_BYTES {
        let why = format!("the script has {} bytes; at most {SCRIPT_BYTES} are taken", text.len());
        return Err(Fault::new(2012, why, "script"));
    }
    script::check(text).map_err(|fault| Fault {
        source: "script".to_owned(),
        ..of_submit(fault)
    })?;
    if described.environment.as_ref().is_none_or(Vec::is_empty) {
        let why = "the job has no environment: at least PATH has to be there";
        return Err(Fault::new(ENVIRONMENT_MISSING, why, "environment"));
    }
    let workdir = described.workdir.as_deref().unwrap_or_default();
    if !workdir.starts_with('/') {
        let why = "current_working_directory has to be an absolute path";
        return Err(Fault::new(INVALID_JOBS_DESC, why, "current_working_directory"));
    }
    if described.arguments.len() > ARGUMENTS {
        let why = format!("{} arguments; at most {ARGUMENTS} are taken", described.arguments.len());
        return Err(Fault::value("argv", why));
    }
    Ok(())
}

/// What `sbatch` says, with the number of its sentence.
fn of_submit(fault: submit::Fault) -> Fault {
    let text = |line: &Line| match line {
        Line::Plain(text) | Line::Error(text) | Line::Fatal(text) | Line::Refusal(text) => {
            text.clone()
        }
    };
    let lines: Vec<String> = fault.lines.iter().map(text).collect();
    let number = lines.iter().rev().find_map(|line| {
        ERRORS
            .iter()
            .find(|(_, _, sentence)| sentence == line)
            .map(|(number, _, _)| *number)
    });
    Fault::new(number.unwrap_or(FAIL_PARSING), lines.join(" "), "job")
}
