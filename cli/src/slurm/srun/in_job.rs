//! `srun` inside a running job: a step in that job.

use super::layout::{arbitrary_layout, layout};
use super::request::{Failure, SRUN, SrunOptions, refused, tell_job, unreachable};
use super::step_options::no_bcast;
use super::{bcast, components, step};
use crate::launch::start::{connect_to_job, run_step, with_variables};
use crate::launch::step_socket;
use crate::slurm::messages::say;
use crate::slurm::submit::{hosts, submitter};
use crate::{Context, exit};
use cosy_client::CallError;
use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Request};
use cosy_model::{JobId, OsText, RefusalCode, variables};
use cosy_slurm::environment::{AllocationFacts, counts};
use cosy_slurm::geometry::Layout;
use cosy_slurm::submit::Fault;
use cosy_view::words::by_node;
use std::ffi::OsString;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

/// The variable that is set in jobs of Slurm's dialect.
const DIALECT: &str = variables::DIALECT;

/// The running job that the step belongs to: that of `--jobid` or `SLURM_JOB_ID`, else the job around
/// this command. A job of Slurm's dialect counts only by its variables, so that unsetting them works.
pub fn job(srun_options: &SrunOptions) -> Option<JobId> {
    let own = || step_socket::current_job().filter(|_| std::env::var_os(DIALECT).is_none());
    srun_options.step_options.job.or_else(own)
}

/// Runs a step in `job`; gives the exit code.
pub fn run(context: &Context, srun_options: &SrunOptions, job: JobId) -> Result<u8, Failure> {
    let stream = match connect_to_job(context, job) {
        Ok(stream) => stream,
        Err(e) => return Err(no_way(job, &e)),
    };
    let whole = facts(context, job);
    let mut chosen = components::selected(srun_options, whole.as_ref())?;
    if let Some(whole) = whole.as_ref().filter(|_| chosen.len() > 1) {
        return over_components(srun_options, &chosen, whole, job, stream);
    }
    let (srun_options, facts, other_nodes) = match (chosen.pop(), whole) {
        (Some((srun_options, component)), Some(whole)) => {
            let other_nodes = components::nodes_of_others(&whole, &component);
            (srun_options, Some(component), other_nodes)
        }
        (_, whole) => (srun_options.clone(), whole, Vec::new()),
    };
    let srun_options = &srun_options;
    if let Some(facts) = &facts {
        tell_job(srun_options, facts);
    }
    let hosts = hosts::of_tasks(srun_options.hosts.as_ref(), srun_options.line.tasks)?;
    let layout = match &hosts[..] {
        [] => layout(srun_options, facts.as_ref())?,
        hosts => arbitrary_layout(srun_options, facts.as_ref(), hosts),
    };
    let name = srun_options.job_options.name.clone().unwrap_or_default();
    let environment = variables(srun_options, facts.as_ref(), &layout, &name)?;
    let nodes = relative(srun_options, facts.as_ref(), &layout)?;
    let mut options = step::options(srun_options, &Some(layout), true)?;
    if let Some(nodes) = nodes {
        options.job.require = nodes;
    }
    options.places = hosts::runs(&hosts);
    options.job.avoid.extend(other_nodes);
    options.copy = bcast::copy(context, srun_options, job)?;
    let step_request = step::request(srun_options, &options, environment)?;
    let outcome = run_step(SRUN.name(), &options, step_request, job, stream, None);
    match outcome {
        Ok(outcome) => Ok(outcome.code),
        Err(e) => Err(refused(job, &e).into()),
    }
}

/// Runs a step over several components of a heterogeneous job.
fn over_components(
    srun_options: &SrunOptions,
    chosen: &[(SrunOptions, AllocationFacts)],
    whole: &AllocationFacts,
    job: JobId,
    stream: UnixStream,
) -> Result<u8, Failure> {
    chosen
        .iter()
        .try_for_each(|(one, _)| no_bcast(&one.step_options))?;
    let step = components::ComponentStep::new(chosen, whole)?;
    tell_job(srun_options, &step.facts);
    let name = srun_options.job_options.name.clone().unwrap_or_default();
    let environment = variables(srun_options, Some(&step.facts), &step.layout, &name)?;
    let (options, step_request) = step.request(chosen, environment)?;
    match run_step(SRUN.name(), &options, step_request, job, stream, None) {
        Ok(outcome) => Ok(outcome.code),
        Err(e) => Err(refused(job, &e).into()),
    }
}

