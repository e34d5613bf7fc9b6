//! Cosy's own API: JSON under `/api/v1`, described in `docs/openapi.json`.
//!
//! Fields have the names and units of the commands' `--json`: points in time after RFC 3339 in UTC,
//! lengths in seconds, sums in service units, memory in MiB where the name says so.

pub mod admin;
pub mod books;
pub mod chart;
#[cfg(test)]
mod described;
pub mod flow_file;
pub mod flows;
pub mod interactive;
pub mod jobs;
pub mod now;
pub mod output;
pub mod session;
pub mod standing;
pub mod values;

use crate::problem::Problem;
use crate::site::Site;
use axum::Router;
use axum::routing::{get, post};
use std::sync::Arc;

/// Everything under `/api/v1`.
pub fn router() -> Router<Arc<Site>> {
    Router::new()
        .route("/me", get(session::me))
        .route("/links", post(session::make_link))
        .route("/tokens", post(session::make_token).delete(session::revoke))
        .route("/session", post(session::log_in).delete(session::leave))
        .route("/templates", get(session::templates))
        .route("/now", get(now::now))
        .route("/use", get(now::history))
        .route("/queues", get(now::queues))
        .route("/nodes", get(admin::nodes))
        .route("/nodes/{name}", get(admin::node).post(admin::steer_node))
        .route("/nodes/{name}/log", get(admin::node_log))
        .route("/events", get(admin::events))
        .route("/accounts", get(admin::accounts))
        .route("/ledger", get(admin::ledger))
        .route("/policy/{what}", get(admin::policy))
        .route("/jobs", get(jobs::list))
        .route("/jobs/{job}", get(jobs::explain).patch(jobs::change).delete(jobs::cancel))
        .route("/jobs/{job}/hold", post(jobs::hold))
        .route("/jobs/{job}/release", post(jobs::release))
        .route("/jobs/{job}/requeue", post(jobs::requeue))
        .route("/jobs/{job}/script", get(jobs::script))
        .route("/jobs/{job}/limits", get(standing::limits))
        .route("/jobs/{job}/output", get(output::output))
        .route("/jobs/{job}/usage", get(interactive::usage))
        .route("/jobs/{job}/samples", get(interactive::samples))
        .route("/jobs/{job}/ports", get(interactive::ports))
        .route("/jobs/{job}/ports/{port}", post(interactive::open_port))
        .route("/jobs/{job}/shells", post(interactive::start_shell))
        .route("/shells", get(interactive::shells))
        .route("/shells/{id}", post(interactive::type_in).delete(interactive::end_shell))
        .route("/shells/{id}/screen", get(interactive::screen))
        .route("/history", get(jobs::history))
        .route("/plan", get(chart::plan))
        .route("/quotes", post(books::quote))
        .route("/reservations", get(books::list).post(books::reserve))
        .route("/reservations.ics", get(books::calendar))
        .route("/reservations/{id}", get(books::show).delete(books::cancel))
        .route("/reservations/{id}/confirm", post(books::confirm))
        .route("/workflows", get(flows::list).post(flow_file::submit))
        .route("/workflows/plan", post(flow_file::plan))
        .route("/workflows/{id}", get(flows::show).delete(flows::cancel))
        .route("/workflows/{id}/confirm", post(flows::confirm))
        .fallback(async || Problem::not_found("there is no such thing in this API"))
        .method_not_allowed_fallback(async || {
            let status = axum::http::StatusCode::METHOD_NOT_ALLOWED;
            Problem::new(status, "method", "this cannot be done with that")
        })
}

/// Where a link of `cosy web` leads.
pub fn entrance() -> Router<Arc<Site>> {
    Router::new()
        .route("/enter", get(session::enter))
        .route("/healthz", get(async || "ok\n"))
}
