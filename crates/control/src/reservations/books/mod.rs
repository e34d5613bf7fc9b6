//! The books: accounts, what they were granted, what is held and charged, and the ledger.
//!
//! Double entry: every sum goes from one book to another, in one line of the ledger that
//! says when, why, for which reservation and by whom. Lines are never changed.
//!
//! ```text
//!            grant              hold                charge
//!   grants ---------> ACCOUNT --------> ACCOUNT:held --------> income
//!          <---------         <--------      |
//!           withdraw    return               |
//!                     <-------------------------------------- (return)
//! ```
//!
//! Knows nothing of reservations but their ids: how much is held, charged and given back is
//! decided in [`crate::reservations::admission`]. What always holds ([`Books::check`]): all books together
//! are zero; a held book is never below zero, nor is an account with a budget; nothing goes
//! into a line that is negative or more than a book can hold; what is refused changes
//! nothing. What the held book does not have cannot be charged or released, and what was
//! not charged cannot be given back: such a sum is cut to what is there.
//!
//! Source: issue of advance reservations, "Money".

pub(crate) mod control;
pub(crate) mod lines;
pub(crate) mod row;
#[cfg(test)]
mod tests;

use self::lines::{Cause, Transfer};
use crate::config::AccountConfig;
use crate::record::{AccountRow, Record, ReservationRow};
use cosy_model::reservation::AccountInfo;
use cosy_model::{Refusal, RefusalCode, ReservationId, Su, Time, User};
use std::collections::{BTreeMap, BTreeSet};

/// Book that grants come from: what all accounts were granted, below zero.
const GRANTS: &str = "grants";
/// Book that charges go to.
const INCOME: &str = "income";

/// All accounts, and the number of the ledger's last line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Books {
    accounts: BTreeMap<String, AccountRow>,
    /// Those that the configuration names.
    configured: BTreeSet<String>,
    /// Users whom the policy puts into accounts, by account.
    associated: BTreeMap<String, BTreeSet<String>>,
    last_entry: u64,
    /// The book `grants`, counted by lines and not by accounts, so that both can be
    /// compared.
    grants: i128,
    /// The book `income`, likewise.
    income: i128,
}

impl Books {
    /// Accounts as the store has them; the next line of the ledger follows that number.
    pub(crate) fn restore(rows: Vec<AccountRow>, last_entry: u64) -> Self {
        let named = rows.into_iter().map(|row| (row.name.clone(), row));
        let accounts: BTreeMap<_, _> = named.collect();
        let sum = |of: fn(&AccountRow) -> Su| accounts.values().map(|r| i128::from(of(r).0)).sum();
        let (granted, income): (i128, i128) = (sum(|r| r.granted), sum(|r| r.charged));
        Self {
            accounts,
            configured: BTreeSet::new(),
            associated: BTreeMap::new(),
            last_entry,
            grants: -granted,
            income,
        }
    }

    /// Makes the configured accounts that are not there yet, with their first grant, and
    /// lets the members of all configured ones follow the configuration. Names that no
    /// account can have ([`Books::sound_name`]) are left out; whoever reads the
    /// configuration refuses them before.
    pub(crate) fn configure(
        &mut self,
        now: Time,
        accounts: &BTreeMap<String, AccountConfig>,
    ) -> Vec<Record> {
        let sound = accounts.iter().filter(|(name, _)| Self::sound_name(name));
        let sound: Vec<_> = sound.collect();
        self.configured = sound.iter().map(|(name, _)| (*name).clone()).collect();
        let mut records = Vec::new();
        for (name, config) in sound {
            match self.accounts.get_mut(name) {
                None => records.extend(self.open(now, name, config, "configuration")),
                Some(row) if row.members != config.members => {
                    row.members.clone_from(&config.members);
                    records.push(Record::Account(row.clone()));
                }
                Some(_) => {}
            }
        }
        records
    }

