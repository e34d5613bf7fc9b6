//! An account of the tree is the account of that name in the books: they are made and go together.

use super::effect::Effect;
use crate::reservations::Reservations;
use cosy_model::reservation::AccountAction;
use cosy_model::{Refusal, Time};

/// Opens an account in the books for each new one, closes those of removed ones.
///
/// # Errors
/// A reservation is charged to one that goes, or the configuration names it. Some of it may be done
/// then: the caller keeps the books as they were.
pub(crate) fn follow(
    reservations: &mut Reservations,
    now: Time,
    who: &str,
    effect: &Effect,
) -> Result<Vec<crate::record::Record>, Refusal> {
    let mut records = Vec::new();
    let in_use: Vec<String> = reservations
        .live()
        .filter_map(|reservation| reservation.row().account.clone())
        .collect();
    let books = reservations.books_mut();
    let made = effect.made.iter().map(|name| (name, true));
    let gone = effect.gone.iter().map(|name| (name, false));
    for (name, comes) in made.chain(gone) {
        if comes == books.has(name) {
            continue;
        }
        let done = match comes {
            true => books.open_listed(now, name, who),
            false => books.control(now, name, &AccountAction::Remove, who, in_use.contains(name)),
        };
        records.extend(done?);
    }
    Ok(records)
}
