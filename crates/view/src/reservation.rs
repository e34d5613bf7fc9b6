//! What is shown of reservations.
//!
//! What the asking user may not see the controller has left out already; nothing is hidden here.

use crate::column::{Column, Details, Fields};
use crate::phrase;
use crate::value::{FieldValue, Tone};
use crate::words::counted;
use crate::words::room_makers::{in_words, room_makers};
use cosy_model::reservation::{ReservationInfo, ReservationState, Sharing};
use cosy_model::{Span, Su};

/// Which list of reservations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReservationList {
    /// Below the jobs of `cstat`.
    BesideJobs,
    /// `cresv list`: state, times, nodes, price.
    Plain,
    /// The same with their owners.
    WithUser,
    /// `cresv list --cost`: what they cost and what was used.
    Cost,
    /// What has just been made.
    Made,
    /// `chist --cost`: what they cost whom.
    Bill,
}

impl ReservationList {
    /// The columns of the list, from left to right.
    pub const fn columns(self) -> &'static [Column<ReservationInfo>] {
        match self {
            Self::BesideJobs => BESIDE_JOBS,
            Self::Plain => PLAIN,
            Self::WithUser => WITH_USER,
            Self::Cost => COST,
            Self::Made => MADE,
            Self::Bill => BILL,
        }
    }
}

type Reserved = Column<ReservationInfo>;

const ID: Reserved = Column::right("ID", |r| r.id.0.into());
const RESERVATION: Reserved = Column::right("RESERVATION", |r| r.id.0.into());
const NAME: Reserved = Reserved::left_cut("NAME", 6, |r| (&r.name).into()).leaves(6);
const USER: Reserved = Reserved::left_cut("USER", 6, |r| (&r.user).into()).leaves(5);
const QUEUE: Reserved = Reserved::left_cut("QUEUE", 5, |r| (&r.queue).into()).leaves(2);
const STATE: Reserved = Column::left("STATE", state);
const START: Reserved = Column::left("START", |r| r.start.into());
const END: Reserved = Column::left("END", |r| r.end.into());
const COUNT: Reserved = Reserved::right("COUNT", |r| r.node_count.into()).leaves(1);
const NODES: Reserved = Reserved::left_cut("NODES", 6, |r| (&r.nodes).into()).leaves(3);
const PRICE: Reserved = Column::right("PRICE", |r| FieldValue::Price(price(r)));
const JOB: Reserved = Column::left("JOB", |r| r.job.map(|job| job.0).into());
const NOTE: Reserved = Column::left_cut("NOTE", 8, |r| (&r.note).into());
const CHARGED: Reserved = Column::right("CHARGED", |r| r.charged.into());

const BESIDE_JOBS: &[Reserved] = &[
    RESERVATION,
    NAME,
    USER,
    QUEUE,
    STATE,
    START,
    END,
    Reserved::right("NODES", |r| r.node_count.into()).leaves(1),
    Reserved::left_cut("WHERE", 8, |r| (&r.nodes).into()).leaves(3),
];

const PLAIN: &[Reserved] = &[ID, NAME, STATE, START, END, COUNT, NODES, PRICE, JOB, NOTE];

const WITH_USER: &[Reserved] = &[
    ID, USER, NAME, STATE, START, END, COUNT, NODES, PRICE, JOB, NOTE,
];

const MADE: &[Reserved] = &[ID, NAME, STATE, START, END, COUNT, NODES, PRICE];

const COST: &[Reserved] = &[
    ID,
    NAME,
    STATE,
    START,
    END.leaves(4),
    Reserved::left_cut("ACCOUNT", 6, |r| r.account.as_deref().into()).leaves(3),
    Reserved::right("TIME", |r| FieldValue::Price(r.base)).leaves(1),
    Reserved::right("DELAY", |r| FieldValue::Price(r.extra)).leaves(2),
    PRICE,
    Reserved::right("CHARGED", |r| {
        r.account
            .as_ref()
            .map_or("-".into(), |_| FieldValue::Price(r.charged))
    })
    .leaves(5),
    Reserved::right("USED", used).leaves(0),
];

