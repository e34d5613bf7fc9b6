//! A run of `cosy each`: hands tasks to the workers, writes down how they ended, shows what they
//! wrote.
//!
//! A worker has as many tasks as it has places, and where tasks are short some more, so that it
//! need not wait for the next one.

use super::crew::{Event, Worker};
use super::progress::Progress;
use super::queue::{Counts, Queue, Supply, Verdict};
use super::results::{Results, escape};
use super::task::{Ended, Outcome, Task};
use super::words::{FromWorker, ToWorker};
use crate::output;
use crate::units::brief;
use anyhow::{Context as _, bail};
use cosy_model::{Span, text};
use cosy_view::phrase::count;
use nix::libc;
use std::collections::HashMap;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

const PROGRAM: &str = "cosy each";
/// Tasks that a worker has beside those in its places are what it runs in so long.
const AHEAD: Duration = Duration::from_millis(50);
/// The same in tasks, for each place.
const AHEAD_EACH: u64 = 8;
/// Results are on the disk after so long.
const SYNC: Duration = Duration::from_secs(5);
/// Failures that are told one by one.
const TOLD: u64 = 20;
/// Bytes of an input that is told of.
const TOLD_BYTES: usize = 60;

/// A worker and what it has to do.
struct Post {
    worker: Worker,
    ready: bool,
    tasks: HashMap<u64, Task>,
    /// Tasks that it ended since, for the rate.
    ended: u64,
    since: Instant,
    rate: f64,
}

impl Post {
    fn room(&self) -> u64 {
        if !self.ready {
            return 0;
        }
        let slots = u64::from(self.worker.node.slots);
        let ahead = (self.rate * AHEAD.as_secs_f64()) as u64;
        let most = slots.saturating_add(ahead.min(slots.saturating_mul(AHEAD_EACH)));
        most.saturating_sub(self.tasks.len() as u64)
    }

