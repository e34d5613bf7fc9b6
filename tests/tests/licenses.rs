//! Licences with real daemons and Slurm's commands: what is in use outside of the cluster, told with
//! `cadm license use`, what waits for it, and what is left of it after the controller was killed.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::reservation::ReservationState;
use cosy_model::{JobId, JobState};
use cosy_tests::people::{self, ANN, BOB};
use cosy_tests::{Cluster, Options, Output, run, system};

/// A job that runs until it is cancelled.
#[track_caller]
fn submit(c: &Cluster, licenses: &str) -> JobId {
    let words = [
        "sbatch",
        "--parsable",
        "-o",
        "/dev/null",
        "-n1",
        "-L",
        licenses,
        "--wrap",
    ];
    let output = c.run(&[&words[..], &["sleep 1000"]].concat()).expect(0);
    JobId(output.out.trim().parse().unwrap())
}

#[track_caller]
fn prints(c: &Cluster, line: &str, want: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(c.run(&words).expect(0).out, want, "{line}");
}

#[track_caller]
fn is_refused(c: &Cluster, line: &str, want: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let told = c.run(&words);
    assert!(told.code != 0 && told.err.contains(want), "{line}: {} {}", told.code, told.err);
}

#[test]
fn licences_that_others_have_are_not_there_for_jobs() {
    let options = Options {
        head: "[licenses]\nlic = 3\nother = 1\n".to_owned(),
        ..Options::default()
    };
    let mut c = Cluster::start(1, options);
    let first = submit(&c, "lic");
    c.until_state(first, JobState::Running);
    prints(&c, "cadm license use lic 3", "");
    let shown = |used: u32, free: u32| {
        format!("LicenseName=lic Total=3 Used={used} Free={free} Reserved=0 Remote=no\n")
    };
    prints(&c, "scontrol -o show lic lic", &shown(1, 0));
    let second = submit(&c, "lic:2");
    c.until(second, "waiting for licences", |row| row.reason == "licenses");
    let waits = |c: &Cluster| {
        prints(c, &format!("squeue -h -j {second} -o %t|%r"), "PD|Licenses\n");
        let why = c.run(&["cstat", &second.to_string()]).expect(0).out;
        let sentence = "of the 3 licences 'lic' 1 are in use and 2 outside of the cluster, \
            and it wants 2";
        assert!(why.contains(sentence), "{why}");
    };
    waits(&c);

    c.cosyd.kill();
    c.start_cosyd();
    let before = c.until_state(first, JobState::Running);
    waits(&c);
    prints(&c, "scontrol -o show lic lic", &shown(1, 0));
    is_refused(&c, "cadm license use lid 1", "there is no licence 'lid': 'lic' is one");
    is_refused(&c, "cadm license show lid", "there is no licence 'lid': 'lic' is one");
    is_refused(&c, "cadm license use lic -1", "a whole number from 0 to 4294967295 is needed");
    is_refused(&c, "cadm license use lic 5000000000", "a whole number from 0 to 4294967295");
    let mut user = c.command(&["cadm", "license", "use", "lic", "0"]);
    let told = run::run(user.env("COSY_AS_USER", "1"));
    assert!(told.err.contains("only administrators may tell"), "{}", told.err);
    waits(&c);
    let list = c.run(&["cadm", "license", "list", "--json"]).expect(0).out;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let one = &list["licenses"][0];
    let figures = ["total", "used", "outside", "free", "told_in_use"].map(|of| one[of].as_u64());
    assert_eq!(figures, [3, 1, 2, 0, 3].map(Some), "{list}");
    let show = c.run(&["cadm", "license", "show", "other"]).expect(0).out;
    assert!(show.starts_with("licence other\n") && !show.contains("told"), "{show}");

    // Those of others come back: the job starts, and the running one has gone on all the time.
    prints(&c, "cadm license use lic 1", "");
    c.until_state(second, JobState::Running);
    prints(&c, "scontrol -o show lic lic", &shown(3, 0));
    prints(&c, "cadm license use lic 30", "");
    prints(&c, "scontrol -o show lic lic", &shown(3, 0));
    let now = c.until_state(first, JobState::Running);
    assert_eq!((now.attempt, now.start), (before.attempt, before.start));
    let events = c.run(&["cadm", "events"]).expect(0).out;
    let told = "license lic in_use 3 in use, 2 of them outside of the cluster, of 3 (";
    assert!(events.contains(told), "{events}");
    for job in [first, second] {
        c.cancel(job);
        c.until_end(job);
    }
}

