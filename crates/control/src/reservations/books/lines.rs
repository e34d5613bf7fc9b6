//! Lines of the ledger: a sum goes from one book to another, and the account's row follows.
//!
//! What always holds: a line's sum is above zero, and neither end passes what it can hold.

use super::{Books, GRANTS, INCOME, available};
use crate::record::{AccountRow, Record};
use cosy_model::reservation::LedgerEntry;
use cosy_model::{ReservationId, Su, Time};

/// Why a sum goes from one book to another, and who caused it.
#[derive(Clone, Copy)]
pub(super) struct Cause<'a> {
    pub now: Time,
    pub reservation: Option<ReservationId>,
    pub why: &'a str,
    pub who: &'a str,
}

impl<'a> Cause<'a> {
    /// For a reservation.
    pub fn of(now: Time, reservation: ReservationId, why: &'a str, who: &'a str) -> Self {
        Self {
            now,
            reservation: Some(reservation),
            why,
            who,
        }
    }
}

/// A way that a sum can go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Transfer {
    /// `grants` to the account.
    Grant,
    /// The account to `grants`.
    Withdraw,
    /// The account to its held book.
    Hold,
    /// The held book to the account.
    Release,
    /// The held book to `income`.
    Charge,
    /// `income` to the account.
    GiveBack,
}

impl Books {
    /// Writes one line and the account's new row, unless there is nothing to write: no such
    /// account, no sum.
    pub(super) fn carry(
        &mut self,
        account: &str,
        way: Transfer,
        sum: Su,
        cause: Cause<'_>,
    ) -> Vec<Record> {
        let Some(row) = self.accounts.get_mut(account) else {
            return Vec::new();
        };
        let sum = sum.min(most(row, way));
        if sum <= Su::ZERO {
            return Vec::new();
        }
        apply(row, way, sum);
        let row = row.clone();
        match way {
            Transfer::Grant => self.grants -= i128::from(sum.0),
            Transfer::Withdraw => self.grants += i128::from(sum.0),
            Transfer::Charge => self.income += i128::from(sum.0),
            Transfer::GiveBack => self.income -= i128::from(sum.0),
            Transfer::Hold | Transfer::Release => {}
        }
        self.last_entry = self.last_entry.saturating_add(1);
        let (from, to) = ends(account, way);
        let line = LedgerEntry {
            seq: self.last_entry,
            at: cause.now,
            from,
            to,
            sum,
            reservation: cause.reservation,
            why: cause.why.to_owned(),
            who: cause.who.to_owned(),
        };
        vec![Record::Ledger(line), Record::Account(row)]
    }
}

/// The most that can go that way: neither end may pass what it can hold.
fn most(row: &AccountRow, way: Transfer) -> Su {
    let room = |of: Su| Su::MOST.minus(of).max(Su::ZERO);
    match way {
        Transfer::Grant => room(row.granted),
        Transfer::Withdraw => available(row).min(row.granted),
        Transfer::Hold => room(row.held.plus(row.charged)),
        Transfer::Release | Transfer::Charge => row.held,
        Transfer::GiveBack => row.charged,
    }
}

/// No sum overflows: `sum` is at most [`most`].
fn apply(row: &mut AccountRow, way: Transfer, sum: Su) {
    match way {
        Transfer::Grant => row.granted = row.granted.plus(sum),
        Transfer::Withdraw => row.granted = row.granted.minus(sum),
        Transfer::Hold => row.held = row.held.plus(sum),
        Transfer::Release => row.held = row.held.minus(sum),
        Transfer::Charge => {
            row.held = row.held.minus(sum);
            row.charged = row.charged.plus(sum);
        }
        Transfer::GiveBack => row.charged = row.charged.minus(sum),
    }
}

/// The books that a sum goes from and to.
fn ends(account: &str, way: Transfer) -> (String, String) {
    let own = account.to_owned();
    let held = format!("{account}:held");
    match way {
        Transfer::Grant => (GRANTS.to_owned(), own),
        Transfer::Withdraw => (own, GRANTS.to_owned()),
        Transfer::Hold => (own, held),
        Transfer::Release => (held, own),
        Transfer::Charge => (held, INCOME.to_owned()),
        Transfer::GiveBack => (INCOME.to_owned(), own),
    }
}
