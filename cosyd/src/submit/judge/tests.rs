//! Every kind of request under rules.

use super::*;
use cosy_model::api::JobFilter;
use cosy_model::job::ResourceRequest;
use cosy_model::reservation::StartChoice;
use cosy_model::workflow::FlowTask;
use cosy_model::{Span, Uid};
use cosy_rules::protocol::Sees;
use cosy_rules::{Assignment, Expression, Kind, Rule, Template};

fn rule(when: &str) -> Rule {
    Rule {
        name: "r".into(),
        when: Some(Expression::read_as(when, Kind::Flag).unwrap()),
        ..Rule::default()
    }
}

fn refusing(when: &str, text: &str) -> Rule {
    Rule {
        refuse: Some(Template::read(text).unwrap()),
        ..rule(when)
    }
}

fn setting(when: &str, field: &str, value: &str) -> Rule {
    Rule {
        set: vec![Assignment::read(field, value).unwrap()],
        ..rule(when)
    }
}

fn judged(rule: Rule, jobs: Vec<DescribedJob>, request: Request) -> Judged {
    let policy = SubmitPolicy {
        rules: vec![rule],
        order: vec![Layer::Rules],
        ..SubmitPolicy::default()
    };
    let reason = Reason {
        jobs,
        ..Reason::default()
    };
    judge(&policy, &reason, &mut Workers::default(), request)
}

fn job(gpus: u32) -> JobSpec {
    let mut spec = JobSpec::plain("job", Program::Allocation, OsText::from("/"));
    spec.request.gpus_per_node = gpus;
    spec
}

fn submit(gpus: u32, tasks: Option<u32>) -> Request {
    let array = tasks.map(|tasks| ArraySpec {
        ranges: vec![(1, tasks, 1)],
        at_once: None,
    });
    Request::Submit(Box::new(Submission {
        spec: job(gpus),
        script: OsText::default(),
        array,
    }))
}

fn why(judged: &Judged) -> &str {
    judged.refused.as_ref().map_or("", |r| &r.message)
}

#[test]
fn submissions() {
    let many = refusing("array > 10 and request == 'submit'", "{array} tasks");
    assert_eq!(why(&judged(many.clone(), Vec::new(), submit(0, Some(10)))), "");
    assert_eq!(why(&judged(many, Vec::new(), submit(0, Some(11)))), "11 tasks");
    let gpu = setting("gpus > 0", "queue", "gpu");
    let Request::Submit(new) = judged(gpu, Vec::new(), submit(1, None)).request else {
        panic!("another request");
    };
    assert_eq!(new.spec.queue.as_deref(), Some("gpu"));
}

fn described(name: &str, gpus: u32) -> DescribedJob {
    DescribedJob {
        name: name.into(),
        uid: Uid(7),
        user: "ann".into(),
        spec: job(gpus),
        array: None,
    }
}

fn change(cores_per_task: u32) -> Request {
    Request::Change {
        filter: JobFilter::default(),
        change: Box::new(JobChange {
            cores_per_task: Some(cores_per_task),
            ..JobChange::default()
        }),
    }
}

#[test]
fn a_change_is_judged_as_what_it_leaves() {
    let ratio = || refusing("gpus > 0 and cores / gpus > 8", "{cores} cores for {gpus} GPUs");
    let one = judged(ratio(), vec![described("7", 1)], change(9));
    assert_eq!(why(&one), "9 cores for 1 GPUs");
    assert_eq!(why(&judged(ratio(), vec![described("7", 1)], change(8))), "");
    assert_eq!(why(&judged(ratio(), vec![described("7", 0)], change(9))), "");
    let both = vec![described("7", 2), described("8", 1)];
    assert_eq!(why(&judged(ratio(), both, change(9))), "job 8: 9 cores for 1 GPUs");
}

#[test]
fn what_rules_set_becomes_part_of_the_change() {
    let wide = || setting("cores_per_task > 4 and gpus > 0", "queue", "gpu-wide");
    let done = judged(wide(), vec![described("7", 1)], change(5));
    let Request::Change { change: new, .. } = done.request else {
        panic!("another request");
    };
    assert_eq!((new.queue.as_deref(), new.cores_per_task), (Some("gpu-wide"), Some(5)));
    let both = vec![described("7", 1), described("8", 0)];
    assert!(why(&judged(wide(), both, change(5))).contains("one at a time"));
    let hold = setting("true", "hold", "true");
    let done = judged(hold, vec![described("7", 1)], change(5));
    assert!(why(&done).contains("a change cannot set hold"));
}

