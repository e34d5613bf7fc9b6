//! Slurm's REST interface and metrics of a real cluster, through the program that serves them.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::page::{DAEMON, GAMES, Page};
use cosy_tests::python::{Packages, with_or_skip};
use cosy_tests::run::run;
use cosy_tests::{Cluster, Options};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

const VERSIONS: [&str; 3] = ["v0.0.42", "v0.0.43", "v0.0.44"];

/// Asks with a body; gives status and document.
#[track_caller]
fn send(page: &Page, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let answer = page.ask_locally(method, path, &body);
    (answer.status, answer.json())
}

/// Looks; nothing may be wrong.
#[track_caller]
fn get(page: &Page, path: &str) -> Value {
    let value = page.ask_locally("GET", path, "").expect(200);
    assert_eq!(value["errors"], json!([]), "{path}");
    value
}

fn job(c: &Cluster, script: &str) -> Value {
    json!({
        "script": script,
        "job": {
            "name": "from afar", "partition": "main", "tasks": 1,
            "environment": ["PATH=/usr/bin:/bin", "GREETING=hello"],
            "current_working_directory": c.work(), "standard_output": "out-%j"
        }
    })
}

#[test]
fn a_job_goes_through_the_interface() {
    let c = Cluster::start(2, Options::default());
    let page = Page::start(&c, 0, "");
    let path = |version: &str, rest: &str| format!("/slurm/{version}/{rest}");
    let ping = get(&page, &path("v0.0.44", "ping/"));
    assert_eq!(ping["pings"][0]["responding"], true);
    assert_eq!(ping["meta"]["slurm"]["version"]["major"], "25");
    for version in VERSIONS {
        let body = job(&c, "#!/bin/sh\necho $GREETING $SLURM_JOB_NAME $1\n");
        let (status, value) = send(&page, "POST", &path(version, "job/submit"), &body);
        assert_eq!(status, 200, "{value}");
        let id = value["job_id"].as_u64().unwrap();
        c.until_state(JobId(id), JobState::Completed);
        let job = &get(&page, &path(version, &format!("job/{id}")))["jobs"][0];
        assert_eq!(job["job_state"], json!(["COMPLETED"]));
        assert_eq!(job["exit_code"]["status"], json!(["SUCCESS"]));
        let told = fs::read_to_string(c.work().join(format!("out-{id}"))).unwrap();
        assert_eq!(told.trim(), "hello from afar");
        let kept = get(&page, &format!("/slurmdb/{version}/job/{id}"));
        assert_eq!(kept["jobs"][0]["state"]["current"], json!(["COMPLETED"]));
        assert_eq!(kept["jobs"][0]["steps"][0]["step"]["id"], format!("{id}.batch"));
        assert_eq!(kept["jobs"][0]["name"], "from afar");
    }
    let shown = run(&mut c.command(&["squeue", "-h", "-t", "all", "-o", "%i %T %P %D %C"]));
    let jobs = get(&page, "/slurm/v0.0.44/jobs/");
    let own: Vec<String> = jobs["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| {
            let number = |name: &str| job[name]["number"].to_string();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let (id, state) = (job["job_id"].to_string(), text(&job["job_state"][0]));
            format!(
                "{id} {state} {} {} {}",
                text(&job["partition"]),
                number("node_count"),
                number("cpus")
            )
        })
        .collect();
    let mut told: Vec<&str> = shown.out.lines().map(str::trim).collect();
    told.sort_unstable();
    assert_eq!(own, told, "squeue and REST agree");
}

