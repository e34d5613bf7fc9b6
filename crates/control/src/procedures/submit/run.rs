//! A submission is made ready, checked, entered and answered.

use crate::controller::Controller;
use crate::event::{Caller, Facts};
use crate::jobs::dependencies::Waiter;
use crate::jobs::job::{Group, Job, Member, Phase, Submitted};
use crate::jobs::reviews::{AT_ONCE, Again, weight};
use crate::procedures::check::{Coming, Judged, Outcome, check_program};
use crate::procedures::submit::{Ready, group_note, numbering};
use crate::record::{OfFlow, Record, SubmissionRow};
use cosy_model::api::{Reply, Submission};
use cosy_model::{Attempt, JobSpec, QueueId, Refusal, RefusalCode, Time, limits};
use std::sync::Arc;

impl Controller {
    pub(crate) fn submit(
        &mut self,
        now: Time,
        caller: &Caller,
        submission: Submission,
        facts: &Facts,
    ) -> Result<Reply, Refusal> {
        self.submit_with(now, caller, submission, facts, false)
    }

    /// `attached`: the script that starts with its reservation.
    pub(crate) fn submit_with(
        &mut self,
        now: Time,
        caller: &Caller,
        submission: Submission,
        facts: &Facts,
        attached: bool,
    ) -> Result<Reply, Refusal> {
        let ready = self.ready(caller, submission, facts, attached, &Coming::new())?;
        self.learn_facts(&ready.spec.dependencies, facts);
        Ok(self.enter(now, caller, ready, None))
    }

    /// Checks everything that can be said against a submission. `coming`: jobs that enter
    /// queues before it in the same turn.
    pub(crate) fn ready(
        &self,
        caller: &Caller,
        submission: Submission,
        facts: &Facts,
        attached: bool,
        coming: &Coming,
    ) -> Result<Ready, Refusal> {
        if !caller.resolved {
            return Err(Refusal::new(
                RefusalCode::DirectoryDown,
                format!(
                    "the directory service does not tell who user {} is; nothing was submitted, try again",
                    caller.user.uid
                ),
            ));
        }
        let Submission {
            mut spec,
            script,
            array,
        } = submission;
        check_program(&spec.program, &script)?;
        let indices = self.array_indices(array.as_ref())?;
        if indices.is_some() && !spec.bundles.is_empty() {
            return Err(Refusal::invalid(
                "a job of several parts cannot be an array as well",
            ));
        }
        let outcome = Outcome {
            queue: spec.queue.as_deref(),
            jobs: indices.as_ref().map_or(1, Vec::len),
            coming,
            attached,
            ..Outcome::new(&caller.user, &spec)
        };
        let Judged { queue, place } = self.check_result(caller, &outcome)?;
        self.forget_unknown(caller, &mut spec, facts);
        self.check_dependencies(caller, &spec.dependencies, facts)?;
        Ok(Ready {
            spec,
            script,
            indices,
            at_once: array.and_then(|a| a.at_once),
            queue,
            place,
        })
    }

    /// Takes a submission that was checked.
    pub(crate) fn enter(
        &mut self,
        now: Time,
        caller: &Caller,
        ready: Ready,
        flow: Option<OfFlow>,
    ) -> Reply {
        let Ready {
            mut spec,
            script,
            indices,
            at_once,
            queue,
            place,
        } = ready;
        let tasks = indices.as_ref().map_or(1, Vec::len);
        let environment = std::mem::take(&mut spec.environment);
        let base = self.jobs.next_id();
        let submitted = Arc::new(Submitted {
            base,
            body: 0,
            uid: caller.user.uid,
            gid: caller.group(),
            user: caller.user.name.clone(),
            submit: now,
            queue: self.queues.name(queue).to_owned(),
            spec,
            place,
            flow,
            only: None,
        });
        let row = SubmissionRow {
            base,
            indices,
            numbering: numbering(submitted.spec.dialect),
            at_once,
            uid: submitted.uid,
            gid: submitted.gid,
            user: submitted.user.clone(),
            queue: submitted.queue.clone(),
            submit: now,
            spec: submitted.spec.clone(),
            flow,
        };
        self.jobs.take_ids(row.ids());
        let reply = Reply::Submitted {
            job: base,
            tasks: row.indices.as_ref().map_or(0, |i| i.len() as u32),
            note: self.note_for(caller, queue, &row.spec),
        };
        let group = Group::of_row(&row, submitted.clone());
        self.record(Record::Submitted {
            row: Box::new(row),
            script,
            environment,
        });
        let detail = format!("{} to queue {}", submitted.spec.name, submitted.queue);
        self.happened(
            now,
            "submitted",
            &submitted.user,
            format!("job {base}"),
            detail,
        );
        if submitted.spec.reservation.is_none() {
            let core_ms = crate::reservations::asked_core_ms(&submitted);
            let notice = &self.config.reservations.notice;
            let figures = self.reservations.figures_mut();
            figures.jobs_accepted(now, notice, tasks as u64, core_ms);
        }
        let ids = group.ids();
        self.add_group(group);
        self.wait_for_others(Waiter::of(&submitted), &submitted);
        let at_once = (AT_ONCE / weight(&submitted.spec)).max(1);
        for id in ids.take(at_once) {
            self.review(now, id);
        }
        if tasks > at_once {
            let rest = Again::Rest(Waiter::of(&submitted), at_once);
            self.jobs.review_later(rest);
        }
        reply
    }