/// The failure to connect to the job's first node: usually the job has ended.
fn no_way(job: JobId, error: &anyhow::Error) -> Failure {
    let gone = match error.downcast_ref::<CallError>() {
        Some(CallError::Refused(refusal)) => match refusal.code {
            RefusalCode::NotFound => Some("Invalid job id specified"),
            RefusalCode::WrongState => Some("Job/step already completing or completed"),
            RefusalCode::Forbidden => Some("Access/permission denied"),
            _ => None,
        },
        _ => None,
    };
    let Some(why) = gone else {
        return unreachable(error).into();
    };
    say(&format!("srun: error: Unable to confirm allocation for job {job}: {why}"));
    say(&format!("srun: Check SLURM_JOB_ID environment variable. Expired or invalid job {job}"));
    Failure::Reported(exit::FAILED)
}

/// Nodes, tasks and cores of the job: from its variables, else from the controller.
fn facts(context: &Context, job: JobId) -> Option<AllocationFacts> {
    let own = AllocationFacts::read(&job_variables().0).filter(|f| f.job == job.to_string());
    own.filter(|f| !f.cores.is_empty())
        .or_else(|| ask(context, job))
}

/// The variables of this process that describe a job.
fn job_variables() -> OsText {
    let mut block = Vec::new();
    for (name, value) in std::env::vars_os() {
        if name.as_bytes().starts_with(variables::PREFIX.as_bytes()) {
            block.extend(name.into_vec());
            block.push(b'=');
            block.extend(value.into_vec());
            block.push(0);
        }
    }
    OsText(block)
}

fn ask(context: &Context, job: JobId) -> Option<AllocationFacts> {
    use JobField::{
        Account, CoresByNode, CoresPerTask, Name, Nodes, Qos, Queue, TasksByNode, User,
    };
    let request = Request::Jobs {
        filter: JobFilter {
            ids: vec![JobRef { job, task: None }],
            ..JobFilter::default()
        },
        fields: vec![
            Name,
            Queue,
            User,
            Nodes,
            Account,
            Qos,
            TasksByNode,
            CoresByNode,
            CoresPerTask,
        ],
        fold_arrays: false,
    };
    let Ok(Reply::Jobs(table)) = context.ask(request) else {
        return None;
    };
    let some = |field| Some(table.text(0, field).to_owned()).filter(|t| !t.is_empty());
    Some(AllocationFacts {
        job: job.to_string(),
        name: some(Name)?,
        owner: (some(User).unwrap_or_default(), String::new(), String::new()),
        queue: some(Queue).unwrap_or_default(),
        account: some(Account),
        qos: some(Qos),
        nodes: some(Nodes)?,
        tasks: by_node::read(table.text(0, TasksByNode)),
        cores: by_node::read(table.text(0, CoresByNode)),
        ..AllocationFacts::default()
    })
}

/// The nodes of the step with `--relative`, which begins at a given node of the job.
fn relative(
    srun_options: &SrunOptions,
    facts: Option<&AllocationFacts>,
    layout: &Layout,
) -> Result<Option<Vec<String>>, Fault> {
    let Some(first) = srun_options.step_options.relative else {
        return Ok(None);
    };
    let line = &srun_options.line;
    if line.nodelist.is_some() || line.exclude.is_some() {
        let text = "-r,--relative not allowed with -w,--nodelist or -x,--exclude.";
        return Err(Fault::error(text));
    }
    let own = facts.map_or("", |f| &f.nodes);
    let all = cosy_model::expand(own).unwrap_or_default();
    let place = first as usize..(first as usize).saturating_add(layout.nodes as usize);
    if let Some(nodes) = all.get(place) {
        return Ok(Some(nodes.to_vec()));
    }
    let chosen = line.nodes.is_some() || (layout.nodes as usize) < all.len();
    let chosen = chosen || !layout.warnings.is_empty();
    let option = if chosen {
        "--nodes"
    } else {
        "SLURM_JOB_NUM_NODES"
    };
    Err(Fault::error(format!(
        "--relative and {option} option incompatible with count of allocated nodes \
         ({first}+{}>{})",
        layout.nodes,
        all.len()
    )))
}

