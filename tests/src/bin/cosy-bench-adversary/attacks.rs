//! The attacks: for each kind of request the worst one that the limits allow.

use crate::bench::{ARRAY, Act, Attack, Bench};
use cosy_model::api::{JobChange, JobField, JobFilter, JobRef, Request, Submission};
use cosy_model::reservation::{
    NamesChange, ReservationAlteration, ReservationFilter, ReservationSpec, SharingChange,
    StartChoice,
};
use cosy_model::workflow::{FlowEdge, FlowFilter, FlowSpec, FlowTask};
use cosy_model::{
    ArraySpec, CountedResources, Dependency, DependencyKind, JobId, OsText, ReservationId, Span,
    Time, TriggerEvent, TriggerSpec, TriggerTarget, limits,
};
use cosy_tests::{command, script};

pub fn attacks(bench: &Bench) -> Vec<Attack> {
    let mut all = vec![Attack {
        name: "nothing but ping",
        act: Act::Ask(Request::Ping),
    }];
    all.extend(lists(bench));
    all.extend(changes(bench));
    all.extend(submissions(bench));
    all.extend(plans(bench));
    all.extend(bytes());
    all
}

fn ask(name: &'static str, request: Request) -> Attack {
    let act = Act::Ask(request);
    Attack { name, act }
}

/// One job, named so many times.
fn named(job: JobId, times: usize) -> JobFilter {
    JobFilter {
        ids: vec![JobRef { job, task: None }; times],
        ..JobFilter::default()
    }
}

fn lists(bench: &Bench) -> Vec<Attack> {
    let all = JobField::ALL.to_vec();
    let jobs = |filter: JobFilter, fields: Vec<JobField>| Request::Jobs {
        filter,
        fields,
        fold_arrays: false,
    };
    let users = JobFilter {
        users: (0..500_000).map(|n| n.to_string()).collect(),
        ..JobFilter::default()
    };
    let fat = vec![JobField::Command; 100_000];
    let refs = |n: u64| -> Vec<JobRef> {
        let job = |n| JobRef {
            job: JobId(n),
            task: None,
        };
        (1..=n).map(job).collect()
    };
    let history = |filter: JobFilter, fields| Request::History { filter, fields };
    vec![
        ask("all jobs, all fields", jobs(JobFilter::default(), all.clone())),
        Attack {
            name: "all jobs, all fields, never read",
            act: Act::Deaf(jobs(JobFilter::default(), all.clone())),
        },
        ask("jobs of 500,000 users", jobs(users.clone(), vec![JobField::Id])),
        ask("jobs, one field 100,000 times", jobs(JobFilter::default(), fat.clone())),
        ask("jobs, one array named 100,000 times", jobs(named(bench.array, 100_000), all.clone())),
        ask(
            "explain an array",
            Request::Explain {
                job: JobRef {
                    job: bench.array,
                    task: None,
                },
            },
        ),
        ask("history of everything", history(JobFilter::default(), all.clone())),
        ask("history of 500,000 users", history(users, all.clone())),
        ask(
            "history of 100,000 ids",
            history(
                JobFilter {
                    ids: refs(100_000),
                    ..JobFilter::default()
                },
                all,
            ),
        ),
        ask(
            "steps of 1,000 jobs",
            Request::Steps {
                jobs: refs(1000),
                pages: false,
                after: None,
            },
        ),
        ask(
            "wait for 100,000 jobs",
            Request::Wait {
                jobs: refs(100_000),
            },
        ),
        ask("nodes", Request::Nodes),
        ask("queues", Request::Queues),
        ask("triggers", Request::Triggers),
        ask(
            "reservations",
            Request::Reservations {
                filter: ReservationFilter {
                    ended: true,
                    ..ReservationFilter::default()
                },
            },
        ),
        ask(
            "workflows",
            Request::Flows {
                filter: FlowFilter {
                    ended: true,
                    tasks: true,
                    ..FlowFilter::default()
                },
            },
        ),
        ask(
            "ledger",
            Request::Ledger {
                account: None,
                reservation: None,
                after: 0,
                most: u32::MAX,
            },
        ),
    ]
}

