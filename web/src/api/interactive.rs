//! Shells in jobs, and programs of jobs that listen on a port.

use super::values::number;
use crate::interactive::apps::ENTRANCE;
use crate::interactive::names::AppName;
use crate::interactive::nodes;
use crate::interactive::opened::Opened;
use crate::interactive::screen::{ScreenSize, View};
use crate::interactive::shells::{Shell, ShellUser, Shells};
use crate::limits::TYPED_BYTES;
use crate::params::{Document, Params};
use crate::problem::{Answer, Problem, Result};
use crate::site::SiteState;
use crate::who::{Changer, Who};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use cosy_model::step::{LiveUse, Sample, SampledNodes, StepAnswer, StepAsk};
use cosy_model::{JobId, Uid};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// What changes within that time is told at once.
const TOGETHER: Duration = Duration::from_millis(20);
/// So often something is told at least, so that it is seen when nobody reads any more.
const STILL_HERE: Duration = Duration::from_secs(15);

fn id(job: &str) -> Result<JobId> {
    number(job).map(JobId).map_err(|_| {
        Problem::invalid(format!(
            "'{job}' is no number of a job: jobs are reached by their numbers"
        ))
    })
}

/// On which ports programs of an own job listen.
pub async fn ports(State(site): SiteState, who: Who, Path(job): Path<String>) -> Result {
    let job = id(&job)?;
    let (answer, _) = nodes::ask(&site, who.uid, StepAsk::Ports { job }).await?;
    let StepAnswer::Ports(ports) = answer else {
        return Err(Problem::unexpected());
    };
    let each = ports
        .iter()
        .map(|port| json!({ "port": port.port, "program": port.program }));
    Ok(Answer(json!({ "ports": each.collect::<Json>() })))
}

fn use_json(used: &LiveUse) -> Json {
    json!({
        "user_cpu_us": used.user_cpu_us, "system_cpu_us": used.system_cpu_us,
        "memory_bytes": used.memory_bytes,
    })
}

/// What an own running job has used so far on its first node.
pub async fn usage(State(site): SiteState, who: Who, Path(job): Path<String>) -> Result {
    let job = id(&job)?;
    let (answer, _) = nodes::ask(&site, who.uid, StepAsk::Usage { job }).await?;
    let StepAnswer::Usage(used) = answer else {
        return Err(Problem::unexpected());
    };
    let steps = used.steps.iter().map(|(step, used)| {
        let mut told = use_json(used);
        told["step"] = step.0.into();
        told
    });
    Ok(Answer(json!({
        "script": used.script.as_ref().map(use_json), "steps": steps.collect::<Json>(),
    })))
}

fn sample_json(sample: &Sample) -> Json {
    json!({
        "at_ms": sample.at.0, "cpu_us": sample.cpu_us, "memory_bytes": sample.memory_bytes,
        "processes": sample.processes, "read_bytes": sample.read_bytes,
        "written_bytes": sample.written_bytes, "memory_stall_permille": sample.memory_stall,
        "gpu_busy_permille": sample.gpu_busy, "gpu_memory_bytes": sample.gpu_memory_bytes,
    })
}

/// Of which node measurements are asked for.
#[derive(Deserialize)]
pub struct SamplesQuery {
    node: Option<String>,
}

/// What an own running job used over time on its first node, or on the one that is named.
pub async fn samples(
    State(site): SiteState,
    who: Who,
    Path(job): Path<String>,
    Params(query): Params<SamplesQuery>,
) -> Result {
    let job = id(&job)?;
    let of = query.node.map_or(SampledNodes::First, SampledNodes::One);
    let (answer, _) = nodes::ask(&site, who.uid, StepAsk::Samples { job, of }).await?;
    let StepAnswer::Samples(told) = answer else {
        return Err(Problem::unexpected());
    };
    Ok(Answer(json!({
        "node": told.node, "cores": told.cores, "memory_mib": told.memory.map(|memory| memory.0),
        "gpus": told.gpus, "gpu_memory_bytes": told.gpu_memory_bytes,
        "interval": told.interval.ms() as f64 / 1000.0, "peak_memory_bytes": told.peak_bytes,
        "energy_joules": told.devices.energy_joules(),
        "samples": told.samples.iter().map(sample_json).collect::<Json>(),
    })))
}

/// A link into such a program, good once and for a minute.
pub async fn open_port(
    State(site): SiteState,
    Changer(who): Changer,
    Path((job, port)): Path<(String, String)>,
) -> Result {
    let job = id(&job)?;
    let port = port.parse().ok().filter(|port| *port > 0);
    let port: u16 = port.ok_or_else(|| Problem::invalid("a port is a number from 1 to 65535"))?;
    let Some(address) = &site.app_address else {
        return Err(Problem::new(
            axum::http::StatusCode::CONFLICT,
            "no_names",
            "programs of jobs have no names here: the administrator sets 'jobs_address' in web.toml (docs/web.md)",
        ));
    };
    // Whether it is there is known before anybody follows the link.
    let (answer, _) = nodes::ask(&site, who.uid, StepAsk::Ports { job }).await?;
    let StepAnswer::Ports(ports) = answer else {
        return Err(Problem::unexpected());
    };
    if !ports.iter().any(|told| told.port == port) {
        return Err(Problem::not_found(format!("no program of job {job} listens on port {port}")));
    }
    let name = AppName { job, port };
    let opened = Opened {
        user: who.uid,
        name,
    };
    let ticket = site.apps.link(opened)?;
    let link = format!("{}{ENTRANCE}?ticket={ticket}", address.origin(name));
    Ok(Answer(json!({ "link": link })))
}

