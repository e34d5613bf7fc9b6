//! A history through the controller itself, with the accounts of a site: their shares and limits,
//! qualities of service, and queues in which not the first come is the first served.
//!
//! Jobs that still wait 60 days after the last end are counted as waiting for ever.
//!
//! What it does not know: memory, GPUs and licences, held jobs, dependencies, nodes that were down.

use crate::cosy::controller_replay::{self, Setup, Site, Users};
use crate::policy::PolicyFile;
use crate::replay::{JobRun, Machine, Replay};
use crate::workload::{Job, Workload};
use cosy_control::{Controller, ReservationPolicy};
use cosy_model::api::{Reply, Request};
use cosy_model::policy::{NORMAL, PolicyChange, QosRecord};
use cosy_model::{QueueSpec, Span, Time};
use cosy_slurm::import::lines::{Fault, Piece};
use cosy_slurm::import::{self, Sources};
use cosy_slurm::sacctmgr::load;
use cosy_slurm::sacctmgr::view::PolicyView;
use std::collections::BTreeSet;

/// Accounts, users in them and qualities of service of a site.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Accounts {
    /// What makes them.
    pub changes: Vec<PolicyChange>,
    /// Account and user, of each user in an account.
    pub users: BTreeSet<(String, String)>,
    /// Names of qualities of service.
    pub qos: BTreeSet<String>,
    /// What is not carried over, one line each.
    pub notes: Vec<String>,
}

impl Accounts {
    /// Reads what `sacctmgr dump` wrote, and a list of qualities of service, as
    /// `cadm import-slurm` does for queues of these names.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn read(
        dump: &Piece,
        qos: Option<&Piece>,
        queues: &[String],
        limits: bool,
    ) -> Result<Self, Fault> {
        let fine =
            |name: &&String| !name.contains(|c: char| c.is_whitespace() || c == '"' || c == '#');
        let mut conf = String::new();
        for queue in queues.iter().filter(fine) {
            conf.push_str(&format!("PartitionName={queue}\n"));
        }
        if limits {
            conf.push_str("AccountingStorageEnforce=limits,qos\n");
        }
        let imported = import::import(&Sources {
            conf: &[Piece::file("the history's queues", &conf)],
            accounts: Some(dump),
            qos,
            ..Sources::default()
        })?;
        let usual = QosRecord {
            name: NORMAL.to_owned(),
            ..QosRecord::default()
        };
        let fresh = PolicyView {
            qos: vec![usual],
            ..PolicyView::default()
        };
        let text = imported.accounts.unwrap_or_default();
        let loaded = load::read(&fresh, &text, false)
            .map_err(|lines| Fault::new(&dump.place, lines.join(" ")))?;
        let mut accounts = Self {
            qos: BTreeSet::from([NORMAL.to_owned()]),
            notes: imported.notes,
            ..Self::default()
        };
        for change in &loaded.changes {
            match change {
                PolicyChange::AddQos { name, .. } => drop(accounts.qos.insert(name.clone())),
                PolicyChange::AddAssociation { key, .. } => {
                    let user = key.user.clone().unwrap_or_default();
                    accounts.users.insert((key.account.clone(), user));
                }
                _ => {}
            }
        }
        // What is about partitions is none of the accounts.
        accounts
            .notes
            .retain(|note| !note.starts_with("the history's queues"));
        accounts.changes = loaded.changes;
        Ok(accounts)
    }
}

/// What became of a history.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SiteReplay {
    /// When jobs ran. Which of them were backfilled is not known.
    pub replay: Replay,
    /// Jobs that were refused.
    pub refused: u64,
    /// Why the first of them was.
    pub why: Option<String>,
    /// Jobs of users who are not in the account that the history names; they named none.
    pub strangers: u64,
}

/// Replays `workload` on `machine`. `progress` is called with the number of jobs that came.
///
/// # Errors
/// Why the controller refuses the accounts.
pub fn replay(
    machine: Machine,
    file: &PolicyFile,
    workload: &Workload,
    accounts: &Accounts,
    progress: &mut dyn FnMut(u64),
) -> Result<SiteReplay, String> {
    let queue = |name: &String| QueueSpec {
        name: name.clone(),
        priority: file.priorities.get(name).copied().unwrap_or(0),
        order: file.order.of(name),
        ..QueueSpec::default()
    };
    let site = Site {
        users: &workload.users,
        queues: workload.queues.iter().map(queue).collect(),
        priority: file.order.priority.clone(),
        enforce: file.order.enforce,
        policy: accounts.changes.clone(),
    };
    let setup = Setup {
        machine,
        policy: file.policy,
        reservations: ReservationPolicy::default(),
        jobs: &workload.jobs,
        site: Some(&site),
    };
    let mut users = Submitters {
        machine,
        workload,
        accounts,
        progress,
        found: SiteReplay::default(),
    };
    let starts = controller_replay::run_site(&setup, &mut users)?;
    let mut found = users.found;
    let both = workload.jobs.iter().zip(starts);
    found.replay.job_runs = both.map(|(job, start)| Some(ran(job, start?))).collect();
    Ok(found)
}

fn ran(job: &Job, start: Time) -> JobRun {
    JobRun {
        start,
        end: start + job.run.min(job.limit).max(Span(1)),
        backfilled: false,
    }
}

/// Users who submit what the history says.
struct Submitters<'a> {
    machine: Machine,
    workload: &'a Workload,
    accounts: &'a Accounts,
    progress: &'a mut dyn FnMut(u64),
    found: SiteReplay,
}

impl Users for Submitters<'_> {
    fn first_request(&mut self, _: Time, at: usize, _: &Controller) -> Request {
        if at.is_multiple_of(256) {
            (self.progress)(at as u64);
        }
        let (workload, job) = (self.workload, &self.workload.jobs[at]);
        let named = |names: &[String], at: u32| names.get(at as usize).filter(|_| at > 0).cloned();
        let mut submission = controller_replay::submission(self.machine, job);
        submission.spec.queue = workload.queues.get(job.queue as usize).cloned();
        let user = named(&workload.users, job.user);
        let account = named(&workload.accounts, job.account).map(|name| name.to_lowercase());
        let both = account
            .zip(user)
            .filter(|both| self.accounts.users.contains(both));
        self.found.strangers += u64::from(both.is_none() && !self.accounts.users.is_empty());
        submission.spec.account = both.map(|(account, _)| account);
        let qos = named(&workload.qos, job.qos).map(|name| name.to_lowercase());
        submission.spec.qos = qos.filter(|name| self.accounts.qos.contains(name));
        Request::Submit(Box::new(submission))
    }

    fn next_request(&mut self, _: usize, reply: &Reply) -> Option<Request> {
        if let Reply::Refused(refusal) = reply {
            self.found.refused += 1;
            self.found
                .why
                .get_or_insert_with(|| refusal.message.clone());
        }
        None
    }
}
