//! Rules as sites write them, on jobs that they are for.

use super::*;
use crate::subject::Requester;
use cosy_model::job::MemoryRequest;
use cosy_model::{Group, JobSpec, MiB, OsText, Program, Span, Uid, User};

fn user() -> User {
    User {
        uid: Uid(1000),
        name: "ann".into(),
        groups: vec![Group {
            name: "physics".into(),
            ..Group::default()
        }],
        ..User::default()
    }
}

fn job() -> JobSpec {
    JobSpec::plain("job", Program::Allocation, OsText::from("/"))
}

fn judge(rules: &[Rule], spec: &mut JobSpec) -> Outcome {
    let user = user();
    let mut subject = Subject {
        requester: Requester {
            request: "submit",
            user: &user,
            admin: false,
            default_queue: Some("day"),
        },
        spec,
        array: None,
        indices: None,
        environment: None,
        component: 0,
    };
    let mut outcome = Outcome::default();
    apply(rules, &mut subject, &mut outcome);
    outcome
}

fn rule(when: &str) -> Rule {
    Rule {
        name: "r".into(),
        when: Some(Expression::read_as(when, Kind::Flag).unwrap()),
        ..Rule::default()
    }
}

fn refused(outcome: &Outcome) -> &str {
    match &outcome.verdict {
        Verdict::Refused { message, .. } => message,
        Verdict::Passed => "",
    }
}

#[test]
fn conditions() {
    let check = |when: &str, want: bool| {
        let mut spec = job();
        spec.request.gpus_per_node = 2;
        spec.request.nodes = Some(3);
        spec.request.cores_per_task = 4;
        spec.request.memory = MemoryRequest::PerNode(MiB(64 << 10));
        spec.request.gpu_types.set("a100", 2);
        spec.licenses.set("matlab", 3);
        spec.time_limit = Some(Span::from_minutes(90));
        spec.environment = OsText::from("A=1\0B=two");
        let outcome = judge(&[rule(when)], &mut spec);
        assert_eq!(outcome.applied.len(), usize::from(want), "{when}");
    };
    check("gpus == 6 and gpus_per_node == 2", true);
    check("cores / gpus > 2", false);
    check("cores == 12", true);
    check("memory_per_node / gpus_per_node == 32G", true);
    check("memory_per_core > 0M", false);
    check("not (memory_per_core > 0M)", true);
    check("memory_per_core is unset", true);
    check("gpu_type == 'a100' and gpus_of('a100') == 2", true);
    check("'matlab' in licenses and license('matlab') > 2", true);
    check("license('comsol') == 0", true);
    check("time_limit > 1h and time_limit <= 90m", true);
    check("queue is unset and target_queue == 'day'", true);
    check("queue != 'day'", true);
    check("queue == 'day'", false);
    check("user in ['ann'] and groups any ['chemistry', 'physics']", true);
    check("groups like 'phys*'", true);
    check("variable('B') == 'two' and variable('C') is unset", true);
    check("interactive and not script", true);
    check("1 / 0 > 0 or 1 / 0 <= 0", false);
    check("request == 'submit' and uid == 1000 and not admin", true);
}