#[test]
fn jobs_are_held_changed_and_cancelled() {
    let c = Cluster::start(1, Options::default());
    let page = Page::start(&c, 0, "");
    let mut body = job(&c, "#!/bin/sh\nsleep 600\n");
    body["job"]["hold"] = true.into();
    let (status, value) = send(&page, "POST", "/slurm/v0.0.43/job/submit", &body);
    assert_eq!(status, 200, "{value}");
    let id = value["job_id"].as_u64().unwrap();
    let path = format!("/slurm/v0.0.43/job/{id}");
    let job = get(&page, &path)["jobs"][0].clone();
    assert_eq!((&job["hold"], &job["state_reason"]), (&true.into(), &"JobHeldUser".into()));
    let change =
        json!({"hold": false, "comment": "let it go", "time_limit": {"set": true, "number": 5}});
    let (status, value) = send(&page, "POST", &path, &change);
    assert_eq!((status, &value["results"][0]["error_code"]), (200, &0.into()), "{value}");
    c.until_state(JobId(id), JobState::Running);
    let job = get(&page, &path)["jobs"][0].clone();
    assert_eq!((&job["comment"], &job["time_limit"]["number"]), (&"let it go".into(), &5.into()));
    assert_eq!(job["job_resources"]["nodes"]["allocation"][0]["name"], "n1");
    let nodes = get(&page, "/slurm/v0.0.42/nodes");
    assert_eq!(nodes["nodes"][0]["alloc_cpus"], 1);
    let (status, value) = send(&page, "DELETE", &path, &Value::Null);
    assert_eq!(status, 200, "{value}");
    c.until_state(JobId(id), JobState::Cancelled);
    let (status, value) = send(&page, "DELETE", "/slurm/v0.0.43/job/999999", &Value::Null);
    assert_eq!((status, &value["errors"][0]["error_number"]), (404, &2017.into()), "{value}");
    let (status, value) = send(&page, "GET", "/slurm/v0.0.43/job/999999", &Value::Null);
    assert_eq!((status, &value["errors"][0]["error"]), (404, &"Invalid job id specified".into()));
}

#[test]
fn who_asks_has_to_be_known() {
    let c = Cluster::start(1, Options::default());
    let page = Page::start(&c, 0, "");
    let path = "/slurm/v0.0.44/jobs";
    let value = page.ask("GET", path, &[], "").expect(401);
    assert_eq!(value["errors"][0]["error"], "Authentication failure");
    let bearer = page.bearer(&c, 0);
    let token = bearer.rsplit(' ').next().unwrap();
    let slurm = format!("X-SLURM-USER-TOKEN: {token}");
    let check = |headers: &[&str], want: u16| {
        page.ask("GET", path, headers, "").expect(want);
    };
    check(&[&bearer], 200);
    check(&[&slurm], 200);
    check(&[&slurm, "X-SLURM-USER-NAME: root"], 200);
    check(&[&slurm, "X-SLURM-USER-NAME: nobody"], 401);
    check(&["Authorization: Bearer x.y.z"], 401);
    page.ask("GET", "/slurm/v0.0.41/jobs", &[&bearer], "")
        .expect(404);
    page.ask("PUT", path, &[&bearer], "").expect(405);
    assert_eq!(page.ask("GET", "/metrics", &[], "").status, 401);
    let told = page.ask("GET", "/metrics", &[&bearer], "");
    assert!(told.status == 200 && told.body.contains("\nslurm_nodes 1\n"), "{told:?}");
    let described = page.ask("GET", "/openapi/v3", &[], "").expect(200);
    assert!(described["paths"].as_object().unwrap().len() > 50);
}

#[test]
fn everybody_acts_for_oneself() {
    let c = Cluster::start(1, Options::default());
    let page = Page::start(&c, 0, "");
    let (own, other) = (page.bearer(&c, DAEMON), page.bearer(&c, GAMES));
    let json = "Content-Type: application/json";
    let mut body = job(&c, "#!/bin/sh\nsleep 600\n");
    // It need not run: nodes start nothing for users of the system.
    body["job"]["hold"] = true.into();
    body["job"]["user_id"] = "games".into();
    let path = "/slurm/v0.0.44/job/submit";
    let refused = page
        .ask("POST", path, &[&own, json], &body.to_string())
        .expect(500);
    assert_eq!(refused["errors"][0]["error_number"], 2002, "nobody submits for others");
    body["job"]["user_id"] = "daemon".into();
    let made = page
        .ask("POST", path, &[&own, json], &body.to_string())
        .expect(200);
    let id = made["job_id"].as_u64().unwrap();
    let path = format!("/slurm/v0.0.44/job/{id}");
    let told = get(&page, &path);
    assert_eq!(told["jobs"][0]["user_name"], "daemon");
    let denied = page.ask("DELETE", &path, &[&other], "");
    assert!(denied.status >= 400, "{denied:?}");
    let change = json!({"comment": "mine"}).to_string();
    let denied = page.ask("POST", &path, &[&other, json], &change);
    assert!(denied.status >= 400, "{denied:?}");
    assert_eq!(get(&page, &path)["jobs"][0]["comment"], "");
    page.ask("DELETE", &path, &[&own], "").expect(200);
    c.until_state(JobId(id), JobState::Cancelled);
}

