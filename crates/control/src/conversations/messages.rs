//! Messages for running jobs. The script of a job finds them in its error output; a command
//! that stays with its job prints them. Nothing is kept: who is not there does not hear it.
//!
//! Source: scontrol(1), `notify`.

use crate::controller::Controller;
use crate::conversations::bulk::Work;
use crate::event::{Caller, ClientId};
use crate::jobs::job::Job;
use cosy_model::api::{JobFilter, Reply};
use cosy_model::node::NodeOrder;
use cosy_model::{About, JobId, Refusal, RefusalCode, Time, limits};

impl Controller {
    pub(crate) fn notify(
        &mut self,
        now: Time,
        client: (ClientId, Option<[u8; 16]>),
        caller: &Caller,
        filter: JobFilter,
        text: &str,
    ) -> Result<Option<Reply>, Refusal> {
        if text.is_empty() || text.len() > limits::COMMENT_BYTES {
            return Err(Refusal::invalid(format!(
                "a message has at least one and at most {} bytes",
                limits::COMMENT_BYTES
            )));
        }
        let text = text.replace(char::is_control, "?");
        self.each_in_pieces(now, client, caller, filter, Work::Notify(text))
    }

    pub(crate) fn notify_job(&mut self, id: JobId, text: &str) -> Result<(), Refusal> {
        let job = self.jobs.get(&id);
        let running = job.and_then(|job| {
            let run = Job::run(job).filter(|run| run.started.is_some() && run.after.is_none())?;
            Some((job.key(), job.submitted.is_held(), run.first()?))
        });
        let Some((key, held, first)) = running else {
            let why = format!(
                "job {} does not run: there is nobody to tell",
                self.name_of(id)
            );
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Waiting));
        };
        if held {
            self.tell_commands(id, text);
        } else {
            let text = text.to_owned();
            self.order(first, |node| NodeOrder::Note { key, node, text });
        }
        Ok(())
    }

    /// Commands that are about to ask again hear of it then.
    fn tell_commands(&mut self, id: JobId, text: &str) {
        for client in self.conversations.attendance.said(id, text) {
            self.reply(client, Reply::Said(text.to_owned()));
        }
    }
}
