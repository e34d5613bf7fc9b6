//! The ledger read line by line, without the controller: what is in each book, and what was
//! held and charged for each reservation, must be what the rows say.

use crate::world::MemoryStore;
use cosy_control::ReservationRow;
use cosy_model::reservation::LedgerEntry;
use cosy_model::{ReservationId, Su};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Ledger {
    read: usize,
    /// Millionths of an SU in each book.
    books: BTreeMap<String, i128>,
    /// Held and charged for each reservation.
    sums: BTreeMap<ReservationId, (i128, i128)>,
}

impl Ledger {
    /// Reads the lines that are new and compares.
    pub fn check(&mut self, store: &MemoryStore) -> Result<(), String> {
        for line in &store.ledger[self.read..] {
            self.carry(line)?;
        }
        self.read = store.ledger.len();
        self.accounts_agree(store)?;
        let rows = store.reservations.values();
        rows.filter(|row| row.account.is_some())
            .try_for_each(|row| self.reservation_agrees(row))
    }

    fn book(&self, name: &str) -> i128 {
        self.books.get(name).copied().unwrap_or(0)
    }

    fn carry(&mut self, line: &LedgerEntry) -> Result<(), String> {
        let sum = i128::from(line.sum.0);
        if sum <= 0 || line.from == line.to || line.who.is_empty() {
            return Err(format!("a line of the ledger says nothing: {line:?}"));
        }
        *self.books.entry(line.from.clone()).or_default() -= sum;
        *self.books.entry(line.to.clone()).or_default() += sum;
        let Some(id) = line.reservation else {
            return Ok(());
        };
        let (held, charged) = self.sums.entry(id).or_default();
        *held += sum * (i128::from(line.to.ends_with(":held")));
        *held -= sum * (i128::from(line.from.ends_with(":held")));
        *charged += sum * (i128::from(line.to == "income"));
        *charged -= sum * (i128::from(line.from == "income"));
        Ok(())
    }

    fn accounts_agree(&self, store: &MemoryStore) -> Result<(), String> {
        let (mut granted, mut charged) = (0, 0);
        for row in store.accounts.values() {
            let of = |su: Su| i128::from(su.0);
            let own = of(row.granted) - of(row.held) - of(row.charged);
            let held = format!("{}:held", row.name);
            if (self.book(&row.name), self.book(&held)) != (own, of(row.held)) {
                return Err(format!(
                    "the ledger gives {} and {} to account {row:?}",
                    self.book(&row.name),
                    self.book(&held)
                ));
            }
            if row.budget && own < 0 {
                return Err(format!("account {} is overdrawn", row.name));
            }
            (granted, charged) = (granted + of(row.granted), charged + of(row.charged));
        }
        // What removed accounts have paid was granted to them too.
        let gone = (-self.book("grants") - granted, self.book("income") - charged);
        if gone.0 != gone.1 || gone.0 < 0 {
            return Err(format!(
                "grants and income are {} and {}, accounts say {granted} and {charged}",
                self.book("grants"),
                self.book("income")
            ));
        }
        Ok(())
    }

    fn reservation_agrees(&self, row: &ReservationRow) -> Result<(), String> {
        let sums = self.sums.get(&row.id).copied().unwrap_or_default();
        let want = (i128::from(row.held.0), i128::from(row.charged.0));
        match sums == want {
            true => Ok(()),
            false => Err(format!(
                "reservation {} ({}) says {want:?} held and charged, the ledger {sums:?}",
                row.id, row.state
            )),
        }
    }
}
