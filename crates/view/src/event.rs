//! What is shown of what has happened.

use crate::column::Fields;
use cosy_model::api::HistoryEvent;

/// All fields of something that happened.
pub fn fields(event: &HistoryEvent) -> Fields<'_> {
    let HistoryEvent {
        seq,
        at,
        what,
        who,
        object,
        detail,
    } = event;
    vec![
        ("seq", (*seq).into()),
        ("at", (*at).into()),
        ("what", what.into()),
        ("who", who.into()),
        ("object", object.into()),
        ("detail", detail.into()),
    ]
}
