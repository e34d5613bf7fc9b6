//! Why a waiting job may not stand in the planner's queue now.

use crate::conversations::interactive::procedures::interactive_is_full;
use crate::jobs::arrays::procedures::waits_for_its_array;
use crate::jobs::dependencies::Met;
use crate::jobs::dependencies::procedures::{is_fresh, met_by};
use crate::jobs::job::{Job, Place, Submitted};
use crate::jobs::limits::procedures::waits_for;
use crate::policy::rejudge::Charged;
use crate::queues::access::may_be_administrator;
use crate::reservations::inside::procedures::may_come_back;
use crate::rooms::Rooms;
use cosy_model::{JobSpec, QueueId, Time, WaitReason};

pub(crate) fn blocker(rooms: &Rooms, now: Time, job: &Job) -> Option<WaitReason> {
    use crate::record::HeldBy;
    match job.held {
        Some(HeldBy::User) => return Some(WaitReason::HeldByUser),
        Some(HeldBy::Admin) => return Some(WaitReason::HeldByAdmin),
        Some(HeldBy::Requeued) => return Some(WaitReason::HeldRequeued),
        Some(HeldBy::Special) => return Some(WaitReason::HeldSpecial),
        Some(HeldBy::Restored) => return Some(WaitReason::HeldRestored),
        Some(HeldBy::Losses) => return Some(WaitReason::HeldLosses),
        None => {}
    }
    match met_by(&rooms.jobs, &rooms.aside, now, job) {
        Met::Yes => {}
        Met::NotYet => return Some(WaitReason::Dependency),
        Met::Never => return Some(WaitReason::DependencyNever),
    }
    let begin = job.spec().begin.max(job.not_before());
    if begin.is_some_and(|begin| begin > now) {
        return Some(WaitReason::BeginTime);
    }
    if is_fresh(&rooms.config, now, job) {
        return Some(match &job.submitted.place {
            Place::Good { .. } | Place::Lost => WaitReason::Fresh,
            Place::Beyond { .. } => WaitReason::QueueLimits,
        });
    }
    match &job.submitted.place {
        Place::Good { .. } => {}
        Place::Lost => return Some(WaitReason::NeverFits),
        Place::Beyond { reason, .. } => return Some(reason.clone()),
    }
    if let Some(reason) =
        barred_by_policy(rooms, &job.submitted).or_else(|| not_admitted(rooms, job))
    {
        return Some(reason);
    }
    if rooms.workflows.awaits_slot(job) {
        return Some(WaitReason::ReservationStart);
    }
    if let Some(reservation) = job.spec().reservation {
        if let Some(reason) = rooms.reservations.reservation_blocks(reservation) {
            return Some(reason);
        }
        match may_come_back(
            &rooms.config,
            &rooms.reservations,
            &rooms.conversations,
            job,
            reservation,
        ) {
            Some(true) => {}
            Some(false) => return Some(WaitReason::ReservationGone),
            None => return Some(WaitReason::Directory),
        }
    }
    let others = waits_for_its_array(&rooms.jobs, &rooms.planning, &rooms.reservations, job);
    if others.is_some() {
        return others;
    }
    if interactive_is_full(rooms, job) {
        return Some(WaitReason::InteractiveLimit);
    }
    if job.needs_user {
        return Some(WaitReason::Directory);
    }
    waits_for(rooms, now, job).map(|waits| WaitReason::Limit(Box::new(waits.hit)))
}

/// The account or the quality of service that it has is not its user's any more, while that is
/// enforced.
pub(crate) fn barred_by_policy(rooms: &Rooms, submitted: &Submitted) -> Option<WaitReason> {
    let enforce = rooms.config.enforce;
    if !enforce.binds() {
        return None;
    }
    let by_books = |account: &str| {
        let books = rooms.reservations.books();
        may_be_administrator(&rooms.config, submitted.uid, &submitted.user)
            || books.may_be_member(account, &submitted.user)
    };
    rooms.policy.barred(
        enforce,
        Charged {
            user: &submitted.user,
            account: submitted.spec.account.as_deref(),
            qos: submitted.spec.qos.as_deref(),
            queue: &submitted.queue,
        },
        by_books,
    )
}

/// Why its queue does not take a job of its account, or of its quality of service, any more.
fn not_admitted(rooms: &Rooms, job: &Job) -> Option<WaitReason> {
    let queue = rooms.queues.id_of(&job.submitted().queue)?;
    not_admitted_to(rooms, queue, job.spec())
}

/// Why a queue does not take a job of that account, or of that quality of service.
pub(crate) fn not_admitted_to(rooms: &Rooms, queue: QueueId, spec: &JobSpec) -> Option<WaitReason> {
    let admits = &rooms.queues.get(queue).spec().admits;
    if !admits.account(spec.account.as_deref()) {
        return Some(WaitReason::AccountNotAllowed);
    }
    if !admits.quality(spec.qos.as_deref()) {
        return Some(WaitReason::QosNotAllowed);
    }
    let enforced = rooms.config.enforce.limits;
    let gone = |name: &String| enforced && rooms.policy.qos(name).is_none();
    let of_queue = admits.qos.as_ref().filter(|name| gone(name));
    of_queue.map(|_| WaitReason::QosInvalid)
}
