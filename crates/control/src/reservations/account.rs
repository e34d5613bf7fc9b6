//! Accounts: who sees them, who changes them.

use crate::config::ClusterConfig;
use crate::event::Caller;
use crate::queues::access::procedures::{is_administrator, require_admin};
use crate::record::AccountRow;
use crate::reservations::Reservations;
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::reservation::AccountAction;
use cosy_model::{EventKind, EventObject, Refusal, limits};

pub(crate) fn list_accounts(
    config: &ClusterConfig,
    reservations: &Reservations,
    caller: &Caller,
    names: &[String],
) -> Result<Reply, Refusal> {
    let books = &reservations.books;
    let admin = is_administrator(config, caller);
    let sees = |row: &AccountRow| admin || books.is_member(&row.name, &caller.user);
    let infos = books.infos(names, sees);
    if let Some(missing) = names.iter().find(|n| !infos.iter().any(|i| i.name == **n)) {
        return Err(Refusal::new(
            cosy_model::RefusalCode::NotFound,
            format!("there is no account '{missing}' that user {} may charge", caller.user.name),
        ));
    }
    Ok(Reply::Accounts(infos))
}

pub(crate) fn account_control(
    config: &ClusterConfig,
    reservations: &mut Reservations,
    turn: &mut Turn,
    caller: &Caller,
    name: &str,
    action: &AccountAction,
) -> Result<Reply, Refusal> {
    let now = turn.now();
    require_admin(config, caller, "change accounts")?;
    if name.is_empty() || name.len() > limits::NAME_BYTES {
        return Err(Refusal::invalid(format!(
            "the name of an account has 1 to {} bytes",
            limits::NAME_BYTES
        )));
    }
    let in_use = reservations
        .live()
        .any(|r| r.row.account.as_deref() == Some(name));
    let who = caller.user.name.clone();
    let books = &mut reservations.books;
    let records = books.control(now, name, action, &who, in_use)?;
    records.into_iter().for_each(|r| turn.record(r));
    let kind = match action {
        AccountAction::Create { .. } => EventKind::Created,
        AccountAction::Grant(_) => EventKind::Granted,
        AccountAction::Withdraw(_) => EventKind::Withdrawn,
        AccountAction::Members(_) => EventKind::Changed,
        AccountAction::Remove => EventKind::Removed,
    };
    let detail = match action {
        AccountAction::Grant(sum) | AccountAction::Withdraw(sum) => format!("{sum} SU"),
        AccountAction::Create { .. } | AccountAction::Members(_) | AccountAction::Remove => {
            String::new()
        }
    };
    turn.happened(now, kind, &who, EventObject::Account(name.to_owned()), detail);
    Ok(Reply::Done {
        changed: 1,
        refused: Vec::new(),
    })
}
