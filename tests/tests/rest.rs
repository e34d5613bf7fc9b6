//! Slurm's REST interface and metrics of a real cluster, through the program that serves them.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::daemon::{Daemon, keep_private};
use cosy_tests::programs;
use cosy_tests::python::{Packages, with_or_skip};
use cosy_tests::run::run;
use cosy_tests::{Cluster, Options};
use nix::unistd::pipe;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSIONS: [&str; 3] = ["v0.0.42", "v0.0.43", "v0.0.44"];

/// The program beside a cluster.
struct Web {
    _daemon: Daemon,
    _lifeline: [OwnedFd; 2],
    socket: PathBuf,
    address: String,
}

impl Web {
    fn start(c: &Cluster, more: &str) -> Self {
        let state = c.dir().join("web");
        let socket = c.dir().join("web.sock");
        let config = c.dir().join("web.toml");
        let text = format!(
            "listen = '127.0.0.1:0'\nsocket = '{}'\nstate_dir = '{}'\ncontroller = ['{}']\n{more}",
            socket.display(),
            state.display(),
            c.socket().display()
        );
        fs::write(&config, text).unwrap();
        let program = programs::folder().join("cosy-web");
        let mut daemon = Daemon::new(&program, &config, &c.dir().join("log/cosy-web"));
        let (lifeline, end) = pipe().unwrap();
        keep_private(&lifeline);
        keep_private(&end);
        daemon.start(lifeline.as_fd());
        daemon.await_ready();
        let address = fs::read_to_string(state.join("listen.addr")).unwrap();
        Self {
            _daemon: daemon,
            _lifeline: [lifeline, end],
            socket,
            address: address.trim().to_owned(),
        }
    }

    /// Sends a request over the socket, at which the kernel says who asks.
    fn local(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let stream = UnixStream::connect(&self.socket).unwrap();
        talk(stream, method, path, &[], body)
    }

    /// The same over TCP with headers.
    fn remote(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let stream = TcpStream::connect(&self.address).unwrap();
        talk(stream, method, path, headers, "")
    }

    fn json(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let (status, text) = self.local(method, path, &body);
        let value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}: {text}"));
        (status, value)
    }

    fn get(&self, path: &str) -> Value {
        let (status, value) = self.json("GET", path, &Value::Null);
        assert_eq!(status, 200, "{path}: {value}");
        assert_eq!(value["errors"], json!([]), "{path}");
        value
    }
}

fn talk(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String) {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        let length = body.len();
        head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"));
    }
    stream
        .write_all(format!("{head}\r\n{body}").as_bytes())
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    (
        status,
        if chunked {
            whole(body)
        } else {
            body.to_owned()
        },
    )
}

/// A body that came in pieces.
fn whole(body: &str) -> String {
    let mut text = String::new();
    let mut rest = body;
    while let Some((size, more)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        if size == 0 {
            break;
        }
        text.push_str(&more[..size]);
        rest = &more[size + 2..];
    }
    text
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
    let web = Web::start(&c, "");
    let path = |version: &str, rest: &str| format!("/slurm/{version}/{rest}");
    let ping = web.get(&path("v0.0.44", "ping/"));
    assert_eq!(ping["pings"][0]["responding"], true);
    assert_eq!(ping["meta"]["slurm"]["version"]["major"], "25");
    for version in VERSIONS {
        let body = job(&c, "#!/bin/sh\necho $GREETING $SLURM_JOB_NAME $1\n");
        let (status, value) = web.json("POST", &path(version, "job/submit"), &body);
        assert_eq!(status, 200, "{value}");
        let id = value["job_id"].as_u64().unwrap();
        c.until_state(JobId(id), JobState::Completed);
        let job = &web.get(&path(version, &format!("job/{id}")))["jobs"][0];
        assert_eq!(job["job_state"], json!(["COMPLETED"]));
        assert_eq!(job["exit_code"]["status"], json!(["SUCCESS"]));
        let told = fs::read_to_string(c.work().join(format!("out-{id}"))).unwrap();
        assert_eq!(told.trim(), "hello from afar");
        let kept = web.get(&format!("/slurmdb/{version}/job/{id}"));
        assert_eq!(kept["jobs"][0]["state"]["current"], json!(["COMPLETED"]));
        assert_eq!(kept["jobs"][0]["steps"][0]["step"]["id"], format!("{id}.batch"));
        assert_eq!(kept["jobs"][0]["name"], "from afar");
    }
    let shown = run(&mut c.command(&["squeue", "-h", "-t", "all", "-o", "%i %T %P %D %C"]));
    let jobs = web.get("/slurm/v0.0.44/jobs/");
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
    let web = Web::start(&c, "");
    let mut body = job(&c, "#!/bin/sh\nsleep 600\n");
    body["job"]["hold"] = true.into();
    let (status, value) = web.json("POST", "/slurm/v0.0.43/job/submit", &body);
    assert_eq!(status, 200, "{value}");
    let id = value["job_id"].as_u64().unwrap();
    let path = format!("/slurm/v0.0.43/job/{id}");
    let job = web.get(&path)["jobs"][0].clone();
    assert_eq!((&job["hold"], &job["state_reason"]), (&true.into(), &"JobHeldUser".into()));
    let change =
        json!({"hold": false, "comment": "let it go", "time_limit": {"set": true, "number": 5}});
    let (status, value) = web.json("POST", &path, &change);
    assert_eq!((status, &value["results"][0]["error_code"]), (200, &0.into()), "{value}");
    c.until_state(JobId(id), JobState::Running);
    let job = web.get(&path)["jobs"][0].clone();
    assert_eq!((&job["comment"], &job["time_limit"]["number"]), (&"let it go".into(), &5.into()));
    assert_eq!(job["job_resources"]["nodes"]["allocation"][0]["name"], "n1");
    let nodes = web.get("/slurm/v0.0.42/nodes");
    assert_eq!(nodes["nodes"][0]["alloc_cpus"], 1);
    let (status, value) = web.json("DELETE", &path, &Value::Null);
    assert_eq!(status, 200, "{value}");
    c.until_state(JobId(id), JobState::Cancelled);
    let (status, value) = web.json("DELETE", "/slurm/v0.0.43/job/999999", &Value::Null);
    assert_eq!((status, &value["errors"][0]["error_number"]), (404, &2017.into()), "{value}");
    let (status, value) = web.json("GET", "/slurm/v0.0.43/job/999999", &Value::Null);
    assert_eq!((status, &value["errors"][0]["error"]), (404, &"Invalid job id specified".into()));
}

