//! Bounds of every list, text and number of a request, before anybody works on it.
//!
//! What a request means is judged where it is carried out; here is only how much of
//! anything it may hold, in one match over all kinds, so that a new kind cannot be forgotten.
//! The work that a request costs grows with what is counted here.

use super::bounded::{Bounded, bytes, hosts, most, name, names, text};
use super::bounds_policy;
use super::{JobChange, JobField, JobFilter, NodeAction, Request, Submission};
use crate::job::CountedFeatures;
use crate::reservation::{
    AccountAction, NamesChange, PlainTerms, ReservationAlteration, ReservationFilter,
    ReservationSpec, Sharing, SharingChange,
};
use crate::trigger::{TriggerSpec, TriggerTarget};
use crate::workflow::{FlowFilter, FlowSpec};
use crate::{
    CountedResources, JobSpec, QueueAdmits, QueueSpec, Refusal, job::ResourceRequest, limits,
};

impl Request {
    /// Whether all that it holds is within bounds.
    ///
    /// # Errors
    /// A refusal that names what there is too much of, how much, and how much may be.
    pub fn check_bounds(&self) -> Bounded {
        match self {
            Self::Ping
            | Self::Meter
            | Self::Archive { .. }
            | Self::Controllers
            | Self::HandOver { .. }
            | Self::Queues
            | Self::Nodes
            | Self::Triggers
            | Self::Settings
            | Self::Reload
            | Self::Attend { .. }
            | Self::Finish { .. }
            | Self::Entry { .. }
            | Self::Pass { .. }
            | Self::Explain { .. }
            | Self::Script { .. }
            | Self::ClearTriggers { .. }
            | Self::Events { .. }
            | Self::Confirm { .. }
            | Self::ExtendReservation { .. }
            | Self::ShortenReservation { .. }
            | Self::ConfirmFlow { .. }
            | Self::PlanChart { .. } => Ok(()),
            Self::Submit(new) | Self::Allocate(new) | Self::TryRules { job: new, .. } => {
                submission(new)
            }
            Self::Steps { jobs, .. } => match jobs.len() {
                0 => Err(Refusal::invalid("no job is named whose steps are to be told")),
                _ => most("jobs", jobs.len(), limits::STEP_JOBS),
            },
            Self::Wait { jobs } => most("jobs", jobs.len(), limits::IDS_IN_REQUEST),
            Self::Cancel { filter, .. }
            | Self::Hold { filter, .. }
            | Self::Release { filter }
            | Self::Requeue { filter, .. }
            | Self::Suspend { filter }
            | Self::Resume { filter }
            | Self::Top { filter } => chosen(filter),
            Self::Notify { filter, text: said } => {
                text("message", said, limits::COMMENT_BYTES)?;
                chosen(filter)
            }
            Self::Change { filter, change } => changes(filter, change),
            Self::Jobs { filter, fields, .. } | Self::History { filter, fields } => {
                most("columns", fields.len(), 2 * JobField::ALL.len())?;
                jobs(filter)
            }
            Self::SetTrigger(spec) => trigger(spec),
            Self::NodeControl { nodes, action } => {
                hosts("nodes", nodes)?;
                node_action(action)
            }
            Self::QueueControl { queue, .. } | Self::DeleteQueue { queue } => name("queue", queue),
            Self::SetQueue { spec, .. } => queue(spec),
            Self::UseLicense { license, .. } => name("licence", license),
            Self::JoinToken { node, .. } => name("node", node),
            Self::Quote { ask, as_job, .. } => quoted(ask, as_job.as_deref()),
            Self::Reserve { ask, job, .. } => {
                asked(ask)?;
                job.as_deref().map_or(Ok(()), submission)
            }
            Self::CancelReservation { ids, .. } => {
                most("reservations", ids.len(), limits::IDS_IN_REQUEST)
            }
            Self::ShareReservation { change, .. } => sharing_changes(change),
            Self::AlterReservation { change, .. } => alteration(change),
            Self::Reservations { filter } => reservations(filter),
            Self::PlanFlow { spec } | Self::SubmitFlow { spec, .. } => flow(spec),
            Self::CancelFlow { ids } => most("workflows", ids.len(), limits::IDS_IN_REQUEST),
            Self::Flows { filter } => flows(filter),
            Self::Accounts { names: all } => names("accounts", all),
            Self::AccountControl { name: of, action } => {
                name("account", of)?;
                match action {
                    AccountAction::Create { members, .. } | AccountAction::Members(members) => {
                        names("members", members)
                    }
                    AccountAction::Grant(_)
                    | AccountAction::Withdraw(_)
                    | AccountAction::Remove => Ok(()),
                }
            }
            Self::Ledger { account, .. } => bounds_policy::optional("account", account.as_deref()),
            Self::Policy(query) => bounds_policy::query(query),
            Self::ChangePolicy { changes, .. } => bounds_policy::changes(changes),
        }
    }
}

