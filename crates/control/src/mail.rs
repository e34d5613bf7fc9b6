//! Mail about jobs: what is said and to whom. How it is sent is the shell's business.

use crate::controller::Controller;
use crate::event::Effect;
use crate::job::Job;
use cosy_model::End;

/// What a mail is about.
pub(crate) enum News<'a> {
    Began,
    Ended(&'a End),
    Requeued,
}

impl Controller {
    pub(crate) fn mail(&self, job: &Job, news: &News<'_>) -> Option<Effect> {
        let mail = &job.spec().mail;
        let (wanted, what) = match news {
            News::Began => (mail.begin, "began".to_owned()),
            News::Requeued => (mail.requeue, "was requeued".to_owned()),
            News::Ended(end) => {
                let state = end.state();
                let failed = state != cosy_model::JobState::Completed;
                let text = format!("ended: {state}, exit code {}", end.exit_code);
                (mail.end || (failed && mail.fail), text)
            }
        };
        let to = if mail.to.is_empty() {
            &job.submitted.user
        } else {
            &mail.to
        };
        wanted.then(|| Effect::Mail {
            to: to.clone(),
            subject: format!(
                "{} job {} ({}) {what}",
                self.config.name,
                self.ref_of(job),
                job.spec().name
            ),
        })
    }
}
