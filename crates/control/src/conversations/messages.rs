//! Messages for running jobs. The script of a job finds them in its error output; a command
//! that stays with its job prints them. Nothing is kept: who is not there does not hear it.
//!
//! Source: scontrol(1), `notify`.

use crate::conversations::Conversations;
use crate::conversations::replies::reply_to;
use crate::jobs::Jobs;
use crate::jobs::arrays::procedures::name_of;
use crate::jobs::job::Job;
use crate::machine::Machine;
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::node::NodeOrder;
use cosy_model::{About, JobId, Refusal, RefusalCode};

pub(crate) fn notify_job(
    machine: &Machine,
    jobs: &Jobs,
    conversations: &mut Conversations,
    turn: &mut Turn,
    id: JobId,
    text: &str,
) -> Result<(), Refusal> {
    let job = jobs.get(&id);
    let running = job.and_then(|job| {
        let run = Job::run(job).filter(|run| run.started().is_some() && !run.is_over())?;
        Some((job.key(), job.submitted().is_held(), run.first()?))
    });
    let Some((key, held, first)) = running else {
        let why = format!("job {} does not run: there is nobody to tell", name_of(jobs, id));
        return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Waiting));
    };
    if held {
        tell_commands(conversations, turn, id, text);
    } else {
        let text = text.to_owned();
        machine.order(turn, first, |node| NodeOrder::Note { key, node, text });
    }
    Ok(())
}

/// Commands that are about to ask again hear of it then.
fn tell_commands(conversations: &mut Conversations, turn: &mut Turn, id: JobId, text: &str) {
    for client in conversations.attendance.said(id, text) {
        reply_to(turn, client, Reply::Said(text.to_owned()));
    }
}
