//! A request to a node daemon on its socket for steps, and the answer. After the answer that a step
//! was created, the frames of the step follow on the same connection.

use super::inbox::Inbox;
use super::session::Step;
use super::signal_pipe::SignalPipe;
use crate::exit::{self, SIGNAL_BASE};
use anyhow::{Context as _, anyhow};
use cosy_model::Refusal;
use cosy_model::limits::FRAME_BYTES;
use cosy_model::step::{StepAnswer, StepAsk};
use cosy_proto::{frame, x11};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsFd;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::os::unix::net::UnixStream;

/// A node daemon refused the request.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub struct StepRefused(pub Refusal);

/// The answer of a node daemon, other than a refusal.
pub enum NodeReply {
    /// A step was created or found: its frames follow on the connection.
    Step(Box<Step>),
    /// The answer to a request that creates no step.
    Other(StepAnswer),
}

/// Sends a request and waits for the answer. `on_wait` is given the reason while the step has to
/// wait; SIGINT, SIGTERM and SIGHUP in `signals` end the wait.
///
/// # Errors
/// A refusal, a lost connection, an interrupt.
pub fn send(
    mut stream: UnixStream,
    request: &StepAsk,
    signals: Option<&mut SignalPipe>,
    on_wait: &mut dyn FnMut(&str),
) -> anyhow::Result<NodeReply> {
    frame::write(&mut stream, request, FRAME_BYTES).context("cannot ask the node daemon")?;
    let mut signals = signals;
    let mut inbox = Inbox::new();
    loop {
        match inbox
            .answer()
            .context("no understandable answer from the node daemon")?
        {
            None => {
                if let Some(signals) = signals.as_deref_mut() {
                    wait(&stream, signals)?;
                }
                let lost = "lost the node daemon";
                if inbox.fill(&mut stream).context(lost)? == 0 {
                    return Err(anyhow!("the node daemon closed the connection without an answer"));
                }
            }
            Some(StepAnswer::Waits { reason }) => on_wait(&reason),
            Some(StepAnswer::Refused(refusal)) => {
                return Err(StepRefused(in_our_words(refusal)).into());
            }
            Some(StepAnswer::Created { key, layout, .. }) => {
                return Ok(NodeReply::Step(Box::new(Step {
                    stream,
                    inbox,
                    key,
                    layout,
                })));
            }
            Some(
                other @ (StepAnswer::Steps(_)
                | StepAnswer::Usage(_)
                | StepAnswer::Samples(_)
                | StepAnswer::Ports(_)
                | StepAnswer::Piece(_)
                | StepAnswer::Holds(_)
                | StepAnswer::Done),
            ) => {
                return Ok(NodeReply::Other(other));
            }
        }
    }
}

/// A daemon of an earlier release does not know what is asked for with a display.
fn in_our_words(refusal: Refusal) -> Refusal {
    match x11::is_unknown_word(&refusal.message) {
        true => Refusal::new(
            refusal.code,
            "--x11: a node daemon on the way to the job is of an older release, which forwards no \
             displays; leave out --x11 until it is upgraded",
        ),
        false => refusal,
    }
}

/// Waits until the connection can be read.
///
/// # Errors
/// A signal that ends the wait, with its exit code.
fn wait(stream: &UnixStream, signals: &mut SignalPipe) -> anyhow::Result<()> {
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN),
        ];
        let _ = poll(&mut fds, None);
        let [answered, signalled] = [0, 1].map(|at: usize| !fds[at].revents().is_empty());
        if signalled {
            let ending = [SIGINT, SIGTERM, SIGHUP];
            if let Some(signal) = signals.take().into_iter().find(|s| ending.contains(s)) {
                let code = u8::try_from(SIGNAL_BASE + signal).unwrap_or(exit::FAILED);
                return Err(exit::error(code, "interrupted; the step was not started"));
            }
        }
        if answered {
            return Ok(());
        }
    }
}
