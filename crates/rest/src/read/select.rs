//! What parameters ask for: which jobs, names and times.

use crate::call::{Call, Endpoint};
use crate::fault::Fault;
use crate::query::short;
use crate::read::needs::{Extras, Selection};
use cosy_model::api::{JobFilter, JobRef};
use cosy_model::{Time, hostlist};
use cosy_slurm::sacct::options::{self, Invocation, Query};
use jiff::Zoned;
use std::ffi::OsString;

/// Jobs that one request names, at most.
const NAMED_JOBS: usize = 10_000;

/// What an answer is to have in it.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Handed to the controller.
    pub selection: Selection,
    /// Looked at here, of jobs out of the accounting.
    pub query: Query,
    /// Parts that parameters add or leave out.
    pub extras: Extras,
    /// Names; all when empty.
    pub users: Vec<String>,
    /// Names; all when empty.
    pub accounts: Vec<String>,
}

/// Words that `flags` may have; what they ask for is told in any case.
const FLAGS: [&str; 8] = [
    "ALL",
    "DETAIL",
    "MIXED",
    "LOCAL",
    "SIBLING",
    "FEDERATION",
    "FUTURE",
    "NONE",
];

impl Wanted {
    /// Reads the parameters of a call.
    ///
    /// # Errors
    /// A value that makes no sense.
    pub fn read(call: &Call, now: &Zoned) -> Result<Self, Fault> {
        let parameters = &call.parameters;
        flags(call)?;
        let midnight = now.start_of_day().unwrap_or_else(|_| now.clone());
        let mut wanted = Self {
            selection: Selection {
                midnight: time_of(&midnight),
                ..Selection::default()
            },
            ..Self::default()
        };
        let one = |name: &String| vec![name.clone()];
        match &call.endpoint {
            Endpoint::Job(id) => {
                wanted.selection.filter.ids = vec![job(id)?];
                wanted.selection.predicted = true;
            }
            Endpoint::JobStates => wanted.selection.filter.ids = jobs(&parameters.list("job_id"))?,
            Endpoint::Shares => {
                wanted.users = parameters.list("users");
                wanted.accounts = parameters.list("accounts");
                wanted.selection.usage = true;
            }
            Endpoint::DbJob(id) => wanted.jobs_of(vec![job(id)?], call, now)?,
            Endpoint::DbJobs => wanted.jobs_of(jobs(&parameters.list("step"))?, call, now)?,
            Endpoint::DbUser(name) | Endpoint::DbAccount(name) | Endpoint::DbOneQos(name) => {
                wanted.selection.names = one(name);
            }
            Endpoint::DbAssociations | Endpoint::DbAssociation => {
                wanted.users = parameters.list("user");
                wanted.accounts = parameters.list("account");
            }
            Endpoint::DbQos => wanted.selection.names = parameters.list("name"),
            _ => {}
        }
        wanted.extras.associations =
            parameters.flag("with_assocs")? || parameters.flag("WithAssociations")?;
        Ok(wanted)
    }

    /// Jobs out of the accounting: the parameters are read as `sacct` reads its options.
    fn jobs_of(&mut self, ids: Vec<JobRef>, call: &Call, now: &Zoned) -> Result<(), Fault> {
        let parameters = &call.parameters;
        for name in ["association", "reservation", "reservation_id", "exit_code"] {
            if parameters.get(name).is_some() {
                return Err(Fault::unsupported(name));
            }
        }
        let mut query = options(call, now)?;
        if parameters.get("start_time").is_none() {
            query.since = None;
        }
        let nodes = query.nodes.as_deref().map(hostlist::expand).transpose();
        let nodes = nodes
            .map_err(|e| Fault::value("node", e.to_string()))?
            .unwrap_or_default();
        self.extras = Extras {
            earlier_runs: parameters.flag("show_duplicates")?,
            without_steps: parameters.flag("skip_steps")?,
            ..Extras::default()
        };
        self.selection.filter = JobFilter {
            ids,
            users: query.users.clone(),
            queues: query.partitions.clone(),
            names: query.names.clone(),
            accounts: query.accounts.clone(),
            nodes,
            since: query.since,
            until: query.until,
            ..JobFilter::default()
        };
        self.query = query;
        Ok(())
    }
}

