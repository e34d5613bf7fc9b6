use super::site::{Account, Site, User};
use super::{difference, read, write};
use cosy_model::Span;
use cosy_model::policy::*;

const SITE: &str = r#"
[[qos]]
name = "normal"
[[qos]]
name = "urgent"
priority = 100
flags = "DenyOnLimit"
usage-factor = 2.5
preempt = "normal"
preempt-mode = "requeue"
grace = "60s"
MaxTRESPerUser = "cpu=128,gres/gpu=4"
MaxWall = "12:00:00"
[[account]]
name = "science"
organization = "the \"faculty\""
qos = ["normal", "urgent"]
[[account]]
name = "physics"
parent = "science"
shares = 4
coordinators = "ann"
GrpTRES = "cpu=512,mem=2T"
[[user]]
name = "ann"
default = "physics"
level = "operator"
[[user.in]]
account = "physics"
MaxJobs = 20
[[user.in]]
account = "science"
queue = "batch"
shares = "parent"
"#;

fn lines(present: &Site, wanted: &Site, prune: bool) -> Vec<String> {
    let all = difference::between(present, wanted, prune).unwrap();
    all.into_iter().map(|(_, line)| line).collect()
}

/// What the controller begins with.
fn fresh() -> Site {
    let mut site = Site::default();
    let normal = QosRecord {
        name: NORMAL.to_owned(),
        description: NORMAL.to_owned(),
        ..QosRecord::default()
    };
    site.qos.insert(NORMAL.to_owned(), normal);
    site.accounts.insert(ROOT.to_owned(), Account::default());
    site
}

#[test]
fn what_is_dumped_is_loaded() {
    let site = read::site(SITE).unwrap();
    let text = write::text(&site);
    assert_eq!(
        read::site(&text).unwrap(),
        Site {
            cluster: String::new(),
            ..site.clone()
        },
        "{text}"
    );
    assert!(lines(&site, &read::site(&text).unwrap(), true).is_empty());
    let urgent = &site.qos["urgent"];
    assert_eq!(urgent.grace, Span::from_secs(60));
    assert_eq!(urgent.usage_factor_ppm, 2_500_000);
}

#[test]
fn odd_texts_come_back() {
    let mut site = fresh();
    for (at, text) in [
        "a\"b'c",
        "",
        "\n\t\u{7f}\u{1b}[2J",
        "\u{fc}\u{1f600}",
        "\\",
        "]]\n[[user]]",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("acc{at}");
        let mut account = Account {
            parent: Some(ROOT.to_owned()),
            description: Some(text.to_owned()),
            organization: Some(text.to_owned()),
            ..Account::default()
        };
        account.settings.comment = text.to_owned();
        site.accounts.insert(name, account);
    }
    let again = read::site(&write::text(&site)).unwrap();
    assert_eq!(again.accounts, site.accounts);
}

#[test]
fn what_would_change() {
    let wanted = read::site(SITE).unwrap();
    assert_eq!(
        lines(&fresh(), &wanted, false),
        [
            "add qos urgent: priority=100, flags, usage-factor, preempt-mode, grace, MaxWall=12:00:00, MaxTRESPerUser=cpu=128, MaxTRESPerUser=gres/gpu=4",
            "change qos urgent: preempts normal",
            "add account science: below root, organization, qos=normal,urgent",
            "add account physics: below science, shares=4, GrpTRES=cpu=512, GrpTRES=mem=2048G",
            "add user ann in account physics: MaxJobs=20",
            "add user ann in account science for queue batch: shares=parent",
            "change user ann: level operator",
            "user ann coordinates account physics",
        ]
    );
    // A line less is a limit less; what is not named stays, or goes.
    let fewer = SITE.replace("MaxJobs = 20\n", "").replace("cpu=512,", "");
    let mut there = wanted.clone();
    there.users.insert("bob".into(), User::default());
    there.accounts.insert(
        "old".into(),
        Account {
            parent: Some(ROOT.into()),
            ..Account::default()
        },
    );
    there.accounts.insert(
        "older".into(),
        Account {
            parent: Some("old".into()),
            ..Account::default()
        },
    );
    let fewer = read::site(&fewer).unwrap();
    let changed = [
        "change account physics: GrpTRES=cpu=none",
        "change user ann in account physics: MaxJobs=none",
    ];
    assert_eq!(lines(&there, &fewer, false), changed);
    let removed = ["remove user bob", "remove account old"];
    assert_eq!(lines(&there, &fewer, true), [&changed[..], &removed[..]].concat());
}

#[test]
fn preemption_is_turned_round_without_a_circle() {
    let one = "[[qos]]\nname='a'\npreempt='b'\n[[qos]]\nname='b'\n";
    let other = "[[qos]]\nname='a'\n[[qos]]\nname='b'\npreempt='a'\n";
    let (one, other) = (read::site(one).unwrap(), read::site(other).unwrap());
    assert_eq!(
        lines(&one, &other, false),
        ["change qos a: preempts nobody", "change qos b: preempts a"]
    );
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let check = |text: &str, want: &str| {
        let why = match read::site(text) {
            Err(why) => why,
            Ok(site) => difference::between(&fresh(), &site, false).unwrap_err(),
        };
        assert!(why.contains(want), "{text}: {why}");
    };
    check("[[acount]]\nname='x'", "'acount' is unknown, did you mean account?");
    check("[account]\nname='x'", "write [[account]]");
    check("account = 3", "write [[account]]");
    check("[[account]]\nshares=3", "[[account]] number 1 has no name");
    check("[[account]]\nname=3", "its name is no text");
    check(
        "[[account]]\nname='x'\nMaxJob=3",
        "account x: 'MaxJob' cannot be set here; did you mean MaxJobs?",
    );
    check("[[account]]\nname='x'\nshares=-3", "account x: '-3'");
    check("[[account]]\nname='x'\nqos='+high'", "the whole list");
    check("[[account]]\nname='x'\n[[account]]\nname='x'", "account x is there twice");
    check("[[account]]\nname='x'\nparent='y'\n[[account]]\nname='y'\nparent='x'", "a circle");
    check("[[account]]\nname='x'\nparent='x'", "a circle");
    check("[[account]]\nname='x'\nparent='nowhere'", "there is no account 'nowhere' above it");
    check("[[account]]\nname='root'\nparent='x'", "it is below no other");
    check("[[user]]\nname='ann'\nMaxJobs=3", "limits and shares are set in [[user.in]]");
    check("[[user]]\nname='ann'\nlevel='boss'", "level is none, operator or administrator");
    check("[[user]]\nname='ann'\n[[user.in]]\nshares=2", "names no account");
    check(
        "[[user]]\nname='ann'\n[[user.in]]\naccount='x'\nMaxJobsPerUser=2",
        "user ann in account x: 'MaxJobsPerUser' cannot be set here",
    );
    check(
        "[[user]]\nname='a'\n[[user.in]]\naccount='x'\n[[user.in]]\naccount='x'",
        "is there twice",
    );
    check("[[qos]]\nname='q'\nflags='Nothing'", "qos q: 'Nothing' is no flag");
    check("[[qos]]\nname='q'\ngrace=[[1]]", "qos q: grace: a text or a number is needed");
    check("[[qos]\nname='q'", "line 1");
}
