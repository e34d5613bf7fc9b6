//! A fake step and a fake controller, whose answers the test decides.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(dead_code, reason = "each test program uses a part")]

use super::sandbox::Sandbox;
use cosy_model::api::{Reply, Request};
use cosy_model::job::{End, EndCause};
use cosy_model::limits::FRAME_BYTES;
use cosy_model::node::AttemptKey;
use cosy_model::step::{
    AllocationEndpoint, DownFrame, NodeEnd, RankRun, StepAnswer, StepAsk, StepKey, StepLayout,
    Stream, TaskEnd, UpFrame,
};
use cosy_model::{Attempt, JobId, Span, StepId, Time};
use cosy_proto::client::{ReplyFrame, RequestFrame};
use cosy_proto::frame;
use cosy_proto::step::{self, StepFrame};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

pub const STEP_SOCKET: &str = "run/steps.sock";

/// The supervisor's end of the connection to a step.
pub struct FakeStep {
    stream: UnixStream,
    buffer: Vec<u8>,
    pub layout: StepLayout,
}

pub fn key() -> StepKey {
    StepKey {
        attempt: AttemptKey {
            job: JobId(12),
            attempt: Attempt(1),
        },
        step: StepId(3),
    }
}

/// Nodes n1, n2 ... with so many tasks each.
pub fn layout(nodes: u32, each: u32) -> StepLayout {
    let run = |n| RankRun {
        first: n * each,
        count: each,
        stride: 1,
    };
    StepLayout {
        nodes: (1..=nodes).map(|n| format!("n{n}")).collect(),
        ranks: (0..nodes).map(|n| vec![run(n)]).collect(),
        tasks: nodes * each,
        cores_per_task: 1,
    }
}

pub fn task_end(exit_code: i32, signal: i32) -> TaskEnd {
    TaskEnd {
        exit_code,
        signal,
        failure: None,
    }
}

impl FakeStep {
    pub fn send(&mut self, up: UpFrame) {
        let mut bytes = Vec::new();
        step::put(&mut bytes, &StepFrame::Up(up)).unwrap();
        // The command may be gone: whoever cares looks for that.
        let _ = self.stream.write_all(&bytes);
    }

    pub fn output(&mut self, rank: u32, stream: Stream, text: &str) {
        self.send(UpFrame::Output {
            rank,
            stream,
            bytes: text.into(),
        });
    }

    pub fn out(&mut self, rank: u32, text: &str) {
        self.output(rank, Stream::Output, text);
    }

    /// The next frame of the command; `None` when the command has gone.
    pub fn receive(&mut self) -> Option<DownFrame> {
        loop {
            if let Some((frame, length)) = step::first(&self.buffer).unwrap() {
                self.buffer.drain(..length);
                let StepFrame::Down(down) = frame else {
                    panic!("{frame:?}")
                };
                return Some(down);
            }
            let mut chunk = [0; 64 << 10];
            match self.stream.read(&mut chunk) {
                Ok(0) | Err(_) => return None,
                Ok(n) => self.buffer.extend_from_slice(&chunk[..n]),
            }
        }
    }

    /// The next frame that is not the end of the input.
    pub fn receive_order(&mut self) -> Option<DownFrame> {
        loop {
            match self.receive() {
                Some(DownFrame::StdinEnd) => {}
                other => return other,
            }
        }
    }

    pub fn started(&mut self) {
        for node in 0..self.layout.nodes.len() as u32 {
            let tasks = self.layout.ranks_of(node);
            let tasks = tasks.into_iter().map(|r| (r, 1000 + r as i32)).collect();
            self.send(UpFrame::Started { node, tasks });
        }
    }

    pub fn task(&mut self, rank: u32, exit_code: i32, signal: i32) {
        let end = task_end(exit_code, signal);
        self.send(UpFrame::TaskEnded { rank, end });
    }

    pub fn node(&mut self, node: u32, cause: EndCause) {
        let end = NodeEnd {
            end: End {
                peak_memory_bytes: 3 << 30,
                ..End::never_ran(cause, Time(0))
            },
            drain: None,
            starved: 0,
        };
        self.send(UpFrame::NodeEnded { node, end });
    }

