//! A workflow out of a file that is sent as text: planned, and booked.
//!
//! The file is read by what reads it for `cosy flow`, told that it comes from elsewhere: no file of this
//! machine is opened for it, and its tasks get nothing of this process.

use super::flows::told;
use crate::limits::{FLOW_FILE_BYTES, SMALL_BODY_BYTES};
use crate::params::document;
use crate::problem::{Answer, Problem, Result};
use crate::site::{Site, SiteState};
use crate::who::{Changer, Who};
use axum::extract::{Request as Sent, State};
use cosy_cli::native::flow::file::{self, ParsedFlow, SourceFile};
use cosy_cli::native::flow::origin::Origin;
use cosy_cli::native::flow::{amounts, json as flow_json, plan as words};
use cosy_cli::times::{self, Direction};
use cosy_client::CallError;
use cosy_model::api::{Reply, Request};
use cosy_model::workflow::{FlowDeadline, FlowInfo, FlowState};
use cosy_model::{Refusal, Su};
use jiff::Zoned;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use tokio::sync::Semaphore;

/// Files are read one at a time: it takes processor time alone.
static READING: Semaphore = Semaphore::const_new(1);
/// Where tasks run that name no folder, and nobody says.
const ROOT: &str = "/";
/// Bytes of what is sent: line breaks and quotes of the file are two each in JSON.
const BODY_BYTES: usize = 2 * FLOW_FILE_BYTES + SMALL_BODY_BYTES;

/// A workflow as it is sent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowAsk {
    /// The text of a workflow file, TOML or JSON.
    file: String,
    /// Its name, for messages.
    name: Option<String>,
    /// Deadline: `tomorrow 8:00`, RFC 3339, as `cosy flow plan --finish-by` has it.
    finish_by: Option<String>,
    /// Deadline: `50%` longer than the shortest schedule.
    slack: Option<String>,
    /// Account that pays.
    account: Option<String>,
    /// Folder of tasks that name none.
    folder: Option<String>,
    /// Time zone in which times are read and told.
    zone: Option<String>,
    /// Refused when all slots together cost more, in service units.
    max_price: Option<String>,
    /// Only held, to be confirmed.
    #[serde(default)]
    hold: bool,
}

/// A workflow that was read, and the present in the zone in which times are told.
struct Read {
    flow: ParsedFlow,
    now: Zoned,
}

impl FlowAsk {
    async fn read(self) -> Result<Read> {
        let permit = READING.acquire().await.map_err(|_| Problem::unexpected())?;
        let read = tokio::task::spawn_blocking(move || self.read_here()).await;
        drop(permit);
        read.map_err(|_| Problem::unexpected())?
    }

    fn read_here(self) -> Result<Read> {
        if self.file.len() > FLOW_FILE_BYTES {
            return Err(too_long());
        }
        let now = match &self.zone {
            None => times::now(),
            Some(zone) => times::now().in_tz(zone).map_err(|_| {
                Problem::invalid(format!("there is no time zone '{zone}': Europe/Berlin, UTC"))
            })?,
        };
        let folder = self.folder.as_deref().unwrap_or(ROOT);
        if !folder.starts_with('/') {
            return Err(Problem::invalid("folder is a path that begins with '/'"));
        }
        let name = self.name.clone().unwrap_or_else(|| "workflow".to_owned());
        let stem = name
            .rsplit_once('.')
            .map_or(name.as_str(), |(stem, _)| stem);
        let source = SourceFile {
            stem: stem.to_owned(),
            dir: PathBuf::new(),
            bytes: self.file.clone().into_bytes(),
            name,
        };
        let mut flow = file::parse_from(&source, &now, Origin::Sent { folder })
            .map_err(|e| Problem::invalid(e.in_file(&source.name)))?;
        self.set_over(&mut flow, &now)?;
        Ok(Read { flow, now })
    }