fn shell_json(shell: &Shell) -> Json {
    json!({
        "id": shell.id, "job": shell.key.attempt.job.0, "step": shell.key.step.0,
        "since": cosy_view::json::time(Some(shell.since)), "ended": shell.ended(),
        "ends_job": shell.ends_job,
    })
}

/// Own shells.
pub async fn shells(State(site): SiteState, who: Who) -> Result {
    let all = site.shells.of(who.uid);
    Ok(Answer(json!({ "shells": all.iter().map(|shell| shell_json(shell)).collect::<Json>() })))
}

/// How large the terminal of a new shell is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewShell {
    lines: Option<u16>,
    columns: Option<u16>,
    /// The job ends with the shell.
    #[serde(default)]
    ends_job: bool,
}

/// Starts a shell in an own running job.
pub async fn start_shell(
    State(site): SiteState,
    Changer(who): Changer,
    Path(job): Path<String>,
    Document(new): Document<NewShell>,
) -> Result {
    let job = id(&job)?;
    let user = shell_user(who.uid).await?;
    let size = ScreenSize::within(new.lines.unwrap_or(24), new.columns.unwrap_or(80));
    let shell = Shells::start(&site, who.uid, &user, job, size, new.ends_job).await?;
    Ok(Answer(shell_json(&shell)))
}

async fn shell_user(uid: Uid) -> Result<ShellUser> {
    let found = crate::users::entry(uid).await;
    let user =
        found.ok_or_else(|| Problem::not_found("the directory of this host does not know you"))?;
    let text = |path: &std::path::Path, usual: &str| match path.to_str() {
        Some(path) if path.starts_with('/') => path.to_owned(),
        _ => usual.to_owned(),
    };
    Ok(ShellUser {
        home: text(&user.dir, "/"),
        shell: text(&user.shell, "/bin/sh"),
        name: user.name,
    })
}

/// What is typed, and how large the window is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Typed {
    text: Option<String>,
    lines: Option<u16>,
    columns: Option<u16>,
}

/// Types into a shell, or gives it another size.
pub async fn type_in(
    State(site): SiteState,
    Changer(who): Changer,
    Path(id): Path<String>,
    Document(typed): Document<Typed>,
) -> Result {
    let shell = site.shells.get(who.uid, &id)?;
    if let (Some(lines), Some(columns)) = (typed.lines, typed.columns) {
        shell.resize(ScreenSize::within(lines, columns))?;
    }
    if let Some(text) = typed.text.filter(|text| !text.is_empty()) {
        if text.len() > TYPED_BYTES {
            let why = format!("at most {TYPED_BYTES} bytes are typed at once");
            return Err(Problem::invalid(why));
        }
        shell.type_in(text.into_bytes())?;
    }
    Ok(Answer(json!({})))
}

/// Ends a shell.
pub async fn end_shell(
    State(site): SiteState,
    Changer(who): Changer,
    Path(id): Path<String>,
) -> Result {
    site.shells.get(who.uid, &id)?.end()?;
    Ok(Answer(json!({})))
}

/// Which part of it is seen.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScreenAsk {
    /// So many lines above the last ones.
    above: Option<usize>,
}

/// The screen of a shell, as a stream of events (text/event-stream) that tell what has changed.
pub async fn screen(
    State(site): SiteState,
    who: Who,
    Path(id): Path<String>,
    Params(ask): Params<ScreenAsk>,
) -> Result<Response> {
    let shell = site.shells.get(who.uid, &id)?;
    let watcher = Watcher {
        changes: shell.changes(),
        place: site.streams.place(who.uid)?,
        shell,
        told: View::default(),
        above: ask.above.unwrap_or(0),
        is_first: true,
        is_over: false,
    };
    let chunks = stream::unfold(watcher, |mut watcher| async move {
        let text = watcher.next().await?;
        Some((Ok::<_, Infallible>(text), watcher))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream")];
    Ok((headers, Body::from_stream(chunks)).into_response())
}

struct Watcher {
    shell: Arc<Shell>,
    changes: watch::Receiver<u64>,
    told: View,
    above: usize,
    is_first: bool,
    is_over: bool,
    #[expect(dead_code, reason = "counts the stream as long as it is open")]
    place: crate::site::Place,
}

impl Watcher {
    /// What is told next; nothing when it was told that the shell is over.
    async fn next(&mut self) -> Option<String> {
        if self.is_over {
            return None;
        }
        if !std::mem::take(&mut self.is_first) {
            match tokio::time::timeout(STILL_HERE, self.changes.changed()).await {
                Err(_) => {
                    self.shell.view(0); // somebody looks
                    return Some(": still here\n\n".to_owned());
                }
                Ok(_) => tokio::time::sleep(TOGETHER).await,
            }
        }
        self.changes.mark_unchanged();
        let view = self.shell.view(self.above);
        let mut told = view.since(&self.told);
        self.told = view;
        if let Some(words) = self.shell.ended() {
            self.is_over = true;
            told["ended"] = words.into();
        }
        Some(format!("data: {told}\n\n"))
    }
}
