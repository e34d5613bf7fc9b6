//! The life of reservations through the commands of ordinary users: held, confirmed,
//! lapsed, extended, shared, entered, given back; and what is refused, to whom and why.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::reservation::{ReservationInfo, ReservationState};
use cosy_model::{JobId, JobState, ReservationId};
use cosy_tests::people::{self, ANN, BOB, CAT};
use cosy_tests::{Cluster, Options, Output, resv, system, wait};
use std::fs;

/// No rule and no share stands in the way; holds last three seconds.
const RULES: &str = "[reservations]\nall_of = []\nhold = \"3s\"\n\
    [reservations.per_user]\nopen = 4\nshare = \"off\"\n";

fn cluster(nodes: usize, more: &str) -> Option<Cluster> {
    system::root_or_skip().then(|| {
        let options = Options {
            controller: format!("{RULES}{more}"),
            ..Options::default()
        };
        people::start(nodes, options)
    })
}

/// `cresv WORDS`, the words separated by spaces.
#[track_caller]
fn cresv(c: &Cluster, uid: u32, line: &str) -> Output {
    let words: Vec<&str> = ["cresv"].into_iter().chain(line.split(' ')).collect();
    c.run_as(uid, &words)
}

/// Takes one whole node: `how` is `hold` or `book`.
#[track_caller]
fn take(c: &Cluster, uid: u32, how: &str, when: &str) -> ReservationInfo {
    let line = format!("{how} -N 1 --exclusive --parsable {when}");
    c.reservation(cresv(c, uid, &line).id())
}

/// Refused with exit code 1 and one line that says `text`.
#[track_caller]
fn refused(c: &Cluster, uid: u32, line: &str, text: &str) {
    cresv(c, uid, line).expect(1).expect_refusal(text);
}

fn submit(c: &Cluster, uid: u32, within: ReservationId, words: &[&str]) -> Output {
    let id = within.to_string();
    let start = ["csub", "--parsable", "--reservation", &id];
    c.run_as(uid, &[&start, words].concat())
}

#[track_caller]
fn job(output: Output) -> JobId {
    JobId(output.expect(0).out.trim().parse().unwrap())
}

/// The controller's directory may know more than this host's: so it is told, and done.
#[test]
fn sharing_with_nobody_known_is_told() {
    let Some(c) = cluster(1, "") else {
        return;
    };
    let made = take(&c, ANN, "book", "--at now+1h -t 1h");
    let line =
        format!("share {} --share-users nosuchuser,root --share-groups nosuchgroup", made.id);
    let out = cresv(&c, ANN, &line).expect(0);
    let note = |kind: &str, name: &str| {
        format!(
            "cresv: there is no {kind} '{name}' on this host: it is shared with that name all the same\n"
        )
    };
    let want = note("user", "nosuchuser") + &note("group", "nosuchgroup");
    assert_eq!(out.err, want);
    // Who is taken off the list needs not be known.
    let line = format!("share {} --remove --share-users nosuchuser", made.id);
    assert_eq!(cresv(&c, ANN, &line).expect(0).err, "");
}

#[test]
fn in_two_phases() {
    let Some(c) = cluster(1, "") else {
        return;
    };
    let held = take(&c, ANN, "hold", "-t 1h --at now+2h");
    let id = held.id;
    assert_eq!(held.state, ReservationState::Held);
    assert_eq!(held.hold_until.unwrap().0 - held.made.0, 3000);
    refused(&c, BOB, &format!("confirm {id}"), "belongs to user ann");
    let said = cresv(&c, ANN, &format!("confirm {id}")).expect(0);
    assert!(said.out.contains(&format!("Booked reservation {id}")), "{said:?}");
    refused(&c, ANN, &format!("confirm {id}"), "is confirmed already");
    refused(&c, ANN, "confirm 99", "there is no reservation 99");
    // It is final: it is still there when the hold would have lapsed.
    wait::until_true("the hold would have lapsed", || resv::now() > held.hold_until.unwrap());
    assert_eq!(c.reservation(id).state, ReservationState::Confirmed);
    // Others see that the time is taken, and by whom, but nothing private.
    let taken = "-N 1 --exclusive -t 1h --at now+2h";
    refused(&c, BOB, &format!("book {taken}"), "not enough nodes are free");
    let seen = cresv(&c, BOB, "list --all --no-header").expect(0);
    assert!(seen.out.contains("ann") && seen.out.contains("confirmed"), "{seen:?}");
}

