//! What administrators do with accounts: make, fund, change, remove.
//!
//! An account that is only counted and gets its first grant may spend just that: what was
//! counted so far is granted too, in a line of its own, so that the past is explained and
//! no account with a budget is below zero. A removed account is closed first: what is left
//! of its budget goes back to `grants`, what was counted without a budget comes from there.

use super::lines::{Cause, Transfer};
use super::{Books, available, too_much};
use crate::config::AccountConfig;
use crate::record::{AccountRow, Record};
use cosy_model::reservation::AccountAction;
use cosy_model::{Refusal, RefusalCode, Su, Time, limits};

impl Books {
    /// Does what an administrator asks. `in_use`: a live reservation is charged to it.
    ///
    /// # Errors
    /// The name, a sum or a member's name is wrong, there is no such account or already
    /// one, it is in use, or what is to be withdrawn is not there. Nothing has changed then.
    pub(crate) fn control(
        &mut self,
        now: Time,
        name: &str,
        action: &AccountAction,
        who: &str,
        in_use: bool,
    ) -> Result<Vec<Record>, Refusal> {
        match action {
            AccountAction::Create { members, budget } => {
                self.create(now, name, members, *budget, who)
            }
            AccountAction::Grant(sum) => self.grant(now, name, *sum, who),
            AccountAction::Withdraw(sum) => self.withdraw(now, name, *sum, who),
            AccountAction::Members(members) => self.set_members(name, members),
            AccountAction::Remove => self.remove(now, name, who, in_use),
        }
    }

    /// True for a name that an account can have: no book is called like it, and no line of
    /// the ledger can be read in two ways.
    pub(crate) fn sound_name(name: &str) -> bool {
        let odd = |c: char| c == ':' || c == '@' || c == ',' || c.is_whitespace() || c.is_control();
        let reserved = name == super::GRANTS || name == super::INCOME;
        !name.is_empty() && name.len() <= limits::NAME_BYTES && !reserved && !name.contains(odd)
    }

    /// A new account with its first grant; its name is sound and not taken, its budget is
    /// cut to what the books hold.
    pub(super) fn open(
        &mut self,
        now: Time,
        name: &str,
        config: &AccountConfig,
        who: &str,
    ) -> Vec<Record> {
        let row = AccountRow {
            name: name.to_owned(),
            members: config.members.clone(),
            budget: config.budget.is_some(),
            ..AccountRow::default()
        };
        self.accounts.insert(name.to_owned(), row.clone());
        let budget = config.budget.unwrap_or(Su::ZERO);
        let granted = self.carry(name, Transfer::Grant, budget, by(now, "grant", who));
        if granted.is_empty() {
            return vec![Record::Account(row)];
        }
        granted
    }

    /// A new account without a budget that only those may charge whom the policy puts into it.
    ///
    /// # Errors
    /// The name is not sound, or taken.
    pub(crate) fn open_listed(
        &mut self,
        now: Time,
        name: &str,
        who: &str,
    ) -> Result<Vec<Record>, Refusal> {
        self.create(now, name, &[], None, who)?;
        let row = self.accounts.get_mut(name).map(|row| {
            row.listed = true;
            Record::Account(row.clone())
        });
        Ok(row.into_iter().collect())
    }

    fn create(
        &mut self,
        now: Time,
        name: &str,
        members: &[String],
        budget: Option<Su>,
        who: &str,
    ) -> Result<Vec<Record>, Refusal> {
        if !Self::sound_name(name) {
            return Err(bad_name(name));
        }
        if self.accounts.contains_key(name) {
            return Err(Refusal::new(
                RefusalCode::WrongState,
                format!("there is an account {name} already"),
            ));
        }
        if self.accounts.len() >= limits::ACCOUNTS {
            return Err(Refusal::new(
                RefusalCode::TooMany,
                format!("there are {} accounts, no more are kept", limits::ACCOUNTS),
            ));
        }
        sound_members(members)?;
        if let Some(budget) = budget.filter(|b| *b != Su::ZERO) {
            sound_sum(budget, "granted")?;
        }
        let config = AccountConfig {
            members: members.to_vec(),
            budget,
        };
        Ok(self.open(now, name, &config, who))
    }