/// What is to be done with nodes.
fn node_action(action: &NodeAction) -> Bounded {
    match action {
        NodeAction::Drain { reason }
        | NodeAction::Down { reason }
        | NodeAction::Revoke { reason } => text("reason", reason, limits::COMMENT_BYTES),
        NodeAction::Features { names: all } => names("features", all),
        NodeAction::Resume | NodeAction::PowerUp | NodeAction::PowerDown { .. } => Ok(()),
    }
}

fn trigger(spec: &TriggerSpec) -> Bounded {
    if let TriggerTarget::Nodes(all) = &spec.on {
        hosts("nodes", all)?;
    }
    bytes("program", &spec.program, limits::PATH_BYTES)?;
    bytes("environment", &spec.environment, limits::TRIGGER_ENVIRONMENT)
}

/// A filter of a list.
fn jobs(filter: &JobFilter) -> Bounded {
    let JobFilter {
        ids,
        users,
        queues,
        names: called,
        accounts,
        states,
        nodes,
        since: _,
        until: _,
        most: _,
        earlier_runs: _,
        pages: _,
        after: _,
    } = filter;
    most("ids", ids.len(), limits::IDS_IN_REQUEST)?;
    most("states", states.len(), limits::FILTER_NAMES)?;
    names("users", users)?;
    names("queues", queues)?;
    names("job names", called)?;
    names("accounts", accounts)?;
    hosts("nodes", nodes)
}

/// A filter of jobs that something is done to: it has no pages.
fn chosen(filter: &JobFilter) -> Bounded {
    if filter.pages || filter.after.is_some() {
        return Err(Refusal::invalid("only lists come in pages: name the jobs without one"));
    }
    jobs(filter)
}

fn submission(new: &Submission) -> Bounded {
    let ranges = new.array.as_ref().map_or(0, |array| array.ranges.len());
    most("ranges of an array", ranges, limits::ARRAY_TASKS as usize)?;
    spec(&new.spec)
}

/// Counts only: texts and meanings are judged with the submission.
fn spec(spec: &JobSpec) -> Bounded {
    most("dependencies", spec.dependencies.len(), limits::DEPENDENCIES)?;
    most("resource limits", spec.rlimits.len(), limits::RLIMITS)?;
    most("queues", spec.queues.len(), limits::DEPENDENCIES)?;
    most("licences", spec.licenses.iter().count(), limits::DEPENDENCIES)?;
    most("shares of the time limit", spec.mail.limit_shares.len(), limits::MAIL_SHARES)?;
    most("parts", spec.further_components.len(), limits::FURTHER_COMPONENTS)?;
    spec.components()
        .try_for_each(|component| request(component.request))
}

fn request(request: &ResourceRequest) -> Bounded {
    names("features", &request.features)?;
    groups(&request.any_features)?;
    groups(&request.same_features)?;
    groups(&request.prefer_features)?;
    counted(&request.counted_features)?;
    most("types of GPUs", request.gpu_types.iter().count(), limits::DEPENDENCIES)?;
    most("resources", request.other_per_node.iter().count(), limits::DEPENDENCIES)?;
    hosts("nodes", &request.require)?;
    hosts("nodes", &request.avoid)?;
    hosts("nodes", &request.prefer)?;
    let asked = &request.asked;
    let texts = [
        &asked.per_job,
        &asked.per_node,
        &asked.per_socket,
        &asked.per_task,
    ];
    let longest = texts.into_iter().map(String::len).max();
    most("bytes of a list of GPUs", longest.unwrap_or(0), limits::ASKED_BYTES)?;
    names("node sets", &request.sets)
}

fn groups(groups: &[Vec<String>]) -> Bounded {
    most("groups of features", groups.len(), limits::DEPENDENCIES)?;
    let all: usize = groups.iter().map(Vec::len).sum();
    most("features", all, limits::FILTER_NAMES)?;
    groups.iter().try_for_each(|group| names("features", group))
}

