//! The measurements of jobs: which jobs are measured, what is kept, who is told.

use super::others::Others;
use super::peer_requests::pair;
use super::serve::Connection;
use super::table::{Job, Steps};
use crate::gpus::GpuUse;
use crate::samples::energy::EnergyMeter;
use crate::samples::kept::{self, Kept};
use crate::samples::sampled::{SampleLimits, Signs};
use crate::samples::{Measured, Subject};
use crate::spool::name_of;
use cosy_model::node::AttemptKey;
use cosy_model::step::{JobSamples, NodeSummary, SampledNodes, StepAnswer};
use cosy_model::{DeviceUse, RefusalCode, Span, limits};
use cosy_proto::peer::PeerRequest;
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// For so many intervals at most what GPUs do now counts as what they did since the last look.
const LONGEST: u64 = 2;
/// So soon other nodes say in short what a job uses there: who asks waits for about a second.
const SOON: Duration = Duration::from_millis(500);
/// One that is asked alone is waited for so long.
const PATIENCE: Duration = Duration::from_secs(5);
/// In microjoules.
const JOULE: u64 = 1_000_000;

impl Steps {
    /// So often jobs are measured; without, not at all.
    pub fn sample_every(&mut self, interval: Option<Duration>) {
        let span = |pause: Duration| Span(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
        self.sample_interval = interval.map(span);
    }

    /// Energy is measured so, and shared among that many cores.
    pub fn measure_energy(&mut self, meter: EnergyMeter, cores: u32) {
        self.share_energy();
        (self.energy, self.energy_cores) = (meter, cores.max(1));
    }

    /// The power meter that is to be read from time to time, where there is one.
    pub fn power_file(&self) -> Option<PathBuf> {
        self.energy.power_file().map(Path::to_owned)
    }

    /// Shares what the machine took since the last time among the jobs that hold cores, by their
    /// cores: before one begins or ends, stands still or goes on, and at each measurement. What the cores
    /// without a job took is nobody's.
    pub(super) fn share_energy(&mut self) {
        let Some(taken) = self.energy.passed(Instant::now()) else {
            return;
        };
        let all = u128::from(self.energy_cores);
        for job in self.jobs.values_mut().filter(|job| job.stopped.is_none()) {
            let cores = (job.allocation.cores.len() as u128).min(all);
            let share = u128::from(taken) * cores / all;
            job.sampled
                .takes_energy(u64::try_from(share).unwrap_or(u64::MAX));
        }
    }

    /// All jobs were measured, and a power meter was read: counts energy, and keeps it with the rest.
    pub fn energy_measured(&mut self, power_uw: Option<u64>) {
        self.share_energy();
        if let Some(power) = power_uw {
            self.energy.power_is(power);
        }
        self.keep_use();
    }

    /// Keeps what jobs have used for a daemon that comes later.
    pub fn keep_use(&self) {
        let used = self
            .jobs
            .iter()
            .map(|(key, job)| (*key, job.sampled.used()));
        let known: Kept = used.filter(|(_, used)| !used.is_empty()).collect();
        if known.is_empty() {
            return;
        }
        if let Err(e) = kept::save(&self.setup.directory, &known) {
            tracing::debug!("energy and GPU use of jobs cannot be kept: {e}");
        }
    }

    /// What an attempt has used of energy and GPUs until now.
    pub fn device_use(&mut self, key: AttemptKey) -> DeviceUse {
        self.share_energy();
        match self.jobs.get(&key) {
            Some(job) => job.sampled.used(),
            None => self.kept_use.remove(&key).unwrap_or_default(),
        }
    }

    /// The same when it was measured last, in whole joules: whoever asks again and again learns no more of
    /// the machine than the measurements tell, whose counters the kernel leaves to root.
    pub(super) fn used_when_measured(&self, key: AttemptKey) -> DeviceUse {
        let job = self.jobs.get(&key).map(|job| job.sampled.used());
        let used = job.or_else(|| self.kept_use.get(&key).copied());
        let used = used.unwrap_or_default();
        DeviceUse {
            energy_uj: used.energy_uj.map(|uj| uj / JOULE * JOULE),
            ..used
        }
    }

    /// All jobs that are to be measured now.
    pub fn subjects(&self) -> Vec<Subject> {
        let open = self.jobs.iter().filter(|(_, job)| !job.closing);
        let subject = |(key, job): (&AttemptKey, &Job)| Subject {
            key: *key,
            uid: job.allocation.uid,
            groups: self.setup.cgroups.groups_of_job(&name_of(*key)),
        };
        open.map(subject).collect()
    }

    /// A job was measured; `gpus`: what its GPUs do, where it has some. Gives what has just gone
    /// beyond `limits`.
    pub fn sampled(
        &mut self,
        measured: &Measured,
        gpus: Option<GpuUse>,
        limits: SampleLimits,
    ) -> Signs {
        let Some(job) = self.jobs.get_mut(&measured.key) else {
            return Signs::default();
        };
        // What stands still is not idle.
        let looked_at = job.stopped.is_none().then(Instant::now);
        let pause = self.sample_interval.unwrap_or_default().ms();
        let longest = Duration::from_millis(pause.unsigned_abs().saturating_mul(LONGEST));
        let count = job.allocation.gpus.len();
        if let Some(gpus) = gpus {
            let times = (job.since, looked_at);
            job.sampled.counts_gpus((gpus, count), times, longest);
        }
        job.sampled.add(measured, (gpus, looked_at), limits)
    }

    /// What a job used here over time; nothing of one that is not known.
    fn samples_of(&self, attempt: AttemptKey) -> JobSamples {
        let devices = self.used_when_measured(attempt);
        let told = self.jobs.get(&attempt).map(|job| JobSamples {
            node: self.setup.name.clone(),
            cores: u32::try_from(job.allocation.cores.len()).unwrap_or(u32::MAX),
            memory: job.allocation.memory,
            gpus: u32::try_from(job.allocation.gpus.len()).unwrap_or(u32::MAX),
            gpu_memory_bytes: job.sampled.gpu_memory(),
            interval: self.sample_interval.unwrap_or(Span::ZERO),
            peak_bytes: job.sampled.series().peak_bytes(),
            devices,
            samples: job.sampled.series().all(),
            others: Vec::new(),
        });
        told.unwrap_or_default()
    }

    /// Tells it of this node, the job's first one, or asks others.
    pub(super) fn tell_samples(
        &self,
        attempt: AttemptKey,
        of: SampledNodes,
        connection: Connection,
    ) {
        let here = self.samples_of(attempt);
        let others = self.jobs.get(&attempt);
        let Some(others) = others.map(|job| self.others_of(attempt, job)) else {
            return connection.finish(StepAnswer::Samples(here));
        };
        match of {
            SampledNodes::Others if !others.peers().is_empty() => {
                tokio::spawn(async move {
                    let others = summaries(&others).await;
                    connection.finish(StepAnswer::Samples(JobSamples { others, ..here }));
                });
            }
            SampledNodes::One(node) if node != here.node => {
                tokio::spawn(
                    async move { tell_of_one(&others, &node, &here.node, connection).await },
                );
            }
            SampledNodes::First | SampledNodes::Others | SampledNodes::One(_) => {
                connection.finish(StepAnswer::Samples(here));
            }
        }
    }

    /// The job's first node asks. Gives the end of a connection that says the answer.
    ///
    /// # Errors
    /// In one line: the job is not known here.
    pub(super) fn samples_here(&self, attempt: AttemptKey) -> Result<StdStream, String> {
        if !self.jobs.contains_key(&attempt) {
            return Err(format!("job {} is not known there", attempt.job));
        }
        let here = self.samples_of(attempt);
        let (stream, other) = pair()?;
        let connection = Connection {
            stream,
            place: None,
        };
        tokio::spawn(async move { connection.finish(StepAnswer::Samples(here)) });
        Ok(other)
    }
}

/// What some of the other nodes say in short, in the order of the job. One that does not answer soon is
/// left out.
async fn summaries(others: &Others) -> Vec<NodeSummary> {
    let mut asked = JoinSet::new();
    for (at, peer) in others
        .peers()
        .iter()
        .take(limits::SUMMARY_NODES)
        .enumerate()
    {
        let attempt = others.attempt();
        let answer = others.ask(peer, PeerRequest::Samples { attempt });
        let node = peer.node.clone();
        asked.spawn(async move { (node, at, answer.await) });
    }
    let mut found = BTreeMap::new();
    let hear = async {
        while let Some(answer) = asked.join_next().await {
            match answer {
                // By the name of who was asked, whatever it calls itself.
                Ok((node, at, Ok(StepAnswer::Samples(told)))) => {
                    let summary = told.summary();
                    found.insert(at, NodeSummary { node, ..summary });
                }
                Ok((_, _, Err(why))) => tracing::debug!("what a job uses elsewhere: {why}"),
                Ok(_) | Err(_) => {}
            }
        }
    };
    // What came by then counts.
    let _ = tokio::time::timeout(SOON, hear).await;
    found.into_values().collect()
}

/// Asks the node that is meant, and passes its answer on.
async fn tell_of_one(others: &Others, node: &str, own: &str, connection: Connection) {
    let Some(peer) = others.peers().iter().find(|peer| peer.node == node) else {
        let names = others.peers().iter().map(|peer| peer.node.as_str());
        let names: Vec<&str> = std::iter::once(own).chain(names).collect();
        let shown: String = node.chars().take(64).collect();
        let text = format!(
            "'{}' is no node of job {}: it has {}",
            shown.escape_debug(),
            others.attempt().job,
            cosy_model::fold(&names)
        );
        return connection.refuse(RefusalCode::NotFound, text);
    };
    let attempt = others.attempt();
    let answer = others.ask(peer, PeerRequest::Samples { attempt });
    let why = match tokio::time::timeout(PATIENCE, answer).await {
        Ok(Ok(answer @ StepAnswer::Samples(_))) => return connection.finish(answer),
        Ok(Ok(_)) => format!("node {node} answers with something else"),
        Ok(Err(why)) => why,
        Err(_) => format!("node {node} has not answered for {} s", PATIENCE.as_secs()),
    };
    connection.refuse(RefusalCode::Unavailable, why)
}
