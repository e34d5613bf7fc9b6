//! `cosy each` on one node: runs the tasks that it is told of, so many at once, and tells how each
//! ended. It ends with the command that started it, and its tasks with it.

use super::process::{Process, Recipe};
use super::task::{Ended, Input, Outcome, Task, now_us};
use super::template::{Template, Word};
use super::words::{FRAME_BYTES, FromWorker, Plan, ToWorker};
use anyhow::{Context as _, bail};
use cosy_model::text::OsText;
use cosy_model::variables;
use cosy_proto::frame::{self, Decoder};
use nix::libc;
use rustix::event::Timespec;
use rustix::event::epoll;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};

/// From the signal that asks a task to end to the one that ends it.
const GRACE: Duration = Duration::from_secs(10);
/// The event of standard input; others are a slot and what of it.
const INPUT: u64 = u64::MAX;
/// Events of a slot.
const KINDS: u64 = 4;
const ENDED: u64 = 0;
const OUTPUT: u64 = 1;
const ERRORS: u64 = 2;

/// Variables in which devices of several vendors are handed to programs.
const VISIBLE: [&str; 4] = [
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
];

struct Running {
    task: Task,
    process: Process,
    begun: Instant,
    start_us: i64,
    /// Rises with every attempt of the slot, so that a time of an earlier one means nothing.
    serial: u64,
    /// Why it was told to end.
    ending: Option<Outcome>,
}

struct Worker {
    recipe: Recipe,
    timeout: Option<Duration>,
    /// Values of the variables of devices for each slot.
    devices: Vec<Vec<(&'static str, OsString)>>,
    epoll: OwnedFd,
    slots: Vec<Option<Running>>,
    free: Vec<usize>,
    waiting: VecDeque<Task>,
    times: BinaryHeap<Reverse<(Instant, usize, u64)>>,
    serial: u64,
    out: Vec<u8>,
}

/// Runs tasks until standard input ends.
///
/// # Errors
/// What is on standard input makes no sense, or standard output is gone.
pub fn run() -> anyhow::Result<()> {
    let mut decoder = Decoder::new(FRAME_BYTES);
    // Not buffered: what was read ahead would not be seen by `epoll`.
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let plan = loop {
        if let Some(body) = decoder.next_frame()? {
            break frame::decode::<ToWorker>(body)?;
        }
        if decoder.fill(|piece| input.read(piece))? == 0 {
            return Ok(());
        }
    };
    let ToWorker::Plan(plan) = plan else {
        bail!("a worker is started by 'cosy each' alone");
    };
    match Worker::new(plan) {
        Ok(worker) => worker.work(decoder, &mut input),
        Err(e) => say(&FromWorker::Failed(format!("{e:#}"))),
    }
}

fn say(message: &FromWorker) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    frame::write(&mut out, message, FRAME_BYTES)?;
    Ok(out.flush()?)
}