fn changes(bench: &Bench) -> Vec<Attack> {
    let whole = || named(bench.array, 1);
    let many = || named(bench.array, 500);
    let change = |change: JobChange| Request::Change {
        filter: whole(),
        change: Box::new(change),
    };
    vec![
        ask(
            "hold an array named 500 times",
            Request::Hold {
                filter: many(),
                as_user: true,
            },
        ),
        ask("release an array", Request::Release { filter: whole() }),
        ask(
            "signal an array named 500 times",
            Request::Cancel {
                filter: many(),
                signal: Some(10),
                script_only: false,
                steps_only: false,
            },
        ),
        ask(
            "change an array's name",
            change(JobChange {
                name: Some("x".repeat(limits::NAME_BYTES)),
                ..JobChange::default()
            }),
        ),
        ask(
            "change an array's time limit",
            change(JobChange {
                time_limit: Some(Span::from_secs(100)),
                ..JobChange::default()
            }),
        ),
        ask(
            "change an array's comment",
            change(JobChange {
                comment: Some("x".repeat(limits::COMMENT_BYTES)),
                ..JobChange::default()
            }),
        ),
        ask(
            "change an array's nodes",
            change(JobChange {
                avoid: Some(vec!["n1".into(); 1000]),
                ..JobChange::default()
            }),
        ),
        ask(
            "requeue an array",
            Request::Requeue {
                filter: whole(),
                hold: true,
                special: false,
            },
        ),
        ask("suspend an array", Request::Suspend { filter: whole() }),
        ask(
            "notify an array",
            Request::Notify {
                filter: many(),
                text: "x".repeat(4000),
            },
        ),
        ask("top of an array", Request::Top { filter: whole() }),
    ]
}

fn submissions(bench: &Bench) -> Vec<Attack> {
    let plain = || command(&bench.work, &["true"]);
    let submit = |job: Submission| Request::Submit(Box::new(job));
    let mut array = plain();
    array.array = Some(ArraySpec {
        ranges: vec![(1, ARRAY, 1)],
        at_once: Some(1),
    });
    array.spec.hold = true;
    let filled = |start: &str, length: usize| {
        let mut bytes = start.as_bytes().to_vec();
        bytes.resize(length, b'a');
        OsText(bytes)
    };
    let mut fat = script(&bench.work, "#!/bin/sh\n#");
    fat.script = filled("#!/bin/sh\n#", limits::SCRIPT_BYTES);
    fat.spec.environment = filled("A=", limits::ENVIRONMENT_BYTES);
    let mut after = plain();
    after.spec.dependencies = vec![
        Dependency {
            kind: DependencyKind::AfterOk,
            job: bench.array,
            task: None,
            delay: Span::ZERO,
        };
        limits::DEPENDENCIES
    ];
    let mut corr = array.clone();
    corr.spec.dependencies = vec![Dependency {
        kind: DependencyKind::AfterCorr,
        job: bench.array,
        task: None,
        delay: Span::ZERO,
    }];
    let mut picky = plain();
    picky.spec.request.any_features = vec![vec!["a".into(); 100]; 1000];
    let trigger = TriggerSpec {
        on: TriggerTarget::Job(bench.array),
        events: [TriggerEvent::Ended].into(),
        offset: Span::ZERO,
        program: OsText::from("/bin/true"),
        permanent: false,
        environment: OsText(vec![b'a'; limits::TRIGGER_ENVIRONMENT]),
    };
    vec![
        ask("submit 4 MiB of script, 2 MiB of variables", submit(fat)),
        ask("submit an array of 100,000", submit(array)),
        ask("submit with 1,000 dependencies on an array", submit(after)),
        ask("submit an array after an array, task by task", submit(corr)),
        ask("submit with 100,000 features", submit(picky)),
        ask("set a trigger", Request::SetTrigger(Box::new(trigger))),
        ask(
            "cancel an array",
            Request::Cancel {
                filter: named(bench.array, 1),
                signal: None,
                script_only: false,
                steps_only: false,
            },
        ),
    ]
}

