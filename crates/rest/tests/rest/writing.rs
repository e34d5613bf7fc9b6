//! Bodies become requests, and outcomes documents.

use crate::answers::{answer, client};
use cosy_model::api::{JobChange, Reply, Request, Submission};
use cosy_model::job::MemoryRequest;
use cosy_model::{About, ContainerSource, JobId, MiB, Program, Refusal, RefusalCode, Span};
use cosy_rest::call::Call;
use cosy_rest::version::ApiVersion;
use cosy_rest::write::{Person, Submitter, Writing};
use jiff::Zoned;
use proptest::prelude::*;
use serde_json::{Value, json};

fn now() -> Zoned {
    "2026-11-21T12:00:00+00:00[+00:00]".parse().unwrap()
}

/// What was asked beside the cluster's name, the status, and the document.
fn send(
    method: &str,
    path: &str,
    body: &[u8],
    admin: bool,
    mut reply: impl FnMut(&Request) -> Reply,
) -> (Vec<Request>, u16, Value) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let call = Call::read(method, path, query).unwrap_or_else(|e| panic!("{path}: {:?}", e.1));
    let now = now();
    let submitter = Submitter {
        person: Person {
            uid: 1000,
            gid: 100,
            name: "ann",
        },
        admin,
        host: "head",
        now: &now,
    };
    let mut writing = Writing::new(call, body, &submitter);
    let mut asked = Vec::new();
    while let Some(request) = writing.ask(&submitter) {
        let reply = match &request {
            Request::Settings | Request::Reservations { .. } | Request::Queues | Request::Nodes => {
                answer(&request)
            }
            other => reply(other),
        };
        writing.take(Ok(reply));
        if request != Request::Settings {
            asked.push(request);
        }
        assert!(asked.len() < 100);
    }
    let mut text = String::new();
    let misfits = writing.write(&client(), &mut |piece| text.push_str(piece));
    assert!(misfits.is_empty(), "{misfits:?}");
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    for name in ["meta", "errors", "warnings"] {
        assert!(value.get(name).is_some(), "{text}");
    }
    (asked, writing.status(), value)
}

fn accepted(_: &Request) -> Reply {
    Reply::Submitted {
        job: JobId(42),
        tasks: 0,
        note: "look here".into(),
    }
}

fn job(more: Value) -> Value {
    let mut job = json!({
        "environment": ["PATH=/bin"], "current_working_directory": "/w", "name": "x"
    });
    let entries = more.as_object().unwrap().clone();
    job.as_object_mut().unwrap().extend(entries);
    json!({"script": "#!/bin/sh\ntrue\n", "job": job})
}

fn submit(more: Value) -> Result<Submission, (u64, String)> {
    let body = job(more).to_string();
    let (asked, status, value) =
        send("POST", "/slurm/v0.0.44/job/submit", body.as_bytes(), false, accepted);
    match asked.last() {
        Some(Request::Submit(submission)) => {
            assert_eq!(status, 200, "{value}");
            assert_eq!(value["job_id"], 42);
            assert_eq!(value["job_submit_user_msg"], "look here");
            Ok((**submission).clone())
        }
        _ => {
            let fault = &value["errors"][0];
            assert!(status >= 400, "{value}");
            assert_eq!(value["job_id"], 0);
            Err((
                fault["error_number"].as_u64().unwrap(),
                format!(
                    "{}: {}",
                    fault["source"].as_str().unwrap(),
                    fault["description"].as_str().unwrap()
                ),
            ))
        }
    }
}