    /// Ends all tasks with this exit code or signal, then all nodes.
    pub fn finish(&mut self, exit_code: i32, signal: i32) {
        for rank in 0..self.layout.tasks {
            self.task(rank, exit_code, signal);
        }
        for node in 0..self.layout.nodes.len() as u32 {
            self.node(node, EndCause::Exited);
        }
    }
}

/// Listens on the socket for steps, answers one request with a step, and lets `part` send its frames.
pub fn serve_step<T: Send + 'static>(
    sandbox: &Sandbox,
    layout: StepLayout,
    part: impl FnOnce(&mut FakeStep, StepAsk) -> T + Send + 'static,
) -> JoinHandle<T> {
    serve(sandbox, move |mut stream, request| {
        let created = StepAnswer::Created {
            key: key(),
            layout: layout.clone(),
            limit: Span::UNLIMITED,
        };
        frame::write(&mut stream, &created, FRAME_BYTES).unwrap();
        let mut fake_step = FakeStep {
            stream,
            buffer: Vec::new(),
            layout,
        };
        part(&mut fake_step, request)
    })
}

/// Listens on the socket for steps and lets `answer` handle the first request.
pub fn serve<T: Send + 'static>(
    sandbox: &Sandbox,
    answer: impl FnOnce(UnixStream, StepAsk) -> T + Send + 'static,
) -> JoinHandle<T> {
    let listener = UnixListener::bind(sandbox.path(STEP_SOCKET)).unwrap();
    std::thread::spawn(move || {
        // A connection that only checks whether somebody listens sends nothing.
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            if let Some(request) = frame::read::<StepAsk>(&mut stream, FRAME_BYTES).unwrap() {
                return answer(stream, request);
            }
        }
    })
}

/// The same command as if it ran inside job 12.
pub fn inside(sandbox: &Sandbox, mut command: Command) -> Command {
    command
        .env("COSY_JOB_ID", "12")
        .env("COSY_NODE_COUNT", "2")
        .env("PATH", "/usr/bin:/bin")
        .env("COSY_STEP_SOCKET", sandbox.path(STEP_SOCKET));
    command
}

/// How the first node of job 12 is reached from this host.
pub fn endpoint(sandbox: &Sandbox) -> AllocationEndpoint {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    AllocationEndpoint {
        key: key().attempt,
        nodes: "n[1-2]".into(),
        socket: Some(sandbox.path(STEP_SOCKET).to_str().unwrap().into()),
        boot_id: boot_id.trim().into(),
    }
}

/// What the fake controller does with a request.
pub enum ReplyPlan {
    /// Answers at once.
    Send(Reply),
    /// Answers when the test says so; not at all when it never does.
    Delayed(Receiver<Reply>),
    /// Closes the connection.
    HangUp,
}

/// A fake controller with any number of connections: `plan` decides about each request, and the test
/// receives it.
pub fn controller(
    sandbox: &Sandbox,
    mut plan: impl FnMut(&Request) -> ReplyPlan + Send + 'static,
) -> Receiver<Request> {
    let listener = UnixListener::bind(sandbox.path("run/cosyd.sock")).unwrap();
    let (seen, requests) = channel();
    let (plans, plan_requests): (Sender<(Request, Sender<ReplyPlan>)>, _) = channel();
    std::thread::spawn(move || {
        for (request, answer) in plan_requests {
            let _ = answer.send(plan(&request));
        }
    });
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let (seen, plans) = (seen.clone(), plans.clone());
            std::thread::spawn(move || converse(stream, &seen, &plans));
        }
    });
    requests
}

fn converse(
    mut stream: UnixStream,
    seen: &Sender<Request>,
    plans: &Sender<(Request, Sender<ReplyPlan>)>,
) {
    while let Ok(Some(received)) = frame::read::<RequestFrame>(&mut stream, FRAME_BYTES) {
        let (reply_to, planned) = channel();
        plans.send((received.request.clone(), reply_to)).unwrap();
        let _ = seen.send(received.request);
        let reply = match planned.recv().unwrap() {
            ReplyPlan::Send(reply) => reply,
            ReplyPlan::HangUp => return,
            ReplyPlan::Delayed(later) => match later.recv() {
                Ok(reply) => reply,
                // The connection stays open until the command closes it.
                Err(_) => continue,
            },
        };
        let _ = frame::write(&mut stream, &ReplyFrame::new(reply), FRAME_BYTES);
    }
}