#[test]
fn metrics_and_what_only_shows() {
    let c = Cluster::start(2, Options::default());
    let page = Page::start(&c, 0, "metrics = 'everybody'\nread_only = true\n");
    let text = page.ask("GET", "/metrics", &[], "").body;
    for line in [
        "slurm_nodes 2",
        "slurm_cpus_alloc 0",
        "cosy_nodes{state=\"idle\"} 2",
        "slurm_jobs 0",
    ] {
        assert!(text.lines().any(|own| own == line), "{line}\n{text}");
    }
    assert!(!text.contains("slurm_node_cpus{"));
    let text = page.ask("GET", "/metrics/nodes", &[], "").body;
    assert!(text.contains("slurm_node_cpus{node=\"n1\"}"));
    assert_eq!(page.ask("GET", "/metrics/nothing", &[], "").status, 404);
    // Who runs what is nobody's whom the page does not know.
    for path in [
        "/metrics?users=1",
        "/metrics/jobs-users-accts",
        "/metrics?nodes=1&users=1",
    ] {
        assert_eq!(page.ask("GET", path, &[], "").status, 401, "{path}");
    }
    let (status, value) = send(&page, "POST", "/slurm/v0.0.44/job/submit", &job(&c, "#!/bin/sh\n"));
    assert_eq!((status, &value["errors"][0]["error_number"]), (403, &2002.into()));
}

#[test]
fn everything_is_answered() {
    let c = Cluster::start(1, Options::default());
    let page = Page::start(&c, 0, "");
    for version in VERSIONS {
        for path in [
            "ping",
            "diag",
            "jobs",
            "jobs/state",
            "nodes",
            "node/n1",
            "partitions",
            "partition/main",
            "reservations",
            "licenses",
            "shares",
        ] {
            get(&page, &format!("/slurm/{version}/{path}"));
        }
        for path in [
            "jobs",
            "users",
            "users?with_assocs=true",
            "accounts",
            "associations",
            "qos",
            "clusters",
            "tres",
            "wckeys",
            "instances",
            "config",
            "diag",
            "ping",
        ] {
            get(&page, &format!("/slurmdb/{version}/{path}"));
        }
    }
}

/// Clients for Python: the one that the OpenAPI generator makes, whose models take nothing but what the
/// published description of Slurm allows, and one that was written by hand.
#[test]
fn clients_for_python() {
    let packages = Packages {
        name: "rest",
        wanted: &["slurmrestapi==25.11.4.0", "slurm-requests==2.3.1"],
        modules: "slurmrestapi, slurm_requests",
    };
    let Some(python) = with_or_skip(packages) else {
        return;
    };
    let c = Cluster::start(2, Options::default());
    let page = Page::start(&c, 0, "");
    let body = job(&c, "#!/bin/sh\ntrue\n");
    let (_, value) = send(&page, "POST", "/slurm/v0.0.44/job/submit", &body);
    let id = value["job_id"].as_u64().unwrap();
    c.until_state(JobId(id), JobState::Completed);
    let bearer = page.bearer(&c, 0);
    let token = bearer.rsplit(' ').next().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/rest_client.py");
    let mut command = Command::new(python);
    command
        .arg(script)
        .args([
            &format!("http://{}", page.address()),
            token,
            &id.to_string(),
        ])
        .arg(c.work());
    run(&mut command).expect(0);
}