    /// What was asked for beside the file counts more than the file.
    fn set_over(&self, flow: &mut ParsedFlow, now: &Zoned) -> Result<()> {
        let spec = &mut flow.spec;
        let deadline = match (&self.finish_by, &self.slack) {
            (Some(_), Some(_)) => {
                return Err(Problem::invalid("finish_by and slack exclude each other"));
            }
            (Some(by), None) => {
                let at = times::parse_noting(by, now, Direction::Future, &mut flow.notes);
                let at = at.map_err(|e| Problem::invalid(format!("finish_by: '{by}' is {e}")))?;
                Some(FlowDeadline::By(at))
            }
            (None, Some(slack)) => {
                let share = amounts::share(slack);
                Some(FlowDeadline::Slack(
                    share.map_err(|e| Problem::invalid(format!("slack: {e}")))?,
                ))
            }
            (None, None) => None,
        };
        if deadline.is_some() {
            (spec.deadline, flow.source_lines.deadline) = (deadline, None);
        }
        if let Some(account) = &self.account {
            spec.account = Some(account.clone());
        }
        if let Some(price) = &self.max_price {
            let price: Su = price
                .parse()
                .map_err(|e| Problem::invalid(format!("max_price: {e}")))?;
            spec.max_price = Some(price);
        }
        Ok(())
    }
}

fn too_long() -> Problem {
    let most = FLOW_FILE_BYTES >> 10;
    Problem::new(
        axum::http::StatusCode::PAYLOAD_TOO_LARGE,
        "too_large",
        format!("the file has more than {most} KiB: plan it with 'cosy flow plan'"),
    )
}

/// Asks for a workflow; what is refused is told with its line in the file.
async fn asked(site: &Site, who: &Who, read: &Read, request: Request) -> Result<Reply> {
    let answer = site.cluster.ask_plainly(Some(who.uid), request).await?;
    answer.map_err(|refusal| with_line(read, refusal).into())
}

fn with_line(read: &Read, refusal: Refusal) -> Refusal {
    let lines = &read.flow.source_lines;
    match lines.with_line(CallError::Refused(refusal.clone())) {
        CallError::Refused(told) => told,
        _ => refusal,
    }
}

/// When each task would run and what it costs. Nothing is kept.
pub async fn plan(State(site): SiteState, who: Who, sent: Sent) -> Result {
    let _place = site.flow_files.place(who.uid)?;
    let ask: FlowAsk = document(sent, BODY_BYTES).await?;
    if ask.hold {
        return Err(Problem::invalid("a plan holds nothing: ask for a workflow"));
    }
    let read = ask.read().await?;
    if read.flow.spec.deadline.is_none() {
        return Err(Problem::invalid(
            "by when is it to be done? Give finish_by or slack, or deadline or slack in [workflow]; \
             without a deadline there are no slots to plan",
        ));
    }
    let spec = Box::new(read.flow.spec.clone());
    let Reply::FlowPlan(plan) = asked(&site, &who, &read, Request::PlanFlow { spec }).await? else {
        return Err(Problem::unexpected());
    };
    let mut told = flow_json::plan(&read.flow.spec, &plan);
    let sentences = words::summary(&plan, &read.now);
    told["words"] = sentences.lines().collect();
    told["notes"] = read.flow.notes.into();
    Ok(Answer(told))
}

/// Books all slots or none; both steps, unless it is only to be held.
pub async fn submit(State(site): SiteState, Changer(who): Changer, sent: Sent) -> Result {
    let _place = site.flow_files.place(who.uid)?;
    let ask: FlowAsk = document(sent, BODY_BYTES).await?;
    let only_hold = ask.hold;
    let read = ask.read().await?;
    let hold = read.flow.spec.deadline.is_some();
    if only_hold && !hold {
        return Err(Problem::invalid("without a deadline there are no slots to hold"));
    }
    let spec = Box::new(read.flow.spec.clone());
    let reply = asked(&site, &who, &read, Request::SubmitFlow { spec, hold }).await?;
    let held = flow_of(reply)?;
    if only_hold || held.state != FlowState::Held {
        return Ok(Answer(with_notes(&held, read)));
    }
    let id = held.id;
    let confirmed = site
        .cluster
        .ask_plainly(Some(who.uid), Request::ConfirmFlow { id })
        .await?;
    match confirmed {
        Ok(reply) => Ok(Answer(with_notes(&flow_of(reply)?, read))),
        Err(refusal) => {
            // Nothing stays held; what cannot be given back now runs out by itself.
            let back = Request::CancelFlow { ids: vec![id] };
            drop(site.cluster.ask(who.uid, back).await);
            Err(refusal.into())
        }
    }
}