#[test]
fn a_job_is_submitted() {
    let all = json!({
        "tasks": 4, "cpus_per_task": 2, "tasks_per_node": 2, "minimum_nodes": 2,
        "memory_per_node": {"set": true, "infinite": false, "number": 512},
        "time_limit": {"set": true, "number": 90}, "account": "physics", "partition": "main",
        "argv": ["a", "b c"], "required_nodes": ["n1", "n2"], "tres_per_node": "gres/gpu:1",
        "dependency": "afterok:5", "requeue": false, "hold": true, "nice": 7, "comment": "why = what",
        "mail_type": ["END", "TIME=90%"], "mail_user": "a@b.c", "standard_output": "o-%j",
        "open_mode": ["APPEND"], "shared": ["none"], "array": "1-3%2", "constraints": "fast",
        "kill_warning_signal": "USR1", "kill_warning_delay": {"set": true, "number": 60},
        "kill_warning_flags": ["BATCH_JOB"], "rlimits": {"nofile": {"set": true, "number": 1024}},
        "flags": ["KILL_INVALID_DEPENDENCY"], "user_id": "1000", "reservation": "course",
        "licenses": "matlab:1", "begin_time": 1_795_300_000_u64, "priority": {"set": false}
    });
    let Submission {
        spec,
        script,
        array,
    } = submit(all).unwrap();
    assert_eq!(script, "#!/bin/sh\ntrue\n".into());
    assert_eq!(array.unwrap().indices().len(), 3);
    let request = &spec.request;
    assert_eq!((request.tasks, request.cores_per_task, request.nodes), (Some(4), 2, Some(2)));
    assert_eq!((request.gpus_per_node, request.exclusive), (1, true));
    assert_eq!(request.memory, MemoryRequest::PerNode(MiB(512)));
    assert_eq!(request.require, ["n1", "n2"]);
    assert_eq!(request.features, ["fast"]);
    assert_eq!(spec.time_limit, Some(Span::from_minutes(90)));
    assert_eq!((spec.name.as_str(), spec.account.as_deref()), ("x", Some("physics")));
    assert_eq!(spec.comment, "why = what");
    assert_eq!((spec.nice, spec.hold, spec.requeue), (7, true, false));
    assert_eq!(spec.reservation.map(|r| r.0), Some(1));
    assert_eq!(spec.rlimits[..], [("NOFILE".to_owned(), 1024, 1024)]);
    assert_eq!(spec.end_if_never, Some(true));
    assert_eq!(spec.mail.limit_shares, [90]);
    assert_eq!(spec.workdir, "/w".into());
    assert!(spec.warn.is_some() && spec.begin.is_some() && spec.stdout.is_some());
    let Program::Script { args, .. } = &spec.program else {
        panic!()
    };
    assert_eq!(args.len(), 2);
    let variables = spec.environment.lossy().replace('\0', "\n");
    for want in [
        "PATH=/bin",
        "SLURM_JOB_NAME=x",
        "SLURM_NTASKS=4",
        "SLURM_SUBMIT_DIR=/w",
    ] {
        assert!(variables.lines().any(|line| line == want), "{variables}");
    }
}

#[test]
fn other_spellings() {
    let body = json!({"jobs": [job(json!({"script": "#!/bin/sh\n"}))["job"]]}).to_string();
    let (asked, status, _) =
        send("POST", "/slurm/v0.0.42/job/submit", body.as_bytes(), false, accepted);
    assert_eq!((asked.len(), status), (1, 200));
    let with = |more: Value| submit(more).unwrap().spec;
    assert_eq!(
        with(json!({"minimum_cpus": 8, "cpus_per_task": 2}))
            .request
            .tasks,
        Some(4)
    );
    assert_eq!(with(json!({"nodes": "2-4"})).request.max_nodes, Some(4));
    assert_eq!(
        with(json!({"environment": {"A": "b=c"}}))
            .environment
            .lossy()
            .split('\0')
            .next(),
        Some("A=b=c")
    );
    assert!(
        with(json!({"time_limit": {"infinite": true}}))
            .time_limit
            .unwrap()
            .is_unlimited()
    );
    assert_eq!(
        with(json!({"tres_per_job": "gres/gpu:4"})).request.nodes,
        Some(2),
        "two GPUs on each node"
    );
    assert_eq!(with(json!({"partition": "main,main"})).queues.len(), 2);
    let container = with(json!({"container": "/bundle"})).container.unwrap();
    assert_eq!(container.source, ContainerSource::Bundle("/bundle".into()));
}

