//! What users do on the web page with their work: what limits it, changes, jobs into bookings,
//! workflow files; and what administrators see of nodes.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_tests::page::{DAEMON, GAMES, Page, WWW};
use cosy_tests::{Cluster, Options, system};
use serde_json::{Value as Json, json};

const JSON: &str = "Content-Type: application/json";

/// A cluster with a page, administrators who have their rights on it, and these lines of `[policy]`.
fn cluster(policy: &str) -> Option<Cluster> {
    if !nix::unistd::getuid().is_root() {
        system::skip("not root: nobody can be somebody else");
        return None;
    }
    let options = Options {
        // The users that every host has may run jobs.
        noded: |_| "min_uid = 1\n".to_owned(),
        controller: "[web]\nuser = \"www-data\"\nadministrators = true\n".to_owned(),
        policy: format!("{}{policy}", Options::default().policy),
        ..Options::default()
    };
    let cluster = Cluster::start(1, options);
    cluster.open_commands();
    Some(cluster)
}

fn submit(cluster: &Cluster, page: &Page, words: &[&str]) -> String {
    let words = [&["csub", "-t", "30", "--output", "/dev/null"], words].concat();
    let told = page.command_as(cluster, DAEMON, &words).expect(0).out;
    told.trim().rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn what_limits_a_job_is_told_and_the_job_changed() {
    let Some(cluster) = cluster("enforce = [\"limits\", \"qos\"]\n") else {
        return;
    };
    let page = Page::start(&cluster, WWW, "");
    let manage = |words: &[&str]| {
        let words = [&["sacctmgr", "-i"], words].concat();
        page.command_as(&cluster, 0, &words).expect(0);
    };
    manage(&["add", "account", "physics", "GrpJobs=3", "GrpTRES=cpu=16"]);
    manage(&["add", "user", "daemon", "account=physics", "MaxJobs=2"]);
    let (own, other) = (page.bearer(&cluster, DAEMON), page.bearer(&cluster, GAMES));
    let runs = submit(&cluster, &page, &["--account", "physics", "--", "sleep", "1000"]);
    let job = submit(&cluster, &page, &["--account", "physics", "--hold", "--", "true"]);
    let path = format!("/api/v1/jobs/{job}");
    let limits = format!("{path}/limits");
    page.until("one runs", &format!("/api/v1/jobs/{runs}"), &[&own], |answer| {
        answer.json()["tasks"][0]["state"] == "running"
    });
    let told = page.ask("GET", &limits, &[&own], "").expect(200);
    assert_eq!((&told["account"], &told["user"]), (&json!("physics"), &json!("daemon")));
    let rows = told["limits"].as_array().unwrap();
    let check = |of: &str, limit: &str, most: u64, used: u64| {
        let row = rows
            .iter()
            .find(|row| row["of"] == of && row["limit"] == limit);
        let row = row.unwrap_or_else(|| panic!("{of} {limit}: {told}"));
        assert_eq!((&row["most"], &row["used"]), (&json!(most), &json!(used)), "{row}");
    };
    check("account physics", "GrpJobs", 3, 1);
    check("account physics", "GrpTRES=cpu", 16, 1);
    check("daemon in physics", "MaxJobs", 2, 1);
    assert_eq!(told["enforced"], true);
    // Whose jobs somebody may not see, of those nothing is told either.
    page.ask("GET", &limits, &[&other], "").expect(404);
    page.ask("GET", "/api/v1/jobs/9999/limits", &[&own], "")
        .expect(404);
    let change = |who: &str, body: Json| page.ask("PATCH", &path, &[who, JSON], &body.to_string());
    let body = json!({ "nice": 7, "comment": "c", "begin": "2036-01-02T03:04:05Z",
                       "deadline": "2036-02-02T03:04:05Z", "qos": "normal" });
    change(&own, body).expect(200);
    let seen = page.ask("GET", &path, &[&own], "").expect(200);
    let seen = &seen["tasks"][0];
    assert_eq!((&seen["nice"], &seen["comment"]), (&json!(7), &json!("c")), "{seen}");
    assert_eq!(seen["begin"], "2036-01-02T03:04:05.000Z");
    assert_eq!(
        (&seen["deadline"], &seen["qos"]),
        (&json!("2036-02-02T03:04:05.000Z"), &json!("normal"))
    );
    for (wrong, word) in [
        (json!({ "qos": "gold" }), "gold"),
        (json!({ "queue": "nowhere" }), "nowhere"),
        (json!({ "priority": -1 }), "-1"),
        (json!({ "nice": "very" }), "very"),
    ] {
        let refused = change(&own, wrong.clone());
        assert!((400..500).contains(&refused.status), "{wrong}: {refused:?}");
        assert!(refused.body.contains(word), "{wrong}: {refused:?}");
    }
    change(&other, json!({ "nice": 1 })).expect(404);
    page.ask("DELETE", &path, &[&own], "").expect(200);
    page.ask("GET", &limits, &[&own], "").expect(404);
}

#[test]
fn what_happened_to_a_node_is_for_administrators() {
    let Some(cluster) = cluster("") else { return };
    let page = Page::start(&cluster, WWW, "");
    let (own, root) = (page.bearer(&cluster, DAEMON), page.bearer(&cluster, 0));
    let body = json!({ "action": "drain", "reason": "a fan" }).to_string();
    page.ask("POST", "/api/v1/nodes/n1", &[&root, JSON], &body)
        .expect(200);
    let log = "/api/v1/nodes/n1/log";
    page.until("it is told", log, &[&root], |answer| {
        let told = answer.json();
        let all = told["events"].as_array().unwrap().clone();
        all.iter().any(|one| {
            one["what"] == "drained" && one["object"] == "node n1" && one["detail"] == "a fan"
        })
    });
    page.ask("GET", log, &[&own], "").expect(403);
    let elsewhere = page
        .ask("GET", "/api/v1/nodes/n9/log", &[&root], "")
        .expect(200);
    assert_eq!(elsewhere["events"], json!([]));
    // How its machine is everybody is told.
    page.until("its daemon has told", "/api/v1/nodes/n1", &[&own], |answer| {
        let machine = &answer.json()["machine"];
        machine["boot"].is_string() && machine["os"].as_str().unwrap().starts_with("Linux")
    });
}

#[test]
fn a_job_goes_into_a_booking() {
    let Some(cluster) = cluster("") else { return };
    let page = Page::start(&cluster, WWW, "");
    let own = page.bearer(&cluster, DAEMON);
    let book = json!({ "length": 3600, "nodes": 1, "name": "mine" }).to_string();
    let booked = page
        .ask("POST", "/api/v1/reservations", &[&own, JSON], &book)
        .expect(200);
    let id = booked["reservations"][0]["id"].as_u64().unwrap();
    let submit = |reservation: &str| {
        let job = json!({ "name": "inside", "nodes": "1", "tasks": 1, "current_working_directory": "/tmp",
                          "standard_output": "/dev/null", "environment": ["PATH=/usr/bin:/bin"],
                          "time_limit": { "set": true, "infinite": false, "number": 5 },
                          "reservation": reservation });
        let body = json!({ "script": "#!/bin/sh\nsleep 600\n", "job": job }).to_string();
        page.ask("POST", "/slurm/v0.0.44/job/submit", &[&own, JSON], &body)
    };
    // By its number, which tells those of a series apart, and by its name.
    for named in [id.to_string(), "mine".to_owned()] {
        let job = submit(&named).expect(200)["job_id"].as_u64().unwrap();
        let told = page
            .ask("GET", &format!("/api/v1/jobs/{job}"), &[&own], "")
            .expect(200);
        assert_eq!(told["tasks"][0]["reservation"], json!(id), "{named}");
    }
    let refused = submit("4711");
    assert!(refused.status >= 400 && refused.body.contains("4711"), "{refused:?}");
}

const FLOW: &str = "[workflow]\nname = 'night'\n[tasks.a]\nrun = 'true'\nestimate = '1m'\n\
                    [tasks.b]\nrun = 'true'\nestimate = '1m'\nafter = 'a'\n";

#[test]
fn workflow_files_are_planned_and_booked() {
    let Some(cluster) = cluster("") else { return };
    let page = Page::start(&cluster, WWW, "");
    let own = page.bearer(&cluster, DAEMON);
    let post = |path: &str, body: Json| {
        page.ask("POST", &format!("/api/v1{path}"), &[&own, JSON], &body.to_string())
    };
    let ask = |file: &str| json!({ "file": file, "name": "f.toml", "folder": "/tmp", "finish_by": "now+2h" });
    let plan = post("/workflows/plan", ask(FLOW)).expect(200);
    assert_eq!((&plan["name"], plan["tasks"].as_array().unwrap().len()), (&json!("night"), 2));
    let words = plan["words"].to_string();
    assert!(words.contains("Starts at") && words.contains("It costs"), "{words}");
    assert!(
        page.ask("GET", "/api/v1/workflows", &[&own], "")
            .expect(200)["workflows"]
            == json!([])
    );
    let booked = post("/workflows", ask(FLOW)).expect(200);
    let id = booked["id"].as_u64().unwrap();
    let path = format!("/api/v1/workflows/{id}");
    let seen = page.ask("GET", &path, &[&own], "").expect(200);
    assert!(
        ["confirmed", "active", "running"].contains(&seen["state"].as_str().unwrap()),
        "{seen}"
    );
    page.ask("DELETE", &path, &[&own], "").expect(200);
    // Given back, so that there is room again; only held.
    let mut body = ask(FLOW);
    (body["hold"], body["finish_by"]) = (json!(true), json!("now+4h"));
    let held = post("/workflows", body).expect(200);
    assert_eq!((&held["state"], &held["name"]), (&json!("held"), &json!("night")));
    let id = held["id"].as_u64().unwrap();
    page.ask("DELETE", &format!("/api/v1/workflows/{id}"), &[&own], "")
        .expect(200);
    let with = |key: &str, value: Json| {
        let mut body = ask(FLOW);
        body[key] = value;
        body
    };
    for (mistake, status, word) in [
        (ask("[tasks.a]\nscript = '/etc/passwd'\nestimate = '1m'\n"), 400, "f.toml:1"),
        (ask("[tasks.a]\nrun = 'x'\nestimate = '1m'\nnodes = 99\n"), 422, "f.toml:1"),
        (ask("[tasks"), 400, "f.toml:1"),
        (with("slack", json!("50%")), 400, "exclude"),
        (with("finish_by", json!("now+1s")), 0, "deadline"),
        (with("zone", json!("Mars")), 400, "Mars"),
        (with("colour", json!("red")), 400, "colour"),
        (json!({ "file": FLOW }), 400, "by when"),
        (ask(&"# ".repeat(600_000)), 413, "KiB"),
    ] {
        let refused = post("/workflows/plan", mistake);
        let right =
            (400..500).contains(&refused.status) && (status == 0 || refused.status == status);
        assert!(right && refused.body.contains(word), "{word}: {refused:?}");
        assert!(!refused.body.contains("root:"), "{refused:?}");
    }
    assert_eq!(post("/workflows/plan", ask(&"x".repeat(3_000_000))).status, 413);
}

#[test]
fn a_page_to_look_at_plans_and_books_no_workflow() {
    let Some(cluster) = cluster("") else { return };
    let page = Page::start(&cluster, WWW, "read_only = true");
    let own = page.bearer(&cluster, DAEMON);
    let body = json!({ "file": FLOW, "finish_by": "now+2h" }).to_string();
    page.ask("POST", "/api/v1/workflows/plan", &[&own, JSON], &body)
        .expect(200);
    page.ask("POST", "/api/v1/workflows", &[&own, JSON], &body)
        .expect(403);
}
