//! Which task is next: the inputs in their order, after those that are to be tried again. Knows
//! neither processes nor nodes.

use super::task::{Outcome, Task};

/// Attempts of one task that may be lost with their nodes: the third node that dies under it makes
/// the task the likely cause.
const LOSSES: u32 = 3;

/// What has become of the tasks so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Done, in this run.
    pub done: u64,
    /// Done before, in the run that this one goes on with.
    pub before: u64,
    /// Failed for good.
    pub failed: u64,
    /// Attempts that will be or were repeated.
    pub repeated: u64,
    /// Started and not over.
    pub running: u64,
}

/// What follows from the end of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The task is done.
    Done,
    /// It is tried again.
    Again,
    /// It failed for good.
    Failed,
    /// The run was ended: it is as if it had not begun.
    Open,
}

/// What those who read the inputs have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Supply {
    /// A task that was never begun.
    Task(Task),
    /// So many that an earlier run has done.
    DoneBefore(u64),
    /// One may come.
    NotYet,
    /// No more come.
    End,
}

/// The tasks of a run.
#[derive(Debug)]
pub struct Queue<F> {
    inputs: F,
    /// Tasks that failed and are tried again, when nothing new is left.
    again: Vec<Task>,
    /// Tasks whose node was lost, before anything new.
    lost: Vec<Task>,
    retries: u32,
    max_failures: Option<u64>,
    stopped: bool,
    exhausted: bool,
    counts: Counts,
}

impl<E, F: FnMut() -> Result<Supply, E>> Queue<F> {
    /// Tasks out of `inputs`, each tried again so often; after `max_failures` that failed for good
    /// no more are begun.
    pub const fn new(inputs: F, retries: u32, max_failures: Option<u64>) -> Self {
        Self {
            inputs,
            again: Vec::new(),
            lost: Vec::new(),
            retries,
            max_failures,
            stopped: false,
            exhausted: false,
            counts: Counts {
                done: 0,
                before: 0,
                failed: 0,
                repeated: 0,
                running: 0,
            },
        }
    }

    /// What has become of the tasks.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Begins no more tasks.
    pub const fn stop(&mut self) {
        self.stopped = true;
    }

    /// Whether no more is begun although there may be more.
    pub const fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether nothing runs and nothing is to be begun, as far as was read.
    pub const fn is_over(&self) -> bool {
        let more = self.again.is_empty() && self.lost.is_empty() && self.exhausted;
        self.counts.running == 0 && (self.stopped || more)
    }

    /// The next task to be begun; `None` where there is none now.
    ///
    /// # Errors
    /// That of the inputs.
    pub fn next_task(&mut self) -> Result<Option<Task>, E> {
        if self.stopped {
            return Ok(None);
        }
        let mut next = self.lost.pop();
        while next.is_none() && !self.exhausted {
            match (self.inputs)()? {
                Supply::Task(task) => next = Some(task),
                Supply::DoneBefore(tasks) => self.counts.before += tasks,
                Supply::NotYet => break,
                Supply::End => self.exhausted = true,
            }
        }
        let next = next.or_else(|| self.again.pop());
        self.counts.running += u64::from(next.is_some());
        Ok(next)
    }