#[test]
fn who_asks_has_to_be_known() {
    let c = Cluster::start(1, Options::default());
    let web = Web::start(&c, "");
    let path = "/slurm/v0.0.44/jobs";
    let (status, text) = web.remote("GET", path, &[]);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &value["errors"][0]["error"]), (401, &"Authentication failure".into()));
    let (status, made) = web.local("POST", "/api/v1/tokens", "{}");
    assert!((200..300).contains(&status), "{made}");
    let made: Value = serde_json::from_str(&made).unwrap();
    let token = made["token"].as_str().unwrap();
    let bearer = format!("Bearer {token}");
    let check = |headers: &[(&str, &str)], want: u16| {
        let (status, text) = web.remote("GET", path, headers);
        assert_eq!(status, want, "{headers:?}: {text}");
        let _: Value = serde_json::from_str(&text).unwrap();
    };
    check(&[("Authorization", &bearer)], 200);
    check(&[("X-SLURM-USER-TOKEN", token)], 200);
    check(&[("X-SLURM-USER-TOKEN", token), ("X-SLURM-USER-NAME", "root")], 200);
    check(
        &[
            ("X-SLURM-USER-TOKEN", token),
            ("X-SLURM-USER-NAME", "nobody"),
        ],
        401,
    );
    check(&[("Authorization", "Bearer x.y.z")], 401);
    let (status, _) = web.remote("GET", "/slurm/v0.0.41/jobs", &[("Authorization", &bearer)]);
    assert_eq!(status, 404);
    let (status, _) = web.remote("PUT", path, &[("Authorization", &bearer)]);
    assert_eq!(status, 405);
    let (status, _) = web.remote("GET", "/metrics", &[]);
    assert_eq!(status, 401);
    let (status, text) = web.remote("GET", "/metrics", &[("Authorization", &bearer)]);
    assert!(status == 200 && text.contains("\nslurm_nodes 1\n"), "{text}");
}

#[test]
fn metrics_and_what_only_shows() {
    let c = Cluster::start(2, Options::default());
    let web = Web::start(&c, "metrics = 'everybody'\nread_only = true\n");
    let (status, text) = web.remote("GET", "/metrics", &[]);
    assert_eq!(status, 200);
    for line in [
        "slurm_nodes 2",
        "slurm_cpus_alloc 0",
        "cosy_nodes{state=\"idle\"} 2",
        "slurm_jobs 0",
    ] {
        assert!(text.lines().any(|own| own == line), "{line}\n{text}");
    }
    assert!(!text.contains("slurm_node_cpus{"));
    let (_, text) = web.remote("GET", "/metrics/nodes", &[]);
    assert!(text.contains("slurm_node_cpus{node=\"n1\"}"));
    assert_eq!(web.remote("GET", "/metrics/nothing", &[]).0, 404);
    let (status, value) = web.json("POST", "/slurm/v0.0.44/job/submit", &job(&c, "#!/bin/sh\n"));
    assert_eq!((status, &value["errors"][0]["error_number"]), (403, &2002.into()));
}

#[test]
fn everything_is_answered() {
    let c = Cluster::start(1, Options::default());
    let web = Web::start(&c, "");
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
            web.get(&format!("/slurm/{version}/{path}"));
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
            web.get(&format!("/slurmdb/{version}/{path}"));
        }
    }
}

/// The client that the OpenAPI generator makes for Python, whose models take nothing but what the
/// published description of Slurm allows.
#[test]
fn the_generated_client_for_python() {
    let packages = Packages {
        name: "slurmrestapi",
        wanted: &["slurmrestapi==25.11.4.0"],
        modules: "slurmrestapi",
    };
    let Some(python) = with_or_skip(packages) else {
        return;
    };
    let c = Cluster::start(2, Options::default());
    let web = Web::start(&c, "");
    let body = job(&c, "#!/bin/sh\ntrue\n");
    let (_, value) = web.json("POST", "/slurm/v0.0.44/job/submit", &body);
    let id = value["job_id"].as_u64().unwrap();
    c.until_state(JobId(id), JobState::Completed);
    let (_, made) = web.local("POST", "/api/v1/tokens", "{}");
    let made: Value = serde_json::from_str(&made).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/rest_client.py");
    let mut command = Command::new(python);
    command
        .arg(script)
        .args([
            &format!("http://{}", web.address),
            made["token"].as_str().unwrap(),
            &id.to_string(),
        ])
        .arg(c.work());
    let output = run(&mut command);
    assert_eq!(output.code, 0, "{}\n{}", output.out, output.err);
}