#[test]
fn what_is_set_defaulted_and_added() {
    let set = |all: &[(&str, &str)]| -> Vec<Assignment> {
        let read = all.iter().map(|(f, v)| Assignment::read(f, v).unwrap());
        read.collect()
    };
    let list = |field: &str, all: &[&str]| {
        let all: Vec<String> = all.iter().map(|t| (*t).to_owned()).collect();
        Assignment::read_list(field, &all).unwrap()
    };
    let gpu = Rule {
        set: set(&[
            ("queue", "gpu"),
            ("qos", "{user}-{gpus}"),
            ("cores_per_task", "8 * gpus"),
        ]),
        default: set(&[
            ("time_limit", "4h"),
            ("account", "none"),
            ("exclusive", "true"),
        ]),
        add: vec![
            list("licenses", &["scratch", "matlab:5"]),
            list("features", &["fast"]),
        ],
        warn: Some(Template::read("{{moved}} to {queue}").unwrap()),
        ..rule("gpus > 0")
    };
    let mut spec = job();
    spec.request.gpus_per_node = 2;
    spec.account = Some("lab".into());
    spec.licenses.set("matlab", 2);
    let outcome = judge(&[gpu], &mut spec);
    assert_eq!(outcome.remarks, ["{moved} to gpu"]);
    assert_eq!(spec.queue.as_deref(), Some("gpu"));
    assert_eq!(spec.qos.as_deref(), Some("ann-2"));
    assert_eq!(spec.account.as_deref(), Some("lab"));
    assert_eq!(spec.time_limit, Some(Span::from_minutes(240)));
    assert_eq!(spec.request.cores_per_task, 16);
    assert!(spec.request.exclusive);
    let licenses: Vec<_> = spec.licenses.iter().collect();
    assert_eq!(licenses, [("matlab", 2), ("scratch", 1)]);
    assert_eq!(spec.request.features, ["fast"]);
    let changed: Vec<&str> = outcome.changes.iter().map(|(f, _)| f.name()).collect();
    let want = [
        "queue",
        "qos",
        "cores_per_task",
        "time_limit",
        "exclusive",
        "licenses",
        "features",
    ];
    assert_eq!(changed, want);
}

#[test]
fn demands_and_refusals() {
    let check = |rule: Rule, gpus: u32, want: &str| {
        let mut spec = job();
        spec.request.gpus_per_node = gpus;
        let outcome = judge(&[rule], &mut spec);
        assert_eq!(refused(&outcome), want);
    };
    let require = || Rule {
        require: Some(Expression::read("account is set").unwrap()),
        ..rule("gpus > 0")
    };
    check(require(), 0, "");
    check(require(), 1, "rule 'r' asks for this: account is set");
    let told = |text: &str| Some(Template::read(text).unwrap());
    let friendly = || Rule {
        refuse: told("{gpus} GPUs need an account"),
        ..require()
    };
    check(friendly(), 3, "3 GPUs need an account");
    let never = Rule {
        refuse: told("no"),
        ..rule("gpus > 2")
    };
    check(never.clone(), 2, "");
    check(never, 3, "no");
    let negative = Rule {
        set: vec![Assignment::read("nodes", "1 - 2").unwrap()],
        ..rule("true")
    };
    check(negative, 0, "rule 'r': nodes cannot be -1");
}

#[test]
fn the_first_refusal_ends_it_and_later_rules_see_what_earlier_made() {
    let first = Rule {
        name: "first".into(),
        set: vec![Assignment::read("queue", "gpu").unwrap()],
        ..rule("true")
    };
    let second = Rule {
        name: "second".into(),
        refuse: Some(Template::read("not in {queue}").unwrap()),
        ..rule("queue == 'gpu'")
    };
    let third = Rule {
        name: "third".into(),
        ..rule("true")
    };
    let outcome = judge(&[first, second, third], &mut job());
    assert_eq!(outcome.applied, ["first", "second"]);
    assert_eq!(refused(&outcome), "not in gpu");
}

#[test]
fn assignments_that_cannot_be() {
    let check = |field: &str, value: &str, want: &str| {
        let why = Assignment::read(field, value).unwrap_err();
        assert!(why.contains(want), "{field} = {value}: {why}");
    };
    check("quue", "x", "did you mean 'queue'?");
    check("user", "x", "user cannot be set");
    check("nodes", "2h", "'2h' is a time like 2h, where a number is needed");
    check("qos", "{usr}", "did you mean 'user'?");
    check("qos", "{user", "a brace has no other");
    let why = Assignment::read_list("queue", &["a".into()]).unwrap_err();
    assert!(why.contains("not a list"), "{why}");
}

#[test]
fn every_component_is_judged() {
    let mut spec = job();
    let mut request = spec.request.clone();
    request.gpus_per_node = 1;
    spec.further_components
        .push(cosy_model::job::FurtherComponent {
            name: None,
            queue: None,
            request,
        });
    let user = user();
    let mut subject = Subject {
        requester: Requester {
            request: "submit",
            user: &user,
            admin: false,
            default_queue: None,
        },
        spec: &mut spec,
        array: None,
        indices: None,
        environment: None,
        component: 1,
    };
    let gpu = Rule {
        set: vec![Assignment::read("queue", "gpu").unwrap()],
        ..rule("gpus > 0 and component == 1")
    };
    apply(&[gpu], &mut subject, &mut Outcome::default());
    assert_eq!(spec.queue, None);
    assert_eq!(spec.further_components[0].queue.as_deref(), Some("gpu"));
}