    fn one_ended(&mut self) {
        self.ended += 1;
        let passed = self.since.elapsed();
        if passed >= Duration::from_millis(200) {
            self.rate = self.ended as f64 / passed.as_secs_f64();
            (self.ended, self.since) = (0, Instant::now());
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finished {
    /// What became of the tasks.
    pub counts: Counts,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// A run under way.
pub struct Driver<F> {
    queue: Queue<F>,
    posts: Vec<Option<Post>>,
    events: Receiver<Event>,
    results: Option<Results>,
    progress: Progress,
    unseen: Vec<u8>,
    synced: Instant,
    told: u64,
    signal: Option<i32>,
}

impl<F: FnMut() -> anyhow::Result<Supply>> Driver<F> {
    /// A run with these workers.
    pub fn new(
        queue: Queue<F>,
        workers: Vec<Worker>,
        events: Receiver<Event>,
        results: Option<Results>,
        progress: Progress,
    ) -> Self {
        let now = Instant::now();
        let post = |worker| {
            Some(Post {
                worker,
                ready: false,
                tasks: HashMap::new(),
                ended: 0,
                since: now,
                rate: 0.0,
            })
        };
        Self {
            queue,
            posts: workers.into_iter().map(post).collect(),
            events,
            results,
            progress,
            unseen: Vec::new(),
            synced: now,
            told: 0,
            signal: None,
        }
    }

    /// Runs all tasks.
    ///
    /// # Errors
    /// The inputs cannot be read, results cannot be written, or no worker is left.
    pub fn run(mut self) -> anyhow::Result<Finished> {
        let done = self.until_over();
        self.progress.clear();
        let kept = self.show().and_then(|()| self.sync());
        let finished = Finished {
            counts: self.queue.counts(),
            signal: self.signal,
        };
        for post in self.posts.into_iter().flatten() {
            post.worker.dismiss();
        }
        done.and(kept)?;
        Ok(finished)
    }

    fn until_over(&mut self) -> anyhow::Result<()> {
        loop {
            self.hand_out()?;
            if self.queue.is_over() {
                return Ok(());
            }
            let event = match self.events.try_recv() {
                Ok(event) => event,
                Err(TryRecvError::Empty) => {
                    self.pause()?;
                    let left = self
                        .progress
                        .due()
                        .saturating_duration_since(Instant::now());
                    match self.events.recv_timeout(left.max(Duration::from_millis(1))) {
                        Ok(event) => event,
                        Err(RecvTimeoutError::Timeout) => continue,
                        Err(RecvTimeoutError::Disconnected) => bail!("nobody is left"),
                    }
                }
                Err(TryRecvError::Disconnected) => bail!("nobody is left"),
            };
            self.happened(event)?;
        }
    }

    /// There is time: what is known is shown and written.
    fn pause(&mut self) -> anyhow::Result<()> {
        self.show()?;
        if self.synced.elapsed() >= SYNC {
            self.sync()?;
        } else if let Some(results) = &mut self.results {
            results.flush().context("cannot write the results")?;
        }
        self.progress.tell(self.queue.counts());
        Ok(())
    }

    fn sync(&mut self) -> anyhow::Result<()> {
        self.synced = Instant::now();
        match &mut self.results {
            Some(results) => results.sync().context("cannot write the results"),
            None => Ok(()),
        }
    }

    fn show(&mut self) -> anyhow::Result<()> {
        if self.unseen.is_empty() {
            return Ok(());
        }
        self.progress.clear();
        let mut out = std::io::stdout().lock();
        let written = out.write_all(&self.unseen).and_then(|()| out.flush());
        self.unseen.clear();
        written.context("cannot write what tasks wrote")
    }

    /// One task to each worker that has room, until none has or there are no more.
    fn hand_out(&mut self) -> anyhow::Result<()> {
        let mut room: Vec<(usize, u64)> = Vec::new();
        for (number, post) in self.posts.iter().enumerate() {
            let free = post.as_ref().map_or(0, Post::room);
            if free > 0 {
                room.push((number, free));
            }
        }
        while !room.is_empty() {
            for (number, free) in &mut room {
                let Some(task) = self.queue.next_task()? else {
                    self.flush();
                    return Ok(());
                };
                if let Some(Some(post)) = self.posts.get_mut(*number) {
                    post.worker.tell(&ToWorker::Run(task.clone()))?;
                    post.tasks.insert(task.number, task);
                }
                *free -= 1;
            }
            room.retain(|(_, free)| *free > 0);
        }
        self.flush();
        Ok(())
    }

    fn flush(&mut self) {
        for post in self.posts.iter_mut().flatten() {
            post.worker.flush();
        }
    }

    fn happened(&mut self, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Inputs => Ok(()),
            Event::Said(number, FromWorker::Ready) => {
                if let Some(Some(post)) = self.posts.get_mut(number) {
                    post.ready = true;
                }
                Ok(())
            }
            Event::Said(number, FromWorker::Ended(ended)) => self.ended(number, &ended),
            Event::Said(number, FromWorker::Failed(why)) => self.gone(number, &why),
            Event::Gone(number, why) => self.gone(number, &why),
            Event::Signal(signal) => self.interrupted(signal),
        }
    }

    fn ended(&mut self, number: usize, ended: &Ended) -> anyhow::Result<()> {
        let Some(Some(post)) = self.posts.get_mut(number) else {
            return Ok(());
        };
        let Some(task) = post.tasks.remove(&ended.number) else {
            return Ok(());
        };
        post.one_ended();
        let node = post.worker.node.name.clone();
        self.wrote(&task, ended)?;
        self.over(task, ended, &node)
    }

    fn over(&mut self, task: Task, ended: &Ended, node: &str) -> anyhow::Result<()> {
        if let Some(results) = &mut self.results {
            let written = results.add(&task, ended, node);
            written.context("cannot write the results")?;
        }
        let told = task.clone();
        if self.queue.ended(task, &ended.outcome) == Verdict::Failed {
            self.told += 1;
            if self.told <= TOLD {
                let why = failure(&told, &ended.outcome, node);
                self.complain(&why);
            } else if self.told == TOLD + 1 {
                self.complain("more tasks failed, which are not told of one by one");
            }
        }
        Ok(())
    }

    fn complain(&mut self, text: &str) {
        self.progress.clear();
        output::complain(PROGRAM, text);
    }

    fn wrote(&mut self, task: &Task, ended: &Ended) -> anyhow::Result<()> {
        /// Bytes that are shown together.
        const PIECE: usize = 64 << 10;
        self.unseen.extend_from_slice(&ended.output.0);
        if !ended.errors.is_empty() {
            self.show()?;
            self.progress.clear();
            let _ = std::io::stderr().lock().write_all(&ended.errors.0);
        }
        if ended.left_out > 0 {
            let text = format!(
                "task {}: {} bytes of its output are not shown; --max-output shows more, and \
                 --output writes files",
                task.number, ended.left_out
            );
            self.complain(&text);
        }
        if self.unseen.len() > PIECE {
            self.show()?;
        }
        Ok(())
    }

    /// Its tasks are given to others.
    fn gone(&mut self, number: usize, why: &str) -> anyhow::Result<()> {
        let Some(post) = self.posts.get_mut(number).and_then(Option::take) else {
            return Ok(());
        };
        let node = post.worker.node.name.clone();
        let left = self.posts.iter().flatten().count();
        let others = count(left as u64, "other node goes on", "other nodes go on");
        self.complain(&format!("node {node}: {why}; {others}"));
        let mut tasks: Vec<Task> = post.tasks.into_values().collect();
        tasks.sort_unstable_by_key(|task| std::cmp::Reverse(task.number));
        post.worker.dismiss();
        for task in tasks {
            let ended = Ended::without_figures(task.number, Outcome::Lost);
            self.over(task, &ended, &node)?;
        }
        if left == 0 && !self.queue.is_over() {
            bail!("no node is left that runs tasks");
        }
        Ok(())
    }

    fn interrupted(&mut self, signal: i32) -> anyhow::Result<()> {
        let again = self.signal.replace(signal).is_some();
        self.queue.stop();
        let running = self.queue.counts().running;
        self.complain(&format!(
            "{}: {}, no more are begun",
            cosy_model::signal::name(signal.into()),
            count(running, "task is ended", "tasks are ended"),
        ));
        let sent = if again { libc::SIGKILL } else { libc::SIGTERM };
        for post in self.posts.iter_mut().flatten() {
            post.worker.tell(&ToWorker::Stop(sent))?;
        }
        self.flush();
        Ok(())
    }
}

/// Why a task failed, in a line.
fn failure(task: &Task, outcome: &Outcome, node: &str) -> String {
    let why = match outcome {
        Outcome::Exited(code) => format!("exit code {code}"),
        Outcome::Killed(signal) => {
            format!("ended by {}", cosy_model::signal::name((*signal).into()))
        }
        Outcome::TimedOut => "took longer than --timeout".to_owned(),
        Outcome::NotStarted(why) => format!("not started: {why}"),
        Outcome::Stopped => "stopped".to_owned(),
        Outcome::Lost => "its node was lost".to_owned(),
    };
    let mut input = escape(&task.input.0);
    if input.len() > TOLD_BYTES {
        input.truncate(text::cut(&input, TOLD_BYTES).len());
        input.push_str("...");
    }
    let tries = match task.attempt {
        1 => String::new(),
        n => format!(", attempt {n}"),
    };
    format!("task {} ({input}) failed on {node}: {why}{tries}", task.number)
}

/// The last line of a run.
pub fn summary(counts: Counts, elapsed: Duration) -> String {
    let tasks = counts.done + counts.failed;
    let mut text = count(counts.done, "task done", "tasks done");
    if counts.failed > 0 {
        text.push_str(&format!(", {} failed", counts.failed));
    }
    if counts.before > 0 {
        text.push_str(&format!(", {} done before", counts.before));
    }
    let seconds = elapsed.as_secs_f64();
    if seconds < 60.0 {
        text.push_str(&format!(" in {seconds:.1}s"));
    } else {
        text.push_str(&format!(" in {}", brief(Span::from_secs(seconds as i64))));
    }
    if tasks > 1 && seconds > 0.0 {
        text.push_str(&format!(" ({:.1}/s)", tasks as f64 / seconds));
    }
    text
}