#[test]
fn reservations_and_quotes() {
    let request = ResourceRequest {
        gpus_per_node: 1,
        ..ResourceRequest::default()
    };
    let ask = ReservationSpec::plain(request, Span::from_minutes(300), StartChoice::Soonest);
    let quote = || Request::Quote {
        ask: Box::new(ask.clone()),
        most: None,
        as_job: None,
    };
    let long = refusing("request == 'quote' and time_limit > 4h", "{time_limit} is long");
    assert_eq!(why(&judged(long, Vec::new(), quote())), "05:00:00 is long");
    let gpu = setting("gpus > 0 and not interactive and not script", "account", "gpus");
    let Request::Quote { ask: new, .. } = judged(gpu, Vec::new(), quote()).request else {
        panic!("another request");
    };
    assert_eq!(new.account.as_deref(), Some("gpus"));
    let reserve = Request::Reserve {
        ask: Box::new(ask.clone()),
        hold: false,
        job: match submit(3, None) {
            Request::Submit(new) => Some(new),
            _ => None,
        },
    };
    let attached = refusing("request == 'submit' and gpus == 3", "the script");
    assert_eq!(why(&judged(attached, Vec::new(), reserve)), "the script");
}

fn flow(gpus: &[u32]) -> Request {
    let tasks = gpus.iter().enumerate().map(|(n, gpus)| FlowTask {
        name: format!("t{n}"),
        spec: job(*gpus),
        script: OsText::default(),
        estimate: Span::from_minutes(1),
        estimates: Vec::new(),
        retries: 0,
    });
    let empty: FlowSpec = FlowSpec {
        name: "f".into(),
        tasks: tasks.collect(),
        edges: Vec::new(),
        speeds: Vec::new(),
        transfers: Vec::new(),
        deadline: None,
        earliest: None,
        scheduler: Default::default(),
        slack_policy: Default::default(),
        threshold_permille: 50,
        early: false,
        overrun: Default::default(),
        account: None,
        max_price: None,
        comment: String::new(),
        environment: OsText::from("LAB=x"),
        umask: 0,
        rlimits: Default::default(),
    };
    Request::SubmitFlow {
        spec: Box::new(empty),
        hold: false,
    }
}

#[test]
fn workflows() {
    let many = refusing("request == 'workflow' and gpus > 1 and variable('LAB') == 'x'", "no");
    assert_eq!(why(&judged(many, Vec::new(), flow(&[1, 2]))), "task t1: no");
    let all = setting("true", "account", "lab");
    let Request::SubmitFlow { spec, .. } = judged(all, Vec::new(), flow(&[0, 1])).request else {
        panic!("another request");
    };
    assert_eq!(spec.account.as_deref(), Some("lab"));
    let some = setting("gpus > 0", "account", "lab");
    assert!(why(&judged(some, Vec::new(), flow(&[0, 1]))).contains("different accounts"));
}

#[test]
fn what_no_rule_is_about_goes_on() {
    let judged = judged(refusing("true", "no"), Vec::new(), Request::Ping);
    assert_eq!((judged.request, judged.refused), (Request::Ping, None));
}

fn worker(script: &str, fail_open: bool) -> WorkerPolicy {
    WorkerPolicy {
        command: ["/bin/sh", "-c", script].map(str::to_owned).into(),
        uid: 65_534,
        timeout: std::time::Duration::from_secs(60),
        memory: cosy_model::MiB(512),
        network: false,
        fail_open,
        sees: Sees::default(),
        script: None,
    }
}