#[test]
fn all_memory_of_a_node() {
    let set = |field: &str, value: &str| Rule {
        set: vec![Assignment::read(field, value).unwrap()],
        ..rule("memory_per_node == 0M")
    };
    let all = || {
        let mut spec = job();
        spec.request.ask_memory(MemoryRequest::PerNode(MiB(0)));
        spec
    };
    let mut spec = job();
    assert!(
        judge(&[rule("memory_per_node == 0M")], &mut spec)
            .applied
            .is_empty()
    );
    let mut spec = all();
    assert_eq!(judge(&[rule("memory_per_node == 0M and exclusive")], &mut spec).applied, ["r"]);
    // Less memory needs no whole nodes, unless they were asked for.
    judge(&[set("memory_per_node", "4G")], &mut spec);
    assert_eq!(spec.request.memory, MemoryRequest::PerNode(MiB(4096)));
    assert!(!spec.request.exclusive && !spec.request.asked.all_memory);
    let mut spec = all();
    spec.request.ask_whole_nodes(true);
    judge(&[set("memory_per_core", "1G")], &mut spec);
    assert!(spec.request.exclusive);
    let mut spec = job();
    let rules = [Rule {
        when: None,
        ..set("memory_per_node", "0M")
    }];
    judge(&rules, &mut spec);
    assert_eq!(spec.request.memory, MemoryRequest::QueueDefault);
    assert!(spec.request.exclusive && spec.request.asked.all_memory);
}

#[test]
fn words_in_which_gpus_were_asked_for() {
    let check = |spec: &JobSpec, when: &str, want: bool| {
        let applied = judge(&[rule(when)], &mut spec.clone()).applied;
        assert_eq!(!applied.is_empty(), want, "{when}");
    };
    let mut spec = job();
    check(&spec, "tres_per_node is unset and tres_per_job is unset", true);
    spec.request.gpus_per_node = 2;
    spec.request.other_per_node.set("fpga", 1);
    check(&spec, "tres_per_node == 'gres/gpu:2,gres/fpga:1'", true);
    spec.request.gpu_types.set("a100", 2);
    check(&spec, "tres_per_node == 'gres/gpu:a100:2,gres/fpga:1'", true);
    spec.request.asked.per_job = "gres/gpu:a100:4".into();
    check(&spec, "tres_per_node == 'gres/fpga:1' and tres_per_job like '*a100*'", true);
    check(&spec, "tres_per_socket is set or tres_per_task is set", false);
    spec.request.asked.per_node = "gres/gpu:a100:2".into();
    check(&spec, "tres_per_node == 'gres/gpu:a100:2,gres/fpga:1'", true);
    // Who sets GPUs sets those of nodes, and nothing else is left.
    let rules = [Rule {
        set: vec![Assignment::read("gpus_per_node", "1").unwrap()],
        ..rule("true")
    }];
    judge(&rules, &mut spec);
    check(&spec, "tres_per_job is unset and tres_per_node like 'gres/gpu:a100:1*'", true);
    let why = Assignment::read("tres_per_job", "'gres/gpu:1'").unwrap_err();
    assert_eq!(why, "tres_per_job cannot be set: it says what is asked for");
}

#[test]
fn points_of_the_site() {
    let given = |points: &str| Rule {
        default: vec![Assignment::read("site_factor", points).unwrap()],
        ..rule("user == 'ann'")
    };
    let mut spec = job();
    let outcome = judge(&[given("500")], &mut spec);
    assert_eq!((spec.site_factor, outcome.changes.len()), (500, 1));
    judge(&[given("0 - 7")], &mut spec);
    assert_eq!(spec.site_factor, 500, "a default is for what has none");
    let why = Assignment::read("site_factor", "'high'").unwrap_err();
    assert_eq!(why, "''high'' is a text, where a number is needed");
}
