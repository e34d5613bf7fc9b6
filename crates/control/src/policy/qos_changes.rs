//! Changes of qualities of service.

use super::draft::Draft;
use super::effect::Said;
use super::settings::{change_limits, known_qos, not_found};
use crate::reservations::books::Books;
use cosy_model::policy::{
    AssociationSettings, LimitKey, LimitKind, Limits, NORMAL, QosChange, QosListChange, QosRecord,
};
use cosy_model::{EventKind, Refusal, RefusalCode, Span, limits};
use std::collections::BTreeSet;

/// The largest factor by which use counts, in millionths.
const MOST_FACTOR: u32 = 1_000_000_000;
/// The longest grace and exempt time.
const MOST_GRACE: Span = Span::from_secs(366 * 86_400);

pub(super) fn add(draft: &mut Draft<'_>, name: &str, set: &QosChange) -> Result<(), Refusal> {
    if !Books::sound_name(name) {
        return Err(Refusal::invalid(format!(
            "'{}' is no name of a quality of service: use 1 to {} characters without spaces, ':', ',' and '@'",
            name.chars().take(70).collect::<String>().escape_debug(),
            limits::NAME_BYTES
        )));
    }
    if draft.policy().qos(name).is_some() {
        return Err(Refusal::new(
            RefusalCode::WrongState,
            format!("there is a quality of service {name} already"),
        ));
    }
    if draft.policy().qos.len() >= limits::QOS {
        return Err(Refusal::new(
            RefusalCode::TooMany,
            format!("there are {} qualities of service, no more are kept", limits::QOS),
        ));
    }
    let row = QosRecord {
        id: draft.qos_number(),
        name: name.to_owned(),
        description: name.to_owned(),
        ..QosRecord::default()
    };
    // It is known before it is changed: a list of its own may name it, and is told why not.
    draft.put_qos(row.clone());
    let row = changed(draft, row, set)?;
    draft.put_qos(row);
    draft.say(Said::qos(EventKind::Created, name).with(&set.words()));
    Ok(())
}

pub(super) fn modify(draft: &mut Draft<'_>, name: &str, set: &QosChange) -> Result<(), Refusal> {
    known_qos(draft, name)?;
    let Some(row) = draft.policy().qos(name).cloned() else {
        return Ok(());
    };
    let row = changed(draft, row, set)?;
    draft.put_qos(row);
    draft.say(Said::qos(EventKind::Changed, name).with(&set.words()));
    Ok(())
}

pub(super) fn remove(draft: &mut Draft<'_>, name: &str) -> Result<(), Refusal> {
    if name == NORMAL {
        return Err(Refusal::invalid(format!(
            "quality of service {NORMAL} is that of jobs of which nothing else is said, and stays"
        )));
    }
    known_qos(draft, name)?;
    let lists = |own: &AssociationSettings| {
        own.default_qos.as_deref() == Some(name)
            || own.qos.as_ref().is_some_and(|l| l.contains(name))
    };
    let accounts = draft.policy().accounts.values();
    let accounts = accounts.filter(|row| lists(&row.settings));
    for mut row in accounts.cloned().collect::<Vec<_>>() {
        forget(&mut row.settings, name);
        draft.put_account(row);
    }
    let own = draft.policy().associations.values().map(AsRef::as_ref);
    let own = own.filter(|row| lists(&row.settings));
    for mut row in own.cloned().collect::<Vec<_>>() {
        forget(&mut row.settings, name);
        draft.put_association(row);
    }
    let over = draft.policy().qos.values();
    let over = over.filter(|row| row.preempt.contains(name));
    for mut row in over.cloned().collect::<Vec<_>>() {
        row.preempt.remove(name);
        draft.put_qos(row);
    }
    draft.drop_qos(name);
    draft.say(Said::qos(EventKind::Removed, name));
    Ok(())
}

fn forget(settings: &mut AssociationSettings, name: &str) {
    if let Some(list) = &mut settings.qos {
        list.remove(name);
    }
    if settings.default_qos.as_deref() == Some(name) {
        settings.default_qos = None;
    }
}