#[test]
fn what_is_refused_says_what() {
    let check = |more: Value, number: u64, part: &str| {
        let (own, text) = submit(more.clone()).expect_err(&more.to_string());
        assert!(own == number && text.contains(part), "{more}: {own} {text}");
    };
    check(json!({"environment": []}), 2127, "environment");
    check(json!({"current_working_directory": "w"}), 9002, "absolute");
    check(json!({"tasks": 0}), 9001, "");
    check(json!({"tasks": "many"}), 9001, "");
    check(json!({"nodes": "0"}), 2006, "Node count");
    check(json!({"array": "x"}), 2081, "array");
    check(json!({"dependency": "afterok"}), 2038, "dependency");
    check(json!({"container": "-c"}), 9001, "--container");
    check(json!({"x11": ["BATCH_NODE"]}), 2036, "x11");
    check(json!({"crontab": {"minute": "5"}}), 2036, "crontab");
    check(json!({"user_id": "0"}), 2002, "user_id");
    check(json!({"reservation": "none"}), 2053, "none");
    check(json!({"partition": "main,nope"}), 2000, "nope");
    check(json!({"required_nodes": "/etc/passwd"}), 9001, "required_nodes");
    check(json!({"tres_per_job": "gres/fpga:1"}), 2036, "fpga");
    check(json!({"flags": ["TOP_PRIORITY_JOB"]}), 2036, "TOP_PRIORITY_JOB");
}

