//! Slurm's REST interface: HTTP around [`cosy_rest`]. Who asks is known as everywhere on the page; what a
//! call means, and every word of the answer, is said there.

use crate::limits::{
    BODY_BYTES, BODY_TIME, DOCUMENTS, DOCUMENTS_OF_USER, PIECE_TIME, SMALL_BODY_BYTES,
};
use crate::problem::Problem;
use crate::site::Site;
use crate::turns::{Turn, Turns};
use crate::who::{Peer, Who};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use cosy_model::Uid;
use cosy_model::api::{Reply, Request as Question};
use cosy_rest::Client;
use cosy_rest::call::{Call, Endpoint};
use cosy_rest::fault::Fault;
use cosy_rest::read::Reading;
use cosy_rest::version::ApiVersion;
use cosy_rest::write::{Person, Submitter, Writing};
use std::sync::{Arc, LazyLock, OnceLock};
use tokio::sync::mpsc;

/// Pieces of an answer that wait to be sent, at most.
const PIECES: usize = 4;

/// Everything under `/slurm` and `/slurmdb`.
pub fn router() -> Router<Arc<Site>> {
    Router::new()
        .route("/slurm/{*path}", any(serve))
        .route("/slurmdb/{*path}", any(serve))
        .route("/openapi", get(describe))
        .route("/openapi/v3", get(describe))
}

/// The description of the interface, for clients that are made of it. Whoever asks may have it.
async fn describe(State(site): State<Arc<Site>>) -> Result<Response, Problem> {
    static TEXT: OnceLock<String> = OnceLock::new();
    site.rates.count(None)?;
    let text = TEXT.get_or_init(|| cosy_rest::openapi::document().to_string());
    Ok((json_headers(), text.as_str()).into_response())
}

/// Who asks, as answers tell it.
#[derive(Clone, Debug, Default)]
struct Asker {
    source: String,
    name: String,
    group: String,
    uid: u32,
    gid: u32,
}

impl Asker {
    async fn of(who: &Who, peer: Option<Peer>) -> Self {
        let uid = who.uid.0;
        let found = tokio::task::spawn_blocking(move || {
            let user = nix::unistd::User::from_uid(uid.into()).ok().flatten()?;
            let group = group_name(user.gid.as_raw());
            Some((user.gid.as_raw(), group.unwrap_or_default()))
        });
        // Without a group it asks as nobody's.
        let (gid, group) = found
            .await
            .ok()
            .flatten()
            .unwrap_or((u32::MAX, String::new()));
        Self {
            source: source(peer),
            name: who.name.clone(),
            group,
            uid,
            gid,
        }
    }

    fn client(&self) -> Client<'_> {
        Client {
            source: &self.source,
            user: &self.name,
            group: &self.group,
            group_name: &group_name,
        }
    }
}

fn source(peer: Option<Peer>) -> String {
    match peer {
        Some(Peer::Remote(address)) => address.to_string(),
        Some(Peer::Local(_)) => "local".to_owned(),
        None => String::new(),
    }
}

/// The directory may be slow: only where waiting is allowed.
fn group_name(gid: u32) -> Option<String> {
    let group = nix::unistd::Group::from_gid(gid.into()).ok().flatten();
    group.map(|group| group.name)
}

async fn serve(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let call = Call::read(parts.method.as_str(), &path, &query);
    let peer = parts.extensions.get::<Peer>().copied();
    let version = match &call {
        Ok(call) => call.version,
        Err((version, _)) => *version,
    };
    let who = match Who::from_request_parts(&mut parts, &site).await {
        Ok(who) => who,
        Err(problem) => return stranger(version, peer, &problem),
    };
    let asker = Asker::of(&who, peer).await;
    let call = match call {
        Ok(call) => call,
        Err((version, fault)) => return faulty(version, &asker, &fault, fault.status()),
    };
    match call.endpoint {
        Endpoint::Submit | Endpoint::Change(_) | Endpoint::Cancel(_) | Endpoint::CancelSeveral => {
            change(&site, call, asker, parts, body).await
        }
        _ => look(&site, call, asker, body).await,
    }
}