fn counted(all: &[CountedFeatures]) -> Bounded {
    most("numbers of nodes by feature", all.len(), limits::COUNTED_FEATURES)?;
    all.iter().try_for_each(|one| groups(&one.any))
}

fn changes(filter: &JobFilter, change: &JobChange) -> Bounded {
    chosen(filter)?;
    let lists = [&change.features, &change.sets];
    let lists = lists.into_iter().flatten();
    lists
        .into_iter()
        .try_for_each(|all| names("features or sets", all))?;
    let nodes = [
        &change.prefer,
        &change.avoid,
        &change.require,
        &change.keep_nodes,
    ];
    nodes
        .into_iter()
        .flatten()
        .try_for_each(|all| hosts("nodes", all))?;
    let grouped = [&change.any_features, &change.same_features];
    grouped
        .into_iter()
        .flatten()
        .try_for_each(|all| groups(all))?;
    change.counted_features.as_deref().map_or(Ok(()), counted)?;
    let length = |list: Option<usize>| list.unwrap_or(0);
    let dependencies = length(change.dependencies.as_ref().map(Vec::len));
    most("dependencies", dependencies, limits::DEPENDENCIES)?;
    let licenses = length(change.licenses.as_ref().map(|all| all.iter().count()));
    most("licences", licenses, limits::DEPENDENCIES)?;
    let other = length(change.other_per_node.as_ref().map(|all| all.iter().count()));
    most("resources", other, limits::DEPENDENCIES)?;
    let shares = length(change.mail.as_ref().map(|mail| mail.limit_shares.len()));
    most("shares of the time limit", shares, limits::MAIL_SHARES)
}

fn queue(spec: &QueueSpec) -> Bounded {
    name("queue", &spec.name)?;
    hosts("nodes", spec.nodes.as_deref().unwrap_or_default())?;
    for levels in [&spec.users, &spec.groups] {
        most("names in an access list", levels.len(), limits::ACCESS_NAMES)?;
        levels.keys().try_for_each(|one| name("access list", one))?;
    }
    let QueueAdmits {
        allow_accounts,
        deny_accounts,
        allow_qos,
        deny_qos,
        qos,
    } = &spec.admits;
    let allowed = [allow_accounts, allow_qos].into_iter().flatten();
    for list in allowed.chain([deny_accounts, deny_qos]) {
        most("accounts or qualities of service", list.len(), limits::ADMITTED)?;
        list.iter()
            .try_for_each(|one| name("account or quality of service", one))?;
    }
    qos.as_deref()
        .map_or(Ok(()), |qos| name("quality of service", qos))?;
    spec.mpi
        .as_deref()
        .map_or(Ok(()), |mpi| name("MPI plugin", mpi))
}

fn quoted(ask: &ReservationSpec, as_job: Option<&PlainTerms>) -> Bounded {
    asked(ask)?;
    let qos = as_job.and_then(|job| job.qos.as_ref());
    qos.map_or(Ok(()), |one| name("quality of service", one))
}

fn asked(ask: &ReservationSpec) -> Bounded {
    name("reservation", &ask.name)?;
    let known = [&ask.queue, &ask.account];
    known
        .into_iter()
        .flatten()
        .try_for_each(|one| name("queue or account", one))?;
    text("comment", &ask.comment, limits::COMMENT_BYTES)?;
    names("flags", &ask.flags)?;
    kept_licenses(&ask.licenses)?;
    if let Some(repeat) = &ask.repeat {
        text("rule", &repeat.rule, limits::COMMENT_BYTES)?;
        most("starts", repeat.starts.len(), limits::REPEATS)?;
    }
    let Sharing {
        users,
        groups,
        accounts,
    } = &ask.sharing;
    for all in [users, groups, accounts] {
        most("names of who may use it", all.len(), limits::SHARING)?;
        names("names of who may use it", all)?;
    }
    request(&ask.request)
}

fn alteration(change: &ReservationAlteration) -> Bounded {
    sharing_changes(&change.sharing)?;
    change.licenses.as_ref().map_or(Ok(()), kept_licenses)
}

fn kept_licenses(licenses: &CountedResources) -> Bounded {
    most("licences", licenses.iter().count(), limits::DEPENDENCIES)?;
    let mut licenses = licenses.iter();
    licenses.try_for_each(|(one, _)| name("licence", one))
}

fn sharing_changes(change: &SharingChange) -> Bounded {
    let all = [&change.users, &change.groups, &change.accounts];
    all.into_iter().try_for_each(sharing_change)
}

