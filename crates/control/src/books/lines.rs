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
pub(super) enum Way {
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
        way: Way,
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
            Way::Grant => self.grants -= i128::from(sum.0),
            Way::Withdraw => self.grants += i128::from(sum.0),
            Way::Charge => self.income += i128::from(sum.0),
            Way::GiveBack => self.income -= i128::from(sum.0),
            Way::Hold | Way::Release => {}
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
fn most(row: &AccountRow, way: Way) -> Su {
    let room = |of: Su| Su::MOST.minus(of).max(Su::ZERO);
    match way {
        Way::Grant => room(row.granted),
        Way::Withdraw => available(row).min(row.granted),
        Way::Hold => room(row.held.plus(row.charged)),
        Way::Release | Way::Charge => row.held,
        Way::GiveBack => row.charged,
    }
}

/// No sum overflows: `sum` is at most [`most`].
fn apply(row: &mut AccountRow, way: Way, sum: Su) {
    match way {
        Way::Grant => row.granted = row.granted.plus(sum),
        Way::Withdraw => row.granted = row.granted.minus(sum),
        Way::Hold => row.held = row.held.plus(sum),
        Way::Release => row.held = row.held.minus(sum),
        Way::Charge => {
            row.held = row.held.minus(sum);
            row.charged = row.charged.plus(sum);
        }
        Way::GiveBack => row.charged = row.charged.minus(sum),
    }
}

/// The books that a sum goes from and to.
fn ends(account: &str, way: Way) -> (String, String) {
    let own = account.to_owned();
    let held = format!("{account}:held");
    match way {
        Way::Grant => (GRANTS.to_owned(), own),
        Way::Withdraw => (own, GRANTS.to_owned()),
        Way::Hold => (own, held),
        Way::Release => (held, own),
        Way::Charge => (held, INCOME.to_owned()),
        Way::GiveBack => (INCOME.to_owned(), own),
    }
}