/// A licence of the cluster that one job gives back starts the next.
#[test]
fn a_job_waits_for_a_licence_until_another_gives_it_back() {
    let options = Options {
        head: "[licenses]\nlic = 1\nother = 1\n".to_owned(),
        ..Options::default()
    };
    let c = Cluster::start(1, options);
    let first = submit(&c, "lic");
    c.until_state(first, JobState::Running);
    let second = submit(&c, "other,lic");
    c.until(second, "waiting for licences", |row| row.reason == "licenses");
    prints(&c, &format!("squeue -h -j {second} -o %t|%r|%W"), "PD|Licenses|lic:1,other:1\n");
    let why = c.run(&["cstat", &second.to_string()]).expect(0).out;
    assert!(why.contains("1 licences 'lic'"), "{why}");
    is_refused(&c, "sbatch -L nothing --wrap true", "Invalid license specification");
    c.cancel(first);
    c.until_end(first);
    c.until_state(second, JobState::Running);
    prints(
        &c,
        "scontrol -o show lic other",
        "LicenseName=other Total=1 Used=1 Free=0 Reserved=0 Remote=no\n",
    );
    c.cancel(second);
    c.until_end(second);
    prints(
        &c,
        "scontrol -o show lic lic",
        "LicenseName=lic Total=1 Used=0 Free=1 Reserved=0 Remote=no\n",
    );
}

/// No rule and no share stands in the way; a licence for an hour costs 36 SU.
const RULES: &str = "[reservations]\nall_of = []\nlicense_hour = { lic = 36 }\n\
    [reservations.per_user]\nopen = 4\nshare = \"off\"\n";

#[track_caller]
fn of_user(c: &Cluster, uid: u32, line: &str) -> Output {
    c.run_as(uid, &line.split(' ').collect::<Vec<_>>())
}

#[track_caller]
fn job_of(c: &Cluster, uid: u32, line: &str) -> JobId {
    let line = format!("csub --parsable -n 1 -o /dev/null {line} -- sleep 1000");
    JobId(of_user(c, uid, &line).expect(0).out.trim().parse().unwrap())
}