fn sharing_change(change: &NamesChange) -> Bounded {
    names("names that come", &change.add)?;
    names("names that leave", &change.remove)
}

fn reservations(filter: &ReservationFilter) -> Bounded {
    most("ids", filter.ids.len(), limits::IDS_IN_REQUEST)?;
    most("states", filter.states.len(), limits::FILTER_NAMES)?;
    names("users", &filter.users)
}

fn flows(filter: &FlowFilter) -> Bounded {
    most("ids", filter.ids.len(), limits::IDS_IN_REQUEST)?;
    names("users", &filter.users)
}

fn flow(flow: &FlowSpec) -> Bounded {
    most("tasks", flow.tasks.len(), limits::FLOW_TASKS)?;
    most("edges", flow.edges.len(), limits::FLOW_EDGES)?;
    most("speeds", flow.speeds.len(), limits::DEPENDENCIES)?;
    most("transfers", flow.transfers.len(), limits::DEPENDENCIES)?;
    most("resource limits", flow.rlimits.len(), limits::RLIMITS)?;
    text("comment", &flow.comment, limits::COMMENT_BYTES)?;
    flow.tasks.iter().try_for_each(|task| {
        most("estimates", task.estimates.len(), limits::DEPENDENCIES)?;
        spec(&task.spec)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OsText;
    use crate::api::JobRef;
    use crate::{JobId, Program};

    fn lists(filter: JobFilter) -> Request {
        Request::Jobs {
            filter,
            fields: vec![JobField::Id],
            fold_arrays: false,
        }
    }

    fn check(request: &Request, want: Option<&str>) {
        let got = request.check_bounds().map_err(|r| r.message);
        match (got, want) {
            (Ok(()), None) => {}
            (Err(said), Some(want)) => assert!(said.contains(want), "{said}"),
            (got, want) => panic!("{got:?} instead of {want:?}"),
        }
    }

    #[test]
    fn lists_are_bounded() {
        let many = |n: usize| vec!["x".to_owned(); n];
        let users = |n| JobFilter {
            users: many(n),
            ..JobFilter::default()
        };
        check(&lists(users(limits::FILTER_NAMES)), None);
        check(&lists(users(limits::FILTER_NAMES + 1)), Some("users"));
        check(&lists(users(500_000)), Some("500000 users"));
        check(
            &Request::Hold {
                filter: users(500_000),
                as_user: false,
            },
            Some("users"),
        );
        let long = JobFilter {
            names: vec!["x".repeat(1 << 20)],
            ..JobFilter::default()
        };
        check(&lists(long), Some("1048576 bytes"));
        let fields = vec![JobField::Command; 30_000];
        let filter = JobFilter::default();
        check(&Request::History { filter, fields }, Some("30000 columns"));
        check(
            &Request::Accounts {
                names: many(100_000),
            },
            Some("accounts"),
        );
    }

    #[test]
    fn only_lists_have_pages() {
        let filter = JobFilter {
            pages: true,
            ..JobFilter::default()
        };
        assert!(filter.is_empty());
        check(&lists(filter.clone()), None);
        check(&Request::Release { filter }, Some("pages"));
    }

    #[test]
    fn steps_name_jobs() {
        let jobs = |n: usize| Request::Steps {
            jobs: vec![
                JobRef {
                    job: JobId(1),
                    task: None
                };
                n
            ],
            pages: false,
            after: None,
        };
        check(&jobs(0), Some("no job"));
        check(&jobs(limits::STEP_JOBS), None);
        check(&jobs(limits::STEP_JOBS + 1), Some("1001 jobs"));
    }

    #[test]
    fn what_a_job_asks_for_is_bounded() {
        let submit = |change: &dyn Fn(&mut JobSpec)| {
            let mut spec = JobSpec::plain("x", Program::Allocation, OsText::from("/"));
            change(&mut spec);
            Request::Submit(Box::new(Submission {
                spec,
                script: OsText::default(),
                array: None,
            }))
        };
        check(&submit(&|_| {}), None);
        let groups = vec![vec!["a".to_owned(); 1000]; 1000];
        check(&submit(&|s| s.request.any_features.clone_from(&groups)), Some("features"));
        check(&submit(&|s| s.request.avoid = vec![String::new(); 200_000]), Some("200000 nodes"));
        check(&submit(&|s| s.mail.limit_shares = vec![50; 1 << 20]), Some("shares"));
    }
}
