//! Cosy's own names, `cosy_`: what the queue waits for, how long requests hold the controller up, what was
//! promised and kept, what it costs.

use super::figures::Figures;
use super::text::Text;
use cosy_model::JobState;
use cosy_model::api::{ControllerRole, TURN_BOUNDS_MS};
use cosy_model::reservation::ReservationState;
use cosy_view::node::NodeCondition;
use std::collections::BTreeMap;

/// All of them.
pub fn all(text: &mut Text, figures: &Figures) {
    let settings = &figures.settings;
    text.family(
        "cosy_info",
        "The cluster and the version of its controller.",
        "gauge",
        |samples| {
            samples.add(
                &[
                    ("cluster", &settings.cluster),
                    ("version", &settings.version),
                ],
                1u32,
            );
        },
    );
    let started = settings.started.secs();
    text.gauge(
        "cosy_controller_started_seconds",
        "When the controller was started, in seconds since 1970.",
        started,
    );
    jobs(text, figures);
    nodes(text, figures);
    turns(text, figures);
    budgets(text, figures);
    reservations(text, figures);
    money(text, figures);
    controllers(text, figures);
}

fn jobs(text: &mut Text, figures: &Figures) {
    let jobs = &figures.jobs;
    let states = JobState::ALL
        .into_iter()
        .map(|state| (state.word(), jobs.all.of(&[state])));
    text.gauges(
        "cosy_jobs",
        "Jobs that wait, run, or ended moments ago, by state.",
        "state",
        states,
    );
    let reasons = || {
        jobs.reasons
            .iter()
            .map(|(reason, counts)| (word(reason), counts))
    };
    let waiting = reasons().map(|(reason, counts)| (reason, counts.all()));
    text.gauges("cosy_waiting_jobs", "Jobs that wait, by reason.", "reason", waiting);
    let cores = reasons().map(|(reason, counts)| (reason, counts.waiting_cores));
    text.gauges(
        "cosy_waiting_cores",
        "Cores that waiting jobs ask for, by reason.",
        "reason",
        cores,
    );
    let queues = || figures.queues.iter().map(|queue| queue.spec.name.as_str());
    text.family("cosy_queue_jobs", "Jobs of a queue that wait or run.", "gauge", |samples| {
        for queue in &figures.queues {
            let name = queue.spec.name.as_str();
            samples.add(&[("queue", name), ("state", JobState::Waiting.word())], queue.waiting);
            samples.add(&[("queue", name), ("state", JobState::Running.word())], queue.running);
        }
    });
    let help = "Jobs that have started as they were first told, or later, since the controller was started.";
    text.family("cosy_predictions_total", help, "counter", |samples| {
        for queue in &figures.queues {
            let (name, told) = (queue.spec.name.as_str(), queue.predictions);
            samples.add(&[("queue", name), ("outcome", "kept")], told.kept);
            samples.add(&[("queue", name), ("outcome", "missed")], told.missed);
        }
    });
    let oldest = queues().map(|queue| {
        let oldest = jobs.queues.get(queue).and_then(|counts| counts.oldest);
        (queue, oldest.map_or(0, |at| figures.now.since(at).secs().max(0)))
    });
    let help =
        "How long the job waits that has waited longest of those that could start, in seconds.";
    text.gauges("cosy_queue_longest_wait_seconds", help, "queue", oldest);
    let licenses = &figures.settings.licenses;
    let all = || licenses.iter().map(|license| license.name.as_str());
    text.gauges(
        "cosy_license_total",
        "Licences that the cluster has.",
        "license",
        all().zip(licenses.iter().map(|l| l.total)),
    );
    text.gauges(
        "cosy_license_used",
        "Licences that jobs hold.",
        "license",
        all().zip(licenses.iter().map(|l| l.used)),
    );
    text.gauges(
        "cosy_license_reserved",
        "Licences that reservations keep now.",
        "license",
        all().zip(licenses.iter().map(|l| l.reserved)),
    );
}

/// A reason that says more than a word is known by its word.
fn word(reason: &str) -> &str {
    if reason.is_empty() { "fresh" } else { reason }
}

fn nodes(text: &mut Text, figures: &Figures) {
    let mut counts: BTreeMap<&str, u64> =
        NodeCondition::ALL.iter().map(|c| (c.word(), 0)).collect();
    for node in &figures.nodes {
        *counts.entry(&node.state).or_default() += 1;
    }
    text.gauges("cosy_nodes", "Nodes by what they do.", "state", counts);
    let skew = figures
        .nodes
        .iter()
        .filter_map(|node| node.skew_ms)
        .map(i64::unsigned_abs)
        .max();
    let help = "By how much the clock of a node is off at most, in seconds.";
    text.gauge("cosy_clock_skew_seconds", help, skew.unwrap_or(0) as f64 / 1000.0);
}

