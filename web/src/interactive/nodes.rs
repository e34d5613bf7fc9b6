//! The way into a job: the socket for steps of a node daemon, with a pass of the controller.

use crate::limits::{NODE_ANSWER, PASS_FRESH, PASSES};
use crate::problem::{Problem, Result};
use crate::site::Site;
use axum::http::StatusCode;
use cosy_client::{cluster, node_socket};
use cosy_model::api::{Reply, Request};
use cosy_model::limits::FRAME_BYTES;
use cosy_model::step::{AllocationEndpoint, FilePiece, StepAnswer, StepAsk};
use cosy_model::{JobId, OsText, RefusalCode, Uid};
use cosy_proto::frame;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// How long a node daemon may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Sockets that are remembered to have led to a node daemon.
const GOOD: usize = 4;

/// The way to a job for one user.
#[derive(Clone, Debug)]
struct Way {
    pass: OsText,
    sockets: Vec<PathBuf>,
    at: Instant,
}

/// Ways that were found lately: a page with many pictures does not ask the controller for each.
#[derive(Debug, Default)]
pub struct Ways {
    known: Mutex<HashMap<(Uid, JobId), Way>>,
    /// Sockets that led to a node daemon, the latest last: they lead to one when a job is over, too.
    good: Mutex<Vec<PathBuf>>,
}

impl Ways {
    fn known(&self, user: Uid, job: JobId) -> Option<Way> {
        let all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let way = all.get(&(user, job))?;
        (way.at.elapsed() < PASS_FRESH).then(|| way.clone())
    }

    fn keep(&self, user: Uid, job: JobId, way: &Way) {
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= PASSES {
            all.retain(|_, way| way.at.elapsed() < PASS_FRESH);
        }
        if all.len() < PASSES {
            all.insert((user, job), way.clone());
        }
    }
}

impl Ways {
    /// Sockets that led to a node daemon, the latest first.
    fn good(&self) -> Vec<PathBuf> {
        let all = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().rev().cloned().collect()
    }

    fn led(&self, socket: PathBuf) {
        let mut all = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| *other != socket);
        all.push(socket);
        let more = all.len().saturating_sub(GOOD);
        all.drain(..more);
    }
}

/// Asks about an own running job; gives the answer, and the connection for what follows it.
///
/// # Errors
/// The controller or the node daemon refuses, or cannot be reached.
pub async fn ask(site: &Site, user: Uid, ask: StepAsk) -> Result<(StepAnswer, UnixStream)> {
    let job = ask.job();
    let way = match site.ways.known(user, job) {
        Some(way) => way,
        None => {
            let way = find(site, user, job).await?;
            site.ways.keep(user, job, &way);
            way
        }
    };
    converse(site, &way, ask).await
}

/// Reads a part of a file as that user: on the first node of a job that runs, else on this host.
///
/// # Errors
/// It cannot be read, or nobody can be reached who reads it.
pub async fn read_file(
    site: &Site,
    user: Uid,
    job: JobId,
    runs: bool,
    path: OsText,
    from: Option<u64>,
) -> Result<FilePiece> {
    let here = !runs;
    let wanted = StepAsk::Read {
        job,
        here,
        path,
        from,
    };
    let (answer, _) = match runs {
        true => ask(site, user, wanted).await?,
        false => {
            let mut sockets = site.ways.good();
            sockets.extend(site.config.node_sockets.iter().cloned());
            let way = Way {
                pass: pass(site, user, None).await?,
                sockets,
                at: Instant::now(),
            };
            converse(site, &way, wanted).await?
        }
    };
    match answer {
        StepAnswer::Piece(piece) => Ok(piece),
        _ => Err(Problem::unexpected()),
    }
}

async fn pass(site: &Site, user: Uid, job: Option<JobId>) -> Result<OsText> {
    match site.cluster.ask(user, Request::Pass { job }).await? {
        Reply::Pass(pass) => Ok(pass),
        _ => Err(Problem::unexpected()),
    }
}

async fn find(site: &Site, user: Uid, job: JobId) -> Result<Way> {
    let pass = pass(site, user, Some(job)).await?;
    let endpoint: AllocationEndpoint = match site.cluster.ask(user, Request::Entry { job }).await? {
        Reply::Entry(endpoint) => endpoint,
        _ => return Err(Problem::unexpected()),
    };
    let mut sockets = node_socket::to_job(&endpoint, &site.config.controller);
    sockets.extend(site.config.node_sockets.iter().cloned());
    Ok(Way {
        pass,
        sockets,
        at: Instant::now(),
    })
}

async fn converse(site: &Site, way: &Way, ask: StepAsk) -> Result<(StepAnswer, UnixStream)> {
    let sockets = way.sockets.clone();
    let connect = move || {
        let each = sockets.iter();
        each.filter_map(|socket| Some((cluster::connect(socket, CONNECT).ok()?, socket.clone())))
            .next()
    };
    let connected = tokio::task::spawn_blocking(connect).await.ok().flatten();
    let Some((connected, socket)) = connected else {
        return Err(no_way(
            "no node daemon can be reached from the host of this page: it needs noded there, and \
             'node_socket' in web.toml where that listens elsewhere (docs/web.md)",
        ));
    };
    let lost = || no_way("the node daemon was lost: try again");
    connected.set_nonblocking(true).map_err(|_| lost())?;
    let mut stream = UnixStream::from_std(connected).map_err(|_| lost())?;
    let ask = StepAsk::For {
        pass: way.pass.clone(),
        ask: Box::new(ask),
    };
    let bytes = frame::encode(&ask, FRAME_BYTES).map_err(|_| Problem::unexpected())?;
    let talk = async {
        stream.write_all(&bytes).await.ok()?;
        loop {
            let answer = read_answer(&mut stream).await?;
            if !matches!(answer, StepAnswer::Waits { .. }) {
                return Some(answer);
            }
        }
    };
    match tokio::time::timeout(NODE_ANSWER, talk).await {
        Ok(Some(StepAnswer::Refused(refusal))) if refusal.code == RefusalCode::Unavailable => {
            Err(no_way(&refusal.message))
        }
        Ok(Some(StepAnswer::Refused(refusal))) => Err(refusal.into()),
        Ok(Some(answer)) => {
            site.ways.led(socket);
            Ok((answer, stream))
        }
        Ok(None) | Err(_) => Err(lost()),
    }
}

/// The controller is there; it is a node that is not.
fn no_way(why: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, "no_way", why)
}

/// Not a byte more than the answer: what follows is for somebody else.
async fn read_answer(stream: &mut UnixStream) -> Option<StepAnswer> {
    let mut header = [0; frame::HEADER];
    stream.read_exact(&mut header).await.ok()?;
    let length = u32::from_le_bytes(header) as usize;
    if length > FRAME_BYTES {
        return None;
    }
    let mut body = Vec::new();
    let mut part = stream.take(length as u64);
    part.read_to_end(&mut body).await.ok()?;
    (body.len() == length).then_some(())?;
    frame::decode(&body).ok()
}