fn plans(bench: &Bench) -> Vec<Attack> {
    let slot = ReservationSpec {
        name: "slot".into(),
        queue: None,
        request: command(&bench.work, &["true"]).spec.request,
        licenses: Default::default(),
        length: Span::from_secs(3600),
        earliest: None,
        latest_end: None,
        pick: StartChoice::Cheapest,
        repeat: None,
        account: None,
        max_price: None,
        sharing: Default::default(),
        comment: String::new(),
        flags: Vec::new(),
    };
    vec![
        ask(
            "quote a reservation",
            Request::Quote {
                ask: Box::new(slot.clone()),
                most: Some(u32::MAX),
                as_job: None,
            },
        ),
        ask(
            "hold a reservation",
            Request::Reserve {
                ask: Box::new(slot),
                hold: true,
                job: None,
            },
        ),
        ask(
            "change everything of a reservation",
            Request::AlterReservation {
                id: ReservationId(1),
                change: Box::new(alteration()),
            },
        ),
        ask(
            "chart of the plan",
            Request::PlanChart {
                until: Some(Time::FAR),
                most: u32::MAX,
            },
        ),
        ask(
            "plan a workflow of 10,000 tasks",
            Request::PlanFlow {
                spec: Box::new(flow(bench)),
            },
        ),
    ]
}

/// As many licences and names as there may be.
fn alteration() -> ReservationAlteration {
    let mut licenses = CountedResources::default();
    for n in 0..limits::DEPENDENCIES {
        licenses.set(&format!("l{n}"), u32::MAX);
    }
    let names = || NamesChange {
        anew: true,
        add: (0..limits::FILTER_NAMES).map(|n| format!("u{n}")).collect(),
        remove: Vec::new(),
    };
    ReservationAlteration {
        end: Some(Time::FAR),
        licenses: Some(licenses),
        sharing: SharingChange {
            users: names(),
            groups: names(),
            accounts: names(),
        },
    }
}

fn flow(bench: &Bench) -> FlowSpec {
    let tasks = limits::FLOW_TASKS as u32;
    let task = |n: u32| FlowTask {
        name: format!("t{n}"),
        spec: command(&bench.work, &["true"]).spec,
        script: OsText::default(),
        estimate: Span::from_secs(60),
        estimates: Vec::new(),
        retries: 0,
    };
    let edge = |n: u32| FlowEdge {
        from: n / 20,
        to: n / 20 + 1 + n % 20,
        data_bytes: 1,
    };
    let text = r#"{"name": "flow", "tasks": [], "edges": []}"#;
    let mut flow: FlowSpec = serde_json::from_str(text).expect("a workflow");
    flow.tasks = (0..tasks).map(task).collect();
    let edges = (0..limits::FLOW_EDGES as u32).map(edge);
    flow.edges = edges.filter(|edge| edge.to < tasks).collect();
    flow
}

fn bytes() -> Vec<Attack> {
    let begun = |length: usize, sent: usize| {
        let header = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
        [&header[..], &vec![0x91; sent]].concat()
    };
    let act = |name, bytes| Attack {
        name,
        act: Act::Bytes(bytes),
    };
    vec![
        act("connections that say nothing", Vec::new()),
        act(
            "requests of 16 MiB that never end",
            begun(limits::FRAME_BYTES, limits::FRAME_BYTES / 2),
        ),
        act("16 MiB that are no request", begun(limits::FRAME_BYTES, limits::FRAME_BYTES)),
        act("requests longer than allowed", begun(usize::MAX, 100)),
    ]
}