    /// Takes a submission's jobs into memory, all of them waiting, none in the planner.
    pub(crate) fn add_group(&mut self, group: Group) {
        let submitted = group.submitted.clone();
        let base = submitted.base;
        self.queues.note_submission(&submitted);
        let (held, jobs) = (group.held, group.fates.len() as u32);
        for at in 0..group.fates.len() {
            let id = group.id_at(at);
            let member = group.indices.as_ref().map(|indices| Member {
                index: indices[at],
                at: at as u32,
            });
            self.jobs.enter(Job {
                id,
                member,
                submitted: submitted.clone(),
                own: false,
                has_row: false,
                held,
                needs_user: false,
                attempt: Attempt(0),
                eligible: None,
                not_before: None,
                phase: Phase::Waiting(Some(cosy_model::WaitReason::Fresh)),
            });
        }
        if !submitted.spec.request.same_features.is_empty() {
            self.planning.choose_again_for(Waiter::of(&submitted));
        }
        if !submitted.spec.queues.is_empty() {
            group
                .ids()
                .for_each(|id| self.planning.has_choice_of_queues(id));
        }
        if submitted.counts_as_interactive() {
            self.conversations
                .enter_interactive(submitted.uid, group.ids());
        }
        self.count_in_queue(&submitted, jobs);
        if let Some(begin) = submitted.spec.begin {
            for id in group.ids() {
                self.jobs.begins_at(begin, id);
            }
        }
        self.jobs.enter_group(base, group);
        self.know_body(&submitted, submitted.body == 0);
        let group = self.jobs.group_mut(&base);
        if let Some(body) = group.and_then(|group| group.bodies.get_mut(&submitted.body)) {
            body.jobs += jobs;
        }
    }

    fn array_indices(
        &self,
        array: Option<&cosy_model::ArraySpec>,
    ) -> Result<Option<Vec<u32>>, Refusal> {
        let Some(array) = array else { return Ok(None) };
        let max = self.config.policy.max_array_tasks;
        let count = array.count();
        if count > u64::from(max) {
            return Err(Refusal::new(
                RefusalCode::TooMany,
                format!("an array of {count} tasks is larger than the {max} allowed here"),
            ));
        }
        let sound = array
            .ranges
            .iter()
            .all(|(a, b, s)| a <= b && *b <= limits::ARRAY_INDEX && *s > 0);
        if count == 0 || !sound {
            return Err(Refusal::invalid("the array has no valid indices"));
        }
        Ok(Some(array.indices()))
    }

    /// What the user is told beside the number of the job.
    fn note_for(&self, caller: &Caller, queue: QueueId, spec: &JobSpec) -> String {
        let notes = [
            self.queue_note(queue),
            group_note(caller),
            self.account_note(caller, spec),
            self.mail_note(spec),
        ];
        let mut notes = Vec::from(notes);
        notes.retain(|note| !note.is_empty());
        notes.join("; ")
    }

    /// What jobs are charged to is a word; it is told where there are accounts and this is none
    /// of the user's.
    fn account_note(&self, caller: &Caller, spec: &JobSpec) -> String {
        let Some(name) = &spec.account else {
            return String::new();
        };
        match self.reservations.books().payer(&caller.user, Some(name)) {
            Ok(_) => String::new(),
            Err(why) => format!("{why}; the job is recorded with it all the same"),
        }
    }

    fn mail_note(&self, spec: &JobSpec) -> String {
        let mail = &spec.mail;
        let asked = mail.begin || mail.end || mail.fail || mail.requeue;
        match (asked || !mail.limit_shares.is_empty()) && !self.config.mails {
            true => "no mail will be sent: the cluster has no mail_command".to_owned(),
            false => String::new(),
        }
    }

    fn queue_note(&self, queue: QueueId) -> String {
        let nodes = &self.queues.get(queue).nodes;
        let up = nodes
            .iter()
            .filter(|n| self.machine.node(*n).takes_jobs())
            .count();
        if up == 0 {
            let name = self.queues.name(queue);
            return format!("no node of queue {name} is up: the job waits until one is");
        }
        String::new()
    }
}
