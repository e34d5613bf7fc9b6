//! Single bounds: of lists, texts, names.

use crate::{OsText, Refusal, RefusalCode, limits};

/// Within bounds, or why not.
pub(super) type Bounded = Result<(), Refusal>;

pub(super) fn most(what: &str, count: usize, limit: usize) -> Bounded {
    if count <= limit {
        return Ok(());
    }
    Err(Refusal::new(
        RefusalCode::Invalid,
        format!(
            "{count} {what} in one request are more than the {limit} allowed: ask in several requests"
        ),
    ))
}

pub(super) fn text(what: &str, text: &str, limit: usize) -> Bounded {
    if text.len() <= limit {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "a {what} of {} bytes is longer than the {limit} allowed",
        text.len()
    )))
}

pub(super) fn bytes(what: &str, bytes: &OsText, limit: usize) -> Bounded {
    if bytes.0.len() <= limit {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "{what} of {} bytes is longer than the {limit} allowed",
        bytes.0.len()
    )))
}

pub(super) fn name(what: &str, one: &str) -> Bounded {
    text(&format!("name ({what})"), one, limits::NAME_BYTES)
}

pub(super) fn names(what: &str, all: &[String]) -> Bounded {
    most(what, all.len(), limits::FILTER_NAMES)?;
    all.iter().try_for_each(|one| name(what, one))
}

pub(super) fn hosts(what: &str, all: &[String]) -> Bounded {
    most(what, all.len(), limits::HOST_LIST_NAMES)?;
    all.iter().try_for_each(|one| name(what, one))
}
