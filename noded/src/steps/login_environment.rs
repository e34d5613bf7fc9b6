//! What a session finds in its environment that belongs to a job: what the job's program finds on its
//! first node, as far as it is of the job and not of one task. Other nodes know less of a job.
//!
//! What of it is told is the business of [`crate::login::words`].

use crate::spool::{self, Work};
use cosy_model::node::{Allocation, AllocationKey, Launch};
use cosy_model::variables;
use cosy_model::{Dialect, OsText};
use cosy_slurm::environment::{self, AllocationFacts};
use std::collections::BTreeMap;
use std::path::Path;

/// Variables by name.
pub(super) type Variables = BTreeMap<Vec<u8>, Vec<u8>>;

/// Slurm's variables of one task.
const OF_TASK: [&[u8]; 4] = [
    b"SLURM_GTIDS",
    b"SLURM_LOCALID",
    b"SLURM_NODEID",
    b"SLURM_PROCID",
];

/// The variables of a session in the job with that allocation, kept in that directory of the spool.
/// `own` are those that the node itself sets, `NAME=value`. Blocks: it reads a file.
pub(super) fn variables(directory: &Path, allocation: &Allocation, own: &[OsText]) -> Variables {
    let kept = spool::open_launch(directory);
    let kept = kept.and_then(|file| spool::read_launch::<Work>(&file));
    let mut all = match kept.map(|kept| kept.work) {
        Ok(Work::Run(task)) => of_program(&task.launch),
        Ok(Work::Hold(_)) | Err(_) => of_allocation(allocation),
    };
    let own = own.iter().filter_map(|variable| split(&variable.0));
    all.extend(own.map(|(name, value)| (name.to_vec(), value.to_vec())));
    if let AllocationKey::Job(key) = allocation.key {
        let job = key.job.to_string().into_bytes();
        all.entry(variables::JOB_ID.into())
            .or_insert_with(|| job.clone());
        // Scripts of users ask for it, whatever the job's own words are.
        all.entry(b"SLURM_JOB_ID".into()).or_insert(job);
        let attempt = key.attempt.to_string().into_bytes();
        all.insert(variables::JOB_ATTEMPT.into(), attempt);
    }
    all
}

/// As the job's program finds them.
fn of_program(launch: &Launch) -> Variables {
    let block = &launch.environment.0;
    let pairs = block.split(|b| *b == 0).filter_map(split);
    let ours = pairs.filter(|(name, _)| name.starts_with(variables::PREFIX.as_bytes()));
    let mut all: Variables = ours.map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
    let facts = AllocationFacts::read(block).filter(|_| launch.dialect == Dialect::Slurm);
    if let Some(facts) = facts {
        let mut slurm = facts.batch(&launch.allocation.node);
        let shards = launch.allocation.shards();
        environment::gpus(&launch.allocation.gpus, shards, &mut slurm);
        for (name, value) in slurm.0 {
            all.insert(name.into_owned().into_bytes(), value.into_bytes());
        }
        OF_TASK.iter().for_each(|name| drop(all.remove(*name)));
    }
    all
}

/// What each node knows of a job.
fn of_allocation(allocation: &Allocation) -> Variables {
    let count = cosy_model::expand(&allocation.nodes).map_or(1, |nodes| nodes.len());
    let pairs = [
        (variables::NODES, allocation.nodes.clone()),
        (variables::NODE_COUNT, count.to_string()),
        (variables::JOB_USER, allocation.user.clone()),
        (variables::JOB_UID, allocation.uid.to_string()),
        (variables::JOB_GID, allocation.gid.to_string()),
        ("SLURM_JOB_NODELIST", allocation.nodes.clone()),
        ("SLURM_JOB_NUM_NODES", count.to_string()),
    ];
    let all = pairs.into_iter();
    all.map(|(name, value)| (name.into(), value.into_bytes()))
        .collect()
}

fn split(variable: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = variable.iter().position(|b| *b == b'=')?;
    Some((variable.get(..at)?, variable.get(at + 1..)?))
}
