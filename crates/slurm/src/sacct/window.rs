//! Whether a job was there, or in a state, between `-S` and `-E`. Source: sacct(1), "DEFAULT
//! TIME WINDOW" and `--state`; observed in 22.05.

use super::options::{PASSING, Query};
use super::rows::Row;
use crate::state::SlurmState;
use cosy_model::api::JobField as F;
use cosy_model::{Span, Time};

/// Whether the job of a record (the one about the whole job) is meant. A job is there from when
/// it may start to its end. It was waiting from then to its start, and running from that to its
/// end, whatever it is now; it came into all other states at its end.
pub fn fits(whole: &Row<'_>, query: &Query) -> bool {
    let since = query.since.unwrap_or(Time(i64::MIN));
    let until = query.until.unwrap_or(Time(i64::MAX));
    // Without an end what passes is looked at when the time begins.
    let then = match query.until {
        None if query.since.is_some() => since.max(Time(0)),
        Some(_) | None => until,
    };
    if query.states.is_empty() {
        return is_there(whole, since, until);
    }
    query.states.iter().any(|state| match state {
        SlurmState::Pending => waited(whole, since, then),
        SlurmState::Running => ran(whole, since, then),
        _ if PASSING.contains(state) => whole.state() == *state,
        _ => whole.state() == *state && ended(whole, since, until),
    })
}

/// Whether the job of a record passes all conditions beside those that the controller looks at.
pub fn is_meant(whole: &Row<'_>, query: &Query) -> bool {
    let job = &whole.job;
    let among = |list: &[String], text: &str| list.is_empty() || list.iter().any(|l| l == text);
    let within = |range: Option<(i64, i64)>, n: i64| {
        range.is_none_or(|(least, most)| (least..=most).contains(&n))
    };
    let group = |list: &[String]| {
        let gid = job.count(F::Gid);
        let name = job.around().groups.get(&gid);
        list.is_empty() || list.contains(&gid.to_string()) || name.is_some_and(|n| list.contains(n))
    };
    let limit = |range: Option<(Span, Span)>| {
        range.is_none_or(|(least, most)| job.limit().is_some_and(|l| (least..=most).contains(&l)))
    };
    let asked = job.text(F::Constraint);
    let reason = || job.reason().to_ascii_lowercase();
    fits(whole, query)
        && query.features.iter().all(|f| asked.contains(f.as_str()))
        && (query.reasons.is_empty()
            || query
                .reasons
                .iter()
                .any(|r| r.to_ascii_lowercase() == reason()))
        && limit(query.limit)
        && among(&query.qos, job.text(F::Qos))
        && among(&query.wckeys, job.text(F::Wckey))
        && within(query.node_count, whole.node_count())
        && within(query.core_count, whole.cores())
        && group(&query.groups)
}

/// When it could have started at the earliest; one that never could counts from its submission.
fn eligible(job: &Row<'_>) -> Option<Time> {
    job.job
        .time(F::Eligible)
        .or_else(|| job.job.time(F::Submit))
}

fn is_there(job: &Row<'_>, since: Time, until: Time) -> bool {
    eligible(job).is_none_or(|at| at < until) && job.end().is_none_or(|end| end >= since)
}

fn waited(job: &Row<'_>, since: Time, until: Time) -> bool {
    let over = job.start().or(job.end());
    eligible(job).is_none_or(|at| at <= until) && over.is_none_or(|over| over > since)
}

fn ran(job: &Row<'_>, since: Time, until: Time) -> bool {
    job.start().is_some_and(|start| start <= until) && job.end().is_none_or(|end| end >= since)
}

fn ended(job: &Row<'_>, since: Time, until: Time) -> bool {
    job.end().is_none_or(|end| end >= since && end <= until)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::table;
    use crate::job::{ClusterFacts, JobView};

    /// Could start at 100, started at 200, ended at 300.
    const OVER: &[(F, &str)] = &[
        (F::State, "completed"),
        (F::Submit, "50"),
        (F::Eligible, "100"),
        (F::Start, "200"),
        (F::End, "300"),
        (F::Nodes, "n1"),
    ];
    const RUNS: &[(F, &str)] = &[
        (F::State, "running"),
        (F::Submit, "50"),
        (F::Eligible, "100"),
        (F::Start, "200"),
        (F::Nodes, "n1"),
    ];
    const WAITS: &[(F, &str)] = &[(F::State, "waiting"), (F::Submit, "50")];

    #[test]
    fn windows() {
        use SlurmState::{Completed, Failed, Pending, Running};
        let check = |job: &[(F, &str)], states: &[SlurmState], window: (i64, i64), want: bool| {
            let table = table(&[job]);
            let around = ClusterFacts::default();
            let view = JobView::new(&table, 0, &around);
            let rows = Row::of_job(view, &[], &[], None, Time(1000));
            let query = Query {
                states: states.to_vec(),
                since: Some(Time(window.0)),
                until: (window.1 > 0).then_some(Time(window.1)),
                ..Query::default()
            };
            assert_eq!(fits(&rows[0], &query), want, "{job:?} {states:?} {window:?}");
        };
        // Without states: from when it could start to its end.
        check(OVER, &[], (0, 90), false);
        check(OVER, &[], (0, 150), true);
        check(OVER, &[], (300, 400), true);
        check(OVER, &[], (301, 400), false);
        check(WAITS, &[], (900, 0), true);
        // In a state that passes: then.
        check(OVER, &[Running], (210, 220), true);
        check(OVER, &[Running], (210, 0), true);
        check(OVER, &[Running], (100, 0), false);
        check(OVER, &[Running], (100, 150), false);
        check(OVER, &[Running], (301, 400), false);
        check(RUNS, &[Running], (900, 0), true);
        check(RUNS, &[Pending], (900, 0), false);
        check(OVER, &[Pending], (110, 120), true);
        check(OVER, &[Pending], (201, 400), false);
        check(WAITS, &[Pending], (900, 0), true);
        // Ended: within the time.
        check(OVER, &[Completed], (290, 310), true);
        check(OVER, &[Completed], (290, 0), true);
        check(OVER, &[Completed], (10, 290), false);
        check(OVER, &[Failed], (290, 310), false);
        check(OVER, &[Failed, Running], (250, 310), true);
    }
}