#[test]
fn bodies_without_a_job() {
    let check = |body: &str, number: u64, status: u16| {
        let sent = send("POST", "/slurm/v0.0.43/job/submit", body.as_bytes(), false, accepted);
        assert_eq!(
            (sent.1, &sent.2["errors"][0]["error_number"]),
            (status, &number.into()),
            "{body}"
        );
        assert!(sent.0.is_empty());
    };
    check("", 9001, 400);
    check("[]", 9001, 400);
    check("{}", 9002, 400);
    check(r#"{"job": 5}"#, 9002, 400);
    check(r#"{"jobs": []}"#, 9002, 400);
    check(r#"{"jobs": [{}, {}]}"#, 2009, 500);
    check(r#"{"jobs": [{}, 5]}"#, 9002, 400);
    check(r#"{"job": {"name": "x"}}"#, 2009, 500);
    check(&"[".repeat(100_000), 9001, 400);
}

#[test]
fn switches_are_asked_for_with_their_wait_in_seconds() {
    let check = |more: Value, most: u32, wait: Option<i64>| {
        let request = submit(more).unwrap().spec.request;
        let switches = request.switches.unwrap();
        assert_eq!((switches.most, switches.wait.map(Span::secs)), (most, wait));
    };
    check(json!({"minimum_nodes": 2, "required_switches": 1}), 1, None);
    check(json!({"minimum_nodes": 2, "required_switches": 2, "wait_for_switch": 95}), 2, Some(95));
    let none = submit(json!({"required_switches": 0, "wait_for_switch": 95, "segment_size": 0}));
    let none = none.unwrap().spec.request;
    assert_eq!((none.switches, none.segment), (None, None));
    let segments = submit(json!({"minimum_nodes": 4, "segment_size": 2})).unwrap();
    assert_eq!(segments.spec.request.segment, Some(2));
}

#[test]
fn which_gpus_tasks_see_is_for_the_steps_of_a_job() {
    let made = submit(json!({"tres_per_node": "gres/gpu:2", "tres_bind": "gres/gpu:single:2"}));
    let variables = made.unwrap().spec.environment.lossy();
    let found = variables
        .split('\0')
        .find(|v| v.starts_with("SLURM_GPU_BIND="));
    assert_eq!(found, Some("SLURM_GPU_BIND=single:2"));
    let (_, why) = submit(json!({"tres_bind": "gres/gpu:some"})).unwrap_err();
    assert!(why.contains("some"), "{why}");
}

#[test]
fn warnings_name_what_has_no_effect() {
    let mut body = job(json!({"tasks_per_board": 2, "colour": "red", "threads_per_core": 1}));
    body["script"] = "#!/bin/sh\n#SBATCH -n 5\n".into();
    let sent =
        send("POST", "/slurm/v0.0.44/job/submit", body.to_string().as_bytes(), false, accepted);
    let told: Vec<&str> = sent.2["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w["description"].as_str().unwrap())
        .collect();
    assert!(told.iter().any(|t| t.contains("tasks_per_board")), "{told:?}");
    assert!(told.iter().any(|t| t.contains("colour")), "{told:?}");
    assert!(told.iter().any(|t| t.contains("threads-per-core")), "{told:?}");
    assert!(told.iter().any(|t| t.contains("#SBATCH")), "{told:?}");
    // What a later version brings is unknown before.
    let body = job(json!({"step_id": {}})).to_string();
    let sent = send("POST", "/slurm/v0.0.43/job/submit", body.as_bytes(), false, accepted);
    assert_eq!(sent.2["warnings"].as_array().unwrap().len(), 1);
}

#[test]
fn refusals_of_the_controller_keep_their_number() {
    let refused = |_: &Request| {
        let mut refusal = Refusal::new(RefusalCode::NotFound, "there is no queue nope");
        refusal.about = Some(About::Queue);
        Reply::Refused(refusal)
    };
    let body = job(json!({"partition": "nope"})).to_string();
    let (_, status, value) =
        send("POST", "/slurm/v0.0.44/job/submit", body.as_bytes(), false, refused);
    assert_eq!((status, &value["errors"][0]["error_number"]), (500, &2000.into()));
    assert_eq!(value["errors"][0]["error"], "Invalid partition name specified");
    assert_eq!(value["errors"][0]["description"], "there is no queue nope");
}

fn done(refused: Vec<(String, Refusal)>) -> Reply {
    Reply::Done {
        changed: 1,
        refused,
    }
}

#[test]
fn a_job_is_changed() {
    let body = json!({"time_limit": 30, "reservation": "course", "hold": false}).to_string();
    let sent = send("POST", "/slurm/v0.0.44/job/12", body.as_bytes(), false, |_| done(Vec::new()));
    assert_eq!(sent.1, 200);
    let [
        Request::Reservations { .. },
        Request::Change { filter, change },
        Request::Release { .. },
    ] = &sent.0[..]
    else {
        panic!("{:?}", sent.0)
    };
    assert_eq!(filter.ids[0].to_string(), "12");
    let want = JobChange {
        time_limit: Some(Span::from_minutes(30)),
        reservation: Some(cosy_model::ReservationId(1)),
        ..JobChange::default()
    };
    assert_eq!(**change, want);
    assert_eq!(sent.2["results"][0]["error_code"], 0);
    assert_eq!(sent.2["results"][0]["job_id"], 12);
    let deadline = json!({"deadline": 1_895_300_000_u64}).to_string();
    let sent =
        send("POST", "/slurm/v0.0.44/job/12", deadline.as_bytes(), false, |_| done(Vec::new()));
    assert_eq!((sent.1, sent.0.len()), (500, 0), "only administrators");
    let sent =
        send("POST", "/slurm/v0.0.44/job/12", deadline.as_bytes(), true, |_| done(Vec::new()));
    assert_eq!((sent.1, sent.0.len()), (200, 1));
}

#[test]
fn jobs_are_cancelled() {
    let not_there = || ("12".to_owned(), Refusal::new(RefusalCode::NotFound, "there is no job 12"));
    let sent = send("DELETE", "/slurm/v0.0.44/job/12", b"", false, |_| done(Vec::new()));
    assert_eq!((sent.1, sent.2["status"][0]["job_id"]["number"].as_i64()), (200, Some(12)));
    let sent = send("DELETE", "/slurm/v0.0.44/job/12", b"", false, |_| done(vec![not_there()]));
    assert_eq!((sent.1, &sent.2["status"][0]["error"]["code"]), (404, &2017.into()));
    let body = br#"{"jobs": ["11", "12"]}"#;
    let sent = send("DELETE", "/slurm/v0.0.44/jobs/", body, false, |_| done(vec![not_there()]));
    assert_eq!(sent.1, 200);
    let codes: Vec<i64> = sent.2["status"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["error"]["code"].as_i64().unwrap())
        .collect();
    assert_eq!(codes, [0, 2017]);
    // Those that a condition means are told one by one.
    let sent =
        send("DELETE", "/slurm/v0.0.44/jobs/", br#"{"user_name": "ann"}"#, false, |request| {
            match request {
                Request::Jobs { .. } => answer(request),
                _ => done(Vec::new()),
            }
        });
    // The one that has failed is over.
    assert_eq!(sent.2["status"].as_array().unwrap().len(), 2);
    assert_eq!(sent.2["status"][1]["step_id"], "13_[1-4%2]");
    let sent = send("DELETE", "/slurm/v0.0.44/jobs/", b"{}", false, |_| done(Vec::new()));
    assert_eq!((sent.1, sent.0.len()), (422, 0));
}

/// Any JSON, with names that mean something now and then.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[-0-9a-z%@=:,/\\[\\]]{0,12}".prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any_name(), inner), 0..4)
                .prop_map(|all| Value::Object(all.into_iter().collect())),
        ]
    })
}

fn any_name() -> impl Strategy<Value = String> {
    let names: Vec<String> = cosy_rest::shape::Shapes::of(ApiVersion::V44)
        .record("job_request")
        .iter()
        .map(|field| field.name.to_owned())
        .chain(
            [
                "set", "number", "infinite", "script", "jobs", "signal", "flags",
            ]
            .map(str::to_owned),
        )
        .collect();
    prop_oneof![4 => prop::sample::select(names), 1 => "[a-z_]{0,6}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_body_panics(entries in prop::collection::vec((any_name(), any_value()), 0..8), kind in 0_usize..3) {
        let entries: serde_json::Map<String, Value> = entries.into_iter().collect();
        let body = match kind {
            0 => job(Value::Object(entries)),
            _ => Value::Object(entries),
        }.to_string();
        let (method, path) = [("POST", "job/submit"), ("POST", "job/7"), ("DELETE", "jobs")][kind];
        let path = format!("/slurm/v0.0.44/{path}");
        send(method, &path, body.as_bytes(), true, |request| match request {
            Request::Submit(_) => accepted(request),
            Request::Jobs { .. } => answer(request),
            Request::Accounts { .. } => Reply::Accounts(Vec::new()),
            _ => done(Vec::new()),
        });
    }

    #[test]
    fn no_bytes_panic(body in prop::collection::vec(any::<u8>(), 0..200), id in "\\PC{0,8}") {
        for (method, path) in [("POST", "job/submit".to_owned()), ("DELETE", "jobs".to_owned())] {
            send(method, &format!("/slurm/v0.0.42/{path}"), &body, false, |_| done(Vec::new()));
        }
        let _ = Call::read("DELETE", &format!("/slurm/v0.0.42/job/{id}"), &id);
    }
}

#[test]
fn jobs_of_several_components() {
    let with = |second: Value| {
        let mut body = job(json!({"tasks": 2, "account": "physics", "licenses": "matlab:1"}));
        let first = body.as_object_mut().unwrap().remove("job").unwrap();
        body["jobs"] = json!([first, second]);
        let body = body.to_string();
        send("POST", "/slurm/v0.0.44/job/submit", body.as_bytes(), false, accepted)
    };
    let second = json!({
        "name": "second", "nodes": "2", "cpus_per_task": 3, "partition": "main", "licenses": "matlab:2",
        "account": "physics", "tres_per_job": "gres/gpu:4"
    });
    let (asked, status, value) = with(second);
    assert_eq!(status, 200, "{value}");
    let Some(Request::Submit(submission)) = asked.last() else {
        panic!("{asked:?}")
    };
    let spec = &submission.spec;
    assert_eq!((spec.request.tasks, spec.further_components.len()), (Some(2), 1));
    let further = &spec.further_components[0];
    assert_eq!((further.request.nodes, further.request.cores_per_task), (Some(2), 3));
    assert_eq!((further.name.as_deref(), further.queue.as_deref()), (Some("second"), Some("main")));
    assert_eq!(further.request.gpus_per_node, 2);
    assert_eq!(spec.licenses.get("matlab"), 3);
    let refused = |second: Value, part: &str| {
        let (_, status, value) = with(second);
        let told = value["errors"][0]["description"].as_str().unwrap();
        assert!(status == 500 && told.contains(part), "{value}");
    };
    refused(json!({"account": "chemistry"}), "account");
    refused(json!({"time_limit": 5}), "time");
    refused(json!({"script": "#!/bin/sh\nfalse\n"}), "script");
    refused(json!({"current_working_directory": "/elsewhere"}), "folder");
    let (_, status, value) = with(json!({"array": "1-3"}));
    assert_eq!((status, &value["errors"][0]["error_number"]), (500, &2081.into()));
}