/// The variables of a step: those of this process, missing ones of the job, and those that `srun`
/// sets.
fn variables(
    srun_options: &SrunOptions,
    facts: Option<&AllocationFacts>,
    layout: &Layout,
    name: &str,
) -> Result<OsText, Fault> {
    let host = submitter::hostname();
    let mut requested = submitter::requested(SRUN, &srun_options.job_options, name, &host);
    requested.distribution = Some(distribution_word(srun_options, layout));
    if srun_options.step_options.preserve {
        // Variables that are set stay as they are.
        requested.tasks = None;
    }
    let job_options = &srun_options.job_options;
    let mut environment = submitter::environment(job_options, &requested)?;
    if let Some(facts) = facts {
        let shared: Vec<String> = facts.shared().texts().collect();
        environment = with_variables(&environment, &shared.join("\0").into());
        let job_name = std::env::var("SLURM_JOB_NAME").unwrap_or_else(|_| facts.name.clone());
        let parts = counts(&facts.cores);
        let mut more = format!("SLURM_JOB_NAME={job_name}");
        // A heterogeneous job has them of each component.
        if std::env::var_os("SLURM_HET_SIZE").is_none() {
            more += &format!("\0SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0={parts}");
        }
        environment = with_variables(&environment, &more.into());
    }
    Ok(with_variables(&environment, &launch_variables(&host)))
}

/// The word for how tasks are distributed: as given, else `block`, or `cyclic` for one task a node.
fn distribution_word(srun_options: &SrunOptions, layout: &Layout) -> String {
    let usual = if layout.tasks <= layout.nodes {
        "cyclic"
    } else {
        "block"
    };
    let given = srun_options.job_options.distribution.as_ref();
    given.map_or(usual, |d| &d.text).to_owned()
}

/// Variables with the address and a port of this command. Nothing connects to the port; it is kept
/// from other processes, because programs derive numbers from it that must differ between steps.
pub fn launch_variables(host: &str) -> OsText {
    let address = if host.is_empty() { "localhost" } else { host };
    let here = address_of(address);
    let port = own_port();
    OsText::from(format!(
        "SLURM_LAUNCH_NODE_IPADDR={here}\0SLURM_SRUN_COMM_HOST={here}\0\
         SLURM_SRUN_COMM_PORT={port}\0SLURM_STEP_LAUNCHER_PORT={port}"
    ))
}

/// A port (of UDP, which nobody can connect to) that is bound as long as this process lives; 0
/// where there is none.
fn own_port() -> u16 {
    static PORT: OnceLock<Option<UdpSocket>> = OnceLock::new();
    let bound = PORT.get_or_init(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok());
    let address = bound.as_ref().and_then(|socket| socket.local_addr().ok());
    address.map_or(0, |a| a.port())
}

/// The address in `/etc/hosts`, which answers at once; else the name.
fn address_of(host: &str) -> String {
    let text = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let found = text.lines().find_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let address = words.next()?;
        words.any(|name| name == host).then(|| address.to_owned())
    });
    found.unwrap_or_else(|| host.to_owned())
}

/// The last part of the path of a program, as the default name of its step.
pub fn program_name(command: &[OsString]) -> String {
    let first = command.first().map(|w| w.to_string_lossy().into_owned());
    let first = first.unwrap_or_default();
    let base = first.rsplit('/').find(|p| !p.is_empty()).unwrap_or("srun");
    base.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs() {
        let check = |word: &str, want: &str| {
            assert_eq!(program_name(&[OsString::from(word)]), want);
        };
        check("./env.sh", "env.sh");
        check("/bin/true", "true");
        check("", "srun");
    }
}