/// Ann books a node and two licences: bob, who is outside, does not get them, her jobs do, and that is
/// shown by all commands; also after the controller was killed.
#[test]
fn a_reservation_keeps_licences() {
    if !system::root_or_skip() {
        return;
    }
    let options = Options {
        head: "[licenses]\nlic = 3\n".to_owned(),
        controller: RULES.to_owned(),
        ..Options::default()
    };
    let mut c = people::start(2, options);
    let slot = "-N 1 --exclusive -t 10";
    let quote = of_user(&c, ANN, &format!("cresv quote {slot} -L lic:2 --at now+1h"));
    let text = quote.expect(0).out;
    let sentence = "It keeps the licences lic:2: 12 SU of what the time costs.\n";
    assert!(text.contains(sentence), "{text}");
    let refused = |c: &Cluster, line: &str, code: i32, want: &str| {
        let told = of_user(c, BOB, &format!("cresv book {slot} {line}")).expect(code);
        assert!(told.err.contains(want), "{line}: {}", told.err);
    };
    refused(&c, "--soonest -L lid", 1, "there is no licence 'lid': 'lic' is one");
    refused(&c, "--soonest -L lic:4", 1, "4 licences 'lic' are more than the 3 there are");
    refused(&c, "--soonest -L lic:x", 2, "names and numbers are needed, like matlab:2,ansys");

    let book = format!("cresv book {slot} --licenses lic:2 --soonest --parsable");
    let id = of_user(&c, ANN, &book).id();
    c.until_resv_state(id, ReservationState::Active);
    refused(&c, "--at now+1m -L lic:2", 1, "not enough licences 'lic' are free from");
    let show = of_user(&c, BOB, &format!("cresv show {id}")).expect(0).out;
    let line = show
        .lines()
        .find(|line| line.trim_start().starts_with("licences"));
    assert!(line.is_some_and(|line| line.ends_with(" lic:2")), "{show}");
    let json = of_user(&c, BOB, &format!("cresv show {id} --json"))
        .expect(0)
        .out;
    assert!(json.contains("\"licenses\": \"lic:2\""), "{json}");
    let sheet = c
        .run(&["scontrol", "-o", "show", "reservation"])
        .expect(0)
        .out;
    assert!(sheet.contains(" Licenses=lic:2 State=ACTIVE"), "{sheet}");
    let shown = |c: &Cluster, used: u32, free: u32, reserved: u32| {
        let want = format!(
            "LicenseName=lic Total=3 Used={used} Free={free} Reserved={reserved} Remote=no\n"
        );
        prints(c, "scontrol -o show lic lic", &want);
    };
    shown(&c, 0, 1, 2);

    let outside = job_of(&c, BOB, "-t 60 --licenses lic:2");
    c.until(outside, "waiting for licences", |row| row.reason == "licenses");
    let inside = job_of(&c, ANN, &format!("--reservation {id} -L lic:2"));
    c.until_state(inside, JobState::Running);
    shown(&c, 2, 1, 2);
    c.cosyd.kill();
    c.start_cosyd();
    c.until_state(inside, JobState::Running);
    shown(&c, 2, 1, 2);
    c.until(outside, "waiting for licences", |row| row.reason == "licenses");
    let list = c.run(&["cadm", "license", "list", "--json"]).expect(0).out;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let one = &list["licenses"][0];
    let figures = ["used", "reserved", "reserved_in_use", "free"].map(|of| one[of].as_u64());
    assert_eq!(figures, [2, 2, 2, 1].map(Some), "{list}");

    // Slurm's words for the same, of an administrator.
    let create = "scontrol create reservation reservationname=course starttime=now+1day \
        duration=30 users=root nodecnt=1";
    prints(&c, &format!("{create} licenses=lic:3"), "Reservation created: course\n");
    let sheet = c
        .run(&["scontrol", "-o", "show", "reservation", "course"])
        .expect(0)
        .out;
    assert!(sheet.contains(" Licenses=lic:3 State=INACTIVE"), "{sheet}");
    is_refused(&c, &format!("{create} licenses=lic:x"), "Invalid licenses licenses=lic:x");
    let update = "scontrol update reservationname=course";
    prints(&c, &format!("{update} licenses=lic:1"), "Reservation updated.\n");
    let show = ["scontrol", "-o", "show", "reservation", "course"];
    let sheet = c.run(&show).expect(0).out;
    assert!(sheet.contains(" Licenses=lic:1 State=INACTIVE"), "{sheet}");
    let many = format!("{update} licenses=lic:99");
    is_refused(&c, &many, "99 licences 'lic' are more than the");
    // The end and the users stay, too, where the licences cannot be.
    let several = format!("{update} duration=60 users+=daemon licenses=lic:99");
    is_refused(&c, &several, "99 licences 'lic' are more than the");
    let sheet = c.run(&show).expect(0).out;
    assert!(sheet.contains(" Duration=00:30:00 ") && !sheet.contains("daemon"), "{sheet}");
    let several = format!("{update} duration=60 users+=daemon licenses=lic:2");
    prints(&c, &several, "Reservation updated.\n");
    let sheet = c.run(&show).expect(0).out;
    assert!(sheet.contains(" Licenses=lic:2 State=INACTIVE"), "{sheet}");
    assert!(sheet.contains(" Duration=01:00:00 ") && sheet.contains("daemon"), "{sheet}");
    let unknown = format!("{update} licenses=lik:1");
    is_refused(&c, &unknown, "there is no licence 'lik': 'lic' is one");

    // Given back, they are there for bob.
    of_user(&c, ANN, &format!("cresv cancel {id}")).expect(0);
    c.until_end(inside);
    c.until_state(outside, JobState::Running);
    shown(&c, 2, 1, 0);
    c.cancel(outside);
    c.until_end(outside);
}
