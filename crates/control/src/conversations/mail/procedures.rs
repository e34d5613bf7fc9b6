//! Mail is made out when something happens to a job.

use crate::config::ClusterConfig;
use crate::conversations::Conversations;
use crate::conversations::mail::{News, WHOLE, reached};
use crate::event::Effect;
use crate::jobs::Jobs;
use crate::jobs::arrays::procedures::ref_of;
use crate::jobs::job::Job;
use crate::jobs::run::Run;
use crate::turn::Turn;
use cosy_model::{End, JobId, MiB, Time};
use cosy_view::phrase;

pub(crate) fn mail_of(config: &ClusterConfig, job: &Job, news: &News<'_>) -> Option<Effect> {
    let mail = &job.spec().mail;
    let (wanted, what) = match news {
        News::Began => (mail.begin, "began".to_owned()),
        News::Requeued(_) => (mail.requeue, "was requeued".to_owned()),
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
        News::Ended(end, _) => {
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
        body: body(job, news),
    })
}

/// Of a job that has ended why, and what it used of what it had.
fn body(job: &Job, news: &News<'_>) -> String {
    let (end, note) = match news {
        News::Ended(end, note) => (end, note),
        News::Requeued(why) if !why.is_empty() => return format!("{why}\n"),
        News::Requeued(_) | News::Began | News::StartMoved(_) | News::Share(_) => {
            return String::new();
        }
    };
    let note = (!note.is_empty()).then(|| (*note).to_owned());
    let used = job.run().and_then(|run| used(run, end));
    let lines = note.into_iter().chain(used.into_iter().flatten());
    lines.map(|line| format!("{line}\n")).collect()
}

/// Memory that was asked for counts as far too much beyond so many times what was used.
const FAR_TOO_MUCH: u64 = 5;

/// Time, cores and memory of what it had of each; `None` where its program never began.
fn used(run: &Run, end: &End) -> Option<Vec<String>> {
    let ran = end.end.since(end.start?);
    let ran_ms = u64::try_from(ran.ms()).ok().filter(|ms| *ms > 0)?;
    let mut lines = vec![match run.limit() {
        limit if limit.is_unlimited() => format!("It ran {ran}."),
        limit => format!("It ran {ran} of {limit}."),
    }];
    let cores = run.all_parts().map(|part| u64::from(part.amounts().cores));
    let cores: u64 = cores.sum();
    let cpu_ms = end.user_cpu_us.saturating_add(end.system_cpu_us) / 1000;
    let tenths = cpu_ms.saturating_mul(10) / ran_ms;
    if let Some(percent) = tenths.saturating_mul(10).checked_div(cores) {
        let (whole, tenth) = (tenths / 10, tenths % 10);
        lines.push(format!("Cores: {whole}.{tenth} of {cores} were busy ({percent} %)."));
    }
    let peak = end.peak_memory_bytes;
    let given = run.all_parts().filter_map(|part| part.memory()).max();
    if let Some(given) = given.filter(|_| peak > 0) {
        let percent = peak.saturating_mul(100) / given.bytes().max(1);
        let used = MiB(peak >> 20);
        lines.push(format!(
            "Memory: {used} of {given} on the node where it used most ({percent} %)."
        ));
        if peak.saturating_mul(FAR_TOO_MUCH) < given.bytes() {
            lines.push(format!(
                "That is less than a {FAR_TOO_MUCH}th of what it asked for: with less it may start earlier."
            ));
        }
    }
    lines.extend(device_lines(run, end));
    Some(lines)
}

/// What it used of GPUs and energy, as far as its nodes have measured it.
fn device_lines(run: &Run, end: &End) -> Vec<String> {
    let mut lines = Vec::new();
    let used = end.devices;
    if let Some(permille) = used.gpu_busy_permille() {
        let gpus = run.all_parts().map(|part| u64::from(part.amounts().gpus));
        let gpus = phrase::count(gpus.sum(), "GPU", "GPUs");
        let memory = MiB(used.gpu_peak_bytes >> 20);
        let memory = match memory.0 {
            0 => String::new(),
            _ => format!(", with {memory} of memory on the node where they used most"),
        };
        lines.push(format!("{gpus}: busy for {} % of the time{memory}.", permille / 10));
    }
    if let Some(joules) = used.energy_joules() {
        let energy = phrase::energy(joules);
        lines.push(format!(
            "Energy: {energy}, an estimate: its cores' share of what its nodes took."
        ));
    }
    lines
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
