//! What the steps of one attempt hold of its nodes, and which steps wait for it: on the
//! attempt's first node. Steps wait in the order in which they came; a step that may
//! overlap others neither waits nor holds anything.
//!
//! Pure: counts only; which cores they are is each node's own choice ([`super::device_share`]).

use super::layout::{DoesNotFit, JobShape, NodeUse, Placed, place};
use cosy_model::step::{JobPart, StepCommand, StepId, StepProgram, StepSpec};
use cosy_model::{JobId, limits};
use std::collections::{BTreeMap, VecDeque};

/// What a step that waits takes beside its arguments and its environment, and each argument
/// beside its bytes.
const SPEC: usize = 2048;
const WORD: usize = 32;

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
    /// The step waits, for this reason.
    Wait(String),
    /// The step never fits, or there are as many steps as may be.
    Refuse(String),
}

/// The ledger of one attempt.
#[derive(Debug)]
pub struct Ledger<W> {
    job: JobId,
    parts: Vec<JobPart>,
    cores_per_task: u32,
    held: Vec<NodeUse>,
    running: BTreeMap<StepId, Vec<(usize, NodeUse)>>,
    waiting: VecDeque<Waiting<W>>,
    /// Bytes of what those that wait are to start.
    waiting_bytes: usize,
    next: u64,
}

/// Bytes of what a step is to start: its arguments, its environment and its container.
pub fn bytes_of(spec: &StepSpec) -> usize {
    let of_program = |program: &StepProgram| match &program.command {
        StepCommand::Run { argv, .. } => argv.iter().map(|word| word.0.len() + WORD).sum(),
        StepCommand::Receive { path, .. } => path.0.len(),
    };
    let programs: usize = spec.programs.iter().map(of_program).sum();
    let container = spec.container.as_ref().map_or(0, |c| c.bytes());
    spec.environment.0.len() + programs + container + SPEC
}

impl<W: AsRef<StepSpec>> Ledger<W> {
    /// For a job with these nodes, of which no step holds anything.
    pub fn new(job: JobId, parts: Vec<JobPart>, cores_per_task: u32) -> Self {
        Self {
            job,
            held: vec![NodeUse::default(); parts.len()],
            parts,
            cores_per_task: cores_per_task.max(1),
            running: BTreeMap::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
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
        let mut held = vec![NodeUse::default(); parts.len()];
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
                Err(DoesNotFit::Never(why)) => misfits.push((self.left(waiting), why)),
                Err(DoesNotFit::NotNow(_)) | Ok(_) => self.waiting.push_back(waiting),
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
            Err(DoesNotFit::Never(why)) => Verdict::Refuse(why),
            Err(DoesNotFit::NotNow(why)) => self.wait_or_not(spec, why),
            Ok(_) if !spec.overlap && !self.waiting.is_empty() => {
                let (count, job) = (self.waiting.len(), self.job);
                self.wait_or_not(spec, format!("{count} other steps of job {job} wait before it"))
            }
            Ok(_) if self.running.len() >= self.most_running() => {
                let (most, job) = (self.most_running(), self.job);
                let why = format!("{most} steps of job {job} run, which is the most at once");
                self.wait_or_not(spec, why)
            }
            Ok(placed) => Verdict::Start(placed),
        }
    }

    fn wait_or_not(&self, spec: &StepSpec, why: String) -> Verdict {
        let most = limits::STEPS_WAITING_BYTES;
        match self.waiting_bytes.saturating_add(bytes_of(spec)) > most {
            true => Verdict::Refuse(format!(
                "the arguments and environments of the steps of job {} that wait are {} bytes, and {most} may be",
                self.job, self.waiting_bytes
            )),
            false => Verdict::Wait(why),
        }
    }

    /// Bytes of what the steps that wait are to start.
    pub const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// How many steps may run at once: each has a supervisor on the job's first node.
    fn most_running(&self) -> usize {
        let (any, each) = limits::STEPS_RUNNING_BY_CORES;
        let cores: usize = self.parts.iter().map(|part| part.cores as usize).sum();
        let most = any.saturating_add(each.saturating_mul(cores));
        most.min(limits::STEPS_RUNNING)
    }

    fn left(&mut self, waiting: Waiting<W>) -> W {
        let bytes = bytes_of(waiting.what.as_ref());
        self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
        waiting.what
    }