fn changed(draft: &Draft<'_>, mut row: QosRecord, set: &QosChange) -> Result<QosRecord, Refusal> {
    if let Some(text) = &set.description {
        row.description.clone_from(text);
    }
    if let Some(priority) = set.priority {
        row.priority = priority;
    }
    change_limits(&mut row.limits, &set.limits, |limit| limit.kind.of_qos())?;
    least_fits_most(&row.name, &row.limits)?;
    if let Some(flags) = &set.flags {
        row.flags.clone_from(flags);
    }
    row.flags.extend(set.add_flags.iter().copied());
    row.flags.retain(|flag| !set.remove_flags.contains(flag));
    if let Some(factor) = set.usage_factor_ppm {
        if factor > MOST_FACTOR {
            return Err(Refusal::invalid(format!(
                "a usage factor is a number from 0 to {}",
                MOST_FACTOR / 1_000_000
            )));
        }
        row.usage_factor_ppm = factor;
    }
    if let Some(list) = &set.preempt {
        row.preempt = preempted(draft, &row, list)?;
    }
    if let Some(mode) = set.preempt_mode {
        row.preempt_mode = mode;
    }
    if let Some(within) = set.preempt_within {
        row.preempt_within = within;
    }
    if let Some(exempt) = set.preempt_exempt {
        row.preempt_exempt = exempt;
    }
    if let Some(grace) = set.grace {
        row.grace = grace;
    }
    let times = [Some(row.grace), row.preempt_exempt];
    let odd = |time: &Span| *time < Span::ZERO || *time > MOST_GRACE;
    if times.into_iter().flatten().any(|time| odd(&time)) {
        return Err(Refusal::invalid("a grace or exempt time is between 0 and a year"));
    }
    Ok(row)
}

/// Whose jobs give way: others that are there, and in no circle.
fn preempted(
    draft: &Draft<'_>,
    row: &QosRecord,
    change: &QosListChange,
) -> Result<BTreeSet<String>, Refusal> {
    let mut list = row.preempt.clone();
    match change {
        QosListChange::Exactly(named) => list.clone_from(named),
        QosListChange::Add(named) => list.extend(named.iter().cloned()),
        QosListChange::Remove(named) => list.retain(|name| !named.contains(name)),
        QosListChange::Inherit => list.clear(),
    }
    let own = &row.name;
    for name in &list {
        if name == own {
            return Err(Refusal::invalid(format!(
                "quality of service {own} cannot preempt itself"
            )));
        }
        let Some(other) = draft.policy().qos(name) else {
            return Err(not_found(format!("there is no quality of service '{name}'")));
        };
        if reaches(draft, other, own) {
            return Err(Refusal::invalid(format!(
                "quality of service {own} cannot preempt {name}: {name} preempts {own}, itself or over others, and they would end each other's jobs in turn"
            )));
        }
    }
    Ok(list)
}

/// Whether the jobs of one give way to those of another, itself or over others.
fn reaches(draft: &Draft<'_>, from: &QosRecord, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(qos) = open.pop() {
        if qos.preempt.contains(to) {
            return true;
        }
        let next = qos
            .preempt
            .iter()
            .filter(|name| seen.insert((*name).clone()));
        open.extend(next.filter_map(|name| draft.policy().qos(name)));
    }
    false
}

/// No job could be at least so large and at most so large.
fn least_fits_most(name: &str, limits: &Limits) -> Result<(), Refusal> {
    for (least, amount) in limits.of_kind(LimitKind::MinTresPerJob) {
        let most = LimitKey {
            kind: LimitKind::MaxTresPerJob,
            tres: least.tres.clone(),
        };
        if let Some(most_amount) = limits.get(&most).filter(|most| *most < amount) {
            return Err(Refusal::invalid(format!(
                "quality of service {name} would take no job at all: {least} is {amount} and {most} is {most_amount}"
            )));
        }
    }
    Ok(())
}