const BILL: &[Reserved] = &[
    RESERVATION,
    NAME,
    USER,
    Reserved::left_cut("ACCOUNT", 7, |r| r.account.as_deref().unwrap_or("-").into()).leaves(4),
    Reserved::left("STATE", |r| r.state.word().into()),
    START,
    END.leaves(3),
    Reserved::right("CORES", |r| r.cores.into()).leaves(0),
    Reserved::right("BASE", |r| r.base.into()).leaves(2),
    Reserved::right("EXTRA", |r| r.extra.into()).leaves(1),
    CHARGED,
    Reserved::right("USED", |r| percent_used(r).into()).leaves(7),
];

/// What it costs, whoever pays.
pub fn price(r: &ReservationInfo) -> Su {
    r.base.plus(r.extra)
}

/// The state; `degraded` behind it when nodes are missing.
pub fn state(r: &ReservationInfo) -> FieldValue<'_> {
    let tone = match r.state {
        _ if r.degraded => Tone::Wrong,
        ReservationState::Active => Tone::Active,
        ReservationState::Held | ReservationState::Confirmed => Tone::Waiting,
        ReservationState::Failed | ReservationState::Unused => Tone::Wrong,
        ReservationState::Ended | ReservationState::Cancelled | ReservationState::Expired => {
            Tone::Quiet
        }
    };
    let more = if r.degraded { " degraded" } else { "" };
    FieldValue::State(format!("{}{more}", r.state).into(), tone)
}

/// The share of the booked core time that jobs used, in whole percent, rounded down: `44 %`.
/// `None` where nothing is booked.
pub fn percent_used(r: &ReservationInfo) -> Option<String> {
    let booked = i128::from(r.cores) * i128::from(r.end.since(r.start).ms());
    let used = i128::from(r.used_core_ms.max(0)) * 100;
    used.checked_div(booked)
        .map(|percent| format!("{percent} %"))
}

/// The same, which nobody is told before there could be any use.
fn used(r: &ReservationInfo) -> FieldValue<'_> {
    match r.state {
        ReservationState::Held | ReservationState::Confirmed => FieldValue::Nothing,
        ReservationState::Active
        | ReservationState::Ended
        | ReservationState::Cancelled
        | ReservationState::Expired
        | ReservationState::Unused
        | ReservationState::Failed => percent_used(r).into(),
    }
}

/// Where it is: `n[1-4] (4 nodes, 64 cores)`.
pub fn place(r: &ReservationInfo) -> String {
    let nodes = phrase::count(r.node_count.into(), "node", "nodes");
    let cores = phrase::count(r.cores, "core", "cores");
    let gpus = match r.gpus {
        0 => String::new(),
        n => format!(", {}", phrase::count(n, "GPU", "GPUs")),
    };
    format!("{} ({nodes}, {cores}{gpus})", r.nodes)
}

/// All fields of a reservation that JSON tells.
pub fn fields(r: &ReservationInfo) -> Fields<'_> {
    let ReservationInfo {
        id,
        series,
        name,
        user,
        uid,
        usable,
        account,
        queue,
        state,
        degraded,
        nodes,
        base,
        extra,
        charged,
        sharing,
        job,
        used_core_ms,
        delayed_jobs,
        total_delay,
        rule,
        comment,
        note,
        preempts,
        // `amount_fields` tells these.
        node_count: _,
        cores: _,
        gpus: _,
        licenses: _,
        // `time_fields` tells these.
        start: _,
        end: _,
        movable_from: _,
        hold_until: _,
        free_until: _,
        made: _,
        // How it was asked for in Slurm's words, which its front ends alone tell.
        name_given: _,
        named: _,
        flags: _,
    } = r;
    let mut fields = vec![
        ("id", id.0.into()),
        ("series", series.map(|first| first.0).into()),
        ("name", name.into()),
        ("user", user.into()),
        ("uid", uid.0.into()),
        ("usable", (*usable).into()),
        ("account", account.as_ref().into()),
        ("queue", queue.into()),
        ("state", state.word().into()),
        ("degraded", (*degraded).into()),
        ("nodes", nodes.into()),
        ("base", (*base).into()),
        ("extra", (*extra).into()),
        ("charged", (*charged).into()),
        ("used_core_seconds", seconds(*used_core_ms)),
        ("job", job.map(|job| job.0).into()),
        ("delayed_jobs", (*delayed_jobs).into()),
        ("total_delay", (*total_delay).into()),
        ("rule", rule.into()),
        ("comment", comment.into()),
        ("note", note.into()),
        ("preempts", room_makers(preempts)),
    ];
    fields.extend(amount_fields(r).into_iter().chain(time_fields(r)));
    fields.extend(sharing_fields(sharing));
    fields
}