/// How long each kind of what happens has held the controller up.
fn turns(text: &mut Text, figures: &Figures) {
    let meter = &figures.meter;
    let help = "How long turns of the controller took, by what they were about: a submission is 'submit', \
                a computed plan 'plan', a whole turn with its end 'whole turn'.";
    text.family("cosy_turn_seconds", help, "histogram", |samples| {
        for row in meter {
            let kind = row.kind.as_str();
            let mut sum = 0u64;
            for (bound, count) in TURN_BOUNDS_MS.iter().zip(&row.turn_counts) {
                sum += count;
                let le = (*bound as f64 / 1000.0).to_string();
                samples.named("_bucket", &[("kind", kind), ("le", &le)], sum);
            }
            samples.named("_bucket", &[("kind", kind), ("le", "+Inf")], row.count);
            samples.named("_sum", &[("kind", kind)], row.turns_us as f64 / 1e6);
            samples.named("_count", &[("kind", kind)], row.count);
        }
    });
    let seconds = |us: u64| us as f64 / 1e6;
    let kinds = || meter.iter().map(|row| row.kind.as_str());
    let longest = kinds().zip(meter.iter().map(|row| seconds(row.longest_turn_us)));
    text.gauges(
        "cosy_turn_longest_seconds",
        "The longest turn since the controller was started.",
        "kind",
        longest,
    );
    let help = "Processor time in turns since the controller was started.";
    text.family("cosy_turn_cpu_seconds_total", help, "counter", |samples| {
        for row in meter {
            samples.add(&[("kind", &row.kind)], seconds(row.cpu_us));
        }
    });
    let reads = meter.iter().filter(|row| row.longest_read_us > 0);
    let reads = reads.map(|row| (row.kind.as_str(), seconds(row.longest_read_us)));
    text.gauges(
        "cosy_store_longest_read_seconds",
        "The longest read of the store since the controller was started.",
        "kind",
        reads,
    );
}

fn budgets(text: &mut Text, figures: &Figures) {
    let rows = &figures.budgets;
    let all = || rows.iter().map(|row| row.what.as_str());
    text.gauges(
        "cosy_limit_used",
        "How much of what is limited is in use.",
        "what",
        all().zip(rows.iter().map(|r| r.used)),
    );
    text.gauges(
        "cosy_limit_peak",
        "The most of it since the controller was started.",
        "what",
        all().zip(rows.iter().map(|r| r.peak)),
    );
    text.gauges(
        "cosy_limit",
        "The limit of all users together.",
        "what",
        all().zip(rows.iter().map(|r| r.in_all)),
    );
    text.family(
        "cosy_limit_refused_total",
        "How often somebody was refused for it.",
        "counter",
        |samples| {
            for row in rows {
                samples.add(&[("what", &row.what)], row.refused);
            }
        },
    );
}

fn reservations(text: &mut Text, figures: &Figures) {
    let all = &figures.reservations;
    let mut states: BTreeMap<&str, u64> = ReservationState::ALL
        .iter()
        .map(|state| (state.word(), 0))
        .collect();
    let (mut kept, mut missed, mut cores) = (0u64, 0u64, 0u64);
    for r in all {
        *states.entry(r.state.word()).or_default() += 1;
        match r.state {
            ReservationState::Active | ReservationState::Ended | ReservationState::Unused
                if !r.degraded =>
            {
                kept += 1
            }
            ReservationState::Active
            | ReservationState::Ended
            | ReservationState::Unused
            | ReservationState::Failed => missed += 1,
            ReservationState::Held
            | ReservationState::Confirmed
            | ReservationState::Cancelled
            | ReservationState::Expired => {}
        }
        if r.state == ReservationState::Active {
            cores = cores.saturating_add(r.cores);
        }
    }
    text.gauges(
        "cosy_reservations",
        "Reservations that are remembered, by state.",
        "state",
        states,
    );
    let help =
        "Reservations that have begun on their nodes at their time, of those that are remembered.";
    text.gauge("cosy_promises_kept", help, kept);
    let help =
        "Reservations whose nodes were not there at their time, of those that are remembered.";
    text.gauge("cosy_promises_missed", help, missed);
    text.gauge("cosy_reserved_cores", "Cores of reservations whose time is now.", cores);
    let live = all
        .iter()
        .filter(|r| matches!(r.state, ReservationState::Confirmed | ReservationState::Active));
    let prices = live.fold([0i64; 2], |[base, extra], r| {
        [
            base.saturating_add(r.base.0),
            extra.saturating_add(r.extra.0),
        ]
    });
    let prices = ["base", "extra"]
        .into_iter()
        .zip(prices.map(|price| price as f64 / 1e6));
    let help = "Prices of booked reservations that are not over, in service units: the machine time, and what others wait for it.";
    text.gauges("cosy_reservation_price_su", help, "part", prices);
}

fn money(text: &mut Text, figures: &Figures) {
    let budgets: Vec<_> = figures
        .accounts
        .iter()
        .filter(|account| account.budget)
        .collect();
    let mut tell =
        |name: &str, help: &str, sum: fn(&cosy_model::reservation::AccountInfo) -> i64| {
            let all = budgets
                .iter()
                .map(|account| (account.name.as_str(), sum(account) as f64 / 1e6));
            text.gauges(name, help, "account", all);
        };
    tell("cosy_account_granted_su", "Service units granted to an account.", |a| a.granted.0);
    tell("cosy_account_held_su", "Service units held for booked reservations.", |a| a.held.0);
    tell("cosy_account_charged_su", "Service units charged.", |a| a.charged.0);
    tell("cosy_account_available_su", "Service units that can still be spent.", |a| a.available.0);
}

fn controllers(text: &mut Text, figures: &Figures) {
    let all = &figures.controllers;
    let leads = all
        .iter()
        .map(|row| (row.name.as_str(), row.role == ControllerRole::Leads));
    text.gauges(
        "cosy_controller_leads",
        "Whether a controller leads, where there are several.",
        "controller",
        leads,
    );
    let silent = all
        .iter()
        .map(|row| (row.name.as_str(), row.silent_ms as f64 / 1000.0));
    text.gauges(
        "cosy_controller_silent_seconds",
        "How long a controller was not heard.",
        "controller",
        silent,
    );
}
