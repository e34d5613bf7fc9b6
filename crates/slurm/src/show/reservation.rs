//! `scontrol show reservation`: Cosy's reservations in Slurm's words.
//!
//! Slurm names a reservation by a text: the given name, or `USER_ID` without one. Source:
//! scontrol(1), captures of 22.05.

use super::{Sheet, clean, or_null};
use crate::times;
use cosy_model::CountedResources;
use cosy_model::reservation::{ReservationInfo, ReservationState, Sharing};
use cosy_view::words::counted;
use jiff::tz::TimeZone;

/// The name that it goes by: as given, or of its first user and number; one that the
/// controller has made (`resv2`) counts as none.
pub fn name(r: &ReservationInfo) -> String {
    let made = || r.name.is_empty() || r.name == format!("resv{}", r.id);
    if !r.name_given && made() {
        let user = r.sharing.users.first().unwrap_or(&r.user);
        clean(&format!("{user}_{}", r.id))
    } else {
        clean(&r.name)
    }
}

/// `ACTIVE` while its time is on, else `INACTIVE`.
pub const fn state(state: ReservationState) -> &'static str {
    match state {
        ReservationState::Active => "ACTIVE",
        ReservationState::Held
        | ReservationState::Confirmed
        | ReservationState::Ended
        | ReservationState::Cancelled
        | ReservationState::Expired
        | ReservationState::Unused
        | ReservationState::Failed => "INACTIVE",
    }
}

/// One reservation with all it has.
pub fn sheet(r: &ReservationInfo, zone: &TimeZone) -> Sheet {
    let ReservationInfo {
        user,
        queue,
        state,
        start,
        end,
        nodes,
        node_count,
        cores,
        licenses,
        sharing,
        named,
        // `name` and `flags` tell these.
        id: _,
        name: _,
        name_given: _,
        flags: _,
        rule: _,
        // Slurm has no words for what a reservation costs, how it is booked and what it does to
        // others.
        series: _,
        uid: _,
        usable: _,
        account: _,
        degraded: _,
        movable_from: _,
        hold_until: _,
        free_until: _,
        gpus: _,
        base: _,
        extra: _,
        charged: _,
        job: _,
        used_core_ms: _,
        delayed_jobs: _,
        total_delay: _,
        made: _,
        comment: _,
        note: _,
        preempts: _,
    } = r;
    let queue = if *named {
        "(null)".to_owned()
    } else {
        clean(queue)
    };
    let mut sheet = Sheet::new();
    sheet
        .line(format!(
            "ReservationName={} StartTime={} EndTime={} Duration={}",
            name(r),
            times::timestamp(*start, zone),
            times::timestamp(*end, zone),
            times::duration(end.since(*start))
        ))
        .line(format!(
            "Nodes={} NodeCnt={node_count} CoreCnt={cores} Features=(null) PartitionName={queue} Flags={}",
            or_null(&clean(nodes)),
            flags(r)
        ))
        .line(format!("TRES=cpu={cores}"))
        .line(who_may(user, sharing, licenses, self::state(*state)))
        .line("MaxStartDelay=(null)");
    sheet
}

/// Who may use it, which licences it keeps, and whether it is on.
fn who_may(owner: &str, sharing: &Sharing, licenses: &CountedResources, state: &str) -> String {
    let Sharing {
        users,
        groups,
        accounts,
    } = sharing;
    let list = |all: &[String]| or_null(&clean(&all.join(","))).to_owned();
    let users = match *sharing == Sharing::default() {
        true => clean(owner),
        false => list(users),
    };
    format!(
        "Users={users} Groups={} Accounts={} Licenses={} State={state} BurstBuffer=(null) Watts=n/a",
        list(groups),
        list(accounts),
        or_null(&clean(&counted::write(licenses))),
    )
}

