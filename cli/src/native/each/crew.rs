//! The workers of a run, one on each node: beside this program a process of its own, elsewhere a
//! step of the job. What they say comes as events.

use super::places::Node;
use super::words::{FRAME_BYTES, FromWorker, Plan, ToWorker};
use anyhow::Context as _;
use cosy_proto::frame::{self, Decoder, FrameError};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread;

/// What happens during a run.
#[derive(Debug)]
pub enum Event {
    /// Inputs were read.
    Inputs,
    /// The worker with that number says something.
    Said(usize, FromWorker),
    /// That worker is gone.
    Gone(usize, String),
    /// This program got a signal.
    Signal(i32),
}

/// A worker.
#[derive(Debug)]
pub struct Worker {
    /// Its node.
    pub node: Node,
    child: Child,
    to: Option<ChildStdin>,
    /// Frames that are not written yet.
    unsent: Vec<u8>,
}

impl Worker {
    /// Starts a worker, and tells it how tasks are run.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(
        number: usize,
        node: Node,
        plan: Plan,
        program: &Path,
        events: Sender<Event>,
    ) -> anyhow::Result<Self> {
        let mut child = command(&node, program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // What a terminal sends to its process group is this program's to hear.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start what runs tasks on node {}", node.name))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (to, from) = pipes.context("a process without pipes")?;
        let listen = move || {
            let say = |message| events.send(Event::Said(number, message)).is_ok();
            let why = match listen(from, say) {
                Ok(()) => "what runs tasks there has ended".to_owned(),
                Err(e) => e.to_string(),
            };
            let _ = events.send(Event::Gone(number, why));
        };
        thread::Builder::new()
            .name(format!("worker {number}"))
            .spawn(listen)
            .context("cannot start a thread")?;
        let mut worker = Self {
            node,
            child,
            to: Some(to),
            unsent: Vec::new(),
        };
        worker.tell(&ToWorker::Plan(plan))?;
        worker.flush();
        Ok(worker)
    }

    /// Tells it something, with the next [`Worker::flush`].
    ///
    /// # Errors
    /// The message is too long.
    pub fn tell(&mut self, message: &ToWorker) -> anyhow::Result<()> {
        self.unsent.extend(frame::encode(message, FRAME_BYTES)?);
        Ok(())
    }

    /// Sends what it was told. That it is gone is told by an event.
    pub fn flush(&mut self) {
        if self.unsent.is_empty() {
            return;
        }
        if let Some(to) = &mut self.to
            && to.write_all(&self.unsent).is_err()
        {
            self.to = None;
        }
        self.unsent.clear();
    }

    /// Nothing more is to be done; waits until it has ended.
    pub fn dismiss(mut self) {
        self.to = None;
        let _ = self.child.wait();
    }
}

/// Hands on all messages, until the end or until nobody wants more.
fn listen(mut from: impl Read, mut say: impl FnMut(FromWorker) -> bool) -> Result<(), FrameError> {
    let mut decoder = Decoder::new(FRAME_BYTES);
    loop {
        while let Some(body) = decoder.next_frame()? {
            if !say(frame::decode(body)?) {
                return Ok(());
            }
        }
        match decoder.fill(|piece| from.read(piece)) {
            Ok(0) if decoder.is_empty() => return Ok(()),
            Ok(0) => return Err(FrameError::Truncated),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// The program of a worker.
fn command(node: &Node, program: &Path) -> Command {
    let mut command = Command::new(program);
    if !node.here {
        command.args([
            "run",
            "--quiet",
            "--overlap",
            "--unbuffered",
            "--nodes",
            "1",
        ]);
        command.args(["--tasks", "1", "--require", &node.name, "--bind", "none"]);
        command.args(["--input", "all", "--mpi", "none", "--name", "each", "--"]);
        command.arg(program);
    }
    command.args(["each", "--worker"]);
    command
}
