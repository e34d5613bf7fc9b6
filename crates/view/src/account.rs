//! What is shown of accounts, of the ledger, and of what reservations cost each account.

use crate::column::{Column, Fields};
use crate::value::FieldValue;
use cosy_model::reservation::{AccountInfo, LedgerEntry, ReservationInfo};
use cosy_model::{Span, Su};
use std::collections::BTreeMap;

type Listed = Column<AccountInfo>;
type Line = Column<LedgerEntry>;
type Sum = Column<AccountSum>;

/// `cadm account list`.
pub const LIST: &[Listed] = &[
    Listed::left("ACCOUNT", |account| (&account.name).into()),
    Listed::right("GRANTED", |account| of_budget(account, account.granted)).leaves(2),
    Listed::right("HELD", |account| account.held.into()).leaves(0),
    Listed::right("CHARGED", |account| account.charged.into()).leaves(3),
    Listed::right("AVAILABLE", |account| of_budget(account, account.available)),
    Listed::left_cut("MEMBERS", 10, |account| match account.members.as_slice() {
        [] if account.listed => "nobody".into(),
        [] => "everyone".into(),
        members => FieldValue::texts(members),
    })
    .leaves(1),
];

fn of_budget(account: &AccountInfo, sum: Su) -> FieldValue<'_> {
    match account.budget {
        true => sum.into(),
        false => "no budget".into(),
    }
}

/// All fields of an account.
pub fn fields(account: &AccountInfo) -> Fields<'_> {
    let AccountInfo {
        name,
        members,
        listed,
        budget,
        granted,
        held,
        charged,
        available,
    } = account;
    let of_budget = |sum: &Su| budget.then_some(*sum).into();
    vec![
        ("name", name.into()),
        ("members", FieldValue::texts(members)),
        ("listed", (*listed).into()),
        ("budget", (*budget).into()),
        ("granted", of_budget(granted)),
        ("held", (*held).into()),
        ("charged", (*charged).into()),
        ("available", of_budget(available)),
    ]
}

/// `cadm account ledger`.
pub const LEDGER: &[Line] = &[
    Line::right("LINE", |entry| entry.seq.into()),
    Line::left("TIME", |entry| entry.at.into()).leaves(2),
    Line::left_cut("FROM", 6, |entry| (&entry.from).into()),
    Line::left_cut("TO", 6, |entry| (&entry.to).into()),
    Line::right("SU", |entry| entry.sum.into()),
    Line::right("RESERVATION", |entry| entry.reservation.map(|r| r.0).into()).leaves(1),
    Line::left_cut("WHY", 12, |entry| (&entry.why).into()).leaves(3),
    Line::left_cut("WHO", 6, |entry| (&entry.who).into()).leaves(0),
];

/// All fields of a line of the ledger.
pub fn ledger_fields(entry: &LedgerEntry) -> Fields<'_> {
    let LedgerEntry {
        seq,
        at,
        from,
        to,
        sum,
        reservation,
        why,
        who,
    } = entry;
    vec![
        ("seq", (*seq).into()),
        ("at", (*at).into()),
        ("from", from.into()),
        ("to", to.into()),
        ("sum", (*sum).into()),
        ("reservation", reservation.map(|r| r.0).into()),
        ("why", why.into()),
        ("who", who.into()),
    ]
}

/// What one account's reservations come to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccountSum {
    /// Name of the account; `None` for reservations that no account pays for.
    pub account: Option<String>,
    /// Number of reservations.
    pub reservations: u64,
    /// For the time itself.
    pub base: Su,
    /// For the delay of others.
    pub extra: Su,
    /// What was charged.
    pub charged: Su,
    /// Core time that jobs used, in milliseconds.
    pub used_core_ms: i64,
}

/// A sum for each account, by name, what no account pays for first.
pub fn sums(all: &[ReservationInfo]) -> Vec<AccountSum> {
    let mut sums: BTreeMap<Option<&str>, AccountSum> = BTreeMap::new();
    for r in all {
        let account = r.account.as_deref().filter(|name| !name.is_empty());
        let sum = sums.entry(account).or_default();
        sum.account = account.map(str::to_owned);
        sum.reservations += 1;
        sum.base = sum.base.plus(r.base);
        sum.extra = sum.extra.plus(r.extra);
        sum.charged = sum.charged.plus(r.charged);
        sum.used_core_ms = sum.used_core_ms.saturating_add(r.used_core_ms);
    }
    sums.into_values().collect()
}

/// `chist --cost`, below the reservations.
pub const SUMS: &[Sum] = &[
    Sum::left_cut("ACCOUNT", 8, |sum| sum.account.as_deref().unwrap_or("-").into()),
    Sum::right("RESERVATIONS", |sum| sum.reservations.into()).leaves(0),
    Sum::right("BASE", |sum| sum.base.into()).leaves(2),
    Sum::right("EXTRA", |sum| sum.extra.into()).leaves(1),
    Sum::right("CHARGED", |sum| sum.charged.into()),
    Sum::right("CORE HOURS USED", |sum| hours(sum.used_core_ms).into()).leaves(3),
];

/// With one decimal, rounded down.
fn hours(core_ms: i64) -> String {
    let tenths = core_ms.max(0) / 360_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// All fields of the sum of an account.
pub fn sum_fields(sum: &AccountSum) -> Fields<'_> {
    let AccountSum {
        account,
        reservations,
        base,
        extra,
        charged,
        used_core_ms,
    } = sum;
    vec![
        ("account", account.as_ref().into()),
        ("reservations", (*reservations).into()),
        ("base", (*base).into()),
        ("extra", (*extra).into()),
        ("charged", (*charged).into()),
        ("used_core_seconds", Span(*used_core_ms).into()),
    ]
}