#[test]
fn holds_lapse() {
    let Some(c) = cluster(1, "") else { return };
    let held = take(&c, ANN, "hold", "-t 1h --at now+2h");
    // One at a time.
    let other = "hold -N 1 --exclusive -t 1h --at now+5h";
    let why =
        format!("1 of 1 holds of user ann are open: confirm or cancel reservation {}", held.id);
    refused(&c, ANN, other, &why);
    c.until_resv_state(held.id, ReservationState::Expired);
    refused(&c, ANN, &format!("confirm {}", held.id), "has expired");
    refused(&c, ANN, "hold -N 1 --exclusive -t 1h --at now+2h", "lapsed unconfirmed");
    // Another time may be held, and the slot is anybody's.
    let again = take(&c, ANN, "hold", "-t 1h --at now+5h");
    cresv(&c, ANN, &format!("cancel {}", again.id)).expect(0);
    take(&c, BOB, "book", "-t 1h --at now+2h");
}

#[test]
fn holds_lapse_over_a_crash() {
    let Some(mut c) = cluster(1, "") else { return };
    let held = take(&c, ANN, "hold", "-t 1h --at now+2h");
    c.cosyd.kill();
    wait::until_true("the hold has lapsed", || resv::now() > held.hold_until.unwrap());
    c.start_cosyd();
    c.until_resv_state(held.id, ReservationState::Expired);
    refused(&c, ANN, &format!("confirm {}", held.id), "has expired");
}

#[test]
fn given_back() {
    let Some(c) = cluster(1, "") else { return };
    fs::write(c.work().join("s.sh"), "#!/bin/sh\n: > ran\n").unwrap();
    let line = "book -N 1 --exclusive -t 1h --at now+2h --parsable s.sh";
    let id = cresv(&c, ANN, line).id();
    let attached = c.attached(id);
    assert_eq!(c.row(attached).state, JobState::Waiting);
    let done = cresv(&c, BOB, &format!("cancel {id}"));
    done.expect(1).expect_refusal("belongs to user ann");
    let done = cresv(&c, ANN, &format!("cancel {id}")).expect(0);
    assert_eq!(done.out, "Gave back 1 reservation.\n");
    assert_eq!(c.reservation(id).state, ReservationState::Cancelled);
    assert_eq!(c.until_end(attached).state, JobState::Cancelled);
    refused(&c, ANN, &format!("cancel {id}"), "is cancelled already");
    take(&c, BOB, "book", "-t 1h --at now+2h");
    assert!(!c.work().join("ran").exists());
}

#[test]
fn made_longer() {
    let Some(c) = cluster(1, "") else { return };
    let first = take(&c, ANN, "book", "-t 1h --at now+2h");
    let next = take(&c, BOB, "book", "-t 1h --at now+4h");
    refused(&c, BOB, &format!("extend {} --by 30m", first.id), "belongs to user ann");
    let words = format!("extend {} --by 30m", first.id);
    cresv(&c, ANN, &words).expect(0);
    let longer = c.reservation(first.id);
    assert_eq!(longer.start, first.start);
    assert_eq!(longer.end.0 - first.end.0, 30 * 60_000);
    // Now bob's is in the way.
    let words = format!("extend {} --by 40m", first.id);
    assert_eq!(cresv(&c, ANN, &words).code, 1);
    assert_eq!(c.reservation(first.id).end, longer.end);
    cresv(&c, BOB, &format!("cancel {}", next.id)).expect(0);
    cresv(&c, ANN, &words).expect(0);
    // Its quota of length counts from its start.
    let words = format!("extend {} --by 47h", first.id);
    refused(&c, ANN, &words, "quota");
}