    /// An attempt is over.
    pub fn ended(&mut self, mut task: Task, outcome: &Outcome) -> Verdict {
        self.counts.running = self.counts.running.saturating_sub(1);
        match outcome {
            Outcome::Exited(0) => {
                self.counts.done += 1;
                return Verdict::Done;
            }
            Outcome::Stopped => return Verdict::Open,
            Outcome::Lost if task.losses + 1 < LOSSES => {
                task.losses += 1;
                task.attempt += 1;
                self.counts.repeated += 1;
                self.lost.push(task);
                return Verdict::Again;
            }
            // It would not be there the next time either.
            Outcome::NotStarted(_) | Outcome::Lost => {}
            Outcome::Exited(_) | Outcome::Killed(_) | Outcome::TimedOut => {
                if task.attempt - task.losses <= self.retries {
                    task.attempt += 1;
                    self.counts.repeated += 1;
                    self.again.push(task);
                    return Verdict::Again;
                }
            }
        }
        self.counts.failed += 1;
        if self
            .max_failures
            .is_some_and(|most| self.counts.failed >= most)
        {
            self.stopped = true;
        }
        Verdict::Failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn task(number: u64) -> Task {
        Task {
            number,
            attempt: 1,
            losses: 0,
            input: "x".into(),
        }
    }

    fn queue(
        tasks: u64,
        retries: u32,
        most: Option<u64>,
    ) -> Queue<impl FnMut() -> Result<Supply, Infallible>> {
        let mut numbers = 1..=tasks;
        let supply = move || {
            Ok(numbers
                .next()
                .map_or(Supply::End, |n| Supply::Task(task(n))))
        };
        Queue::new(supply, retries, most)
    }

    #[test]
    fn it_is_not_over_while_inputs_may_come() {
        let mut supplies = vec![
            Supply::End,
            Supply::Task(task(1)),
            Supply::DoneBefore(3),
            Supply::NotYet,
        ];
        let mut q = Queue::new(|| Ok::<_, Infallible>(supplies.pop().unwrap()), 0, None);
        assert!(q.next_task().unwrap().is_none() && !q.is_over());
        assert!(q.next_task().unwrap().is_some());
        assert!(q.next_task().unwrap().is_none() && !q.is_over());
        q.ended(task(1), &Outcome::Exited(0));
        assert!(q.is_over());
        assert_eq!((q.counts().done, q.counts().before), (1, 3));
    }

    #[test]
    fn what_fails_is_tried_again_after_the_others() {
        let mut q = queue(2, 1, None);
        let first = q.next_task().unwrap().unwrap();
        assert_eq!(q.ended(first, &Outcome::Exited(3)), Verdict::Again);
        let second = q.next_task().unwrap().unwrap();
        assert_eq!(second.number, 2);
        assert_eq!(q.ended(second, &Outcome::Exited(0)), Verdict::Done);
        assert!(!q.is_over());
        let again = q.next_task().unwrap().unwrap();
        assert_eq!((again.number, again.attempt), (1, 2));
        assert!(q.next_task().unwrap().is_none() && !q.is_over());
        assert_eq!(q.ended(again, &Outcome::Killed(9)), Verdict::Failed);
        assert!(q.is_over());
        let counts = q.counts();
        assert_eq!((counts.done, counts.failed, counts.repeated), (1, 1, 1));
    }

    #[test]
    fn a_lost_node_costs_no_retry_but_not_for_ever() {
        let mut q = queue(1, 0, None);
        for attempt in 1..LOSSES {
            let task = q.next_task().unwrap().unwrap();
            assert_eq!(task.attempt, attempt);
            assert_eq!(q.ended(task, &Outcome::Lost), Verdict::Again);
        }
        let task = q.next_task().unwrap().unwrap();
        assert_eq!(q.ended(task, &Outcome::Lost), Verdict::Failed);
    }

    #[test]
    fn what_cannot_be_executed_is_not_tried_again() {
        let mut q = queue(1, 5, None);
        let task = q.next_task().unwrap().unwrap();
        let outcome = Outcome::NotStarted("no such file".to_owned());
        assert_eq!(q.ended(task, &outcome), Verdict::Failed);
    }

    #[test]
    fn enough_failures_end_it() {
        let mut q = queue(5, 0, Some(2));
        let (a, b) = (q.next_task().unwrap().unwrap(), q.next_task().unwrap().unwrap());
        let c = q.next_task().unwrap().unwrap();
        q.ended(a, &Outcome::Exited(1));
        assert!(!q.is_stopped());
        q.ended(b, &Outcome::TimedOut);
        assert!(q.is_stopped() && q.next_task().unwrap().is_none() && !q.is_over());
        q.ended(c, &Outcome::Exited(0));
        assert!(q.is_over());
    }

    #[test]
    fn what_was_stopped_is_open() {
        let mut q = queue(1, 0, None);
        let task = q.next_task().unwrap().unwrap();
        q.stop();
        assert_eq!(q.ended(task, &Outcome::Stopped), Verdict::Open);
        assert_eq!(q.counts(), Counts::default());
        assert!(q.is_over());
    }
}