fn seconds<'a>(ms: i64) -> FieldValue<'a> {
    FieldValue::Real(ms as f64 / 1000.0)
}

fn amount_fields(r: &ReservationInfo) -> [(&'static str, FieldValue<'_>); 4] {
    [
        ("node_count", r.node_count.into()),
        ("cores", r.cores.into()),
        ("gpus", r.gpus.into()),
        ("licenses", counted::write(&r.licenses).into()),
    ]
}

fn time_fields(r: &ReservationInfo) -> [(&'static str, FieldValue<'_>); 6] {
    [
        ("start", r.start.into()),
        ("end", r.end.into()),
        ("movable_from", FieldValue::Time(r.movable_from)),
        ("hold_until", FieldValue::Time(r.hold_until)),
        ("free_until", FieldValue::Time(r.free_until)),
        ("made", r.made.into()),
    ]
}

fn sharing_fields(sharing: &Sharing) -> [(&'static str, FieldValue<'_>); 3] {
    let Sharing {
        users,
        groups,
        accounts,
    } = sharing;
    [
        ("users", FieldValue::texts(users)),
        ("groups", FieldValue::texts(groups)),
        ("accounts", FieldValue::texts(accounts)),
    ]
}

/// Everything that there is to say of one reservation.
pub fn details(r: &ReservationInfo) -> Details<'_> {
    let ReservationInfo {
        series,
        name,
        user,
        usable,
        account,
        queue,
        start,
        end,
        movable_from,
        hold_until,
        free_until,
        licenses,
        base,
        extra,
        charged,
        sharing,
        job,
        delayed_jobs,
        total_delay,
        made,
        rule,
        comment,
        note,
        preempts,
        // Its title has the id; `state`, `place` and `used` tell the others.
        id: _,
        state: _,
        degraded: _,
        nodes: _,
        node_count: _,
        cores: _,
        gpus: _,
        used_core_ms: _,
        // The user's name stands for him.
        uid: _,
        // How it was asked for in Slurm's words, which its front ends alone tell.
        name_given: _,
        named: _,
        flags: _,
    } = r;
    vec![
        ("name", name.into()),
        ("state", self::state(r)),
        ("note", note.into()),
        ("makes room", in_words(preempts).into()),
        ("owner", user.into()),
        ("shared with", shared_with(sharing).into()),
        ("you may use it", (*usable).into()),
        ("queue", queue.into()),
        ("time", FieldValue::Period(*start, *end)),
        ("length", end.since(*start).into()),
        ("movable from", FieldValue::Time(*movable_from)),
        ("nodes", place(r).into()),
        ("licences", counted::write(licenses).into()),
        ("job", job.map(|job| job.0).into()),
        ("held until", FieldValue::Time(*hold_until)),
        ("free to cancel until", FieldValue::Time(*free_until)),
        ("account", account.as_ref().into()),
        ("price", format!("{} SU: {base} time, {extra} delay", price(r)).into()),
        ("charged", account.as_ref().map(|_| format!("{charged} SU")).into()),
        ("used", used(r)),
        ("delays", delays(*delayed_jobs, *total_delay).into()),
        ("series", series.map(|first| first.0).into()),
        ("rule", rule.into()),
        ("made", (*made).into()),
        ("comment", comment.into()),
    ]
}

fn delays(jobs: u32, in_all: Span) -> String {
    match jobs {
        0 => "nobody when it was made".to_owned(),
        n => format!(
            "{} by {} in all when it was made",
            phrase::count(n.into(), "job", "jobs"),
            phrase::span(in_all)
        ),
    }
}

fn shared_with(sharing: &Sharing) -> String {
    let Sharing {
        users,
        groups,
        accounts,
    } = sharing;
    let each = [("users", users), ("groups", groups), ("accounts", accounts)];
    let named = each.iter().filter(|(_, names)| !names.is_empty());
    let named = named.map(|(what, names)| format!("{what} {}", names.join(", ")));
    named.collect::<Vec<_>>().join("; ")
}
