//! `[reservations]` of `cosy.toml`, and `[queue.reservations]` of its queues.
//!
//! Rules are made in layers: the defaults, a ready policy, `[reservations]`, and for a
//! queue with rules of its own `[queue.reservations]`. Each layer changes only what it
//! says; one that names a policy starts anew from that.

use super::presets;
use super::quotas::{self, Patch};
use super::values::{self, Raw, set, switchable};
use cosy_config::Check;
use cosy_control::{ClusterConfig, EarlyEnd, PreemptBy, Quotas, ReservationPolicy, Weigh};
use cosy_model::policy::PreemptMode;
use cosy_model::reservation::Rule;
use cosy_model::{QueueSpec, limits};
use cosy_sched::notice::{Curve, Share, WaitMultiple};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Spanned, Value};

/// The rules that `all_of` and `any_of` may name.
const RULES: [Rule; 4] = [Rule::Notice, Rule::WhatIf, Rule::Load, Rule::Price];

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) policy: Option<Spanned<String>>,
    enabled: Option<bool>,
    all_of: Option<Vec<Spanned<String>>>,
    any_of: Option<Vec<Spanned<String>>>,
    notice: Option<Raw>,
    refuse_above: Option<Raw>,
    notice_window: Option<Raw>,
    least_requests: Option<Raw>,
    weigh: Option<Spanned<String>>,
    predicted_wait: Option<bool>,
    together: Option<bool>,
    availability: Option<Raw>,
    makespan_weight: Option<Raw>,
    core_hour: Option<Raw>,
    gpu_hour: Option<Raw>,
    delay_core_hour: Option<Raw>,
    #[serde(default)]
    license_hour: BTreeMap<String, Raw>,
    #[serde(default)]
    delay_cost: BTreeMap<String, Raw>,
    price_floor: Option<bool>,
    delay_cap: Option<Raw>,
    hold: Option<Raw>,
    holds: Option<Raw>,
    rehold: Option<Raw>,
    no_show: Option<Raw>,
    early_end: Option<Spanned<String>>,
    cancel_fee: Option<bool>,
    low_use: Option<Raw>,
    closed: Option<bool>,
    candidates: Option<Raw>,
    gap: Option<Raw>,
    preempt: Option<Spanned<bool>>,
    per_user: Option<quotas::Table>,
    per_account: Option<quotas::Table>,
    #[serde(default)]
    user: BTreeMap<String, quotas::Table>,
    #[serde(default)]
    account: BTreeMap<String, quotas::Table>,
}

/// Names in the file that rules may speak of.
pub(super) struct Names<'a> {
    /// Queues that the file has.
    pub queues: BTreeSet<&'a str>,
    /// Licences that `[licenses]` names.
    pub licenses: BTreeSet<&'a str>,
}

/// Rules under way.
#[derive(Clone, Default)]
pub(super) struct Rules {
    policy: ReservationPolicy,
    users: BTreeMap<String, Patch>,
    accounts: BTreeMap<String, Patch>,
}

impl Rules {
    /// Lays a table over what is there. `names` are those that exist.
    pub(super) fn lay(&mut self, check: &mut Check<'_>, table: &Table, names: &Names<'_>) {
        if let Some(name) = &table.policy {
            *self = Self::default();
            presets::read(check, name, |inner, table| {
                // Its own `policy` was told as a fault already.
                self.lay_keys(inner, table, names);
            });
        }
        self.lay_keys(check, table, names);
    }

    fn lay_keys(&mut self, check: &mut Check<'_>, table: &Table, names: &Names<'_>) {
        self.admission(check, table);
        self.notice(check, table);
        self.prices(check, table, names);
        self.protections(check, table);
        self.quotas(check, table);
    }

    fn admission(&mut self, check: &mut Check<'_>, table: &Table) {
        let policy = &mut self.policy;
        copy(table.enabled, &mut policy.enabled);
        rules(check, table.all_of.as_ref(), &mut policy.all_of);
        rules(check, table.any_of.as_ref(), &mut policy.any_of);
        let both = policy.any_of.iter().find(|r| policy.all_of.contains(r));
        let list = table.any_of.as_ref().or(table.all_of.as_ref());
        if let (Some(rule), Some(list)) = (both, list) {
            let at = list.first().map_or(0, |t| t.span().start);
            let what = format!(
                "'{rule}' is in all_of and in any_of: in all_of it must admit anyway, so any_of would mean nothing"
            );
            check.fault(at, what);
        }
        let (availability, weight) =
            (&mut policy.availability_ppm, &mut policy.makespan_weight_ppm);
        set(check, table.availability.as_ref(), availability, values::share);
        set(check, table.makespan_weight.as_ref(), weight, values::share);
        set(check, table.candidates.as_ref(), &mut policy.candidates, candidates);
        set(check, table.gap.as_ref(), &mut policy.gap, values::some_time);
    }

