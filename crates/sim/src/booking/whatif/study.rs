//! All runs of the experiment: every combination of book-ahead time and start time window,
//! both methods, several choices of the jobs that become reservations; and two things that
//! the paper proposes to make delays smaller.

use super::placement::{Method, SlotChoice};
use super::run::{Case, Run};
use crate::booking::sampling;
use crate::booking::simulation::Simulation;
use crate::parallel;
use crate::replay::Machine;
use crate::workload::Job;
use cosy_sched::Policy;

/// Book-ahead times, in hours (section 5.1).
pub const AHEAD_HOURS: [i64; 6] = [0, 2, 4, 6, 12, 24];
/// Start time windows, in hours (section 5.1).
pub const WINDOWS_HOURS: [i64; 6] = [0, 1, 2, 5, 10, 30];
/// The window of Table 1 and figure 4, in hours.
pub const WIDE_WINDOW_HOURS: i64 = 30;
/// One of so many jobs becomes a reservation.
const BLOCK: usize = 10;
/// In the run with limited jobs they ask for fewer nodes than this (section 5.4: "less than
/// 89 processors").
pub const LIMITED: u32 = 89;

/// What the experiment runs: workload, machine, number of seeds.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The workload, in whole nodes.
    pub jobs: Vec<Job>,
    /// Nodes of the machine.
    pub nodes: u32,
    /// How queued jobs are served.
    pub policy: Policy,
    /// How many choices of reservations.
    pub seeds: u64,
    /// Seed of the first.
    pub first_seed: u64,
    /// Which slots are probed.
    pub slots: SlotChoice,
}

/// What is changed in the workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkloadChange {
    /// The workload as it is.
    None,
    /// Jobs ask for fewer nodes than [`LIMITED`].
    Limited,
    /// Jobs ask for the time that they run.
    Exact,
}

/// The runs of all seeds and combinations, by change of the workload.
#[derive(Clone, PartialEq, Debug)]
pub struct Study {
    /// The workload as it is.
    pub plain: Vec<Run>,
    /// Limited jobs, in the wide window.
    pub limited: Vec<Run>,
    /// Exact limits, in the wide window.
    pub exact: Vec<Run>,
    /// Jobs that ask for [`LIMITED`] nodes or more.
    pub limited_jobs: usize,
    /// Seeds, in their order.
    pub seeds: Vec<u64>,
}

impl Settings {
    /// How many runs it takes.
    pub fn runs(&self) -> u64 {
        let wide = 2 * (Method::ALL.len() * AHEAD_HOURS.len()) as u64;
        let all = (Method::ALL.len() * AHEAD_HOURS.len() * WINDOWS_HOURS.len()) as u64;
        self.seeds * (all + wide)
    }

    /// Runs everything; `progress` is called with the number of runs done.
    pub fn study(&self, progress: &(dyn Fn(u64) + Sync)) -> Study {
        let seeds = self.first_seed..self.first_seed.saturating_add(self.seeds);
        let seeds: Vec<u64> = seeds.collect();
        let mut done = 0;
        let mut runs = |change, windows: &[i64]| {
            let before = done;
            let runs = self.all(change, windows, &seeds, &|now| progress(before + now));
            done += runs.len() as u64;
            runs
        };
        let is_large = |job: &&Job| job.processors >= LIMITED;
        Study {
            plain: runs(WorkloadChange::None, &WINDOWS_HOURS),
            limited: runs(WorkloadChange::Limited, &[WIDE_WINDOW_HOURS]),
            exact: runs(WorkloadChange::Exact, &[WIDE_WINDOW_HOURS]),
            limited_jobs: self.jobs.iter().filter(is_large).count(),
            seeds,
        }
    }

    fn all(
        &self,
        change: WorkloadChange,
        windows: &[i64],
        seeds: &[u64],
        progress: &(dyn Fn(u64) + Sync),
    ) -> Vec<Run> {
        let chosen = |seed: &u64| {
            let reserved = sampling::one_of_each(self.jobs.len(), BLOCK, *seed);
            (*seed, self.changed(change, &reserved), reserved)
        };
        let chosen: Vec<_> = seeds.iter().map(chosen).collect();
        let cases = parallel::map(&chosen, |(seed, jobs, reserved)| {
            (*seed, Case::new(self.simulation(jobs), reserved.clone()))
        });
        let mut combinations = Vec::new();
        for (seed, case) in &cases {
            for method in Method::ALL {
                let times = AHEAD_HOURS
                    .iter()
                    .flat_map(|a| windows.iter().map(|w| (*a, *w)));
                combinations.extend(times.map(|times| (*seed, case, method, times)));
            }
        }
        parallel::map_with_progress(&combinations, progress, |(seed, case, method, times)| {
            case.run(*seed, *method, *times, self.slots)
        })
    }

    fn simulation<'a>(&self, jobs: &'a [Job]) -> Simulation<'a> {
        Simulation {
            machine: Machine {
                nodes: self.nodes,
                cores: 1,
            },
            policy: self.policy,
            jobs,
        }
    }

    fn changed(&self, change: WorkloadChange, reserved: &[bool]) -> Vec<Job> {
        let mut jobs = self.jobs.clone();
        sampling::ask_exactly(&mut jobs, reserved);
        for job in &mut jobs {
            match change {
                WorkloadChange::None => {}
                WorkloadChange::Limited => job.processors = job.processors.min(LIMITED - 1),
                WorkloadChange::Exact => job.limit = job.run,
            }
        }
        jobs
    }
}