impl Worker {
    fn new(plan: Plan) -> anyhow::Result<Self> {
        let os = |text: OsText| OsString::from_vec(text.0);
        let directory = os(plan.directory);
        std::env::set_current_dir(&directory)
            .with_context(|| format!("cannot work in {}", directory.to_string_lossy()))?;
        // Each task has a descriptor for its end and two for its output.
        let (_, most) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)?;
        nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, most, most)?;
        let words: Vec<OsString> = plan.command.into_iter().map(os).collect();
        let slots = plan.slots as usize;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let worker = Self {
            recipe: Recipe {
                template: (!plan.shell).then(|| Template::parse(&words)),
                separator: plan.separator.map(|text| text.0),
                output: plan.output.map(|text| Word::parse(&os(text))),
                output_bytes: plan.output_bytes,
            },
            timeout: plan.timeout_ms.map(Duration::from_millis),
            devices: devices_of_slots(slots, plan.gpus as usize)?,
            epoll,
            slots: (0..slots).map(|_| None).collect(),
            free: (0..slots).rev().collect(),
            waiting: VecDeque::new(),
            times: BinaryHeap::new(),
            serial: 0,
            out: Vec::new(),
        };
        worker.watch(io::stdin().as_fd(), INPUT)?;
        Ok(worker)
    }

    fn watch(&self, fd: BorrowedFd<'_>, event: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(event);
        Ok(epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN)?)
    }

    fn work(mut self, mut decoder: Decoder, input: &mut impl Read) -> anyhow::Result<()> {
        say(&FromWorker::Ready)?;
        let mut events = Vec::with_capacity(256);
        loop {
            while let Some(body) = decoder.next_frame()? {
                match frame::decode(body)? {
                    ToWorker::Run(task) => self.waiting.push_back(task),
                    ToWorker::Stop(signal) => self.stop(signal)?,
                    ToWorker::Plan(_) => bail!("a second plan"),
                }
            }
            self.begin_waiting()?;
            self.flush()?;
            events.clear();
            let timeout = self.until_next();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, buffer, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            for event in &events {
                match event.data.u64() {
                    INPUT => {
                        if decoder.fill(|piece| input.read(piece))? == 0 {
                            return self.end_all();
                        }
                    }
                    event => self.happened((event / KINDS) as usize, event % KINDS)?,
                }
            }
            self.look_at_times();
        }
    }

    fn until_next(&self) -> Option<Timespec> {
        let Reverse((at, _, _)) = self.times.peek()?;
        let left = at.saturating_duration_since(Instant::now());
        // A moment more than needed rather than a turn too early.
        Timespec::try_from(left + Duration::from_millis(1)).ok()
    }

    fn happened(&mut self, slot: usize, what: u64) -> anyhow::Result<()> {
        let Some(Some(running)) = self.slots.get_mut(slot) else {
            return Ok(());
        };
        match what {
            OUTPUT => running.process.read_output(),
            ERRORS => running.process.read_errors(),
            _ => {
                if let Some(reaped) = running.process.reap() {
                    return self.ended(slot, reaped);
                }
            }
        }
        Ok(())
    }

    fn ended(&mut self, slot: usize, reaped: super::process::Reaped) -> anyhow::Result<()> {
        let Some(running) = self.slots.get_mut(slot).and_then(Option::take) else {
            return Ok(());
        };
        self.free.push(slot);
        let elapsed = running.begun.elapsed();
        let (output, errors, left_out) = running.process.into_output();
        let message = Ended {
            number: running.task.number,
            // Who was told to end and was done all the same is done.
            outcome: match running.ending {
                Some(ending) if !reaped.outcome.is_success() => ending,
                _ => reaped.outcome,
            },
            start_us: running.start_us,
            elapsed_us: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            cpu_us: reaped.cpu_us,
            memory_kib: reaped.memory_kib,
            output: output.into(),
            errors: errors.into(),
            left_out,
        };
        self.tell(&FromWorker::Ended(message))
    }

    fn tell(&mut self, message: &FromWorker) -> anyhow::Result<()> {
        self.out.extend(frame::encode(message, FRAME_BYTES)?);
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        if !self.out.is_empty() {
            let mut out = io::stdout().lock();
            out.write_all(&self.out)?;
            out.flush()?;
            self.out.clear();
        }
        Ok(())
    }

    fn begin_waiting(&mut self) -> anyhow::Result<()> {
        while let Some(slot) = self.free.last().copied() {
            let Some(task) = self.waiting.pop_front() else {
                return Ok(());
            };
            match self.begin(slot, &task) {
                Ok(running) => {
                    self.free.pop();
                    if let Some(place) = self.slots.get_mut(slot) {
                        *place = Some(running);
                    }
                }
                // So many processes may be there and no more; some will end.
                Err(e) if is_temporary(&e) && self.free.len() < self.slots.len() => {
                    self.waiting.push_front(task);
                    return Ok(());
                }
                Err(e) => self.tell(&not_begun(&task, Outcome::NotStarted(e.to_string())))?,
            }
        }
        Ok(())
    }

    fn begin(&mut self, slot: usize, task: &Task) -> io::Result<Running> {
        let number = u32::try_from(slot + 1).unwrap_or(u32::MAX);
        let input = Input {
            number: task.number,
            slot: number,
            text: &task.input.0,
            separator: self.recipe.separator.as_deref(),
        };
        let mut all = vec![
            (variables::EACH_TASK, OsString::from(task.number.to_string())),
            (variables::EACH_ATTEMPT, OsString::from(task.attempt.to_string())),
            (variables::EACH_SLOT, OsString::from(number.to_string())),
        ];
        all.extend(self.devices.get(slot).into_iter().flatten().cloned());
        let (begun, start_us) = (Instant::now(), now_us());
        let process = Process::start(&self.recipe, &input, &all)?;
        let event = slot as u64 * KINDS;
        let watched = self.watch(process.pidfd(), event + ENDED).and_then(|()| {
            let pipes = [(process.output_fd(), OUTPUT), (process.errors_fd(), ERRORS)];
            let mut there = pipes.into_iter().filter_map(|(fd, kind)| Some((fd?, kind)));
            there.try_for_each(|(fd, kind)| self.watch(fd, event + kind))
        });
        if let Err(e) = watched {
            process.signal(libc::SIGKILL);
            return Err(e);
        }
        self.serial += 1;
        if let Some(timeout) = self.timeout {
            self.times
                .push(Reverse((begun + timeout, slot, self.serial)));
        }
        Ok(Running {
            task: task.clone(),
            process,
            begun,
            start_us,
            serial: self.serial,
            ending: None,
        })
    }

    fn look_at_times(&mut self) {
        let now = Instant::now();
        while let Some(Reverse((at, slot, serial))) = self.times.peek().copied() {
            if at > now {
                return;
            }
            self.times.pop();
            let Some(Some(running)) = self.slots.get_mut(slot) else {
                continue;
            };
            if running.serial == serial {
                match running.ending {
                    Some(_) => running.process.signal(libc::SIGKILL),
                    None => {
                        running.ending = Some(Outcome::TimedOut);
                        running.process.signal(libc::SIGTERM);
                        self.times.push(Reverse((now + GRACE, slot, serial)));
                    }
                }
            }
        }
    }

    fn stop(&mut self, signal: i32) -> anyhow::Result<()> {
        for task in std::mem::take(&mut self.waiting) {
            self.tell(&not_begun(&task, Outcome::Stopped))?;
        }
        let at = Instant::now() + GRACE;
        for (slot, running) in self.slots.iter_mut().enumerate() {
            if let Some(running) = running {
                running.ending.get_or_insert(Outcome::Stopped);
                running.process.signal(signal);
                self.times.push(Reverse((at, slot, running.serial)));
            }
        }
        Ok(())
    }

    /// Nobody is there any more to be told.
    fn end_all(mut self) -> anyhow::Result<()> {
        for signal in [libc::SIGTERM, libc::SIGKILL] {
            let end = Instant::now() + GRACE;
            for running in self.slots.iter().flatten() {
                running.process.signal(signal);
            }
            for place in &mut self.slots {
                if let Some(running) = place
                    && ended_until(running.process.pidfd(), end)
                    && running.process.reap().is_some()
                {
                    *place = None;
                }
            }
        }
        Ok(())
    }
}