/// Somebody of whom it is not known who it is; or who asks too much.
fn stranger(version: ApiVersion, peer: Option<Peer>, problem: &Problem) -> Response {
    let asker = Asker {
        source: source(peer),
        ..Asker::default()
    };
    let fault = match problem.status {
        StatusCode::UNAUTHORIZED => Fault::authentication(problem.message.clone()),
        _ => Fault::query("slurmrestd", problem.message.clone()),
    };
    let mut answer = faulty(version, &asker, &fault, problem.status.as_u16());
    // As the page's own answers have it: which scheme, and when to come again.
    for (name, value) in problem.clone().into_response().headers() {
        if name == header::WWW_AUTHENTICATE || name == header::RETRY_AFTER {
            answer.headers_mut().insert(name, value.clone());
        }
    }
    answer
}

/// A document with nothing but a fault.
fn faulty(version: ApiVersion, asker: &Asker, fault: &Fault, status: u16) -> Response {
    let mut text = String::new();
    cosy_rest::faulty(version, &asker.client(), fault, &mut |piece| text.push_str(piece));
    (code(status), json_headers(), text).into_response()
}

fn code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn json_headers() -> HeaderMap {
    let json = HeaderValue::from_static("application/json");
    HeaderMap::from_iter([(header::CONTENT_TYPE, json)])
}

/// A problem on the way to the controller, as Slurm's clients are told it.
fn unreachable(problem: &Problem) -> Fault {
    Fault::connection(problem.message.clone())
}

async fn look(site: &Site, call: Call, asker: Asker, body: Body) -> Response {
    let version = call.version;
    let body = match read(body, SMALL_BODY_BYTES).await {
        Ok(body) => body,
        Err((fault, status)) => return faulty(version, &asker, &fault, status),
    };
    let call = match call.with_body(&body) {
        Ok(call) => call,
        Err(fault) => return faulty(version, &asker, &fault, fault.status()),
    };
    let mut reading = Reading::new(call, jiff::Zoned::now());
    while let Some(question) = reading.ask() {
        match site
            .cluster
            .ask_plainly(Some(Uid(asker.uid)), question)
            .await
        {
            Ok(reply) => reading.take(reply),
            Err(problem) => reading.fail(unreachable(&problem)),
        }
    }
    let status = code(reading.status());
    let place = match place(Uid(asker.uid)).await {
        Ok(place) => place,
        Err(problem) => return stranger(version, None, &problem),
    };
    let (pieces, body) = mpsc::channel::<Bytes>(PIECES);
    let runtime = tokio::runtime::Handle::current();
    // Names of groups are looked up meanwhile, and whoever reads slowly is waited for, not for ever.
    tokio::task::spawn_blocking(move || {
        let mut open = true;
        let misfits = reading.write(&asker.client(), &mut |piece| {
            let piece = Bytes::copy_from_slice(piece.as_bytes());
            let sent = async { tokio::time::timeout(PIECE_TIME, pieces.send(piece)).await };
            open = open && matches!(runtime.block_on(sent), Ok(Ok(())));
        });
        for misfit in misfits {
            tracing::debug!("{} {}", misfit.field, misfit.why);
        }
        drop(place);
    });
    (status, json_headers(), streamed(body)).into_response()
}

/// A thread that writes.
async fn place(user: Uid) -> Result<Turn, Problem> {
    static PLACES: LazyLock<Turns> = LazyLock::new(|| Turns::new(DOCUMENTS, DOCUMENTS_OF_USER));
    let busy = || Problem::unavailable("many long answers are being read: try again in a moment");
    PLACES.take(Some(user)).await.ok_or_else(busy)
}

fn streamed(pieces: mpsc::Receiver<Bytes>) -> Body {
    let next = |mut pieces: mpsc::Receiver<Bytes>| async move {
        let piece = pieces.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), pieces))
    };
    Body::from_stream(futures_util::stream::unfold(pieces, next))
}