    /// The account that pays for what this user books. `asked` must exist and the user be
    /// one of its members; without, the first by name that the user may charge. While there
    /// are no accounts at all, a name is only recorded.
    ///
    /// # Errors
    /// There is no such account, or none that the user may charge.
    pub(crate) fn payer(
        &self,
        user: &User,
        asked: Option<&str>,
    ) -> Result<Option<String>, Refusal> {
        if self.accounts.is_empty() {
            return Ok(asked.map(str::to_owned));
        }
        let Some(asked) = asked else {
            let mut rows = self.accounts.values();
            let first = rows.find(|row| self.charges(row, user));
            return match first {
                Some(row) => Ok(Some(row.name.clone())),
                None => Err(Refusal::new(
                    RefusalCode::Forbidden,
                    format!(
                        "{} may charge none of the {} accounts: ask an administrator to be made a member of one",
                        user.name,
                        self.accounts.len()
                    ),
                )),
            };
        };
        if self.charges(self.row(asked)?, user) {
            return Ok(Some(asked.to_owned()));
        }
        Err(Refusal::new(
            RefusalCode::Forbidden,
            format!("{} is no member of account {asked} and may not charge it", user.name),
        ))
    }

    /// True when the account exists and the user may charge it.
    pub(crate) fn is_member(&self, account: &str, user: &User) -> bool {
        let row = self.accounts.get(account);
        row.is_some_and(|row| self.charges(row, user))
    }

    /// Whether somebody of whom only the login name is known may be able to charge the account: in a
    /// group that is a member anybody may be.
    pub(crate) fn may_be_member(&self, account: &str, name: &str) -> bool {
        let is = |member: &String| member.starts_with('@') || member == name;
        let row = self.accounts.get(account);
        row.is_some_and(|row| row.members.is_empty() && !row.listed || row.members.iter().any(is))
    }

    /// Whether the account's list of members has the user. Who is put into it by the policy, perhaps
    /// for one queue alone, is not in that list.
    pub(crate) fn lists(&self, account: &str, user: &User) -> bool {
        let row = self.accounts.get(account);
        row.is_some_and(|row| charges(row, user))
    }

    /// The policy puts these users into accounts: they may charge them beside the members.
    pub(crate) fn associate(&mut self, users: BTreeMap<String, BTreeSet<String>>) {
        self.associated = users;
    }

    /// True when there is an account of that name.
    pub(crate) fn has(&self, account: &str) -> bool {
        self.accounts.contains_key(account)
    }