    fn notice(&mut self, check: &mut Check<'_>, table: &Table) {
        let notice = &mut self.policy.notice;
        curve(check, table, &mut notice.curve);
        let window = table.notice_window.as_ref();
        set(check, window, &mut notice.window, values::some_time);
        let mut least = None;
        let requests = table.least_requests.as_ref();
        set(check, requests, &mut least, |c, v| values::count(c, v).map(Some));
        copy(least.map(u64::from), &mut notice.least_requests);
        let weigh = |word: &str| match word {
            "counts" => Some(Weigh::Counts),
            "core_hours" | "node_hours" => Some(Weigh::CoreHours),
            _ => None,
        };
        let words = "use \"counts\" or \"node_hours\"";
        choose(check, table.weigh.as_ref(), &mut notice.weigh, weigh, words);
        copy(table.predicted_wait, &mut notice.predicted_wait);
        copy(table.together, &mut notice.together);
    }

    fn prices(&mut self, check: &mut Check<'_>, table: &Table, names: &Names<'_>) {
        let tariff = &mut self.policy.tariff;
        set(check, table.core_hour.as_ref(), &mut tariff.core_hour, values::sum);
        set(check, table.gpu_hour.as_ref(), &mut tariff.gpu_hour, values::sum);
        let delay = table.delay_core_hour.as_ref();
        set(check, delay, &mut tariff.delay_core_hour, values::sum);
        copy(table.price_floor, &mut self.policy.price_floor);
        for (license, value) in &table.license_hour {
            if !names.licenses.contains(license.as_str()) {
                let why = format!("[licenses] names no licence '{license}'");
                check.fault(value.span().start, why);
            }
            if let Some(price) = values::sum(check, value) {
                self.policy.license_hour.insert(license.clone(), price);
            }
        }
        for (queue, value) in &table.delay_cost {
            if !names.queues.contains(queue.as_str()) {
                check.fault(value.span().start, format!("there is no queue '{queue}'"));
            }
            if let Some(weight) = values::weight(check, value) {
                self.policy.delay_cost.insert(queue.clone(), weight);
            }
        }
    }

    fn protections(&mut self, check: &mut Check<'_>, table: &Table) {
        let policy = &mut self.policy;
        let cap = switchable(check, table.delay_cap.as_ref(), values::length);
        copy(cap, &mut policy.delay_cap);
        set(check, table.hold.as_ref(), &mut policy.hold, values::some_time);
        copy(switchable(check, table.holds.as_ref(), values::count), &mut policy.holds);
        let rehold = switchable(check, table.rehold.as_ref(), values::some_time);
        copy(rehold, &mut policy.rehold);
        let no_show = switchable(check, table.no_show.as_ref(), values::some_time);
        copy(no_show, &mut policy.no_show);
        let end = |word: &str| match word {
            "refund" => Some(EarlyEnd::Refund),
            "charge" => Some(EarlyEnd::Charge),
            _ => None,
        };
        let words = "use \"refund\" or \"charge\"";
        choose(check, table.early_end.as_ref(), &mut policy.early_end, end, words);
        copy(table.cancel_fee, &mut policy.cancel_fee);
        let low_use = switchable(check, table.low_use.as_ref(), values::share);
        copy(low_use, &mut policy.low_use_ppm);
        copy(table.closed, &mut policy.closed);
        copy(table.preempt.as_ref().map(|on| *on.get_ref()), &mut policy.preempt);
    }

    fn quotas(&mut self, check: &mut Check<'_>, table: &Table) {
        if let Some(all) = &table.per_user {
            Patch::read(check, all).onto(&mut self.policy.per_user);
        }
        if let Some(all) = &table.per_account {
            let mut quotas = self.policy.per_account.take().unwrap_or(Quotas::NONE);
            Patch::read(check, all).onto(&mut quotas);
            self.policy.per_account = (quotas != Quotas::NONE).then_some(quotas);
        }
        for (of, entries) in [
            (&mut self.users, &table.user),
            (&mut self.accounts, &table.account),
        ] {
            for (name, entry) in entries {
                let patch = Patch::read(check, entry);
                of.entry(name.clone()).or_default().lay(patch);
            }
        }
    }

    /// What they come to: quotas of single users and accounts are those of all with what
    /// was said of them.
    pub(super) fn finished(self) -> ReservationPolicy {
        let mut policy = self.policy;
        let all = policy.per_user.clone();
        policy.users = quotas::of_each(self.users, &all);
        let all = policy.per_account.clone().unwrap_or(Quotas::NONE);
        policy.accounts = quotas::of_each(self.accounts, &all);
        policy
    }
}

