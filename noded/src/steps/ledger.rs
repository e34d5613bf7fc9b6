//! What the steps of one attempt hold of its nodes, and which steps wait for it: on the
//! attempt's first node. Steps wait in the order in which they came; a step that may
//! overlap others neither waits nor holds anything.
//!
//! Pure: counts only; which cores they are is each node's own choice ([`super::share`]).

use super::layout::{Held, JobShape, Misfit, Placed, place};
use cosy_model::step::{JobPart, StepId, StepSpec};
use cosy_model::{JobId, limits};
use std::collections::{BTreeMap, VecDeque};

/// A step that waits; `W` is what the daemon needs to start it.
#[derive(Debug)]
struct Waiting<W> {
    number: u64,
    what: W,
}

/// What is to be done with a new step.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Start it, there.
    Start(Placed),
    /// It waits, and why.
    Wait(String),
    /// It never fits, or as many steps as may be are there.
    Refuse(String),
}

/// The ledger of one attempt.
#[derive(Debug)]
pub struct Ledger<W> {
    job: JobId,
    parts: Vec<JobPart>,
    cores_per_task: u32,
    held: Vec<Held>,
    running: BTreeMap<StepId, Vec<(usize, Held)>>,
    waiting: VecDeque<Waiting<W>>,
    next: u64,
}

impl<W: AsRef<StepSpec>> Ledger<W> {
    /// For a job with these nodes, of which no step holds anything.
    pub fn new(job: JobId, parts: Vec<JobPart>, cores_per_task: u32) -> Self {
        Self {
            job,
            held: vec![Held::default(); parts.len()],
            parts,
            cores_per_task: cores_per_task.max(1),
            running: BTreeMap::new(),
            waiting: VecDeque::new(),
            next: 0,
        }
    }

    /// The job's nodes.
    pub fn parts(&self) -> &[JobPart] {
        &self.parts
    }

    /// The job has only these nodes left. Gives back those of the steps that wait that never
    /// fit there, each with the reason.
    pub fn shrink(&mut self, parts: Vec<JobPart>) -> Vec<(W, String)> {
        let name = |part: &JobPart| part.peer.node.clone();
        let now: BTreeMap<String, usize> = parts.iter().map(name).zip(0..).collect();
        let places: Vec<Option<usize>> = self
            .parts
            .iter()
            .map(|part| now.get(&part.peer.node).copied())
            .collect();
        let place = |at: usize| places.get(at).copied().flatten();
        let mut held = vec![Held::default(); parts.len()];
        for (at, old) in std::mem::take(&mut self.held).into_iter().enumerate() {
            if let Some(at) = place(at) {
                held[at] = old;
            }
        }
        for takes in self.running.values_mut() {
            let kept = std::mem::take(takes).into_iter();
            *takes = kept.filter_map(|(at, h)| Some((place(at)?, h))).collect();
        }
        (self.held, self.parts) = (held, parts);
        self.dismiss_misfits()
    }

