//! Passes on what browsers ask of programs of jobs, and what these answer: pages, streams, WebSockets.

use super::headers;
use super::names::{AppAddress, AppName};
use super::nodes;
use crate::limits::{APP_ANSWER, SESSION_FOR};
use crate::problem::{Problem, Result};
use crate::site::Site;
use crate::turns::Turn;
use crate::who::cookie;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use cosy_model::step::{StepAnswer, StepAsk};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use tokio::net::UnixStream;

/// Where a link into a program leads first.
pub const ENTRANCE: &str = "/.cosy/enter";

/// Name of the cookie of a program's host name.
fn cookie_name(address: &AppAddress) -> &'static str {
    match address.is_secure() {
        true => "__Host-cosy-app",
        false => "cosy-app",
    }
}

/// Requests under a program's name go to the program, all others to the page.
pub async fn or_page(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let host = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let host = host.or_else(|| request.uri().host());
    let named = site
        .app_address
        .as_ref()
        .zip(host)
        .and_then(|(address, host)| {
            let name = address.read(host)?;
            Some((address.clone(), name))
        });
    match named {
        None => next.run(request).await,
        Some((_, None)) => told(StatusCode::NOT_FOUND, "no program of a job has this name"),
        Some((address, Some(name))) => match serve(&site, &address, name, request).await {
            Ok(answer) => answer,
            Err(problem) => told_of(&problem),
        },
    }
}

async fn serve(
    site: &Arc<Site>,
    address: &AppAddress,
    name: AppName,
    request: Request,
) -> Result<Response> {
    let cookie_name = cookie_name(address);
    if request.uri().path() == ENTRANCE {
        return enter(site, address, name, request.uri());
    }
    let shown = cookie(request.headers(), cookie_name);
    let user = shown.and_then(|word| site.apps.user(word, name));
    let Some(user) = user else {
        site.rates.count(None)?;
        return Err(Problem::forbidden(
            "open this from the page of the cluster: it leads in here, and nothing else does",
        ));
    };
    let is_change = !matches!(*request.method(), Method::GET | Method::HEAD);
    let is_upgrade = headers::is_upgrade(request.headers());
    if (is_change || is_upgrade) && !headers::is_own(request.headers(), &address.origin(name)) {
        return Err(Problem::forbidden("another site asks for this: it was not passed on"));
    }
    if is_change && site.config.read_only {
        return Err(Problem::forbidden("this page only shows"));
    }
    let busy = || Problem::busy("this program is asked too much at once");
    let turn = site.app_turns.take(Some(user)).await.ok_or_else(busy)?;
    let ask = StepAsk::Connect {
        job: name.job,
        port: name.port,
    };
    let (answer, stream) = nodes::ask(site, user, ask).await?;
    if answer != StepAnswer::Done {
        return Err(Problem::unexpected());
    }
    let proxy = site.config.proxy.as_ref();
    let named_in = proxy.and_then(|proxy| proxy.header.as_deref());
    let sent = headers::to_program(request.headers(), address, name, cookie_name, named_in);
    pass_on(stream, request, sent, name, cookie_name, turn).await
}

/// Uses a link up.
fn enter(site: &Site, address: &AppAddress, name: AppName, uri: &Uri) -> Result<Response> {
    site.rates.count(None)?;
    let query = uri.query().unwrap_or_default();
    let part = |key: &str| query.split('&').find_map(|pair| pair.strip_prefix(key));
    let Some(word) = site.apps.enter(part("ticket=").unwrap_or_default(), name)? else {
        return Err(Problem::forbidden(
            "this link was used already, or is too old: open the program from the page again",
        ));
    };
    let secure = if address.is_secure() { "; Secure" } else { "" };
    let cookie = format!(
        "{}={word}; Path=/; HttpOnly; SameSite=Lax; Max-Age={}{secure}",
        cookie_name(address),
        SESSION_FOR.as_secs()
    );
    let set = HeaderValue::try_from(cookie).map_err(|_| Problem::unexpected())?;
    // What a program wants to be told on its first page stands behind the ticket.
    let more = part("then=").filter(|then| {
        then.bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"%-_.=".contains(&b))
    });
    let place = more.map_or("/".to_owned(), |more| format!("/?{}", more.replace("%3D", "=")));
    let place = HeaderValue::try_from(place).map_err(|_| Problem::unexpected())?;
    let headers = [
        (header::LOCATION, place),
        (header::SET_COOKIE, set),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

/// One request and its answer over a connection of their own.
async fn pass_on(
    stream: UnixStream,
    mut request: Request,
    sent: HeaderMap,
    name: AppName,
    cookie: &str,
    turn: Turn,
) -> Result<Response> {
    let lost = || {
        let text = format!("the program on port {} of job {} gave no answer", name.port, name.job);
        Problem::new(StatusCode::BAD_GATEWAY, "no_answer", text)
    };
    let (mut program, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|_| lost())?;
    // Ends when both have what they wanted; the turn lasts as long, and as long as another protocol that
    // the connection goes over to.
    let turn = Arc::new(turn);
    let held = Arc::clone(&turn);
    tokio::spawn(async move {
        let _ = connection.with_upgrades().await;
        drop(held);
    });
    let upgrades = headers::is_upgrade(request.headers());
    let browser = upgrades.then(|| hyper::upgrade::on(&mut request));
    let place = request
        .uri()
        .path_and_query()
        .map_or("/", |place| place.as_str());
    let place: Uri = place.parse().map_err(|_| lost())?;
    let (parts, body) = request.into_parts();
    let mut passed = hyper::Request::new(body);
    *passed.method_mut() = parts.method;
    *passed.uri_mut() = place;
    *passed.headers_mut() = sent;
    let answered = tokio::time::timeout(APP_ANSWER, program.send_request(passed)).await;
    let mut answer = answered
        .ok()
        .and_then(std::result::Result::ok)
        .ok_or_else(lost)?;
    let switched = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
    if switched && let Some(browser) = browser {
        let program = hyper::upgrade::on(&mut answer);
        tokio::spawn(async move {
            if let (Ok(browser), Ok(program)) = tokio::join!(browser, program) {
                let (mut browser, mut program) = (TokioIo::new(browser), TokioIo::new(program));
                let _ = tokio::io::copy_bidirectional(&mut browser, &mut program).await;
            }
            drop(turn);
        });
    } else if switched {
        return Err(lost());
    }
    let (parts, body) = answer.into_parts();
    let mut told = Response::new(Body::new(body));
    *told.status_mut() = parts.status;
    *told.headers_mut() = headers::to_browser(&parts.headers, name, cookie, switched);
    Ok(told)
}

fn told_of(problem: &Problem) -> Response {
    told(problem.status, &problem.message)
}

/// A page for people, in plain text.
fn told(status: StatusCode, message: &str) -> Response {
    let mut answer = (status, format!("{message}\n")).into_response();
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}
