//! A submission is made ready, checked, entered and answered.

use crate::config::ClusterConfig;
use crate::event::{Caller, Facts};
use crate::jobs::bodies::procedures::know_body;
use crate::jobs::check::procedures::{check_result, count_in_queue};
use crate::jobs::check::{Coming, Judged, Outcome, check_program};
use crate::jobs::dependencies::Waiter;
use crate::jobs::dependencies::procedures::{check_dependencies, forget_unknown};
use crate::jobs::job::{Group, Job, Member};
use crate::jobs::limits::procedures::all_come;
use crate::jobs::submit::{Ready, group_note};
use crate::machine::Machine;
use crate::policy::Policy;
use crate::queues::Queues;
use crate::reservations::Reservations;
use crate::rooms::Rooms;
use cosy_model::api::Submission;
use cosy_model::{JobSpec, QueueId, Refusal, RefusalCode, TaskIndices, limits};

/// Checks everything that can be said against a submission. `coming`: jobs that enter
/// queues before it in the same turn.
pub(crate) fn ready(
    rooms: &Rooms,
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
    spec.losses = None;
    let indices = array_indices(&rooms.config, array.as_ref())?;
    if indices.is_some() && spec.has_several_components() {
        return Err(Refusal::invalid("a job of several parts cannot be an array as well"));
    }
    let outcome = Outcome {
        queue: spec.queue.as_deref(),
        jobs: indices.as_ref().map_or(1, TaskIndices::len),
        coming,
        attached,
        ..Outcome::new(&caller.user, &spec)
    };
    let Judged {
        queue,
        place,
        standing,
        time_limit,
    } = check_result(rooms, caller, &outcome)?;
    (spec.account, spec.qos) = (standing.account, standing.qos);
    spec.time_limit = time_limit;
    forget_unknown(&rooms.config, &rooms.jobs, caller, &mut spec, facts);
    check_dependencies(&rooms.config, &rooms.jobs, caller, &spec.dependencies, facts)?;
    Ok(Ready {
        spec,
        script,
        indices,
        at_once: array.and_then(|a| a.at_once),
        queue,
        place,
    })
}

/// Takes a submission's jobs into memory, all of them waiting, none in the planner.
pub(crate) fn add_group(rooms: &mut Rooms, group: Group) {
    let submitted = group.submitted.clone();
    let base = submitted.base;
    rooms.queues.note_submission(&submitted);
    let (held, jobs) = (group.held, group.fates.len() as u32);
    let indices = group.indices.iter().flat_map(TaskIndices::iter).map(Some);
    let indices = indices.chain(std::iter::repeat(None));
    for (at, (id, index)) in group.ids().zip(indices).enumerate() {
        let member = index.map(|index| Member {
            index,
            at: at as u32,
        });
        rooms.jobs.enter(Job {
            held,
            ..Job::fresh(id, member, submitted.clone())
        });
    }
    if !submitted.spec.request.same_features.is_empty() {
        rooms.planning.choose_again_for(Waiter::of(&submitted));
    }
    if !submitted.spec.queues.is_empty() {
        group
            .ids()
            .for_each(|id| rooms.planning.has_choice_of_queues(id));
    }
    if submitted.counts_as_interactive() {
        rooms
            .conversations
            .enter_interactive(submitted.uid, group.ids());
    }
    count_in_queue(&rooms.config, &mut rooms.queues, &mut rooms.jobs, &submitted, jobs);
    if let Some(begin) = submitted.spec.begin {
        for id in group.ids() {
            rooms.jobs.begins_at(begin, id);
        }
    }
    rooms.jobs.enter_group(base, group);
    all_come(rooms, base);
    know_body(&mut rooms.jobs, &mut rooms.planning, &submitted, submitted.body == 0);
    let group = rooms.jobs.group_mut(&base);
    if let Some(body) = group.and_then(|group| group.bodies.get_mut(&submitted.body)) {
        body.jobs += jobs;
    }
}

fn array_indices(
    config: &ClusterConfig,
    array: Option<&cosy_model::ArraySpec>,
) -> Result<Option<TaskIndices>, Refusal> {
    let Some(array) = array else { return Ok(None) };
    let max = config.policy.max_array_tasks;
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
pub(crate) fn note_for(rooms: &Rooms, caller: &Caller, queue: QueueId, spec: &JobSpec) -> String {
    let notes = [
        queue_note(&rooms.machine, &rooms.queues, queue),
        group_note(caller),
        account_note(&rooms.reservations, caller, spec),
        qos_note(&rooms.policy, spec),
        mail_note(&rooms.config, spec),
    ];
    let mut notes = Vec::from(notes);
    notes.retain(|note| !note.is_empty());
    notes.join("; ")
}

/// What jobs are charged to is a word; it is told where there are accounts and this is none
/// of the user's.
fn account_note(reservations: &Reservations, caller: &Caller, spec: &JobSpec) -> String {
    let Some(name) = &spec.account else {
        return String::new();
    };
    match reservations.books().payer(&caller.user, Some(name)) {
        Ok(_) => String::new(),
        Err(why) => format!("{why}; the job is recorded with it all the same"),
    }
}

/// A quality of service that nobody has made is a word, where none is enforced.
fn qos_note(policy: &Policy, spec: &JobSpec) -> String {
    match spec
        .qos
        .as_deref()
        .filter(|name| policy.qos(name).is_none())
    {
        Some(name) => format!(
            "there is no quality of service '{name}'; the job is recorded with it all the same"
        ),
        None => String::new(),
    }
}

fn mail_note(config: &ClusterConfig, spec: &JobSpec) -> String {
    let mail = &spec.mail;
    let asked = mail.begin || mail.end || mail.fail || mail.requeue;
    match (asked || !mail.limit_shares.is_empty()) && !config.mails {
        true => "no mail will be sent: the cluster has no mail_command".to_owned(),
        false => String::new(),
    }
}

fn queue_note(machine: &Machine, queues: &Queues, queue: QueueId) -> String {
    let nodes = queues.get(queue).nodes();
    let up = nodes
        .iter()
        .filter(|n| machine.node(*n).can_be_planned_on())
        .count();
    if up == 0 {
        let name = queues.name(queue);
        return format!("no node of queue {name} is up: the job waits until one is");
    }
    String::new()
}