    /// Takes out the steps that wait and never fit.
    fn dismiss_misfits(&mut self) -> Vec<(W, String)> {
        let mut misfits = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            match place(self.shape(), &self.held, waiting.what.as_ref()) {
                Err(Misfit::Never(why)) => misfits.push((waiting.what, why)),
                Err(Misfit::NotNow(_)) | Ok(_) => self.waiting.push_back(waiting),
            }
        }
        misfits
    }

    /// What becomes of a step that comes now; `Start` is not yet noted ([`Ledger::take`]).
    pub fn judge(&self, spec: &StepSpec) -> Verdict {
        if self.running.len() + self.waiting.len() >= limits::STEPS_AT_ONCE {
            return Verdict::Refuse(format!(
                "{} steps of job {} run or wait already, which is the most at once",
                limits::STEPS_AT_ONCE,
                self.job
            ));
        }
        match place(self.shape(), &self.held, spec) {
            Err(Misfit::Never(why)) => Verdict::Refuse(why),
            Err(Misfit::NotNow(why)) => Verdict::Wait(why),
            Ok(_) if !spec.overlap && !self.waiting.is_empty() => Verdict::Wait(format!(
                "{} other steps of job {} wait before it",
                self.waiting.len(),
                self.job
            )),
            Ok(placed) => Verdict::Start(placed),
        }
    }

    fn shape(&self) -> JobShape<'_> {
        JobShape {
            job: self.job,
            parts: &self.parts,
            cores_per_task: self.cores_per_task,
        }
    }

    /// Notes what a step takes, by the places of nodes in the job.
    pub fn take(&mut self, step: StepId, takes: Vec<(usize, Held)>) {
        for (at, more) in &takes {
            if let Some(held) = self.held.get_mut(*at) {
                held.cores = held.cores.saturating_add(more.cores);
                held.memory.0 = held.memory.0.saturating_add(more.memory.0);
                held.gpus = held.gpus.saturating_add(more.gpus);
            }
        }
        self.running.insert(step, takes);
    }

    /// A step is over; a second time nothing happens.
    pub fn give_back(&mut self, step: StepId) {
        for (at, less) in self.running.remove(&step).unwrap_or_default() {
            if let Some(held) = self.held.get_mut(at) {
                held.cores = held.cores.saturating_sub(less.cores);
                held.memory.0 = held.memory.0.saturating_sub(less.memory.0);
                held.gpus = held.gpus.saturating_sub(less.gpus);
            }
        }
    }

    /// The steps that hold something or overlap.
    pub fn running(&self) -> impl Iterator<Item = StepId> {
        self.running.keys().copied()
    }

    /// Puts a step at the end of those that wait; gives its number there.
    pub fn wait(&mut self, what: W) -> u64 {
        self.next += 1;
        self.waiting.push_back(Waiting {
            number: self.next,
            what,
        });
        self.next
    }

    /// Takes a step out of those that wait.
    pub fn leave(&mut self, number: u64) -> Option<W> {
        let at = self.waiting.iter().position(|w| w.number == number)?;
        self.waiting.remove(at).map(|w| w.what)
    }

    /// One of those that wait.
    pub fn waiter(&mut self, number: u64) -> Option<&mut W> {
        let found = self.waiting.iter_mut().find(|w| w.number == number)?;
        Some(&mut found.what)
    }

    /// All that wait, in order.
    pub fn waiting(&self) -> impl Iterator<Item = &W> {
        self.waiting.iter().map(|w| &w.what)
    }

    /// Takes all out that wait.
    pub fn dismiss(&mut self) -> Vec<W> {
        self.waiting.drain(..).map(|w| w.what).collect()
    }

    /// The first that waits, if it fits now.
    pub fn take_next(&mut self) -> Option<(W, Placed)> {
        let first = self.waiting.front()?;
        let placed = place(self.shape(), &self.held, first.what.as_ref()).ok()?;
        let first = self.waiting.pop_front()?;
        Some((first.what, placed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::fixture::{part, spec};
    use proptest::prelude::*;

    #[derive(Debug)]
    struct Asked(StepSpec);

    impl AsRef<StepSpec> for Asked {
        fn as_ref(&self) -> &StepSpec {
            &self.0
        }
    }

    fn asked(tasks: u32) -> Asked {
        let mut spec = spec();
        spec.tasks = Some(tasks);
        Asked(spec)
    }

    fn ledger(cores: u32) -> Ledger<Asked> {
        Ledger::new(JobId(12), vec![part("n1", cores)], 1)
    }

    fn start(ledger: &mut Ledger<Asked>, step: u32, tasks: u32) -> bool {
        match ledger.judge(&asked(tasks).0) {
            Verdict::Start(placed) => {
                ledger.take(StepId(step), placed.takes);
                true
            }
            Verdict::Wait(_) | Verdict::Refuse(_) => false,
        }
    }

    #[test]
    fn steps_wait_in_their_order() {
        let mut ledger = ledger(4);
        assert!(start(&mut ledger, 0, 3));
        assert_eq!(
            ledger.judge(&asked(2).0),
            Verdict::Wait("other steps of job 12 hold 3 of its 4 cores".into())
        );
        ledger.wait(asked(2));
        let small = ledger.judge(&asked(1).0);
        assert_eq!(
            small,
            Verdict::Wait("1 other steps of job 12 wait before it".into())
        );
        let second = ledger.wait(asked(1));
        assert!(ledger.take_next().is_none());
        ledger.give_back(StepId(0));
        ledger.give_back(StepId(0));
        let (first, placed) = ledger.take_next().unwrap();
        assert_eq!(first.0.tasks, Some(2));
        ledger.take(StepId(1), placed.takes);
        assert!(ledger.leave(second).is_some());
        assert!(ledger.leave(second).is_none());
        assert!(ledger.take_next().is_none());
    }

    #[test]
    fn fewer_nodes_keep_what_runs_there() {
        let nodes = ["n1", "n2", "n3"].map(|name| part(name, 4));
        let mut ledger: Ledger<Asked> = Ledger::new(JobId(12), nodes.to_vec(), 1);
        assert!(start(&mut ledger, 0, 12));
        ledger.wait(asked(12));
        ledger.wait(asked(3));
        let left = [nodes[0].clone(), nodes[2].clone()];
        let gone = ledger.shrink(left.to_vec());
        let gone: Vec<Option<u32>> = gone.iter().map(|(w, _)| w.0.tasks).collect();
        assert_eq!(gone, [Some(12)], "it never fits on eight cores");
        assert_eq!(ledger.held.iter().map(|h| h.cores).sum::<u32>(), 8);
        assert!(ledger.take_next().is_none());
        ledger.give_back(StepId(0));
        let (next, placed) = ledger.take_next().unwrap();
        assert_eq!(next.0.tasks, Some(3));
        ledger.take(StepId(1), placed.takes);
        ledger.give_back(StepId(1));
        assert_eq!(ledger.held, [Held::default(), Held::default()]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Steps that start and end in any order never hold more than there is, and
        /// nothing is held in the end.
        #[test]
        fn nothing_is_held_twice(steps in proptest::collection::vec((1u32..5, any::<bool>()), 1..30)) {
            let mut ledger = ledger(8);
            let mut running = Vec::new();
            for (number, (tasks, end)) in steps.into_iter().enumerate() {
                if start(&mut ledger, number as u32, tasks) {
                    running.push((number as u32, tasks));
                }
                let held: u32 = running.iter().map(|(_, tasks)| tasks).sum();
                prop_assert!(held <= 8);
                prop_assert_eq!(ledger.held[0].cores, held);
                if end && !running.is_empty() {
                    ledger.give_back(StepId(running.remove(0).0));
                }
            }
            for (step, _) in running {
                ledger.give_back(StepId(step));
            }
            prop_assert_eq!(ledger.held[0], Held::default());
        }
    }
}
