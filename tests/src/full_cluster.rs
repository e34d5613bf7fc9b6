//! A cluster for benchmarks: virtual nodes that are all taken for hours, and whatever waits for them.
//!
//! What is measured are whole commands; one that fails ends the benchmark.

use crate::{Client, Cluster, Options, command, system, wait};
use cosy_model::Span;
use cosy_model::api::Submission;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Cores of each node.
const CORES: u32 = 16;
const CLIENTS: usize = 4;
/// Nothing refuses: what is measured is the work.
const RULES: &str = "[reservations]\nall_of = []\nlow_use = \"off\"\nno_show = \"off\"\n\
    delay_cap = \"off\"\n[reservations.per_user]\nopen = \"off\"\nshare = \"off\"\nahead = \"off\"\n";
/// A user without jobs of its own: usually one has few.
const NOBODY: u32 = 65_534;

/// A cluster of so many virtual nodes whose rules refuse no reservation.
pub fn start(nodes: u32) -> Cluster {
    start_with(nodes, "")
}

/// The same with these lines in `[policy]`.
pub fn start_with(nodes: u32, policy: &str) -> Cluster {
    let usual = Options::default();
    let options = Options {
        cores: CORES,
        memory: "64G",
        virtual_nodes: nodes,
        controller: RULES.into(),
        policy: format!("{}{policy}", usual.policy),
        ..usual
    };
    let cluster = Cluster::start(1, options);
    cluster.open_commands();
    cluster
}

/// A job with one core that would run for days.
pub fn long_job(limit: Span, work: &Path) -> Submission {
    let mut job = command(work, &["true"]);
    job.spec.time_limit = Some(limit);
    job.spec.environment = "COSY_VIRTUAL_SECONDS=1000000".into();
    job
}

/// The same with whole nodes.
pub fn whole_nodes(nodes: u32, limit: Span, work: &Path) -> Submission {
    let mut job = long_job(limit, work);
    job.spec.request.nodes = Some(nodes);
    job.spec.request.exclusive = true;
    job
}

/// All nodes are taken by jobs with so many nodes each; they come free one after the other, from two hours
/// on.
///
/// # Errors
/// A submission that fails, in one line.
pub fn fill(cluster: &Cluster, sizes: impl Iterator<Item = u32>) -> Result<(), String> {
    let limits = (0..).map(|n| Span::from_secs(7200 + n * 60));
    let jobs = sizes.zip(limits);
    let jobs = jobs.map(|(nodes, limit)| whole_nodes(nodes, limit, &cluster.work()));
    submit_all(cluster, &jobs.collect::<Vec<_>>())?;
    wait::until_true("all nodes are taken", || {
        let infos = cluster.node_infos();
        infos.iter().all(|n| n.state != "idle")
    });
    Ok(())
}

/// Submits over several connections at once.
///
/// # Errors
/// The first that fails, in one line.
pub fn submit_all(cluster: &Cluster, jobs: &[Submission]) -> Result<(), String> {
    let part = jobs.len().div_ceil(CLIENTS).max(1);
    std::thread::scope(|scope| {
        let clients: Vec<_> = jobs
            .chunks(part)
            .map(|jobs| scope.spawn(|| submit_some(cluster.client(), jobs)))
            .collect();
        for client in clients {
            client.join().map_err(|_| "a client panicked")??;
        }
        Ok(())
    })
}

fn submit_some(mut client: Client, jobs: &[Submission]) -> Result<(), String> {
    for job in jobs {
        let answer = client.submit(job).map_err(|e| e.to_string())?;
        answer.map_err(|refusal| refusal.to_string())?;
    }
    Ok(())
}

/// What a command says on its output.
///
/// # Errors
/// It failed: with what it said.
pub fn says(cluster: &Cluster, words: &[&str]) -> Result<String, String> {
    ended(words, cluster.command(words))
}

/// The same, asked by a user without jobs of its own where this process may.
///
/// # Errors
/// As [`says`].
pub fn says_to_nobody(cluster: &Cluster, words: &[&str]) -> Result<String, String> {
    let mut command = cluster.command(words);
    if system::is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    ended(words, command)
}

fn ended(words: &[&str], mut command: Command) -> Result<String, String> {
    // Nothing here polls: its tick would be in the figures.
    let output = command.output();
    let output = output.map_err(|e| format!("{words:?}: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{words:?}: {}: {}", output.status, text(&output.stderr))),
    }
}