/// `preempt = true` is a fault where nobody could ever be made to leave for a reservation; `queue`
/// says it of its own reservations.
pub(super) fn preempt_has_effect(
    check: &mut Check<'_>,
    table: &Table,
    queue: Option<&str>,
    config: &ClusterConfig,
) {
    let Some(at) = table.preempt.as_ref().filter(|on| *on.get_ref()) else {
        return;
    };
    let at = at.span().start;
    let preemption = &config.preemption;
    if !preemption.is_on() {
        let what = "preempt = true counts nodes of jobs that may be preempted as free, but nobody may preempt here: set by = [\"queue\"] or by = [\"qos\"] in [preemption]";
        return check.fault(at, what);
    }
    let own = queue.and_then(|name| config.queues.iter().find(|spec| spec.name == name));
    let Some(own) = own.filter(|_| !preemption.by.contains(&PreemptBy::Qos)) else {
        return;
    };
    let below = config.queues.iter();
    let mut below = below.filter(|spec| spec.priority < own.priority).peekable();
    if below.peek().is_none() {
        let what = format!(
            "preempt = true does nothing: jobs make room by the priority of queues, and no queue has a lower one than '{}' ({})",
            own.name, own.priority
        );
        return check.fault(at, what);
    }
    let leaves = |spec: &QueueSpec| {
        let mode = preemption.of_queue(&spec.name).mode;
        matches!(mode.unwrap_or(preemption.mode), PreemptMode::Cancel | PreemptMode::Requeue)
    };
    if !below.any(leaves) {
        let what = format!(
            "preempt = true does nothing: jobs of the queues below '{}' are suspended or spared, and who is only suspended keeps memory and licences: set mode = \"requeue\" or \"cancel\" for one of them",
            own.name
        );
        check.fault(at, what);
    }
}

fn copy<T>(value: Option<T>, field: &mut T) {
    if let Some(value) = value {
        *field = value;
    }
}

/// Sets `field` to the value of `word`; another word is a fault that names `words`.
fn choose<T>(
    check: &mut Check<'_>,
    word: Option<&Spanned<String>>,
    field: &mut T,
    read: impl FnOnce(&str) -> Option<T>,
    words: &str,
) {
    let Some(word) = word else { return };
    match read(word.get_ref()) {
        Some(value) => *field = value,
        None => check.fault(word.span().start, format!("'{}': {words}", word.get_ref())),
    }
}

fn rules(check: &mut Check<'_>, words: Option<&Vec<Spanned<String>>>, field: &mut Vec<Rule>) {
    let Some(words) = words else { return };
    field.clear();
    for word in words {
        let at = word.span().start;
        let known = RULES.into_iter().find(|r| r.word() == word.get_ref());
        match known {
            Some(rule) if field.contains(&rule) => {
                check.fault(at, format!("rule '{rule}' is there twice"));
            }
            Some(rule) => field.push(rule),
            None => {
                let all = RULES.map(Rule::word).join(", ");
                check.fault(at, format!("'{}' is no rule: use {all}", word.get_ref()));
            }
        }
    }
}

fn candidates(check: &mut Check<'_>, value: &Raw) -> Option<usize> {
    let read = values::count(check, value)? as usize;
    if !(1..=limits::CANDIDATES).contains(&read) {
        let what = format!("candidates must be between 1 and {}", limits::CANDIDATES);
        check.fault(value.span().start, what);
        return None;
    }
    Some(read)
}

/// The curve from `notice` and `refuse_above`; either alone leaves the other as it is.
fn curve(check: &mut Check<'_>, table: &Table, curve: &mut Curve) {
    let Some(at) = table.notice.as_ref().or(table.refuse_above.as_ref()) else {
        return;
    };
    let at = at.span().start;
    let mut points = curve.points().to_vec();
    set(check, table.notice.as_ref(), &mut points, self::points);
    let mut above = curve.refuse_above();
    set(check, table.refuse_above.as_ref(), &mut above, |check, value| {
        // Hundredths of a per cent.
        values::share(check, value).map(|ppm| Share(ppm / 100))
    });
    match Curve::new(points, above) {
        Ok(read) => *curve = read,
        Err(e) => check.fault(at, e),
    }
}

/// `[[0, 1.0], [15, 4.0]]`: per cent and multiples.
fn points(check: &mut Check<'_>, value: &Raw) -> Option<Vec<(Share, WaitMultiple)>> {
    let point = |value: &Value| match value.as_array().map(Vec::as_slice) {
        Some([share, multiple]) => Some((
            Share(values::scaled(share, 100, Share::ALL.0)?),
            WaitMultiple(values::scaled(multiple, 1000, u32::MAX)?),
        )),
        Some(_) | None => None,
    };
    let list = value.get_ref().as_array();
    let read: Option<Vec<_>> = list.and_then(|list| list.iter().map(point).collect());
    if read.is_none() {
        let what = "notice is a list of [per cent, multiple], like [[0, 1.0], [15, 4.0]], with at most 2 and 3 decimals";
        check.fault(value.span().start, what);
    }
    read
}