#[test]
fn a_worker_and_rules_in_their_order() {
    let check = |script: &str, fail_open: bool, order: &[Layer], want: &str| {
        let policy = SubmitPolicy {
            rules: vec![
                refusing("queue == 'gpu'", "no gpu"),
                setting("true", "queue", "day"),
            ],
            worker: Some(worker(script, fail_open)),
            order: order.to_vec(),
            ..SubmitPolicy::default()
        };
        let judged = judge(&policy, &Reason::default(), &mut Workers::default(), submit(0, None));
        assert!(why(&judged).starts_with(want), "{script}: {judged:?}");
        assert_eq!(why(&judged).is_empty(), want.is_empty(), "{script}");
    };
    let gpu = "read -r line; echo '{\"id\":1,\"set\":{\"queue\":\"gpu\"}}'";
    check(gpu, false, &[Layer::Worker, Layer::Rules], "no gpu");
    check(gpu, false, &[Layer::Rules, Layer::Worker], "");
    let never = "read -r line; echo '{\"id\":1,\"refuse\":\"never\"}'";
    check(never, true, &[Layer::Rules, Layer::Worker], "never");
    for broken in ["exit 1", "read -r line; echo x", "read -r line; kill -9 $$"] {
        check(broken, false, &[Layer::Rules, Layer::Worker], "the program that judges");
        check(broken, true, &[Layer::Rules, Layer::Worker], "");
        check(broken, true, &[Layer::Worker, Layer::Rules], "");
    }
    let negative = "read -r line; echo '{\"id\":1,\"set\":{\"nodes\":-1}}'";
    check(negative, false, &[Layer::Worker], "the program that judges");
}

/// Judged by a worker of that script of the shell, which sees everything.
fn seen(script: &str, fail_open: bool, jobs: Vec<DescribedJob>, request: Request) -> Judged {
    let policy = SubmitPolicy {
        worker: Some(WorkerPolicy {
            sees: Sees::ALL,
            ..worker(script, fail_open)
        }),
        order: vec![Layer::Worker],
        ..SubmitPolicy::default()
    };
    let queue = |name: &str, your_level| QueueInfo {
        spec: cosy_model::QueueSpec {
            name: name.into(),
            ..cosy_model::QueueSpec::default()
        },
        nodes: 1,
        your_level,
        ..QueueInfo::default()
    };
    let reason = Reason {
        jobs,
        queues: vec![
            queue("open", cosy_model::AccessLevel::Allow),
            queue("secret", cosy_model::AccessLevel::Deny),
        ],
        ..Reason::default()
    };
    judge(&policy, &reason, &mut Workers::default(), request)
}

/// Answers with that if the question has all of these words, and none of those.
fn answering(answer: &str, with: &[&str], without: &[&str]) -> String {
    let has: String = with
        .iter()
        .map(|word| format!("case $line in *'{word}'*) ;; *) exit;; esac; "))
        .collect();
    let lacks: String = without
        .iter()
        .map(|word| format!("case $line in *'{word}'*) exit;; esac; "))
        .collect();
    format!("read -r line; {has}{lacks} echo '{answer}'; read -r line")
}

fn batch() -> Request {
    let mut spec = job(0);
    spec.program = Program::Script {
        name: OsText::from("/j.sh"),
        args: vec![OsText::from("arg")],
    };
    spec.environment = OsText(b"A=1\0B=\xff\0".to_vec());
    Request::Submit(Box::new(Submission {
        spec,
        script: OsText::from("#!/bin/sh\necho"),
        array: None,
    }))
}

#[test]
fn a_worker_sees_what_it_asks_for_and_may_set_it() {
    let answer =
        r#"{"id":1,"environment":{"A":"2","C":"3"},"script":"new","log":[{"text":"noted"}]}"#;
    let with = [
        "/bin/sh",
        r#""script":"#,
        r#""environment":{"A":"1""#,
        r#""name":"open""#,
        r#""arguments":["/j.sh","arg"]"#,
    ];
    let done = seen(&answering(answer, &with, &["secret", "asked"]), false, Vec::new(), batch());
    assert_eq!(done.refused, None);
    assert_eq!(done.logged, ["worker: noted"]);
    let Request::Submit(new) = done.request else {
        panic!("another request");
    };
    assert_eq!(new.script.0, b"new");
    assert_eq!(new.spec.environment.0, b"B=\xff\0A=2\0C=3\0");
    // An allocation has neither.
    let answer = r#"{"id":1,"environment":{"A":"2"}}"#;
    let bare = seen(&answering(answer, &[], &["environment"]), false, Vec::new(), submit(0, None));
    assert!(why(&bare).contains("the program that judges"), "{bare:?}");
}

