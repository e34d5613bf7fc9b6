//! What is shown of quotes and of their slots.

use crate::column::{Column, Fields};
use crate::phrase;
use crate::value::{FieldValue, Tone};
use crate::words::counted;
use crate::words::moment::utc;
use crate::words::room_makers::room_makers;
use crate::words::slot_hint::bare_reason;
use cosy_model::reservation::{Quote, QuotedSlot};

type Slot<'q> = Column<SlotRow<'q>>;
type OfCluster<'q> = Column<ClusterSlot<'q>>;

/// A slot in the list of a quote.
#[derive(Clone, Copy, Debug)]
pub struct SlotRow<'q> {
    slot: &'q QuotedSlot,
    /// Booking would take this one now.
    picked: bool,
    /// Its reason is that of the row above, but for its own times.
    as_above: bool,
}

/// The rows of these slots, by their places in the quote.
pub fn slot_rows<'q>(quote: &'q Quote, places: &[usize]) -> Vec<SlotRow<'q>> {
    let mut above = String::new();
    let mut rows = Vec::new();
    for at in places {
        let Some(slot) = quote.slots.get(*at) else {
            continue;
        };
        let reason = timeless_reason(slot);
        rows.push(SlotRow {
            slot,
            picked: quote.choice.map(|c| c as usize) == Some(*at),
            as_above: !reason.is_empty() && reason == above,
        });
        above = reason;
    }
    rows
}

/// The reason without start and end of the slot, which stand beside it.
fn timeless_reason(slot: &QuotedSlot) -> String {
    let reason = bare_reason(&slot.reason).replace(&utc(slot.start), "");
    reason.replace(&utc(slot.end), "")
}

/// `cresv quote`. Figures of a slot that is not free are dashes.
///
/// Availability, by what-if and by load, is left out: what it says stands in the delays, for
/// everybody, and in the reason where a rule asks for it.
pub fn slot_columns<'q>() -> [Column<SlotRow<'q>>; 7] {
    [
        Slot::left("", |row| if row.picked { ">" } else { "" }.into()),
        Slot::left("START", |row| row.slot.start.into()),
        Slot::left("END", |row| row.slot.end.into()).leaves(1),
        Slot::right("PRICE SU", |row| price(row.slot)),
        Slot::right("DELAYS", |row| delays(row.slot)).leaves(2),
        Slot::right("BY", |row| delayed_by(row.slot)).leaves(0),
        Slot::left_cut("VERDICT", 12, |row| verdict(row.slot, row.as_above)).leaves(3),
    ]
}

fn price(slot: &QuotedSlot) -> FieldValue<'_> {
    figure(slot, |slot| FieldValue::Price(slot.price()))
}

fn delays(slot: &QuotedSlot) -> FieldValue<'_> {
    figure(slot, |slot| match slot.delayed_jobs {
        0 => "none".into(),
        n => phrase::count(n.into(), "job", "jobs").into(),
    })
}

fn delayed_by(slot: &QuotedSlot) -> FieldValue<'_> {
    figure(slot, |slot| match slot.delayed_jobs {
        0 => FieldValue::Nothing,
        _ => slot.total_delay.into(),
    })
}

fn figure(slot: &QuotedSlot, of: fn(&QuotedSlot) -> FieldValue<'_>) -> FieldValue<'_> {
    if slot.feasible { of(slot) } else { "-".into() }
}

/// What would pass instead of a slot is left out: it is seen in the list.
fn verdict(slot: &QuotedSlot, as_above: bool) -> FieldValue<'_> {
    let reason = match as_above {
        true => "the same",
        false => bare_reason(&slot.reason),
    };
    match (slot.admitted, slot.feasible) {
        (true, _) => {
            let leave = match slot.preempts.len() as u64 {
                0 => String::new(),
                n => format!(", {}", phrase::count(n, "job makes room", "jobs make room")),
            };
            let text = format!("can be had on {}{leave}", slot.nodes);
            FieldValue::State(text.into(), Tone::Active)
        }
        (false, true) => FieldValue::Verdict(reason.into(), Tone::Waiting),
        (false, false) => FieldValue::Verdict(reason.into(), Tone::Quiet),
    }
}

/// All fields of a quote but its slots.
pub fn fields(quote: &Quote) -> Fields<'_> {
    let Quote {
        now,
        queue,
        plain_start,
        // `slot_fields` tells each.
        slots: _,
        choice,
        notice_earliest,
        rules,
        account,
        licenses,
    } = quote;
    let account = account.as_ref().map(|(name, left)| {
        FieldValue::record(vec![("name", name.into()), ("left", (*left).into())])
    });
    vec![
        ("now", (*now).into()),
        ("queue", queue.into()),
        ("plain_start", FieldValue::Time(*plain_start)),
        ("choice", (*choice).into()),
        ("notice_earliest", FieldValue::Time(*notice_earliest)),
        ("rules", FieldValue::texts(rules)),
        ("account", account.into()),
        ("licenses", counted::write(licenses).into()),
    ]
}

