//! The first words with a node daemon on its socket for steps: what is asked, and the
//! answer; the frames of a step follow on the same connection.

use super::inbox::Inbox;
use super::intake::Intake;
use super::session::Step;
use crate::exit::{self, SIGNAL_BASE};
use anyhow::{Context as _, anyhow};
use cosy_model::Refusal;
use cosy_model::limits::FRAME_BYTES;
use cosy_model::step::{StepAnswer, StepAsk};
use cosy_proto::frame;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsFd;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::os::unix::net::UnixStream;

/// The step was refused.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub struct StepRefused(pub Refusal);

/// What is answered.
pub enum Answered {
    /// A step: its frames follow.
    Step(Box<Step>),
    /// Anything else.
    Other(StepAnswer),
}

/// Asks on `stream` and waits for the answer. `on_wait` is told why a step waits; with an
/// `intake`, signals that end programs end the waiting.
///
/// # Errors
/// A refusal, a lost connection, an interrupt.
pub fn ask(
    mut stream: UnixStream,
    ask: &StepAsk,
    intake: Option<&mut Intake>,
    on_wait: &mut dyn FnMut(&str),
) -> anyhow::Result<Answered> {
    frame::write(&mut stream, ask, FRAME_BYTES).context("cannot ask the node daemon")?;
    let mut intake = intake;
    let mut inbox = Inbox::new();
    loop {
        match inbox
            .answer()
            .context("no understandable answer from the node daemon")?
        {
            None => {
                if let Some(intake) = intake.as_deref_mut() {
                    wait(&stream, intake)?;
                }
                let lost = "lost the node daemon";
                if inbox.fill(&mut stream).context(lost)? == 0 {
                    return Err(anyhow!("the node daemon closed the connection without an answer"));
                }
            }
            Some(StepAnswer::Waits { reason }) => on_wait(&reason),
            Some(StepAnswer::Refused(refusal)) => {
                return Err(StepRefused(refusal).into());
            }
            Some(StepAnswer::Created { key, layout, .. }) => {
                return Ok(Answered::Step(Box::new(Step {
                    stream,
                    inbox,
                    key,
                    layout,
                })));
            }
            Some(other @ (StepAnswer::Steps(_) | StepAnswer::Usage(_) | StepAnswer::Done)) => {
                return Ok(Answered::Other(other));
            }
        }
    }
}

/// Until something has come on the connection.
fn wait(stream: &UnixStream, intake: &mut Intake) -> anyhow::Result<()> {
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(intake.fd(), PollFlags::IN),
        ];
        let _ = poll(&mut fds, None);
        let [there, signals] = [0, 1].map(|at: usize| !fds[at].revents().is_empty());
        if signals {
            let ends = [SIGINT, SIGTERM, SIGHUP];
            if let Some(signal) = intake.take().into_iter().find(|s| ends.contains(s)) {
                let code = u8::try_from(SIGNAL_BASE + signal).unwrap_or(exit::FAILED);
                return Err(exit::coded(code, "interrupted; the step was not started"));
            }
        }
        if there {
            return Ok(());
        }
    }
}
