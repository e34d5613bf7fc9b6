//! Slurm's REST interface: addresses and bodies of whoever has a token, which become requests and documents.
//!
//! The first piece is `METHOD PATH?QUERY`, the second a body; what is asked for is answered, and what is
//! written has to be JSON that fits the list of fields.

use cosy_model::api::{Reply, Request};
use cosy_model::{JobId, Refusal, RefusalCode};
use cosy_rest::Client;
use cosy_rest::call::{Call, Endpoint};
use cosy_rest::read::Reading;
use cosy_rest::write::{Person, Submitter, Writing};

/// Requests that one call may make, at most.
const MOST: usize = 50;

/// Feeds one input of the fuzzer to the reader of calls and bodies.
pub fn run(bytes: &[u8]) {
    let pieces = crate::pieces(bytes);
    let Some(line) = pieces.first().and_then(|line| std::str::from_utf8(line).ok()) else {
        return;
    };
    let body = pieces.get(1).copied().unwrap_or_default();
    let (method, address) = line.split_once(' ').unwrap_or((line, ""));
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let Ok(call) = Call::read(method, path, query) else {
        return;
    };
    let now = "2026-11-21T12:00:00+00:00[+00:00]".parse().expect("a time");
    let client = Client {
        source: "[::1]:1",
        user: "ann",
        group: "users",
        group_name: &|_| None,
    };
    let mut text = String::new();
    let changes = matches!(
        call.endpoint,
        Endpoint::Submit | Endpoint::Change(_) | Endpoint::Cancel(_) | Endpoint::CancelSeveral
    );
    if changes {
        let submitter = Submitter {
            person: Person { uid: 1000, gid: 100, name: "ann" },
            admin: body.len() % 2 == 0,
            host: "head",
            now: &now,
        };
        let mut writing = Writing::new(call, body, &submitter);
        for _ in 0..MOST {
            let Some(request) = writing.ask(&submitter) else { break };
            writing.take(answer(&request));
        }
        writing.write(&client, &mut |piece| text.push_str(piece));
    } else {
        let Ok(call) = call.with_body(body) else { return };
        let mut reading = Reading::new(call, now);
        for _ in 0..MOST {
            let Some(request) = reading.ask() else { break };
            reading.take(answer(&request));
        }
        let misfits = reading.write(&client, &mut |piece| text.push_str(piece));
        assert!(misfits.is_empty(), "{misfits:?}");
    }
    serde_json::from_str::<serde_json::Value>(&text).expect("an answer is JSON");
}

fn answer(request: &Request) -> Result<Reply, Refusal> {
    Ok(match request {
        Request::Settings => Reply::Settings(Box::default()),
        Request::Queues => Reply::Queues(Vec::new()),
        Request::Nodes => Reply::Nodes(Vec::new()),
        Request::Reservations { .. } => Reply::Reservations(Vec::new()),
        Request::Submit(_) => Reply::Submitted {
            job: JobId(7),
            tasks: 0,
            note: String::new(),
        },
        Request::Jobs { fields, .. } | Request::History { fields, .. } => {
            Reply::Jobs(cosy_model::api::Table::new(fields))
        }
        Request::Cancel { .. } | Request::Change { .. } | Request::Hold { .. } | Request::Release { .. } => {
            Reply::Done {
                changed: 1,
                refused: Vec::new(),
            }
        }
        _ => return Err(Refusal::new(RefusalCode::Forbidden, "no")),
    })
}

/// Calls as clients send them.
pub fn seeds() -> Vec<Vec<u8>> {
    let job = r#""environment":["PATH=/bin"],"current_working_directory":"/w""#;
    let all = [
        ("GET /slurm/v0.0.44/jobs?update_time=5&flags=DETAIL", String::new()),
        ("GET /slurmdb/v0.0.42/jobs?users=a%2Cb&state=FAILED&start_time=1795219200", r#"{"state":["FAILED"]}"#.to_owned()),
        ("GET /slurm/v0.0.43/job/12_3", String::new()),
        (
            "POST /slurm/v0.0.44/job/submit",
            format!(r##"{{"script":"#!/bin/sh\n","job":{{"tasks":4,"time_limit":{{"set":true,"number":9}},"tres_per_job":"gres/gpu:2","array":"1-3%2","mail_type":["END"],"shared":["none"],"dependency":"afterok:5",{job}}}}}"##),
        ),
        (
            "POST /slurm/v0.0.44/job/submit",
            format!(r##"{{"jobs":[{{"script":"#!/bin/sh\n","nodes":"2-4","minimum_cpus":8,"required_nodes":["n[1-2]"],"kill_warning_signal":"USR1","rlimits":{{"core":{{"infinite":true}}}},{job}}}]}}"##),
        ),
        ("POST /slurm/v0.0.42/job/7", r#"{"hold":true,"nice":5,"partition":"a,b","licenses":"m:1","begin_time":1895219200}"#.to_owned()),
        ("DELETE /slurm/v0.0.42/job/7?signal=USR1&flags=BATCH_JOB", String::new()),
        ("DELETE /slurm/v0.0.44/jobs", r#"{"jobs":["5","6_[1-3]"],"user_name":"a","job_state":["PENDING"],"nodes":["n[1-9]"]}"#.to_owned()),
    ];
    let seed = |(line, body): &(&str, String)| {
        crate::joined(&[line.as_bytes().to_vec(), body.as_bytes().to_vec()])
    };
    all.iter().map(seed).collect()
}