    fn grant(&mut self, now: Time, name: &str, sum: Su, who: &str) -> Result<Vec<Record>, Refusal> {
        sound_sum(sum, "granted")?;
        let row = self.row(name)?;
        let counted = match row.budget {
            true => Su::ZERO,
            false => Su::ZERO.minus(available(row)).max(Su::ZERO),
        };
        let granted = row.granted.plus(counted).plus(sum);
        if granted > Su::MOST {
            return Err(too_much(name, "granted", granted));
        }
        if let Some(row) = self.accounts.get_mut(name) {
            row.budget = true;
        }
        let mut records = self.carry(name, Transfer::Grant, counted, by(now, "grant", who));
        records.extend(self.carry(name, Transfer::Grant, sum, by(now, "grant", who)));
        Ok(records)
    }

    fn withdraw(
        &mut self,
        now: Time,
        name: &str,
        sum: Su,
        who: &str,
    ) -> Result<Vec<Record>, Refusal> {
        sound_sum(sum, "withdrawn")?;
        let row = self.row(name)?;
        let left = available(row);
        if !row.budget {
            return Err(Refusal::new(
                RefusalCode::WrongState,
                format!("account {name} has no budget, nothing can be withdrawn from it"),
            ));
        }
        if sum > left {
            return Err(Refusal::new(
                RefusalCode::Price,
                format!("account {name} has {left} SU left, {sum} SU cannot be withdrawn"),
            ));
        }
        Ok(self.carry(name, Transfer::Withdraw, sum, by(now, "withdraw", who)))
    }

    fn set_members(&mut self, name: &str, members: &[String]) -> Result<Vec<Record>, Refusal> {
        sound_members(members)?;
        self.row(name)?;
        if self.configured.contains(name) {
            return Err(in_configuration(name, "change its members there"));
        }
        let row = self.accounts.get_mut(name).map(|row| {
            row.members = members.to_vec();
            Record::Account(row.clone())
        });
        Ok(row.into_iter().collect())
    }

    fn remove(
        &mut self,
        now: Time,
        name: &str,
        who: &str,
        in_use: bool,
    ) -> Result<Vec<Record>, Refusal> {
        let row = self.row(name)?.clone();
        if self.configured.contains(name) {
            return Err(in_configuration(name, "take it out there first"));
        }
        if in_use || row.held > Su::ZERO {
            return Err(Refusal::new(
                RefusalCode::WrongState,
                format!(
                    "live reservations are charged to account {name} ({} SU held): wait until they have ended, or cancel them",
                    row.held
                ),
            ));
        }
        let left = available(&row);
        let cause = |why| by(now, why, who);
        let mut records = match left >= Su::ZERO {
            true => self.carry(name, Transfer::Withdraw, left, cause("withdraw")),
            false => self.carry(name, Transfer::Grant, Su::ZERO.minus(left), cause("grant")),
        };
        self.accounts.remove(name);
        // Its row would be written only to be removed.
        records.retain(|record| !matches!(record, Record::Account(_)));
        records.push(Record::AccountGone(name.to_owned()));
        Ok(records)
    }
}

fn by<'a>(now: Time, why: &'a str, who: &'a str) -> Cause<'a> {
    Cause {
        now,
        reservation: None,
        why,
        who,
    }
}

fn sound_sum(sum: Su, what: &str) -> Result<(), Refusal> {
    if sum > Su::ZERO && sum <= Su::MOST {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "{sum} SU cannot be {what}: give a sum above 0, at most {} SU",
        Su::MOST
    )))
}

fn sound_members(members: &[String]) -> Result<(), Refusal> {
    if members.len() > limits::SHARING {
        return Err(Refusal::invalid(format!(
            "an account has at most {} members, not {}: name groups as @group",
            limits::SHARING,
            members.len()
        )));
    }
    let sound = |member: &&String| {
        let name = member.strip_prefix('@').unwrap_or(member);
        !name.is_empty() && member.len() <= limits::NAME_BYTES && !name.contains(char::is_control)
    };
    match members.iter().find(|member| !sound(member)) {
        None => Ok(()),
        Some(odd) => Err(Refusal::invalid(format!(
            "'{}' is no member of an account: give user names, and groups as @group",
            shortened(odd)
        ))),
    }
}

fn bad_name(name: &str) -> Refusal {
    Refusal::invalid(format!(
        "'{}' is no name of an account: use 1 to {} characters without spaces, ':', ',' and '@', and not '{}' or '{}'",
        shortened(name),
        limits::NAME_BYTES,
        super::GRANTS,
        super::INCOME
    ))
}

fn in_configuration(name: &str, instead: &str) -> Refusal {
    Refusal::new(
        RefusalCode::WrongState,
        format!("account {name} is in the configuration: {instead}"),
    )
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}