    fn shape(&self) -> JobShape<'_> {
        JobShape {
            job: self.job,
            parts: &self.parts,
            cores_per_task: self.cores_per_task,
        }
    }

    /// Notes what a step takes, by the places of nodes in the job.
    pub fn take(&mut self, step: StepId, takes: Vec<(usize, NodeUse)>) {
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
        self.waiting_bytes += bytes_of(what.as_ref());
        self.waiting.push_back(Waiting {
            number: self.next,
            what,
        });
        self.next
    }

    /// Takes a step out of those that wait.
    pub fn leave(&mut self, number: u64) -> Option<W> {
        let at = self.waiting.iter().position(|w| w.number == number)?;
        let waiting = self.waiting.remove(at)?;
        Some(self.left(waiting))
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
        self.waiting_bytes = 0;
        self.waiting.drain(..).map(|w| w.what).collect()
    }

    /// The first that waits, if it fits now.
    pub fn take_next(&mut self) -> Option<(W, Placed)> {
        let first = self.waiting.front()?;
        if self.running.len() >= self.most_running() {
            return None;
        }
        let placed = place(self.shape(), &self.held, first.what.as_ref()).ok()?;
        let first = self.waiting.pop_front()?;
        Some((self.left(first), placed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::fixture::{part, spec};
    use proptest::prelude::*;

    #[derive(Debug)]
    struct RequestedStep(StepSpec);

    impl AsRef<StepSpec> for RequestedStep {
        fn as_ref(&self) -> &StepSpec {
            &self.0
        }
    }

    fn requested(tasks: u32) -> RequestedStep {
        let mut spec = spec();
        spec.tasks = Some(tasks);
        RequestedStep(spec)
    }

    fn ledger(cores: u32) -> Ledger<RequestedStep> {
        Ledger::new(JobId(12), vec![part("n1", cores)], 1)
    }

    fn start(ledger: &mut Ledger<RequestedStep>, step: u32, tasks: u32) -> bool {
        match ledger.judge(&requested(tasks).0) {
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
            ledger.judge(&requested(2).0),
            Verdict::Wait("other steps of job 12 hold 3 of its 4 cores".into())
        );
        ledger.wait(requested(2));
        let small = ledger.judge(&requested(1).0);
        assert_eq!(small, Verdict::Wait("1 other steps of job 12 wait before it".into()));
        let second = ledger.wait(requested(1));
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
    fn steps_that_overlap_do_not_run_in_any_number() {
        let mut ledger = ledger(4);
        let mut overlapping = requested(1);
        overlapping.0.overlap = true;
        let (any, each) = limits::STEPS_RUNNING_BY_CORES;
        let most = any + 4 * each;
        for step in 0..most as u32 {
            let verdict = ledger.judge(&overlapping.0);
            assert!(matches!(verdict, Verdict::Start(_)), "{step}: {verdict:?}");
            ledger.take(StepId(step), Vec::new());
        }
        let why = format!("{most} steps of job 12 run, which is the most at once");
        assert_eq!(ledger.judge(&overlapping.0), Verdict::Wait(why));
        ledger.wait(overlapping);
        assert!(ledger.take_next().is_none());
        ledger.give_back(StepId(0));
        assert!(ledger.take_next().is_some());
        let mut wide: Ledger<RequestedStep> = Ledger::new(JobId(12), vec![part("n1", 100_000)], 1);
        assert_eq!(wide.most_running(), limits::STEPS_RUNNING);
        wide.dismiss();
    }

    #[test]
    fn what_waits_has_so_many_bytes_at_most() {
        let mut ledger = ledger(1);
        assert!(start(&mut ledger, 0, 1));
        let large = |bytes: usize| {
            let mut requested = requested(1);
            requested.0.environment = cosy_model::OsText(vec![b'x'; bytes]);
            requested
        };
        let each = 1 << 20;
        let mut numbers = Vec::new();
        while let Verdict::Wait(_) = ledger.judge(&large(each).0) {
            numbers.push(ledger.wait(large(each)));
        }
        assert_eq!(numbers.len(), limits::STEPS_WAITING_BYTES / (each + SPEC + WORD));
        match ledger.judge(&large(each).0) {
            Verdict::Refuse(why) => assert!(why.contains("67108864 may be"), "{why}"),
            other => panic!("{other:?}"),
        }
        ledger.leave(numbers[0]).unwrap();
        assert!(matches!(ledger.judge(&large(each).0), Verdict::Wait(_)));
        ledger.give_back(StepId(0));
        ledger.take_next().unwrap();
        ledger.dismiss();
        assert_eq!(ledger.waiting_bytes(), 0);
    }

    #[test]
    fn fewer_nodes_keep_what_runs_there() {
        let nodes = ["n1", "n2", "n3"].map(|name| part(name, 4));
        let mut ledger: Ledger<RequestedStep> = Ledger::new(JobId(12), nodes.to_vec(), 1);
        assert!(start(&mut ledger, 0, 12));
        ledger.wait(requested(12));
        ledger.wait(requested(3));
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
        assert_eq!(ledger.held, [NodeUse::default(), NodeUse::default()]);
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
            prop_assert_eq!(ledger.held[0], NodeUse::default());
        }
    }
}
