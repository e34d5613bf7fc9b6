//! Workflows in a small world: asked for, looked at.

#![allow(dead_code, clippy::unwrap_used)]

use crate::world::*;
use cosy_model::api::{Reply, Request};
use cosy_model::workflow::*;
use cosy_model::{FlowId, JobId, OsText, Refusal, Span};

/// A workflow of tasks named `a`, `b` and so on, with edges like `ab`.
pub fn graph(tasks: &str, edges: &[&str]) -> FlowSpec {
    let place = |name: char| tasks.chars().position(|t| t == name).unwrap() as u32;
    let task = |name: char| FlowTask {
        name: name.to_string(),
        spec: spec("x"),
        script: OsText::default(),
        estimate: Span::from_secs(10),
        estimates: Vec::new(),
        retries: 0,
    };
    let edge = |edge: &&str| {
        let mut ends = edge.chars();
        FlowEdge {
            from: place(ends.next().unwrap()),
            to: place(ends.next().unwrap()),
            data_bytes: 0,
        }
    };
    FlowSpec {
        name: "w".to_owned(),
        tasks: tasks.chars().map(task).collect(),
        edges: edges.iter().map(edge).collect(),
        speeds: Vec::new(),
        transfers: Vec::new(),
        deadline: None,
        earliest: None,
        scheduler: FlowScheduler::default(),
        slack_policy: FlowSlackPolicy::default(),
        threshold_permille: 50,
        early: false,
        overrun: Overrun::Kill,
        account: None,
        max_price: None,
        comment: String::new(),
        environment: OsText::from("A=b\0"),
        umask: 0o22,
        rlimits: Default::default(),
    }
}

pub fn submit(w: &mut World, spec: FlowSpec) -> Result<FlowInfo, Refusal> {
    let spec = Box::new(spec);
    match w.ask(Request::SubmitFlow { spec, hold: false }) {
        Reply::Flow(info) => Ok(*info),
        Reply::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

pub fn show(w: &mut World, id: FlowId) -> FlowInfo {
    let filter = FlowFilter {
        ids: vec![id],
        tasks: true,
        ..FlowFilter::default()
    };
    match w.ask(Request::Flows { filter }) {
        Reply::Flows(mut infos) => infos.remove(0),
        other => panic!("{other:?}"),
    }
}

pub fn cancel(w: &mut World, id: FlowId) -> Reply {
    w.ask(Request::CancelFlow { ids: vec![id] })
}

/// `running: a done, b waiting`.
pub fn states(w: &mut World, id: FlowId) -> String {
    let info = show(w, id);
    let tasks = info.tasks.iter().map(|t| format!("{} {}", t.name, t.state));
    format!("{}: {}", info.state, tasks.collect::<Vec<_>>().join(", "))
}

pub fn job_of(info: &FlowInfo, task: usize) -> JobId {
    info.tasks[task].job.unwrap()
}