#[test]
fn of_a_change_it_sees_the_job_as_it_is() {
    let answer = r#"{"id":1,"set":{"name":"new"}}"#;
    let with = [
        r#""asked":["cores_per_task"]"#,
        r#""old":{"#,
        r#""job":"7""#,
        r#""uid":7"#,
    ];
    let done = seen(
        &answering(answer, &with, &["environment"]),
        false,
        vec![described("7", 1)],
        change(5),
    );
    let Request::Change { change, .. } = done.request else {
        panic!("another request");
    };
    assert_eq!((change.name.as_deref(), change.cores_per_task), (Some("new"), Some(5)));
}

#[test]
fn what_fails_half_way_is_not_half_done() {
    // Fields are set in the order of their names: the first is fine, the second cannot be.
    let answer = r#"{"id":1,"set":{"account":"lab","nodes":-1}}"#;
    let done = seen(&answering(answer, &[], &[]), true, Vec::new(), batch());
    let Request::Submit(new) = done.request else {
        panic!("another request");
    };
    assert_eq!((new.spec.account, done.refused, done.changes.len()), (None, None, 0));
    let failed = r#"{"id":1,"failed":"as told","set":{"account":"lab"}}"#;
    let done = seen(&answering(failed, &[], &[]), false, Vec::new(), batch());
    assert!(why(&done).contains("nothing was changed"), "{done:?}");
    assert!(done.logged[0].contains("as told"), "{done:?}");
    let numbered = r#"{"id":1,"refuse":"no","number":2001}"#;
    let done = seen(&answering(numbered, &[], &[]), false, Vec::new(), batch());
    assert_eq!(done.refused.unwrap().slurm_number, Some(2001));
}

#[test]
fn what_rules_give() {
    let rule = || setting("name == 'job'", "site_factor", "500");
    let done = judged(rule(), Vec::new(), submit(0, None));
    assert_eq!(done.given, [AdminField::SiteFactor]);
    let Request::Submit(new) = done.request else {
        panic!("another request");
    };
    assert_eq!(new.spec.site_factor, 500);
    // What the user asks for is the user's, whatever rules say of something else.
    let Request::Submit(mut own) = submit(0, None) else {
        panic!("another request");
    };
    (own.spec.name, own.spec.site_factor) = ("own".into(), 900);
    let done = judged(rule(), Vec::new(), Request::Submit(own));
    assert_eq!(done.given, []);
    let done = judged(rule(), vec![described("7", 0)], change(5));
    assert_eq!(done.given, [AdminField::SiteFactor]);
    let Request::Change { change: new, .. } = done.request else {
        panic!("another request");
    };
    assert_eq!((new.site_factor, new.cores_per_task), (Some(500), Some(5)));
    let refused = judged(refusing("true", "no"), Vec::new(), submit(0, None));
    assert_eq!(refused.given, []);
}

/// One task's own points are not given because rules give some to another.
#[test]
fn what_rules_give_in_a_workflow() {
    let asking = |points: i64| {
        let Request::SubmitFlow { mut spec, hold } = flow(&[1, 0]) else {
            panic!("another request");
        };
        spec.tasks[1].spec.site_factor = points;
        Request::SubmitFlow { spec, hold }
    };
    let rule = || setting("gpus > 0", "site_factor", "500");
    assert_eq!(judged(rule(), Vec::new(), asking(0)).given, [AdminField::SiteFactor]);
    assert_eq!(judged(rule(), Vec::new(), asking(900)).given, []);
}

#[test]
fn a_worker_is_told_of_accounts() {
    let accounts = UserAccounts {
        default_account: Some("physics".into()),
        ..UserAccounts::default()
    };
    let reason = || Reason {
        accounts: [("ann".to_owned(), accounts.clone())].into(),
        jobs: vec![described("7", 0)],
        ..Reason::default()
    };
    let with = [r#""accounts":{"default_account":"physics""#];
    let answer = r#"{"id":1,"set":{"site_factor":-3}}"#;
    let policy = SubmitPolicy {
        worker: Some(WorkerPolicy {
            sees: Sees {
                accounts: true,
                ..Sees::default()
            },
            ..worker(&answering(answer, &with, &["\"old\""]), false)
        }),
        order: vec![Layer::Worker],
        ..SubmitPolicy::default()
    };
    // Those of the job's owner.
    let done = judge(&policy, &reason(), &mut Workers::default(), change(5));
    assert_eq!((done.refused, done.given), (None, vec![AdminField::SiteFactor]));
}