    /// Names of all accounts.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.accounts.keys()
    }

    fn charges(&self, row: &AccountRow, user: &User) -> bool {
        let own = self.associated.get(&row.name);
        own.is_some_and(|own| own.contains(&user.name)) || charges(row, user)
    }

    /// What the account can still spend; `None`: it has no budget, or there is no such
    /// account.
    pub(crate) fn left(&self, account: &str) -> Option<Su> {
        let row = self.accounts.get(account)?;
        row.budget.then(|| available(row))
    }

    /// Holds the price of a reservation, where an account pays for it.
    ///
    /// # Errors
    /// Those of [`Books::hold`].
    pub(crate) fn hold_price(
        &mut self,
        now: Time,
        row: &mut ReservationRow,
    ) -> Result<Vec<Record>, Refusal> {
        let Some(account) = &row.account else {
            return Ok(Vec::new());
        };
        let price = row.base.plus(row.extra);
        let lines = self.hold(now, account, row.id, price, &row.user)?;
        row.held = price;
        Ok(lines)
    }

    /// Holds a sum of the account. Without any accounts nothing is kept.
    ///
    /// # Errors
    /// The sum is negative or too large, there is no such account, or it cannot pay.
    pub(crate) fn hold(
        &mut self,
        now: Time,
        account: &str,
        reservation: ReservationId,
        sum: Su,
        who: &str,
    ) -> Result<Vec<Record>, Refusal> {
        if sum < Su::ZERO {
            return Err(Refusal::invalid(format!("a sum of {sum} SU cannot be held")));
        }
        if self.accounts.is_empty() {
            return Ok(Vec::new());
        }
        let row = self.row(account)?;
        let left = available(row);
        if row.budget && sum > left {
            return Err(Refusal::new(
                RefusalCode::Price,
                format!("account {account} has {left} SU left, {sum} SU are needed"),
            ));
        }
        let used = row.held.plus(row.charged).plus(sum);
        if used > Su::MOST {
            return Err(too_much(account, "held and charged", used));
        }
        let cause = Cause::of(now, reservation, "hold", who);
        Ok(self.carry(account, Transfer::Hold, sum, cause))
    }

    /// Charges what is held: `why` is `charge` for the time itself or `extra` for the delay
    /// of others.
    pub(crate) fn charge(
        &mut self,
        now: Time,
        account: &str,
        reservation: ReservationId,
        sum: Su,
        why: &str,
        who: &str,
    ) -> Vec<Record> {
        let cause = Cause::of(now, reservation, why, who);
        self.carry(account, Transfer::Charge, sum, cause)
    }

    /// Gives back what is held.
    pub(crate) fn release(
        &mut self,
        now: Time,
        account: &str,
        reservation: ReservationId,
        sum: Su,
        who: &str,
    ) -> Vec<Record> {
        let cause = Cause::of(now, reservation, "return", who);
        self.carry(account, Transfer::Release, sum, cause)
    }

    /// Gives back what was charged.
    pub(crate) fn give_back(
        &mut self,
        now: Time,
        account: &str,
        reservation: ReservationId,
        sum: Su,
        who: &str,
    ) -> Vec<Record> {
        let cause = Cause::of(now, reservation, "return", who);
        self.carry(account, Transfer::GiveBack, sum, cause)
    }

    /// The accounts of these names (all when empty) that may be seen, by name.
    pub(crate) fn infos(
        &self,
        names: &[String],
        may_see: impl Fn(&AccountRow) -> bool,
    ) -> Vec<AccountInfo> {
        let rows = self.accounts.values();
        let named = rows.filter(|row| names.is_empty() || names.contains(&row.name));
        named
            .filter(|row| may_see(row))
            .map(|row| self.info(row))
            .collect()
    }

    fn info(&self, row: &AccountRow) -> AccountInfo {
        let mut members = row.members.clone();
        let everyone = members.is_empty() && !row.listed;
        let own = self.associated.get(&row.name).into_iter().flatten();
        if !everyone {
            members.extend(own.filter(|user| !row.members.contains(user)).cloned());
        }
        AccountInfo {
            name: row.name.clone(),
            listed: row.listed,
            members,
            budget: row.budget,
            granted: row.granted,
            held: row.held,
            charged: row.charged,
            available: available(row),
        }
    }

    /// Whether the books agree.
    ///
    /// # Errors
    /// The first disagreement, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut sum = self.grants + self.income;
        for (name, row) in &self.accounts {
            let own = balance(row);
            sum += own + i128::from(row.held.0);
            if *name != row.name {
                return Err(format!("account {name} is called {}", row.name));
            }
            if row.budget && own < 0 {
                return Err(format!("account {name} is overdrawn by {} millionths", -own));
            }
            if row.granted < Su::ZERO || row.held < Su::ZERO || row.charged < Su::ZERO {
                return Err(format!("a book of account {name} is below zero: {row:?}"));
            }
        }
        match sum {
            0 => Ok(()),
            off => Err(format!("the books are off by {off} millionths of an SU")),
        }
    }

    fn row(&self, account: &str) -> Result<&AccountRow, Refusal> {
        self.accounts.get(account).ok_or_else(|| {
            Refusal::new(RefusalCode::NotFound, format!("there is no account '{account}'"))
        })
    }
}

fn charges(row: &AccountRow, user: &User) -> bool {
    let is = |member: &String| match member.strip_prefix('@') {
        Some(group) => user.in_group(group),
        None => *member == user.name,
    };
    row.members.is_empty() && !row.listed || row.members.iter().any(is)
}

/// The book of the account itself.
fn balance(row: &AccountRow) -> i128 {
    i128::from(row.granted.0) - i128::from(row.held.0) - i128::from(row.charged.0)
}

fn available(row: &AccountRow) -> Su {
    let own = balance(row).clamp(i128::from(i64::MIN), i128::from(i64::MAX));
    Su(own as i64)
}

fn too_much(account: &str, what: &str, sum: Su) -> Refusal {
    Refusal::invalid(format!(
        "account {account} would have {sum} SU {what} in all, the books hold at most {} SU",
        Su::MOST
    ))
}
