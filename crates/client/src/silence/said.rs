//! What a controller's answer to a ping says of it.

use cosy_model::RefusalCode;
use cosy_model::api::Reply;

/// What a controller says of itself.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Said {
    /// Nothing in time.
    Nothing,
    StandsBy,
    /// It leads, and cannot answer now: why.
    CannotAnswer(String),
    /// Whatever else it says: one that stands by would say so.
    Leads,
}

/// What an answer to a ping says; `None`: none came.
pub(super) fn said(reply: Option<Reply>) -> Said {
    match reply {
        None => Said::Nothing,
        Some(Reply::Refused(refusal)) if refusal.code == RefusalCode::Standby => Said::StandsBy,
        Some(Reply::Refused(refusal)) if refusal.code == RefusalCode::Unavailable => {
            Said::CannotAnswer(refusal.message)
        }
        Some(_) => Said::Leads,
    }
}
