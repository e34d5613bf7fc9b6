//! Long lists: page by page, piece by piece, in a time that grows as they do.

use crate::answers::{answer, client, jobs, table};
use cosy_model::api::{Cursor, Reply, Request};
use cosy_rest::call::Call;
use cosy_rest::read::Reading;
use std::time::{Duration, Instant};

/// Writes a list of so many pages of 500 jobs; gives how long that took, and the text's pieces.
fn list(path: &str, pages: u64) -> (Duration, Vec<usize>, String) {
    let call = Call::read("GET", path, "").unwrap();
    let now = "2026-11-21T12:00:00+00:00[+00:00]".parse().unwrap();
    let begin = Instant::now();
    let mut reading = Reading::new(call, now);
    let mut told = 0;
    while let Some(request) = reading.ask() {
        let (filter, fields) = match &request {
            Request::Jobs { filter, fields, .. } | Request::History { filter, fields } => {
                (filter, fields)
            }
            other => {
                reading.take(Ok(answer(other)));
                continue;
            }
        };
        assert!(filter.pages, "parts are asked for");
        let over = filter.states.iter().any(|state| state.is_end());
        if matches!(request, Request::Jobs { .. }) && !filter.states.is_empty() {
            reading.take(Ok(Reply::Jobs(table(fields, &[]))));
            continue;
        }
        assert!(over || filter.states.is_empty());
        let page = filter.after.map_or(0, |cursor| cursor.at);
        let rows: Vec<_> = (0..500)
            .map(|at| {
                let mut row = jobs()[0].clone();
                let id: &'static str = (page * 500 + at + 1).to_string().leak();
                row[0].1 = id;
                row[1].1 = id;
                row
            })
            .collect();
        told += rows.len();
        let more = (page + 1 < pages).then_some(Cursor {
            part: 0,
            at: page + 1,
        });
        reading.take(Ok(Reply::Jobs(table(fields, &rows).going_on(more))));
    }
    assert_eq!(reading.status(), 200);
    let (mut pieces, mut text) = (Vec::new(), String::new());
    reading.write(&client(), &mut |piece| {
        pieces.push(piece.len());
        text.push_str(piece);
    });
    assert_eq!(told as u64, pages * 500);
    (begin.elapsed(), pieces, text)
}

#[test]
fn lists_grow_as_their_jobs_do() {
    for path in ["slurm/v0.0.44/jobs", "slurmdb/v0.0.44/jobs"] {
        let (short, _, _) = list(path, 1);
        let (long, pieces, text) = list(path, 8);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["jobs"].as_array().unwrap().len(), 4000, "{path}");
        assert_eq!(value["jobs"][3999]["job_id"], 4000);
        let most = pieces.iter().max().unwrap();
        assert!(
            pieces.len() > 100 && *most < 128 << 10,
            "{} pieces, the longest of {most}",
            pieces.len()
        );
        // Eight times the jobs; one that looks at each pair takes 64 times as long.
        assert!(long < short * 25 + Duration::from_millis(500), "{path}: {short:?}, then {long:?}");
    }
}

#[test]
fn a_list_that_goes_round_is_an_error() {
    let call = Call::read("GET", "/slurm/v0.0.44/jobs", "").unwrap();
    let now = "2026-11-21T12:00:00+00:00[+00:00]".parse().unwrap();
    let mut reading = Reading::new(call, now);
    let mut asked = 0;
    while let Some(request) = reading.ask() {
        asked += 1;
        assert!(asked < 10);
        let reply = answer(&request);
        reading.take(Ok(match reply {
            Reply::Jobs(page) => Reply::Jobs(page.going_on(Some(Cursor { part: 0, at: 5 }))),
            other => other,
        }));
    }
    assert_eq!(reading.status(), 502);
}
