//! A list of changes under way: the state as it is becoming, and what was there before.

use super::effect::{Effect, Said, kept};
use super::row::PolicyRow;
use super::{Numbers, Policy, denies_places};
use crate::record::Record;
use cosy_model::policy::{AccountRecord, AssociationKey, AssociationRecord, QosRecord, UserRecord};
use std::collections::BTreeMap;

/// Which record.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Which {
    Account(String),
    User(String),
    Association(AssociationKey),
    Qos(String),
}

/// The policy while it is changed.
pub(crate) struct Draft<'a> {
    it: &'a mut Policy,
    numbers: Numbers,
    /// Records that were touched, as they were: `None` of those that are new.
    before: BTreeMap<Which, Option<PolicyRow>>,
    /// Lines of history: verb, object, details.
    said: Vec<Said>,
}

impl<'a> Draft<'a> {
    pub fn of(it: &'a mut Policy) -> Self {
        Self {
            numbers: it.next,
            it,
            before: BTreeMap::new(),
            said: Vec::new(),
        }
    }

    /// A line of history more.
    pub fn say(&mut self, said: Said) {
        self.said.push(said);
    }

    /// The state as it is becoming.
    pub fn policy(&self) -> &Policy {
        self.it
    }

    /// The next number of an association.
    pub fn association_number(&mut self) -> u32 {
        let number = self.it.next.association;
        self.it.next.association = number.saturating_add(1);
        number
    }

    /// The next number of a quality of service.
    pub fn qos_number(&mut self) -> u32 {
        let number = self.it.next.qos;
        self.it.next.qos = number.saturating_add(1);
        number
    }

    pub fn put_account(&mut self, row: AccountRecord) {
        let which = Which::Account(row.name.clone());
        self.put(which, Some(PolicyRow::Account(row)));
    }

    pub fn drop_account(&mut self, name: &str) {
        self.put(Which::Account(name.to_owned()), None);
    }

    pub fn put_user(&mut self, row: UserRecord) {
        let which = Which::User(row.name.clone());
        self.put(which, Some(PolicyRow::User(row)));
    }

    pub fn drop_user(&mut self, name: &str) {
        self.put(Which::User(name.to_owned()), None);
    }

    pub fn put_association(&mut self, row: AssociationRecord) {
        let which = Which::Association(row.key.clone());
        self.put(which, Some(PolicyRow::Association(row)));
    }

    pub fn drop_association(&mut self, key: &AssociationKey) {
        self.put(Which::Association(key.clone()), None);
    }

    pub fn put_qos(&mut self, row: QosRecord) {
        let which = Which::Qos(row.name.clone());
        self.put(which, Some(PolicyRow::Qos(row)));
    }

    pub fn drop_qos(&mut self, name: &str) {
        self.put(Which::Qos(name.to_owned()), None);
    }

    /// Puts a record in, or takes it out.
    fn put(&mut self, which: Which, row: Option<PolicyRow>) {
        let before = set(self.it, &which, row);
        self.before.entry(which).or_insert(before);
    }

    /// Accounts that are new, those that are gone, and what else was touched.
    pub fn effect(&self) -> Effect {
        let mut effect = Effect::default();
        for (which, before) in &self.before {
            let now = get(self.it, which);
            effect.touched.note(before.as_ref(), now.as_ref());
            let Which::Account(name) = which else {
                continue;
            };
            match (before.is_some(), now.is_some()) {
                (false, true) => effect.made.push(name.clone()),
                (true, false) => effect.gone.push(name.clone()),
                _ => {}
            }
        }
        effect
    }

    /// What has to be saved.
    pub fn done(self) -> (Vec<Record>, Vec<Said>) {
        let mut records = Vec::new();
        for (which, before) in self.before {
            match get(self.it, &which) {
                Some(row) => records.push(kept(row)),
                None => records.extend(before.map(|row| Record::Policy {
                    key: row.key(),
                    row: None,
                })),
            }
        }
        if self.it.next != self.numbers {
            records.push(kept(self.it.numbers()));
        }
        (records, self.said)
    }

    /// Everything is as it was.
    pub fn undone(self) {
        for (which, before) in self.before {
            set(self.it, &which, before);
        }
        self.it.next = self.numbers;
    }
}

fn get(it: &Policy, which: &Which) -> Option<PolicyRow> {
    match which {
        Which::Account(name) => it.accounts.get(name).cloned().map(PolicyRow::Account),
        Which::User(name) => it.user(name).cloned().map(PolicyRow::User),
        Which::Association(key) => it.association(key).cloned().map(PolicyRow::Association),
        Which::Qos(name) => it.qos.get(name).cloned().map(PolicyRow::Qos),
    }
}

/// Puts a record in or takes it out, and tells what was there.
fn set(it: &mut Policy, which: &Which, row: Option<PolicyRow>) -> Option<PolicyRow> {
    let now = row.as_ref().is_some_and(denies_places);
    let before = exchange(it, which, row);
    let was = before.as_ref().is_some_and(denies_places);
    it.without_places = it.without_places + usize::from(now) - usize::from(was);
    before
}

fn exchange(it: &mut Policy, which: &Which, row: Option<PolicyRow>) -> Option<PolicyRow> {
    match which {
        Which::Account(name) => {
            let new = match row {
                Some(PolicyRow::Account(row)) => Some(row),
                _ => None,
            };
            set_account(it, name, new).map(PolicyRow::Account)
        }
        Which::User(name) => match row {
            Some(PolicyRow::User(row)) => it.users.insert(name.clone(), Box::new(row)),
            _ => it.users.remove(name),
        }
        .map(|row| PolicyRow::User(*row)),
        Which::Association(key) => {
            let new = match row {
                Some(PolicyRow::Association(row)) => Some(row),
                _ => None,
            };
            set_association(it, key, new).map(PolicyRow::Association)
        }
        Which::Qos(name) => match row {
            Some(PolicyRow::Qos(row)) => it.qos.insert(name.clone(), row),
            _ => it.qos.remove(name),
        }
        .map(PolicyRow::Qos),
    }
}

fn set_account(it: &mut Policy, name: &str, row: Option<AccountRecord>) -> Option<AccountRecord> {
    let parent = row.as_ref().and_then(|row| row.parent.clone());
    let before = match row {
        Some(row) => it.accounts.insert(name.to_owned(), row),
        None => it.accounts.remove(name),
    };
    if let Some(old) = before.as_ref().and_then(|row| row.parent.as_ref())
        && let Some(below) = it.children.get_mut(old)
    {
        below.remove(name);
        if below.is_empty() {
            it.children.remove(old);
        }
    }
    if let Some(parent) = parent {
        it.children
            .entry(parent)
            .or_default()
            .insert(name.to_owned());
    }
    before
}

fn set_association(
    it: &mut Policy,
    key: &AssociationKey,
    row: Option<AssociationRecord>,
) -> Option<AssociationRecord> {
    let user = key.user.clone().unwrap_or_default();
    let there = row.is_some();
    let before = match row {
        Some(row) => it.associations.insert(key.clone(), Box::new(row)),
        None => it.associations.remove(key),
    };
    let own = it.of_user.entry(user.clone()).or_default();
    match (there, own.binary_search(key)) {
        (true, Err(at)) => {
            own.reserve_exact(1);
            own.insert(at, key.clone());
        }
        (false, Ok(at)) => drop(own.remove(at)),
        (true, Ok(_)) | (false, Err(_)) => {}
    }
    if own.is_empty() {
        it.of_user.remove(&user);
    }
    before.map(|row| *row)
}