/// All fields of a slot. Delays are whole seconds.
pub fn slot_fields(slot: &QuotedSlot) -> Fields<'_> {
    let QuotedSlot {
        start,
        end,
        feasible,
        admitted,
        reason,
        availability_ppm,
        by_load,
        base,
        license_price,
        extra,
        delayed_jobs,
        total_delay,
        own_delayed,
        nodes,
        preempts,
    } = slot;
    let own = own_delayed.iter().map(|(job, by)| {
        FieldValue::record(vec![("job", job.0.into()), ("delay", by.secs().into())])
    });
    vec![
        ("start", (*start).into()),
        ("end", (*end).into()),
        ("feasible", (*feasible).into()),
        ("admitted", (*admitted).into()),
        ("reason", reason.into()),
        ("availability", availability(*availability_ppm)),
        ("available_by_load", (*by_load).into()),
        ("base", (*base).into()),
        ("license_price", (*license_price).into()),
        ("extra", (*extra).into()),
        ("price", slot.price().into()),
        ("delayed_jobs", (*delayed_jobs).into()),
        ("total_delay", total_delay.secs().into()),
        ("own_delayed", FieldValue::List(own.collect())),
        ("nodes", nodes.into()),
        ("preempts", room_makers(preempts)),
    ]
}

fn availability<'a>(ppm: u32) -> FieldValue<'a> {
    FieldValue::Real(f64::from(ppm) / 1e6)
}

/// A slot of one of several clusters.
#[derive(Clone, Copy, Debug)]
pub struct ClusterSlot<'q> {
    /// Name of the cluster.
    pub cluster: &'q str,
    /// What it offers.
    pub slot: &'q QuotedSlot,
}

/// `cresv quote --clusters`: as a quote of one cluster, with the name of each.
pub fn cluster_slot_columns<'q>() -> [Column<ClusterSlot<'q>>; 7] {
    [
        OfCluster::left_cut("CLUSTER", 7, |row| row.cluster.into()),
        OfCluster::left("START", |row| row.slot.start.into()),
        OfCluster::left("END", |row| row.slot.end.into()).leaves(1),
        OfCluster::right("PRICE SU", |row| price(row.slot)),
        OfCluster::right("DELAYS", |row| delays(row.slot)).leaves(2),
        OfCluster::right("BY", |row| delayed_by(row.slot)).leaves(0),
        OfCluster::left_cut("VERDICT", 12, |row| verdict(row.slot, false)).leaves(3),
    ]
}

/// All fields of a slot as the broker names them.
pub fn cluster_slot_fields(slot: &QuotedSlot) -> Fields<'_> {
    let QuotedSlot {
        start,
        end,
        feasible,
        admitted,
        reason,
        availability_ppm,
        by_load,
        base,
        license_price,
        extra,
        delayed_jobs,
        total_delay,
        // The broker compares clusters: whose jobs are delayed it does not tell.
        own_delayed: _,
        nodes,
        preempts,
    } = slot;
    vec![
        ("start", (*start).into()),
        ("end", (*end).into()),
        ("feasible", (*feasible).into()),
        ("admitted", (*admitted).into()),
        ("reason", reason.into()),
        ("availability", availability(*availability_ppm)),
        ("by_load", (*by_load).into()),
        ("base", (*base).into()),
        ("license_price", (*license_price).into()),
        ("extra", (*extra).into()),
        ("price", slot.price().into()),
        ("delayed_jobs", (*delayed_jobs).into()),
        ("total_delay", (*total_delay).into()),
        ("nodes", nodes.into()),
        ("preempts", room_makers(preempts)),
    ]
}

/// All fields of what one cluster answered the broker.
pub fn cluster_fields(quote: &Quote) -> Fields<'_> {
    let Quote {
        now,
        queue,
        plain_start,
        slots,
        // The broker makes the choice, among the slots of all clusters.
        choice: _,
        notice_earliest,
        rules,
        // Accounts of one cluster mean nothing on another.
        account: _,
        licenses,
    } = quote;
    let slots = slots.iter().map(cluster_slot_fields);
    vec![
        ("now", (*now).into()),
        ("queue", queue.into()),
        ("plain_start", FieldValue::Time(*plain_start)),
        ("notice_earliest", FieldValue::Time(*notice_earliest)),
        ("rules", FieldValue::texts(rules)),
        ("licenses", counted::write(licenses).into()),
        ("slots", FieldValue::List(slots.map(FieldValue::record).collect())),
    ]
}