fn time_of(at: &Zoned) -> Time {
    Time(at.timestamp().as_millisecond())
}

/// Parameters, and the options of `sacct` that say the same.
const OPTIONS: [(&str, &str); 17] = [
    ("account", "accounts"),
    ("constraints", "constraints"),
    ("groups", "gid"),
    ("job_name", "name"),
    ("partition", "partition"),
    ("qos", "qos"),
    ("reason", "reason"),
    ("state", "state"),
    ("start_time", "starttime"),
    ("end_time", "endtime"),
    ("node", "nodelist"),
    ("users", "user"),
    ("wckey", "wckeys"),
    ("timelimit_min", "timelimit-min"),
    ("timelimit_max", "timelimit-max"),
    ("cluster", "clusters"),
    ("cpus_min", "ncpus"),
];

fn options(call: &Call, now: &Zoned) -> Result<Query, Fault> {
    let mut args: Vec<OsString> = Vec::new();
    for (parameter, option) in OPTIONS {
        let Some(value) = call.parameters.get(parameter) else {
            continue;
        };
        let most = match parameter {
            "cpus_min" => call
                .parameters
                .get("cpus_max")
                .map_or(String::new(), |most| format!("-{most}")),
            _ => String::new(),
        };
        let value = match parameter {
            "start_time" | "end_time" => moment(value),
            _ => value.to_owned(),
        };
        args.push(format!("--{option}={value}{most}").into());
    }
    let bad = |text: String| Fault::value("query", text);
    match options::read(&args, now, |_| None) {
        Invocation::Report(query) => Ok(*query),
        Invocation::Bad(text) | Invocation::Fatal(text) | Invocation::Line(text) => Err(bad(text)),
        Invocation::UsageError(mistake) => Err(bad(mistake.text("slurmdb"))),
        Invocation::Help | Invocation::Usage | Invocation::Version | Invocation::Fields => {
            Err(bad("nothing is asked for".to_owned()))
        }
    }
}

/// Seconds since 1970, as `sacct` reads them; other forms stay.
fn moment(text: &str) -> String {
    let seconds = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Shorter ones are hours, or days of a month.
    match seconds && text.len() > 8 {
        true => format!("uts{text}"),
        false => text.to_owned(),
    }
}

fn flags(call: &Call) -> Result<(), Fault> {
    if let Endpoint::Cancel(_) | Endpoint::DbCluster(_) = call.endpoint {
        return Ok(());
    }
    let known = |word: &&String| !FLAGS.iter().any(|flag| flag.eq_ignore_ascii_case(word));
    match call.parameters.list("flags").iter().find(known) {
        Some(word) => {
            let why = format!("\"{}\" is none of {}", short(word), FLAGS.join(", "));
            Err(Fault::value("flags", why))
        }
        None => Ok(()),
    }
}

/// A job out of a path.
///
/// # Errors
/// No job id.
pub fn job(text: &str) -> Result<JobRef, Fault> {
    // Number of Slurm's for a job that there is not: a client asks with what it was given.
    text.parse()
        .map_err(|why: String| Fault::new(2017, why, "job_id"))
}

fn jobs(words: &[String]) -> Result<Vec<JobRef>, Fault> {
    if words.len() > NAMED_JOBS {
        let why = format!("{} jobs are named; at most {} are taken", words.len(), NAMED_JOBS);
        return Err(Fault::query("job_id", why));
    }
    words
        .iter()
        .map(|word| job(word.split('.').next().unwrap_or(word)))
        .collect()
}
