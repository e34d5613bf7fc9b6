//! What there is to choose from: names and numbers that the controller is asked for.
//!
//! Whatever goes wrong, there is nothing to choose from: nobody who presses a key wants to read of
//! it.

use super::grammar::Kind;
use cosy_client::Caller;
use cosy_model::JobState;
use cosy_model::api::{JobField, JobFilter, NodeInfo, QueueInfo, Reply, Request, Table};
use cosy_model::reservation::{ReservationFilter, ReservationInfo};
use cosy_model::workflow::FlowFilter;

/// How many are told at most.
pub const MOST: usize = 200;
/// So many own jobs are looked through at most.
const JOBS: u32 = 2000;
/// So many ended jobs are told at most.
const ENDED_JOBS: u32 = 50;
/// Longest description.
const DESCRIPTION: usize = 60;
/// Something to choose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// What is put on the command line.
    pub value: String,
    /// What is told of it.
    pub about: String,
}

/// All that begin with `begun`.
pub fn of(kinds: &[Kind], begun: &str) -> Vec<Candidate> {
    let mut caller = None;
    let mut all: Vec<Candidate> = Vec::new();
    for kind in kinds {
        for one in of_kind(kind, &mut caller) {
            let new = || all.iter().all(|other| other.value != one.value);
            if all.len() < MOST && is_harmless(&one.value) && one.value.starts_with(begun) && new()
            {
                let about = one.about.chars().map(crate::output::harmless);
                let about = about.take(DESCRIPTION).collect();
                all.push(Candidate { about, ..one });
            }
        }
    }
    all
}

/// It means itself to every shell, wherever it stands, and is no option.
fn is_harmless(value: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "_-.,:+@%/=".contains(c);
    value.chars().all(plain) && value.starts_with(|c: char| c.is_alphanumeric() || "_-".contains(c))
}

fn of_kind(kind: &Kind, caller: &mut Option<Caller>) -> Vec<Candidate> {
    let found = match kind {
        Kind::Words(words) => {
            let word = |(value, about): &(String, String)| candidate(value, about.clone());
            return words.iter().map(word).collect();
        }
        Kind::Queue => queues(caller),
        Kind::LiveJob => live_jobs(caller),
        Kind::Job => jobs(caller),
        Kind::Reservation => reservations(caller).map(|all| all.iter().map(by_id).collect()),
        Kind::ReservationName => reservations(caller).map(|all| all.iter().map(by_name).collect()),
        Kind::Node => nodes(caller),
        Kind::Flow => flows(caller),
        Kind::Account => accounts(caller),
        Kind::Free
        | Kind::User
        | Kind::File
        | Kind::Folder
        | Kind::Program
        | Kind::Pairs(_)
        | Kind::OneOf(_) => None,
    };
    found.unwrap_or_default()
}

fn candidate(value: &str, about: String) -> Candidate {
    let value = value.to_owned();
    Candidate { value, about }
}

fn ask(caller: &mut Option<Caller>, request: Request) -> Option<Reply> {
    let caller = caller.get_or_insert_with(crate::quick::caller);
    caller.ask(request).ok()
}

fn queues(caller: &mut Option<Caller>) -> Option<Vec<Candidate>> {
    let Reply::Queues(all) = ask(caller, Request::Queues)? else {
        return None;
    };
    let about = |q: &QueueInfo| {
        let default = if q.default { "default, " } else { "" };
        format!("{default}{} of {} cores busy, {} jobs waiting", q.cores_used, q.cores, q.waiting)
    };
    let mut all: Vec<_> = all
        .iter()
        .map(|q| (!q.default, candidate(&q.spec.name, about(q))))
        .collect();
    all.sort_by_key(|(other, _)| *other);
    Some(all.into_iter().map(|(_, queue)| queue).collect())
}

fn live_jobs(caller: &mut Option<Caller>) -> Option<Vec<Candidate>> {
    let states = JobState::ALL.into_iter().filter(|s| !s.is_end()).collect();
    let filter = JobFilter {
        states,
        ..own_jobs(JOBS)
    };
    let request = Request::Jobs {
        filter,
        fields: JOB_FIELDS.to_vec(),
        fold_arrays: true,
    };
    match ask(caller, request)? {
        Reply::Jobs(table) => Some(jobs_of(&table)),
        _ => None,
    }
}

