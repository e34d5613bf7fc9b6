//! Why a request got no answer, as HTTP has it and as JSON.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use cosy_client::CallError;
use cosy_model::{Refusal, RefusalCode};
use serde_json::json;

/// A request that was not carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The status of the answer.
    pub status: StatusCode,
    /// Stable word that programs go by.
    pub code: &'static str,
    /// One line for people.
    pub message: String,
}

impl Problem {
    /// With that status.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            status,
            code,
            message,
        }
    }

    /// What was sent makes no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    /// Nothing is there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// Nobody knows who asks.
    pub fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", message)
    }

    /// Whoever asks may not.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// Too much at once: later it may go.
    pub fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "busy", message)
    }

    /// The controller cannot answer now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    /// The controller's answer is none that fits.
    pub fn unexpected() -> Self {
        let message = "the controller gave an answer that does not fit the request";
        Self::new(StatusCode::BAD_GATEWAY, "unexpected", message)
    }

    /// As JSON.
    pub fn json(&self) -> serde_json::Value {
        json!({ "error": { "code": self.code, "message": self.message } })
    }
}

/// The word and the status of a refusal of the controller.
const fn refused(code: RefusalCode) -> (&'static str, StatusCode) {
    match code {
        RefusalCode::Invalid => ("invalid", StatusCode::BAD_REQUEST),
        RefusalCode::NotFound => ("not_found", StatusCode::NOT_FOUND),
        RefusalCode::Forbidden => ("forbidden", StatusCode::FORBIDDEN),
        RefusalCode::AccessDenied => ("access_denied", StatusCode::FORBIDDEN),
        RefusalCode::QueueLimit => ("queue_limit", StatusCode::UNPROCESSABLE_ENTITY),
        RefusalCode::NeverFits => ("never_fits", StatusCode::UNPROCESSABLE_ENTITY),
        RefusalCode::QueueClosed => ("queue_closed", StatusCode::CONFLICT),
        RefusalCode::WrongState => ("wrong_state", StatusCode::CONFLICT),
        RefusalCode::Unavailable => ("unavailable", StatusCode::SERVICE_UNAVAILABLE),
        RefusalCode::Standby => ("standby", StatusCode::SERVICE_UNAVAILABLE),
        RefusalCode::DirectoryDown => ("directory_down", StatusCode::SERVICE_UNAVAILABLE),
        RefusalCode::Version => ("version", StatusCode::BAD_GATEWAY),
        RefusalCode::TooMany => ("too_many", StatusCode::CONFLICT),
        RefusalCode::NotFree => ("not_free", StatusCode::CONFLICT),
        RefusalCode::Admission => ("admission", StatusCode::CONFLICT),
        RefusalCode::Price => ("price", StatusCode::CONFLICT),
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (code, status) = refused(refusal.code);
        Self::new(status, code, refusal.message)
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(refusal) => refusal.into(),
            // Paths of this host are nobody's business.
            CallError::Unreachable { .. } => Self::unavailable("the controller cannot be reached"),
            CallError::Lost { outcome, .. } => {
                Self::unavailable(format!("the controller was lost{outcome}"))
            }
            CallError::NoLeader { .. } => Self::unavailable("no controller leads now"),
            CallError::TooLarge(e) => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", e.to_string())
            }
            CallError::Garbage { .. } | CallError::Version { .. } | CallError::Unexpected => {
                Self::unexpected()
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut answer = (self.status, axum_json(&self.json())).into_response();
        let headers = answer.headers_mut();
        if self.status == StatusCode::SERVICE_UNAVAILABLE
            || self.status == StatusCode::TOO_MANY_REQUESTS
        {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"cosy\"");
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        answer
    }
}

/// A document as the body of an answer.
pub fn axum_json(json: &serde_json::Value) -> impl IntoResponse + use<> {
    ([(header::CONTENT_TYPE, "application/json")], json.to_string())
}

/// The answer of a handler of the API.
#[derive(Debug)]
pub struct Answer(pub serde_json::Value);

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        axum_json(&self.0).into_response()
    }
}

/// What handlers give.
pub type Result<T = Answer> = std::result::Result<T, Problem>;
