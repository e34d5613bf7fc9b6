//! A step and a controller that only pretend: each conversation is played by the test.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(dead_code, reason = "each test program uses a part")]

use super::bench::Bench;
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

/// The supervisor's end of a step.
pub struct Stage {
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

impl Stage {
    pub fn say(&mut self, up: UpFrame) {
        let mut bytes = Vec::new();
        step::put(&mut bytes, &StepFrame::Up(up)).unwrap();
        // The command may be gone: whoever cares looks for that.
        let _ = self.stream.write_all(&bytes);
    }

    pub fn output(&mut self, rank: u32, stream: Stream, text: &str) {
        self.say(UpFrame::Output {
            rank,
            stream,
            bytes: text.into(),
        });
    }

    pub fn out(&mut self, rank: u32, text: &str) {
        self.output(rank, Stream::Output, text);
    }

    /// What the command says next; `None` when it has gone.
    pub fn hear(&mut self) -> Option<DownFrame> {
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

    /// What it says next but for input, of which it has none.
    pub fn hear_order(&mut self) -> Option<DownFrame> {
        loop {
            match self.hear() {
                Some(DownFrame::StdinEnd) => {}
                other => return other,
            }
        }
    }

    pub fn started(&mut self) {
        for node in 0..self.layout.nodes.len() as u32 {
            let tasks = self.layout.ranks_of(node);
            let tasks = tasks.into_iter().map(|r| (r, 1000 + r as i32)).collect();
            self.say(UpFrame::Started { node, tasks });
        }
    }

    pub fn task(&mut self, rank: u32, exit_code: i32, signal: i32) {
        let end = task_end(exit_code, signal);
        self.say(UpFrame::TaskEnded { rank, end });
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
        self.say(UpFrame::NodeEnded { node, end });
    }

    /// All tasks end so, then all nodes.
    pub fn finish(&mut self, exit_code: i32, signal: i32) {
        for rank in 0..self.layout.tasks {
            self.task(rank, exit_code, signal);
        }
        for node in 0..self.layout.nodes.len() as u32 {
            self.node(node, EndCause::Exited);
        }
    }
}

/// Listens on the socket for steps, answers one question with a step and plays it.
pub fn play<T: Send + 'static>(
    bench: &Bench,
    layout: StepLayout,
    part: impl FnOnce(&mut Stage, StepAsk) -> T + Send + 'static,
) -> JoinHandle<T> {
    serve(bench, move |mut stream, ask| {
        let created = StepAnswer::Created {
            key: key(),
            layout: layout.clone(),
            limit: Span::UNLIMITED,
        };
        frame::write(&mut stream, &created, FRAME_BYTES).unwrap();
        let mut stage = Stage {
            stream,
            buffer: Vec::new(),
            layout,
        };
        part(&mut stage, ask)
    })
}

/// Listens on the socket for steps and lets `answer` have the first question.
pub fn serve<T: Send + 'static>(
    bench: &Bench,
    answer: impl FnOnce(UnixStream, StepAsk) -> T + Send + 'static,
) -> JoinHandle<T> {
    let listener = UnixListener::bind(bench.path(STEP_SOCKET)).unwrap();
    std::thread::spawn(move || {
        // Whoever only looks whether somebody listens says nothing.
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            if let Some(ask) = frame::read::<StepAsk>(&mut stream, FRAME_BYTES).unwrap() {
                return answer(stream, ask);
            }
        }
    })
}

/// The same command inside job 12.
pub fn inside(bench: &Bench, mut command: Command) -> Command {
    command
        .env("COSY_JOB_ID", "12")
        .env("COSY_NODE_COUNT", "2")
        .env("PATH", "/usr/bin:/bin")
        .env("COSY_STEP_SOCKET", bench.path(STEP_SOCKET));
    command
}

/// How job 12 is reached from this host.
pub fn entry(bench: &Bench) -> AllocationEndpoint {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    AllocationEndpoint {
        key: key().attempt,
        nodes: "n[1-2]".into(),
        socket: Some(bench.path(STEP_SOCKET).to_str().unwrap().into()),
        boot_id: boot_id.trim().into(),
    }
}

/// What a controller does with a question.
pub enum Do {
    /// Answers.
    Say(Reply),
    /// Answers when the test says so; not at all when it never does.
    Later(Receiver<Reply>),
    /// Hangs up.
    HangUp,
}

/// A controller with any number of connections; gives each question to `judge` and to the
/// test.
pub fn controller(
    bench: &Bench,
    mut judge: impl FnMut(&Request) -> Do + Send + 'static,
) -> Receiver<Request> {
    let listener = UnixListener::bind(bench.path("run/cosyd.sock")).unwrap();
    let (asked, questions) = channel();
    let (judged, judgements): (Sender<(Request, Sender<Do>)>, _) = channel();
    std::thread::spawn(move || {
        for (request, answer) in judgements {
            let _ = answer.send(judge(&request));
        }
    });
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let (asked, judged) = (asked.clone(), judged.clone());
            std::thread::spawn(move || converse(stream, &asked, &judged));
        }
    });
    questions
}

fn converse(
    mut stream: UnixStream,
    asked: &Sender<Request>,
    judged: &Sender<(Request, Sender<Do>)>,
) {
    while let Ok(Some(ask)) = frame::read::<RequestFrame>(&mut stream, FRAME_BYTES) {
        let (tell, told) = channel();
        judged.send((ask.request.clone(), tell)).unwrap();
        let _ = asked.send(ask.request);
        let reply = match told.recv().unwrap() {
            Do::Say(reply) => reply,
            Do::HangUp => return,
            Do::Later(later) => match later.recv() {
                Ok(reply) => reply,
                // Stays until the command goes.
                Err(_) => continue,
            },
        };
        let _ = frame::write(&mut stream, &ReplyFrame::new(reply), FRAME_BYTES);
    }
}