/// Those that live, then those that ended last.
fn jobs(caller: &mut Option<Caller>) -> Option<Vec<Candidate>> {
    let mut all = live_jobs(caller)?;
    let request = Request::History {
        filter: own_jobs(ENDED_JOBS),
        fields: JOB_FIELDS.to_vec(),
    };
    if let Some(Reply::Jobs(table)) = ask(caller, request) {
        all.extend(jobs_of(&table).into_iter().rev());
    }
    Some(all)
}

const JOB_FIELDS: [JobField; 3] = [JobField::Ref, JobField::Name, JobField::State];

/// One page of own jobs.
fn own_jobs(most: u32) -> JobFilter {
    JobFilter {
        users: vec![rustix::process::getuid().as_raw().to_string()],
        most: Some(most),
        pages: true,
        ..JobFilter::default()
    }
}

fn jobs_of(table: &Table) -> Vec<Candidate> {
    let text = |row, field| table.text(row, field);
    let job = |row| {
        let id = text(row, JobField::Ref);
        // Tasks that wait together are told by the id of their array.
        let id = id.split_once("_[").map_or(id, |(array, _)| array);
        candidate(id, format!("{} {}", text(row, JobField::State), text(row, JobField::Name)))
    };
    (0..table.rows).map(job).collect()
}

/// Those that the user made or may use.
fn reservations(caller: &mut Option<Caller>) -> Option<Vec<ReservationInfo>> {
    let filter = ReservationFilter::default();
    let Reply::Reservations(mut all) = ask(caller, Request::Reservations { filter })? else {
        return None;
    };
    let own = rustix::process::getuid().as_raw();
    all.retain(|r| r.usable || r.uid.0 == own);
    all.sort_by_key(|r| (r.start, r.id));
    Some(all)
}

fn by_id(r: &ReservationInfo) -> Candidate {
    candidate(&r.id.to_string(), format!("{} {} on {}", r.state.word(), r.name, r.nodes))
}

fn by_name(r: &ReservationInfo) -> Candidate {
    candidate(&r.name, format!("{} on {}", r.state.word(), r.nodes))
}

fn nodes(caller: &mut Option<Caller>) -> Option<Vec<Candidate>> {
    let Reply::Nodes(all) = ask(caller, Request::Nodes)? else {
        return None;
    };
    let node = |n: &NodeInfo| {
        candidate(
            &n.name,
            format!("{}, {} of {} cores busy", n.state, n.used.cores, n.amounts.cores),
        )
    };
    Some(all.iter().map(node).collect())
}

fn flows(caller: &mut Option<Caller>) -> Option<Vec<Candidate>> {
    let filter = FlowFilter {
        users: vec![rustix::process::getuid().as_raw().to_string()],
        ..FlowFilter::default()
    };
    let Reply::Flows(all) = ask(caller, Request::Flows { filter })? else {
        return None;
    };
    let flow = |f: &cosy_model::workflow::FlowInfo| {
        candidate(&f.id.to_string(), format!("{} {}", f.state.word(), f.name))
    };
    Some(all.iter().map(flow).collect())
}

fn accounts(caller: &mut Option<Caller>) -> Option<Vec<Candidate>> {
    let names = Vec::new();
    match ask(caller, Request::Accounts { names })? {
        Reply::Accounts(all) => Some(
            all.iter()
                .map(|a| candidate(&a.name, String::new()))
                .collect(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_shell_takes_for_more() {
        let words = [
            "gpu",
            "a b",
            "x;y",
            "$(x)",
            "a'b",
            "-",
            "n\u{1b}[2J",
            "~root",
            "b*",
            "\u{8ba1}",
        ];
        let kind = super::super::grammar::words(words);
        let got = of(std::slice::from_ref(&kind), "");
        let values: Vec<&str> = got.iter().map(|c| c.value.as_str()).collect();
        assert_eq!(values, ["gpu", "-", "\u{8ba1}"]);
        assert_eq!(of(&[kind], "g").len(), 1);
    }

    #[test]
    fn not_more_than_fit() {
        let words: Vec<String> = (0..2 * MOST).map(|n| format!("n{n}")).collect();
        let kind = super::super::grammar::words(words.iter().map(String::as_str));
        assert_eq!(of(&[kind], "").len(), MOST);
    }
}