#[test]
fn entered_by_jobs() {
    let Some(c) = cluster(2, "") else { return };
    let made = take(&c, ANN, "book", "--name course --nodelist n2 -t 12s --at now+6s");
    let inside = job(submit(&c, ANN, made.id, &["--", "sh", "-c", "date +%s%N > inside"]));
    let line = "trap '' TERM; sleep 1000; sleep 1000";
    let deaf = job(submit(&c, ANN, made.id, &["--", "sh", "-c", line]));
    let plain = [
        "csub",
        "--parsable",
        "--require",
        "n2",
        "--exclusive",
        "-t",
        "5",
        "--",
        "true",
    ];
    let outside = job(c.run_as(BOB, &plain));
    submit(&c, BOB, made.id, &["--", "true"]).expect_refusal("is not for user bob");
    submit(&c, ANN, made.id, &["-t", "1h", "--", "true"]).expect_refusal("does not fit");
    assert_eq!(c.row(inside).state, JobState::Waiting);
    // It begins, jobs enter, and the one from outside waits for the end.
    let row = c.until_end(inside);
    assert_eq!((row.outcome(), &*row.nodes), ((JobState::Completed, 0), "n2"));
    let began = resv::written_time(&c.work().join("inside")).unwrap();
    assert!(made.start <= began && began.0 < made.start.0 + 1000, "{began:?} {made:?}");
    c.until_state(deaf, JobState::Running);
    assert_eq!(c.row(outside).state, JobState::Waiting);
    // Whoever is still in it at its end is ended, by force if need be.
    let row = c.until_end(deaf);
    assert!(row.end.unwrap() <= made.end.0 + 1000, "{row:?} {made:?}");
    let row = c.until_end(outside);
    assert_eq!(row.outcome(), (JobState::Completed, 0));
    assert!(row.start.unwrap() >= made.end.0, "{row:?} {made:?}");
    c.until_resv_state(made.id, ReservationState::Ended);
    submit(&c, ANN, made.id, &["--", "true"]).expect_refusal("is ended");
}

#[test]
fn shared() {
    let Some(c) = cluster(1, "") else { return };
    let when = "-t 1h --soonest";
    let open = take(&c, ANN, "book", &format!("{when} --share-users bob --share-groups guests"));
    c.until_resv_state(open.id, ReservationState::Active);
    // Bob is named, cat is in the group.
    for uid in [BOB, CAT] {
        let inside = job(submit(&c, uid, open.id, &["-t", "1", "--", "true"]));
        assert_eq!(c.until_end(inside).outcome(), (JobState::Completed, 0));
    }
    cresv(&c, ANN, &format!("cancel {}", open.id)).expect(0);
    let own = take(&c, ANN, "book", when);
    for uid in [BOB, CAT] {
        submit(&c, uid, own.id, &["--", "true"]).expect_refusal("--share-users");
    }
}

