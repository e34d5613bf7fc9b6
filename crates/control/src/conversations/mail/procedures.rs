//! Mail is made out when something happens to a job.

use crate::config::ClusterConfig;
use crate::conversations::Conversations;
use crate::conversations::mail::{News, WHOLE, reached};
use crate::event::Effect;
use crate::jobs::Jobs;
use crate::jobs::arrays::procedures::ref_of;
use crate::jobs::job::Job;
use crate::turn::Turn;
use cosy_model::{JobId, Time};

pub(crate) fn mail_of(config: &ClusterConfig, job: &Job, news: &News<'_>) -> Option<Effect> {
    let mail = &job.spec().mail;
    let (wanted, what) = match news {
        News::Began => (mail.begin, "began".to_owned()),
        News::Requeued => (mail.requeue, "was requeued".to_owned()),
        News::StartMoved(by) => {
            (mail.begin, format!("will start later: room is made for job {by}"))
        }
        News::Share(share) => {
            let what = match *share {
                WHOLE => "has reached its time limit".to_owned(),
                share => format!("has reached {share} % of its time limit"),
            };
            (mail.limit_shares.contains(share), what)
        }
        News::Ended(end) => {
            let state = end.state();
            let failed = state != cosy_model::JobState::Completed;
            let text = format!("ended: {state}, exit code {}", end.exit_code);
            (mail.end || (failed && mail.fail), text)
        }
    };
    let to = if mail.to.is_empty() {
        &job.submitted().user
    } else {
        &mail.to
    };
    wanted.then(|| Effect::Mail {
        to: to.clone(),
        subject: format!("{} job {} ({}) {what}", config.name, ref_of(job), job.spec().name),
    })
}

/// Sends what is due between two moments of jobs that want mail before their limits.
pub(crate) fn mail_shares(
    config: &ClusterConfig,
    jobs: &Jobs,
    conversations: &mut Conversations,
    turn: &mut Turn,
    before: Time,
) {
    let now = turn.now();
    let mut due = Vec::new();
    conversations.mailing.running.retain(|id| {
        let job = jobs.get(id);
        let run = job.and_then(|job| job.run().map(|run| (job, run)));
        let Some((job, run)) = run else { return false };
        due.extend(reached(job, run, before, now).map(|share| (*id, share)));
        true
    });
    for (id, share) in due {
        let mail = jobs.get(&id);
        let mail = mail.and_then(|job| mail_of(config, job, &News::Share(share)));
        mail.into_iter().for_each(|mail| turn.effect(mail));
    }
}

/// Notes whether a job that runs wants mail before its limit.
pub(crate) fn note_mailing(jobs: &Jobs, conversations: &mut Conversations, id: JobId) {
    let wanted = |job: &Job| !job.spec().mail.limit_shares.is_empty();
    if jobs.get(&id).is_some_and(wanted) {
        conversations.mailing.running.insert(id);
    }
}
