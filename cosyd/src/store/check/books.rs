//! The ledger: no line is missing, all of them are about something, and accounts have what they say.

use super::super::bookings::owner;
use super::super::rows::decode;
use super::super::sql::{self, Row};
use super::{Check, Remedy};
use cosy_control::AccountRow;
use std::collections::BTreeMap;

const RESTORE: Remedy = Remedy::Restore;

/// A line of the ledger.
struct Line {
    seq: u64,
    from: String,
    to: String,
    payer: Option<String>,
    payee: Option<String>,
    sum: i64,
}

impl Check<'_> {
    /// Goes through the ledger.
    pub(super) fn books(&mut self) -> sql::Result<()> {
        let unreserved = "SELECT CAST(l.seq AS TEXT), CAST(l.reservation AS TEXT) FROM ledger l
             WHERE l.reservation IS NOT NULL
             AND NOT EXISTS (SELECT 1 FROM reservations r WHERE r.id = l.reservation)
             ORDER BY l.seq";
        let what = "there is no such reservation";
        self.each_is_wrong("line of the ledger and reservation", unreserved, 2, what, RESTORE)?;
        let mut books: BTreeMap<String, i128> = BTreeMap::new();
        let query = "SELECT seq, source, target, payer, payee, sum FROM ledger ORDER BY seq";
        let read = |r: &Row<'_>| {
            Ok(Line {
                seq: r.get(0)?,
                from: r.get(1)?,
                to: r.get(2)?,
                payer: r.get(3)?,
                payee: r.get(4)?,
                sum: r.get(5)?,
            })
        };
        let mut last = 0;
        self.each(query, read, |check, line| {
            let place = format!("line {} of the ledger", line.seq);
            if line.seq != last + 1 {
                let what = format!("the line before it has number {last}: lines are missing");
                check.found(place.clone(), what, RESTORE);
            }
            last = line.seq;
            let each = [
                ("payer", line.payer.as_deref() == owner(&line.from)),
                ("payee", line.payee.as_deref() == owner(&line.to)),
            ];
            check.columns(&place, &each);
            *books.entry(line.from).or_default() -= i128::from(line.sum);
            *books.entry(line.to).or_default() += i128::from(line.sum);
            Ok(())
        })?;
        self.accounts(books)
    }

    /// What is in the books of accounts is what their rows say; books of removed ones are empty.
    fn accounts(&mut self, mut books: BTreeMap<String, i128>) -> sql::Result<()> {
        books.remove("grants");
        books.remove("income");
        let read = |r: &Row<'_>| Ok((r.get::<String>(0)?, r.get::<Vec<u8>>(1)?));
        self.each("SELECT name, row FROM accounts", read, |check, (name, row)| {
            let own = books.remove(&name).unwrap_or_default();
            let held = books.remove(&format!("{name}:held")).unwrap_or_default();
            let Ok(row) = decode::<AccountRow>("accounts", &row) else {
                return Ok(()); // told with all others
            };
            let [granted, held_there, charged] =
                [row.granted, row.held, row.charged].map(|sum| i128::from(sum.0));
            let pairs = [
                ("has", own, granted - held_there - charged),
                ("holds", held, held_there),
            ];
            for (what, by_lines, by_row) in pairs.into_iter().filter(|(_, a, b)| a != b) {
                let what = format!(
                    "by the ledger it {what} {by_lines} millionths of an SU, by its row {by_row}"
                );
                check.found(format!("account {name}"), what, RESTORE);
            }
            Ok(())
        })?;
        for (book, sum) in books.into_iter().filter(|(_, sum)| *sum != 0) {
            let name = owner(&book).unwrap_or(&book);
            if !self.is_aside("account", name) {
                let what =
                    format!("{sum} millionths of an SU are in it, and there is no such account");
                let remedy = Remedy::Other(
                    "make the account again (cadm account add); cosyd store restore has it as it was",
                );
                self.found(format!("book {book}"), what, remedy);
            }
        }
        Ok(())
    }
}