/// In the order in which Slurm tells them.
const FLAGS: &[&str] = &[
    "MAINT",
    "FLEX",
    "OVERLAP",
    "IGNORE_JOBS",
    "HOURLY",
    "DAILY",
    "WEEKDAY",
    "WEEKEND",
    "WEEKLY",
    "SPEC_NODES",
    "ANY_NODES",
    "STATIC",
    "FIRST_CORES",
    "TIME_FLOAT",
    "REPLACE",
    "REPLACE_DOWN",
    "NO_HOLD_JOBS_AFTER_END",
    "MAGNETIC",
    "USER_DELETE",
];

fn flags(r: &ReservationInfo) -> String {
    flag_words(r).join(",")
}

/// Its flags as Slurm tells them, in that order.
pub fn flag_words(r: &ReservationInfo) -> Vec<&'static str> {
    let given = |flag: &str| r.flags.iter().any(|f| f == flag);
    let is_set = |flag: &str| match flag {
        "DAILY" if given("WEEKDAY") || given("WEEKEND") => false,
        "DAILY" => given(flag) || r.rule.contains("FREQ=DAILY"),
        "WEEKLY" => given(flag) || r.rule.contains("FREQ=WEEKLY"),
        "SPEC_NODES" => r.named,
        "STATIC" => given("STATIC_ALLOC"),
        "NO_HOLD_JOBS_AFTER_END" => given(flag) || given("NO_HOLD_JOBS_AFTER"),
        flag => given(flag),
    };
    let set = FLAGS.iter().filter(|flag| is_set(flag));
    set.copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{ReservationId, Span, Su, Time, Uid};

    fn r1() -> ReservationInfo {
        ReservationInfo {
            id: ReservationId(1),
            series: None,
            name: "r1".into(),
            name_given: true,
            user: "root".into(),
            uid: Uid(0),
            usable: true,
            account: None,
            queue: "main".into(),
            state: ReservationState::Confirmed,
            degraded: false,
            start: Time::from_secs(1_795_231_241),
            end: Time::from_secs(1_795_234_841),
            movable_from: None,
            hold_until: None,
            free_until: None,
            nodes: "n1".into(),
            node_count: 1,
            cores: 16,
            gpus: 0,
            licenses: Default::default(),
            base: Su::ZERO,
            extra: Su::ZERO,
            charged: Su::ZERO,
            sharing: Sharing::default(),
            job: None,
            used_core_ms: 0,
            delayed_jobs: 0,
            total_delay: Span::ZERO,
            made: Time(0),
            named: true,
            flags: Vec::new(),
            rule: String::new(),
            comment: String::new(),
            note: String::new(),
            preempts: Vec::new(),
        }
    }

    #[test]
    fn as_captured() {
        let want = "ReservationName=r1 StartTime=2026-11-21T03:20:41 \
            EndTime=2026-11-21T04:20:41 Duration=01:00:00\n   \
            Nodes=n1 NodeCnt=1 CoreCnt=16 Features=(null) PartitionName=(null) Flags=SPEC_NODES\n   \
            TRES=cpu=16\n   \
            Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE \
            BurstBuffer=(null) Watts=n/a\n   MaxStartDelay=(null)\n\n";
        assert_eq!(sheet(&r1(), &TimeZone::UTC).text(false), want);
    }

    #[test]
    fn names_and_users() {
        let mut r = r1();
        (r.name, r.state) = ("resv1".into(), ReservationState::Active);
        assert_eq!(name(&r), "resv1");
        r.name_given = false;
        r.named = false;
        r.sharing.users = vec!["root".into(), "ann".into()];
        r.rule = "FREQ=DAILY;COUNT=3".into();
        let text = sheet(&r, &TimeZone::UTC).text(true);
        for want in [
            "ReservationName=root_1 ",
            " PartitionName=main Flags=DAILY ",
            " Users=root,ann ",
            " State=ACTIVE ",
        ] {
            assert!(text.contains(want), "{want} in {text}");
        }
    }
}