fn ended_until(pidfd: BorrowedFd<'_>, end: Instant) -> bool {
    let left = end.saturating_duration_since(Instant::now());
    let timeout = Timespec::try_from(left).ok();
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(
        pidfd,
        rustix::event::PollFlags::IN,
    )];
    rustix::event::poll(&mut fds, timeout.as_ref()).is_ok_and(|n| n > 0)
}

fn is_temporary(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE))
}

fn not_begun(task: &Task, outcome: Outcome) -> FromWorker {
    FromWorker::Ended(Ended::without_figures(task.number, outcome))
}

/// Deals out the devices of the node, so many for each slot.
fn devices_of_slots(
    slots: usize,
    each: usize,
) -> anyhow::Result<Vec<Vec<(&'static str, OsString)>>> {
    let mut all = vec![Vec::new(); slots];
    if each == 0 {
        return Ok(all);
    }
    let mut found = false;
    for name in VISIBLE {
        let Ok(value) = std::env::var(name) else {
            continue;
        };
        let devices: Vec<&str> = value.split(',').filter(|d| !d.is_empty()).collect();
        if devices.len() < slots * each {
            bail!(
                "{slots} tasks at once with {each} GPUs each need {}, and {name} names {}",
                slots * each,
                devices.len()
            );
        }
        found = true;
        for (slot, own) in all.iter_mut().zip(devices.chunks(each)) {
            slot.push((name, OsString::from(own.join(","))));
        }
    }
    if !found {
        bail!("no GPUs are given to this job here: CUDA_VISIBLE_DEVICES is not set");
    }
    Ok(all)
}
