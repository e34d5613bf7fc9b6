//! `/metrics`: HTTP around [`cosy_rest::metrics`].

use crate::config::MetricsFor;
use crate::problem::{Problem, Result};
use crate::site::{Site, now};
use crate::who::Who;
use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use cosy_rest::metrics::{CONTENT_TYPE, Families, Scrape};
use std::sync::Arc;

/// `/metrics` and what is below.
pub fn router() -> Router<Arc<Site>> {
    Router::new()
        .route("/metrics", get(serve))
        .route("/metrics/{*path}", get(serve))
}

async fn serve(State(site): State<Arc<Site>>, request: Request) -> Result<Response> {
    let (mut parts, _) = request.into_parts();
    let nothing = || Problem::not_found("there are no such metrics");
    let rest = parts.uri.path().trim_start_matches("/metrics").to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let asked = |name: &str| {
        let all = query.split('&');
        all.filter_map(|pair| pair.split_once('='))
            .any(|pair| pair == (name, "1"))
    };
    // Who does what is told as everywhere: to somebody, as much as that user may see.
    let of_users = asked("users") || rest.contains("users");
    let user = match site.config.metrics {
        MetricsFor::Nobody => return Err(nothing()),
        MetricsFor::Everybody if !of_users => {
            site.rates.count(None)?;
            None
        }
        MetricsFor::Users | MetricsFor::Everybody => {
            Some(Who::from_request_parts(&mut parts, &site).await?.uid)
        }
    };
    let families = Families::of_path(&rest, asked("users"), asked("nodes")).ok_or_else(nothing)?;
    let mut scrape = Scrape::new(families, now());
    while let Some(question) = scrape.ask() {
        scrape.take(site.cluster.ask_plainly(user, question).await?);
    }
    let text = scrape.text()?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}