#[test]
fn ends_by_a_deadline() {
    let Some(c) = cluster(1, "") else { return };
    let busy = job(c.run_as(
        BOB,
        &[
            "csub",
            "--parsable",
            "--exclusive",
            "-t",
            "20",
            "--",
            "sleep",
            "1000",
        ],
    ));
    c.until_state(busy, JobState::Running);
    fs::write(c.work().join("s.sh"), "#!/bin/sh\ndate +%s%N > began\n").unwrap();
    let line = "book -N 1 --exclusive -t 5m --finish-by now+1h --not-before now+1s --parsable s.sh";
    let id = cresv(&c, ANN, line).id();
    let made = c.reservation(id);
    // It ends at the deadline, until nodes come free.
    assert!(made.end.0 > made.made.0 + 59 * 60_000, "{made:?}");
    assert!(made.movable_from.is_some(), "{made:?}");
    c.run_as(BOB, &["ccancel", &busy.to_string()]).expect(0);
    let moved = c.until_reservation(id, "moved", |r| r.start < made.start);
    assert!(moved.note.contains("moved to an earlier start"), "{moved:?}");
    let began = wait::until("its script has run", || resv::written_time(&c.work().join("began")));
    assert!(began.0 < made.made.0 + 60_000, "{began:?} {moved:?}");
    // A deadline that cannot be kept is refused.
    let line = "book -N 1 --exclusive -t 2h --finish-by now+1h";
    cresv(&c, ANN, line).expect(2).expect_refusal("too short");
}

#[test]
fn nobody_came() {
    let more = "[queue.reservations]\nno_show = \"2s\"\n";
    if !system::root_or_skip() {
        return;
    }
    let queues = format!("[[queue]]\nname = \"main\"\ndefault = true\nnodes = \"n1\"\n{more}");
    let options = Options {
        controller: RULES.into(),
        queues: Some(queues),
        ..Options::default()
    };
    let c = people::start(1, options);
    c.run(&["cadm", "account", "create", "lab", "--budget", "100"])
        .expect(0);
    let made = take(&c, ANN, "book", "-t 1h --at now+2s");
    let over = c.until_resv_state(made.id, ReservationState::Unused);
    assert_eq!(over.charged, made.charged, "it stays charged");
    assert!(over.charged.0 > 0, "{over:?}");
    // The node is given back.
    let plain = [
        "csub",
        "--wait",
        "-Q",
        "--exclusive",
        "-t",
        "5",
        "--",
        "true",
    ];
    c.run_as(BOB, &plain).expect(0);
}

#[test]
fn what_cannot_be() {
    let Some(c) = cluster(1, "") else { return };
    let one = "-N 1 --exclusive";
    let check = |code: i32, line: &str, text: &str| {
        cresv(&c, ANN, &format!("book {one} {line}"))
            .expect(code)
            .expect_refusal(text);
    };
    check(2, "-t 1h", "when?");
    check(2, "-t 0 --at now+1h", "more than 0");
    check(2, "-t -5 --at now+1h", "");
    check(2, "-t 1h --at now-1h", "ago");
    check(2, "-t 1h --at 2099-01-01", "more than 10 years ahead");
    check(2, "-t 1h --from now+5h --until now+4h", "the window is empty");
    check(2, "-t 3h --from now+4h --until now+5h", "too short");
    check(2, "-t 1h --at now+1h --max-price -1", "no sum");
    check(2, "-t 1h --at now+1h --max-price 99999999999999", "no sum");
    check(1, "-t 49h --at now+1h", "quota");
    check(1, "-t 1h --at now+15d", "quota");
    check(1, "-t 1h --at now+1h -q nowhere", "nowhere");
    check(1, "-t 1h --at now+1h --nodelist n9", "n9");
    check(1, "-t 1h --at now+1h --max-price 3", "costs 4 SU, at most 3 SU");
    let many = "book -N 2 --exclusive -t 1h --at now+1h";
    assert_eq!(cresv(&c, ANN, many).code, 1);
    let none = cresv(&c, ANN, "list --no-header --ended").expect(0);
    assert_eq!(none.out, "", "nothing was booked");
    // Four are allowed, the fifth is not.
    for hours in [1, 3, 5, 7] {
        take(&c, ANN, "book", &format!("-t 1h --at now+{hours}h"));
    }
    check(1, "-t 1h --at now+9h", "user ann has 4 open reservations and may have 4");
    // No controller.
    let mut c = c;
    c.cosyd.kill();
    assert_eq!(cresv(&c, ANN, "list").code, 3);
}
