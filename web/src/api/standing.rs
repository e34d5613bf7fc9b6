//! What decides over one job beside its size: the shares of its user, and the limits of its account, its
//! quality of service and its queue with what is in use of each.

use super::values::job_ref;
use crate::problem::{Answer, Problem, Result};
use crate::site::{self, Site, SiteState};
use crate::who::Who;
use axum::extract::{Path, State};
use cosy_model::JobState;
use cosy_model::api::{JobField, JobFilter, QueueInfo, Reply, Request};
use cosy_model::policy::{
    AssociationInfo, AssociationUsage, LimitKey, LimitScope, Measure, PolicyAnswer, PolicyQuery,
    QosInfo,
};
use cosy_view::standing;
use serde_json::{Value as Json, json};

/// Accounts above that of a job whose limits are told.
const LEVELS: usize = 16;
/// Minutes are told of what is counted in seconds.
const SECONDS_OF_MINUTE: u64 = 60;

/// Whom a job belongs to.
struct Of {
    user: String,
    account: String,
    qos: String,
    queue: String,
}

/// The shares and limits that matter to a job.
pub async fn limits(State(site): SiteState, who: Who, Path(job): Path<String>) -> Result {
    let of = belongs(&site, &who, &job).await?;
    let queues = site.shared.queues(&site.cluster).await?;
    let mut rows = Vec::new();
    let queue = queues.iter().find(|queue| queue.spec.name == of.queue);
    rows.extend(queue.into_iter().flat_map(of_queue));
    let (associations, enforced) = associations(&site, &who, &of).await;
    rows.extend(associations.iter().flat_map(of_association));
    for qos in qos_of(&site, &who, &of.qos).await {
        rows.extend(of_qos(&qos));
    }
    Ok(Answer(json!({
        "user": of.user, "account": none_if_empty(&of.account), "qos": none_if_empty(&of.qos),
        "queue": of.queue, "standing": lines(&site, &who, &of).await, "limits": rows,
        "enforced": enforced,
    })))
}

fn none_if_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

async fn belongs(site: &Site, who: &Who, job: &str) -> Result<Of> {
    let reference = job_ref(job)?;
    let fields = vec![
        JobField::State,
        JobField::User,
        JobField::Account,
        JobField::Qos,
        JobField::Queue,
    ];
    let filter = JobFilter {
        ids: vec![reference],
        ..JobFilter::default()
    };
    let request = Request::Jobs {
        filter,
        fields,
        fold_arrays: true,
    };
    let Reply::Jobs(table) = site.cluster.ask(who.uid, request).await? else {
        return Err(Problem::unexpected());
    };
    if !table.is_sound() {
        return Err(Problem::unexpected());
    }
    let text = |field| table.text(0, field).to_owned();
    let over = || {
        let state = text(JobField::State).parse::<JobState>();
        state.is_ok_and(JobState::is_end)
    };
    if table.rows == 0 || over() {
        let message = format!("job {job} neither waits nor runs: nothing limits it");
        return Err(Problem::not_found(message));
    }
    Ok(Of {
        user: text(JobField::User),
        account: text(JobField::Account),
        qos: text(JobField::Qos),
        queue: text(JobField::Queue),
    })
}

/// What the controller does not tell this user is left out: the rest is of interest all the same.
async fn asked(site: &Site, who: &Who, query: PolicyQuery) -> Option<PolicyAnswer> {
    match site.cluster.ask(who.uid, Request::Policy(query)).await {
        Ok(Reply::Policy(answer)) => Some(answer),
        Ok(_) | Err(_) => None,
    }
}

/// Where the user stands with jobs of that account.
async fn lines(site: &Site, who: &Who, of: &Of) -> Vec<String> {
    let user = (of.user != who.name).then(|| of.user.clone());
    let query = PolicyQuery::Standing { user, more: None };
    let Some(PolicyAnswer::Standing(all)) = asked(site, who, query).await else {
        return Vec::new();
    };
    let here = all
        .iter()
        .filter(|one| one.account == of.account && (one.queue.is_empty() || one.queue == of.queue));
    let lines = here.flat_map(|one| standing::lines(one, site::now()));
    lines.map(|line| line.trim().to_owned()).collect()
}

/// The user in the account, then the account and those above it; and whether their limits bind, where
/// that is told.
async fn associations(site: &Site, who: &Who, of: &Of) -> (Vec<AssociationInfo>, Option<bool>) {
    let (mut all, mut enforced) = (Vec::new(), None);
    if of.account.is_empty() {
        return (all, enforced);
    }
    let query = |account: &str, users: Vec<String>| PolicyQuery::Associations {
        accounts: vec![account.to_owned()],
        users,
        usage: true,
        skip: 0,
    };
    let mine = query(&of.account, vec![of.user.clone()]);
    if let Some(PolicyAnswer::Associations { rows, .. }) = asked(site, who, mine).await {
        let queue = Some(of.queue.as_str());
        let fits =
            |row: &AssociationInfo| row.key.queue.is_none() || row.key.queue.as_deref() == queue;
        all.extend(rows.into_iter().filter(fits));
    }
    let mut account = of.account.clone();
    for _ in 0..LEVELS {
        let above = asked(site, who, query(&account, Vec::new())).await;
        let Some(PolicyAnswer::Associations { rows, enforce, .. }) = above else {
            break;
        };
        enforced = Some(enforce.limits);
        let Some(row) = rows.into_iter().find(|row| row.key.user.is_none()) else {
            break;
        };
        account.clone_from(&row.parent);
        all.push(row);
        if account.is_empty() {
            break;
        }
    }
    (all, enforced)
}

