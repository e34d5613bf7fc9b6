//! Accounts: who sees them, who changes them.

use crate::controller::Controller;
use crate::event::Caller;
use crate::record::AccountRow;
use cosy_model::api::Reply;
use cosy_model::reservation::AccountAction;
use cosy_model::{Refusal, Time, limits};

impl Controller {
    pub(crate) fn list_accounts(
        &self,
        caller: &Caller,
        names: &[String],
    ) -> Result<Reply, Refusal> {
        let books = &self.reservations.books;
        let admin = self.is_admin(caller);
        let sees = |row: &AccountRow| admin || books.is_member(&row.name, &caller.user);
        let infos = books.infos(names, sees);
        if let Some(missing) = names.iter().find(|n| !infos.iter().any(|i| i.name == **n)) {
            return Err(Refusal::new(
                cosy_model::RefusalCode::NotFound,
                format!(
                    "there is no account '{missing}' that user {} may charge",
                    caller.user.name
                ),
            ));
        }
        Ok(Reply::Accounts(infos))
    }

    pub(crate) fn account_control(
        &mut self,
        now: Time,
        caller: &Caller,
        name: &str,
        action: &AccountAction,
    ) -> Result<Reply, Refusal> {
        self.require_admin(caller, "change accounts")?;
        if name.is_empty() || name.len() > limits::NAME_BYTES {
            return Err(Refusal::invalid(format!(
                "the name of an account has 1 to {} bytes",
                limits::NAME_BYTES
            )));
        }
        let in_use = self
            .reservations
            .live()
            .any(|r| r.row.account.as_deref() == Some(name));
        let who = caller.user.name.clone();
        let books = &mut self.reservations.books;
        let records = books.control(now, name, action, &who, in_use)?;
        records.into_iter().for_each(|r| self.record(r));
        let word = match action {
            AccountAction::Create { .. } => "created",
            AccountAction::Grant(_) => "granted",
            AccountAction::Withdraw(_) => "withdrawn",
            AccountAction::Members(_) => "changed",
            AccountAction::Remove => "removed",
        };
        let detail = match action {
            AccountAction::Grant(sum) | AccountAction::Withdraw(sum) => format!("{sum} SU"),
            AccountAction::Create { .. } | AccountAction::Members(_) | AccountAction::Remove => {
                String::new()
            }
        };
        self.happened(now, word, &who, format!("account {name}"), detail);
        Ok(Reply::Done {
            changed: 1,
            refused: Vec::new(),
        })
    }
}