/// A body of at most so many bytes.
async fn read(body: Body, most: usize) -> Result<Bytes, (Fault, u16)> {
    match tokio::time::timeout(BODY_TIME, axum::body::to_bytes(body, most)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => {
            let why = format!("the body has more than {most} bytes, or broke off");
            Err((Fault::value("body", why), 413))
        }
        Err(_) => Err((Fault::value("body", "the body takes too long"), 408)),
    }
}

async fn change(site: &Site, call: Call, asker: Asker, parts: Parts, body: Body) -> Response {
    let version = call.version;
    if site.config.read_only {
        let fault = Fault::new(2002, "nothing can be changed here: use the commands", "slurmrestd");
        return faulty(version, &asker, &fault, 403);
    }
    let body = match read(body, BODY_BYTES).await {
        Ok(body) => body,
        Err((fault, status)) => return faulty(version, &asker, &fault, status),
    };
    if let Err(fault) = is_json(&parts.headers, &body) {
        return faulty(version, &asker, &fault, 415);
    }
    let uid = Uid(asker.uid);
    let settings = match site.cluster.ask(uid, Question::Settings).await {
        Ok(Reply::Settings(settings)) => settings,
        Ok(_) => return faulty(version, &asker, &unreachable(&Problem::unexpected()), 502),
        Err(problem) => return faulty(version, &asker, &unreachable(&problem), 502),
    };
    let now = jiff::Zoned::now();
    let host = host();
    let submitter = Submitter {
        person: Person {
            uid: asker.uid,
            gid: asker.gid,
            name: &asker.name,
        },
        admin: settings.you_are_admin,
        host: &host,
        now: &now,
    };
    let mut writing = Writing::new(call, &body, &submitter);
    while let Some(question) = writing.ask(&submitter) {
        match site.cluster.ask_plainly(Some(uid), question).await {
            Ok(reply) => writing.take(reply),
            Err(problem) => writing.fail(unreachable(&problem)),
        }
    }
    let mut text = String::new();
    let none = |_| None;
    let client = Client {
        group_name: &none,
        ..asker.client()
    };
    writing.write(&client, &mut |piece| text.push_str(piece));
    (code(writing.status()), json_headers(), text).into_response()
}

fn host() -> String {
    let name = nix::unistd::gethostname().ok();
    name.map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Bodies are JSON; Slurm reads YAML too.
fn is_json(headers: &HeaderMap, body: &Bytes) -> Result<(), Fault> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    match kind {
        _ if body.is_empty() => Ok(()),
        None | Some("" | "application/json" | "application/jsonrequest") => Ok(()),
        Some(_) => Err(Fault::new(9204, "bodies have to be application/json", "Content-Type")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn nobody_has_all_places() {
        let soon = |user| tokio::time::timeout(Duration::from_millis(50), place(Uid(user)));
        let mut held = Vec::new();
        for _ in 0..DOCUMENTS_OF_USER {
            held.push(soon(1).await.expect("there is room").expect("at once"));
        }
        assert!(soon(1).await.is_err(), "one more waits");
        let other = soon(2).await.expect("there is room for others");
        assert!(other.is_ok());
        held.pop();
        assert!(soon(1).await.is_ok(), "what is given back is free");
    }

    #[test]
    fn bodies_are_json() {
        let check = |kind: Option<&'static str>, body: &'static str, want: bool| {
            let kind = kind.map(|kind| (header::CONTENT_TYPE, HeaderValue::from_static(kind)));
            let headers = HeaderMap::from_iter(kind);
            assert_eq!(is_json(&headers, &Bytes::from_static(body.as_bytes())).is_ok(), want);
        };
        check(None, "{}", true);
        check(Some("application/json; charset=utf-8"), "{}", true);
        check(Some("application/x-yaml"), "a: 1", false);
        check(Some("application/x-yaml"), "", true);
    }
}