fn flow_of(reply: Reply) -> Result<FlowInfo> {
    match reply {
        Reply::Flow(flow) => Ok(*flow),
        _ => Err(Problem::unexpected()),
    }
}

fn with_notes(flow: &FlowInfo, read: Read) -> Json {
    let mut told = told(flow);
    told["notes"] = json!(read.flow.notes);
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(file: &str) -> FlowAsk {
        FlowAsk {
            file: file.to_owned(),
            name: Some("night.toml".to_owned()),
            finish_by: None,
            slack: None,
            account: None,
            folder: Some("/home/ann".to_owned()),
            zone: Some("Europe/Berlin".to_owned()),
            max_price: None,
            hold: false,
        }
    }

    fn wrong(ask: FlowAsk) -> String {
        match ask.read_here() {
            Ok(_) => String::new(),
            Err(problem) => problem.message,
        }
    }

    const FLOW: &str = "[workflow]\nslack = '50%'\n[tasks.a]\nrun = 'ls'\nestimate = '10m'\n\
                        [tasks.b]\ncommand = ['/bin/true']\nestimate = '5m'\nafter = 'a'\nworkdir = '/w'\n";

    /// Neither variables, limits, host nor folder of the server.
    #[test]
    fn nothing_of_this_process_is_in_it() {
        let read = ask(FLOW).read_here().unwrap();
        let spec = &read.flow.spec;
        assert_eq!(spec.environment.lossy(), "PATH=/usr/local/bin:/usr/bin:/bin");
        assert!(spec.rlimits.is_empty());
        assert_eq!((spec.umask, spec.name.as_str()), (0o022, "night"));
        let dirs: Vec<_> = spec
            .tasks
            .iter()
            .map(|task| task.spec.workdir.lossy())
            .collect();
        assert_eq!(dirs, ["/home/ann", "/w"]);
        for task in &spec.tasks {
            let job = &task.spec;
            assert_eq!((&job.submit_host, job.submit_session), (&None, None));
            assert_eq!((job.submit_line.as_str(), job.environment.lossy().as_ref()), ("", ""));
        }
        let all = FLOW.replace("slack", "environment = ['ALL', 'A=1']\nslack");
        let read = ask(&all).read_here().unwrap();
        let block = read.flow.spec.environment;
        assert_eq!(block.lossy().replace('\0', " "), "PATH=/usr/local/bin:/usr/bin:/bin A=1");
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_line() {
        let check = |file: &str, words: &str| {
            let told = wrong(ask(file));
            assert!(told.contains(words) && told.starts_with("night.toml:"), "{told}");
        };
        check("[tasks.a]\nscript = '/etc/passwd'\nestimate = '1m'\n", "none is read");
        check("[tasks.a]\nrun = 'ls'\nestimate = '1m'\nworkdir = 'data'\n", "begins with '/'");
        check("[tasks.a]\nrun = 'ls'\nestimat = '1m'\n", "is 'estimate' meant?");
        check("[tasks.a", "night.toml:1");
        check("", "there is no task");
        assert!(wrong(ask(&"#".repeat(FLOW_FILE_BYTES + 1))).contains("KiB"));
        let with = |change: fn(&mut FlowAsk)| {
            let mut ask = ask(FLOW);
            change(&mut ask);
            wrong(ask)
        };
        assert!(with(|ask| ask.zone = Some("Mars".into())).contains("no time zone 'Mars'"));
        assert!(with(|ask| ask.folder = Some("data".into())).contains("begins with '/'"));
        assert!(
            with(|ask| ask.finish_by = Some("someday".into())).contains("finish_by: 'someday'")
        );
        assert!(with(|ask| ask.slack = Some("much".into())).contains("is no share"));
        assert!(with(|ask| ask.max_price = Some("dear".into())).contains("max_price"));
    }

    #[test]
    fn the_deadline_beside_the_file_counts() {
        let mut ask = ask(FLOW);
        ask.finish_by = Some("2036-01-02 08:00".into());
        let read = ask.read_here().unwrap();
        let by = "2036-01-02T07:00:00Z".parse::<jiff::Timestamp>().unwrap();
        let at = cosy_model::Time(by.as_millisecond());
        assert_eq!(read.flow.spec.deadline, Some(FlowDeadline::By(at)));
    }
}