async fn qos_of(site: &Site, who: &Who, name: &str) -> Vec<QosInfo> {
    if name.is_empty() {
        return Vec::new();
    }
    let query = PolicyQuery::Qos {
        names: vec![name.to_owned()],
        usage: true,
    };
    match asked(site, who, query).await {
        Some(PolicyAnswer::Qos(all)) => all,
        _ => Vec::new(),
    }
}

fn row(of: &str, limit: &str, most: u64, used: Option<u64>, unit: &str) -> Json {
    json!({ "of": of, "limit": limit, "most": most, "used": used, "unit": unit })
}

fn of_queue(queue: &QueueInfo) -> Vec<Json> {
    let spec = &queue.spec;
    let of = format!("queue {}", spec.name);
    let jobs = u64::from(queue.waiting) + u64::from(queue.running);
    let minutes =
        |span: cosy_model::Span| u64::try_from(span.secs()).unwrap_or(0) / SECONDS_OF_MINUTE;
    let time = spec
        .max_time
        .filter(|time| !time.is_unlimited())
        .map(minutes);
    let all = [
        ("time limit of a job", time, None, "min"),
        ("nodes of a job", spec.max_nodes.map(u64::from), None, ""),
        ("memory of a job on a node", spec.max_memory.map(|most| most.0), None, "MiB"),
        ("jobs of all users", spec.max_jobs.map(u64::from), Some(jobs), ""),
        ("jobs of each user", spec.max_jobs_per_user.map(u64::from), None, ""),
    ];
    let set = all
        .into_iter()
        .filter_map(|(limit, most, used, unit)| Some(row(&of, limit, most?, used, unit)));
    set.collect()
}

fn of_association(info: &AssociationInfo) -> Vec<Json> {
    let key = &info.key;
    let of = match (&key.user, &key.queue) {
        (None, _) => format!("account {}", key.account),
        (Some(user), None) => format!("{user} in {}", key.account),
        (Some(user), Some(queue)) => format!("{user} in {}, queue {queue}", key.account),
    };
    let own = info.own.limits.iter();
    own.map(|(limit, most)| limited(&of, limit, most, info.usage.as_ref()))
        .collect()
}

fn of_qos(info: &QosInfo) -> Vec<Json> {
    let of = format!("quality of service {}", info.record.name);
    let all = info.record.limits.iter();
    all.map(|(limit, most)| {
        // What is counted of it is of all users together.
        let usage = info.usage.as_ref();
        let whole = usage.filter(|_| limit.kind.scope() == LimitScope::Group);
        limited(&of, limit, most, whole)
    })
    .collect()
}

fn limited(of: &str, limit: &LimitKey, most: u64, usage: Option<&AssociationUsage>) -> Json {
    let unit = match limit.kind.measure() {
        Measure::Wall => "min",
        Measure::TresMinutes | Measure::TresRunMinutes => "amount min",
        _ => "",
    };
    row(of, &limit.to_string(), most, usage.and_then(|usage| used(limit, usage)), unit)
}

/// So much is in use of what a limit counts; nothing where it is of each job.
fn used(limit: &LimitKey, usage: &AssociationUsage) -> Option<u64> {
    if !matches!(limit.kind.scope(), LimitScope::Group | LimitScope::User) {
        return None;
    }
    let of = |all: &std::collections::BTreeMap<cosy_model::policy::Tres, u64>| {
        let tres = limit.tres.as_ref()?;
        Some(all.get(tres).copied().unwrap_or(0))
    };
    match limit.kind.measure() {
        Measure::Jobs => Some(usage.running.into()),
        Measure::JobsAccrue => Some(usage.accruing.into()),
        Measure::SubmitJobs => Some(usage.submitted.into()),
        Measure::Tres => of(&usage.held),
        Measure::TresMinutes => of(&usage.used_seconds).map(|n| n / SECONDS_OF_MINUTE),
        Measure::TresRunMinutes => of(&usage.run_seconds).map(|n| n / SECONDS_OF_MINUTE),
        Measure::Wall => Some(usage.wall_seconds / SECONDS_OF_MINUTE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::policy::Tres;
    use std::collections::BTreeMap;

    #[test]
    fn what_is_in_use_of_a_limit() {
        let usage = AssociationUsage {
            running: 3,
            submitted: 7,
            held: BTreeMap::from([(Tres::Cpu, 12)]),
            used_seconds: BTreeMap::from([(Tres::Cpu, 6000)]),
            wall_seconds: 600,
            ..AssociationUsage::default()
        };
        let check = |limit: &str, want: Option<u64>| {
            let key: LimitKey = limit.parse().unwrap();
            assert_eq!(used(&key, &usage), want, "{limit}");
        };
        check("GrpJobs", Some(3));
        check("MaxJobs", Some(3));
        check("GrpSubmitJobs", Some(7));
        check("GrpTRES=cpu", Some(12));
        check("GrpTRES=mem", Some(0));
        check("GrpTRESMins=cpu", Some(100));
        check("GrpWall", Some(10));
        check("MaxWall", None);
        check("MaxTRESPerJob=cpu", None);
    }

    #[test]
    fn limits_of_a_queue() {
        let mut queue = QueueInfo {
            waiting: 4,
            running: 1,
            ..QueueInfo::default()
        };
        assert_eq!(of_queue(&queue), Vec::<Json>::new());
        queue.spec.name = "main".into();
        queue.spec.max_time = Some(cosy_model::Span::from_minutes(90));
        queue.spec.max_jobs = Some(10);
        let told = of_queue(&queue);
        assert_eq!(told[0]["of"], "queue main");
        assert_eq!((&told[0]["most"], &told[0]["unit"]), (&json!(90), &json!("min")));
        assert_eq!((&told[1]["most"], &told[1]["used"]), (&json!(10), &json!(5)));
    }
}
