//! Who may use a reservation beside its owner: what can be asked for, and changes of it.

pub(crate) mod procedures;

use cosy_model::reservation::Sharing;
use cosy_model::{Refusal, limits};

/// Refuses lists and names that are too long.
pub(crate) fn check(sharing: &Sharing) -> Result<(), Refusal> {
    let lists = [&sharing.users, &sharing.groups, &sharing.accounts];
    let long = |list: &&Vec<String>| {
        list.len() > limits::SHARING || list.iter().any(|n| n.len() > limits::NAME_BYTES)
    };
    match lists.iter().any(long) {
        true => Err(Refusal::invalid(format!(
            "a reservation is shared with at most {} names of each kind",
            limits::SHARING
        ))),
        false => Ok(()),
    }
}
