//! A step in a job that is there.

use super::layout::{arranged, layout};
use super::request::{SRUN, SrunOptions, Stop, refused, tell_job, unreachable};
use super::{components, step};
use crate::launch::place;
use crate::launch::start::{go, way_to, with_variables};
use crate::slurm::messages::say;
use crate::slurm::submit::{hosts, surroundings};
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

/// Says that a job speaks to its programs in Slurm's words.
const DIALECT: &str = variables::DIALECT;

/// The job that this is in. One of Slurm's dialect may be left by unsetting its variables.
pub fn job(asked: &SrunOptions) -> Option<JobId> {
    let own = || place::job().filter(|_| std::env::var_os(DIALECT).is_none());
    asked.step_options.job.or_else(own)
}

/// Runs a step in `job`; gives the exit code.
pub fn run(context: &Context, asked: &SrunOptions, job: JobId) -> Result<u8, Stop> {
    let stream = match way_to(context, job) {
        Ok(stream) => stream,
        Err(e) => return Err(no_way(job, &e)),
    };
    let whole = facts(context, job);
    let mut chosen = components::chosen(asked, whole.as_ref())?;
    if let Some(whole) = whole.as_ref().filter(|_| chosen.len() > 1) {
        return over_components(asked, &chosen, whole, job, stream);
    }
    let (asked, facts, elsewhere) = match (chosen.pop(), whole) {
        (Some((asked, component)), Some(whole)) => {
            let elsewhere = components::nodes_of_others(&whole, &component);
            (asked, Some(component), elsewhere)
        }
        (_, whole) => (asked.clone(), whole, Vec::new()),
    };
    let asked = &asked;
    if let Some(facts) = &facts {
        tell_job(asked, facts);
    }
    let hosts = hosts::of_tasks(asked.hosts.as_ref(), asked.line.tasks)?;
    let layout = match &hosts[..] {
        [] => layout(asked, facts.as_ref())?,
        hosts => arranged(asked, facts.as_ref(), hosts),
    };
    let name = asked.job_options.name.clone().unwrap_or_default();
    let environment = variables(asked, facts.as_ref(), &layout, &name)?;
    let nodes = relative(asked, facts.as_ref(), &layout)?;
    let mut options = step::options(asked, &Some(layout), true)?;
    if let Some(nodes) = nodes {
        options.job.require = nodes;
    }
    options.places = hosts::runs(&hosts);
    options.job.avoid.extend(elsewhere);
    let wanted = step::wanted(asked, &options, environment)?;
    let outcome = go(SRUN.name(), &options, wanted, job, stream, None);
    match outcome {
        Ok(outcome) => Ok(outcome.code),
        Err(e) => Err(refused(job, &e).into()),
    }
}

/// Runs a step over several components of a heterogeneous job.
fn over_components(
    asked: &SrunOptions,
    chosen: &[(SrunOptions, AllocationFacts)],
    whole: &AllocationFacts,
    job: JobId,
    stream: UnixStream,
) -> Result<u8, Stop> {
    let step = components::Step::new(chosen, whole)?;
    tell_job(asked, &step.facts);
    let name = asked.job_options.name.clone().unwrap_or_default();
    let environment = variables(asked, Some(&step.facts), &step.layout, &name)?;
    let (options, wanted) = step.wanted(chosen, environment)?;
    match go(SRUN.name(), &options, wanted, job, stream, None) {
        Ok(outcome) => Ok(outcome.code),
        Err(e) => Err(refused(job, &e).into()),
    }
}

/// No way to the job: mostly it is over.
fn no_way(job: JobId, error: &anyhow::Error) -> Stop {
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
    Stop::Code(exit::FAILED)
}

/// What the job has: its own variables tell it, else the controller.
fn facts(context: &Context, job: JobId) -> Option<AllocationFacts> {
    let own = AllocationFacts::read(&present().0).filter(|f| f.job == job.to_string());
    own.filter(|f| !f.cores.is_empty())
        .or_else(|| ask(context, job))
}

/// The variables of this process that tell of a job.
fn present() -> OsText {
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

/// The nodes of the step when it begins at a certain one of the job.
fn relative(
    asked: &SrunOptions,
    facts: Option<&AllocationFacts>,
    layout: &Layout,
) -> Result<Option<Vec<String>>, Fault> {
    let Some(first) = asked.step_options.relative else {
        return Ok(None);
    };
    let line = &asked.line;
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

/// The variables of a step: those here, what the job has where that is missing, and what
/// `srun` adds.
fn variables(
    asked: &SrunOptions,
    facts: Option<&AllocationFacts>,
    layout: &Layout,
    name: &str,
) -> Result<OsText, Fault> {
    let host = surroundings::host();
    let mut told = surroundings::asked(SRUN, &asked.job_options, name, &host);
    told.distribution = Some(dealt(asked, layout));
    if asked.step_options.preserve {
        // Those that are there stay.
        told.tasks = None;
    }
    let job_options = &asked.job_options;
    let mut environment = surroundings::environment(job_options, &told)?;
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
    Ok(with_variables(&environment, &launched(&host)))
}

/// How tasks are dealt out: as asked for, else in blocks unless each is alone on its node.
fn dealt(asked: &SrunOptions, layout: &Layout) -> String {
    let usual = if layout.tasks <= layout.nodes {
        "cyclic"
    } else {
        "block"
    };
    let given = asked.job_options.distribution.as_ref();
    given.map_or(usual, |d| &d.text).to_owned()
}

/// Where this command is. Nothing connects to its port, which is only kept from others:
/// programs derive numbers from it that no other step on this host has.
pub fn launched(host: &str) -> OsText {
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

/// A name that is no longer than it may be; for [`OsString`] of any kind.
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
