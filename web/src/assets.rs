//! The files of the page, which are in the program.

use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use cosy_proto::keys::sha256_hex;
use std::sync::OnceLock;

/// A file of the page.
struct Asset {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal => $kind:literal,)+) => {
        &[$(Asset {
            path: concat!("/assets/", $name),
            kind: $kind,
            bytes: include_bytes!(concat!("../assets/", $name)),
        },)+]
    };
}

const ASSETS: &[Asset] = assets! {
    "page.css" => "text/css; charset=utf-8",
    "icon.svg" => "image/svg+xml",
    "main.js" => "text/javascript; charset=utf-8",
    "api.js" => "text/javascript; charset=utf-8",
    "dom.js" => "text/javascript; charset=utf-8",
    "words.js" => "text/javascript; charset=utf-8",
    "draw.js" => "text/javascript; charset=utf-8",
    "now.js" => "text/javascript; charset=utf-8",
    "plan.js" => "text/javascript; charset=utf-8",
    "jobs.js" => "text/javascript; charset=utf-8",
    "submit.js" => "text/javascript; charset=utf-8",
    "job.js" => "text/javascript; charset=utf-8",
    "change.js" => "text/javascript; charset=utf-8",
    "limits.js" => "text/javascript; charset=utf-8",
    "health.js" => "text/javascript; charset=utf-8",
    "book.js" => "text/javascript; charset=utf-8",
    "calendar.js" => "text/javascript; charset=utf-8",
    "flowplan.js" => "text/javascript; charset=utf-8",
    "flows.js" => "text/javascript; charset=utf-8",
    "nodes.js" => "text/javascript; charset=utf-8",
    "admin.js" => "text/javascript; charset=utf-8",
    "interactive.js" => "text/javascript; charset=utf-8",
    "wanted.js" => "text/javascript; charset=utf-8",
    "terminal.js" => "text/javascript; charset=utf-8",
};

const PAGE: &str = include_str!("../assets/page.html");

/// First parts of paths at which the page itself is.
const PLACES: [&str; 10] = [
    "",
    "plan",
    "jobs",
    "book",
    "workflows",
    "nodes",
    "admin",
    "submit",
    "interactive",
    "login",
];

/// Gives a file of the page, or the page itself where one of its places is asked for.
pub async fn serve(request: Request) -> Response {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let path = request.uri().path();
    let first = path.split('/').nth(1).unwrap_or_default();
    let found = ASSETS.iter().find(|asset| asset.path == path);
    let (kind, bytes) = match found {
        Some(asset) => (asset.kind, asset.bytes),
        None if PLACES.contains(&first) => ("text/html; charset=utf-8", PAGE.as_bytes()),
        None => return (StatusCode::NOT_FOUND, "there is no such page\n").into_response(),
    };
    let tag = tag();
    let known = request.headers().get(header::IF_NONE_MATCH);
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::ETAG, tag.clone()),
    ];
    match known.is_some_and(|known| known == tag) {
        true => (StatusCode::NOT_MODIFIED, headers).into_response(),
        false => (headers, bytes).into_response(),
    }
}

/// One tag for all files: they are of one program.
fn tag() -> HeaderValue {
    static TAG: OnceLock<String> = OnceLock::new();
    let tag = TAG.get_or_init(|| {
        let mut all = PAGE.as_bytes().to_vec();
        for asset in ASSETS {
            all.extend_from_slice(asset.bytes);
        }
        let digest = sha256_hex(&all);
        format!("\"{}\"", digest.get(..16).unwrap_or_default())
    });
    HeaderValue::from_str(tag).unwrap_or(HeaderValue::from_static("\"\""))
}
