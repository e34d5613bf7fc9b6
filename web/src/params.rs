//! Parameters and bodies of requests, with what is wrong with them as JSON.

use crate::limits;
use crate::problem::{Problem, Result};
use crate::site::Site;
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// What stands behind the question mark.
pub struct Params<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Arc<Site>> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self> {
        match Query::<T>::from_request_parts(parts, site).await {
            Ok(Query(params)) => Ok(Self(params)),
            Err(e) => Err(Problem::invalid(e.body_text())),
        }
    }
}

/// A body of JSON; an empty one is `{}`.
pub struct Document<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Arc<Site>> for Document<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &Arc<Site>) -> Result<Self> {
        document(request, limits::SMALL_BODY_BYTES).await.map(Self)
    }
}

/// A body of JSON of at most so many bytes; an empty one is `{}`.
///
/// # Errors
/// It is too long, does not come in time, or does not fit.
pub async fn document<T: DeserializeOwned>(request: Request, most: usize) -> Result<T> {
    let bytes = body(request, most).await?;
    let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    serde_json::from_slice(text)
        .map_err(|e| Problem::invalid(format!("the body does not fit: {e}")))
}

/// The bytes of a body of JSON.
///
/// # Errors
/// It is too long, does not come in time, or says that it is something else.
pub async fn body(request: Request, most: usize) -> Result<Vec<u8>> {
    let (parts, body) = request.into_parts();
    let kind = parts.headers.get(header::CONTENT_TYPE);
    let is_json = |kind: &header::HeaderValue| {
        let kind = kind.to_str().unwrap_or_default();
        kind.split(';').next().map(str::trim) == Some("application/json")
    };
    let bytes = read(body, most).await?;
    // A form of another site can send anything but this.
    if !bytes.is_empty() && !kind.is_some_and(is_json) {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "media_type",
            "send JSON, with 'Content-Type: application/json'",
        ));
    }
    Ok(bytes)
}

async fn read(body: Body, most: usize) -> Result<Vec<u8>> {
    match tokio::time::timeout(limits::BODY_TIME, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => Ok(bytes.into()),
        Ok(Err(_)) => Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!("the body has more than {most} bytes, or broke off"),
        )),
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "timeout",
            "the body did not come in time",
        )),
    }
}
