//! All runs: loads, slacks, ways to run workflows, several drawings of each.

use super::arrivals::WorkflowLoad;
use super::figures::{Figures, window};
use super::{RunSettings, Scheme, Simulation};
use crate::parallel;
use crate::replay::Machine;
use crate::workload::Job;
use cosy_sched::Policy;
use cosy_sched::workflow::FlowSlackPolicy;
use serde::Serialize;

/// What the experiment runs: the queue, loads, slacks, policies and seeds.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Nodes of one processor.
    pub machine: Machine,
    /// How the queue is served.
    pub policy: Policy,
    /// Jobs of the queue, sorted by submit time.
    pub jobs: Vec<Job>,
    /// Workflows relative to the machine, in per cent.
    pub loads: Vec<u32>,
    /// Slacks, in per cent.
    pub slacks: Vec<u32>,
    /// How spare time is shared out; the first for all slacks, all of them for the middle
    /// one.
    pub policies: Vec<FlowSlackPolicy>,
    /// Largest error of the estimates, in per cent.
    pub qoi: u32,
    /// Nodes of a task.
    pub task_nodes: u32,
    /// A unit of the paper's time, in seconds.
    pub unit_s: u32,
    /// How many seeds each row is run with.
    pub seeds: u64,
    /// Seed of the first.
    pub first_seed: u64,
}

/// All drawings of the same.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Workflows relative to the machine, in per cent.
    pub load: u32,
    /// How they are planned and run.
    pub setting: RunSettings,
    /// One for each seed, in their order.
    pub runs: Vec<Figures>,
}

/// Everything that came out.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Study {
    /// The queue alone, without workflows.
    pub without: Figures,
    /// By load, slack, policy and way.
    pub rows: Vec<Row>,
}

impl Settings {
    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let middle = self.slacks.get(self.slacks.len() / 2);
        for load in &self.loads {
            for slack in &self.slacks {
                for (at, policy) in self.policies.iter().enumerate() {
                    if at > 0 && Some(slack) != middle {
                        continue;
                    }
                    // Jobs without slots have nothing to be shared out.
                    let schemes = Scheme::ALL.into_iter();
                    let schemes = schemes.filter(|scheme| at == 0 || *scheme != Scheme::Plain);
                    rows.extend(schemes.map(|scheme| Row {
                        load: *load,
                        setting: RunSettings {
                            scheme,
                            slack_percent: *slack,
                            policy: *policy,
                        },
                        runs: Vec::new(),
                    }));
                }
            }
        }
        rows
    }

    /// How many runs that are, beside the one without workflows.
    pub fn runs(&self) -> u64 {
        self.seeds.saturating_mul(self.rows().len() as u64)
    }

    fn simulation(&self) -> Simulation<'_> {
        Simulation {
            machine: self.machine,
            policy: self.policy,
            jobs: &self.jobs,
            flows: &[],
            task_nodes: self.task_nodes,
        }
    }

    /// Runs everything; `progress` is called with the number of runs done.
    pub fn study(&self, progress: &(dyn Fn(u64) + Sync)) -> Study {
        let mut rows = self.rows();
        let seeds = self.first_seed..self.first_seed.saturating_add(self.seeds);
        let of_row = |row: &Row| {
            let (load, setting) = (row.load, row.setting);
            seeds.clone().map(move |seed| (load, setting, seed))
        };
        let settings: Vec<(u32, RunSettings, u64)> = rows.iter().flat_map(of_row).collect();
        let run = |(load, setting, seed): &(u32, RunSettings, u64)| self.run(*load, setting, *seed);
        let mut figures = parallel::map_with_progress(&settings, progress, run).into_iter();
        for row in &mut rows {
            row.runs = (&mut figures).take(self.seeds as usize).collect();
        }
        Study {
            without: self.without(),
            rows,
        }
    }

    /// Runs the queue alone, without workflows.
    pub fn without(&self) -> Figures {
        let simulation = self.simulation();
        let nothing = RunSettings {
            scheme: Scheme::Plain,
            slack_percent: 0,
            policy: FlowSlackPolicy::default(),
        };
        Figures::of(&simulation, simulation.run(&nothing))
    }

    /// Draws the workflows of a load and seed, and runs them beside the queue.
    pub fn run(&self, percent: u32, setting: &RunSettings, seed: u64) -> Figures {
        let flows = self.load(percent, seed).draw();
        let simulation = Simulation {
            flows: &flows,
            ..self.simulation()
        };
        Figures::of(&simulation, simulation.run(setting))
    }

    /// The workflows of a run.
    pub fn load(&self, percent: u32, seed: u64) -> WorkflowLoad {
        WorkflowLoad {
            window: window(&self.simulation()),
            nodes: self.machine.nodes,
            percent,
            task_nodes: self.task_nodes,
            unit_s: self.unit_s,
            qoi: self.qoi,
            seed,
        }
    }
}
