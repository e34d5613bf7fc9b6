//! Connections: who is there, one request after another, each in its time.

use crate::interactive::apps;
use crate::limits;
use crate::site::Site;
use crate::who::Peer;
use crate::{api, assets, rest, scrapes};
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use cosy_model::Uid;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What the page may load and do: nothing but what is here.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Everything that is answered.
pub fn router(site: Arc<Site>) -> Router {
    Router::new()
        .nest("/api/v1", api::router())
        .merge(api::entrance())
        .merge(rest::router())
        .merge(scrapes::router())
        .fallback(assets::serve)
        .layer(middleware::from_fn(guarded))
        .layer(middleware::from_fn_with_state(site.clone(), apps::or_page))
        .with_state(site)
}

/// The headers that every answer has.
async fn guarded(request: Request, next: Next) -> Response {
    let mut answer = next.run(request).await;
    let headers = answer.headers_mut();
    let always = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
    ];
    for (name, value) in always {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    answer
}

/// Takes connections over TCP until the listener fails.
pub async fn serve_tcp(listener: TcpListener, router: Router, places: Arc<Semaphore>) {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, from)) => {
                let _ = stream.set_nodelay(true);
                let peer = Peer::Remote(from.ip().to_canonical());
                tokio::spawn(talk(stream, peer, router.clone(), place));
            }
            Err(e) => pause(&e).await,
        }
    }
}

/// Takes connections over the socket until the listener fails.
pub async fn serve_unix(listener: UnixListener, router: Router, places: Arc<Semaphore>) {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let Ok(credentials) = stream.peer_cred() else {
                    continue;
                };
                let peer = Peer::Local(Uid(credentials.uid()));
                tokio::spawn(talk(stream, peer, router.clone(), place));
            }
            Err(e) => pause(&e).await,
        }
    }
}

async fn pause(error: &std::io::Error) {
    tracing::warn!("somebody could not connect: {error}");
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: Router,
    place: OwnedSemaphorePermit,
) {
    let known = router.layer(middleware::from_fn(move |mut request: Request, next: Next| {
        request.extensions_mut().insert(peer);
        next.run(request)
    }));
    let service = TowerToHyperService::new(known);
    let talk = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEADER_TIME)
        .max_buf_size(limits::HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    if let Err(e) = talk.await {
        tracing::debug!("a connection broke: {e}");
    }
    drop(place);
}
