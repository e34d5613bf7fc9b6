//! The names of fields in JSON are part of the interface: none is changed or taken away.

use cosy_model::api::{BudgetRow, EndedJob, HistoryEvent, MeterRow, StepRow};
use cosy_model::node::AttemptKey;
use cosy_model::policy::PreemptMode;
use cosy_model::reservation::{
    AccountInfo, BarKind, LedgerEntry, PlanBar, PlanChart, Quote, QuotedSlot, RoomMaker,
};
use cosy_model::step::{StepInfo, StepKey, StepRecord};
use cosy_model::{Attempt, End, EndCause, JobId, JobState, Span, StepId, Su, Time};
use cosy_view::column::Fields;
use cosy_view::value::FieldValue;
use cosy_view::{account, chart, event, job, meter, quote, step};

/// Names in their order, those of fields within a field behind it in braces.
fn names(fields: &Fields<'_>) -> String {
    let each = fields
        .iter()
        .map(|(name, value)| format!("{name}{}", inner(value)));
    each.collect::<Vec<_>>().join(" ")
}

fn inner(value: &FieldValue<'_>) -> String {
    match value {
        FieldValue::List(all) => all.first().map(inner).unwrap_or_default(),
        FieldValue::Record(fields) => {
            let each = fields
                .iter()
                .map(|(name, value)| format!("{name}{}", inner(value)));
            format!("{{{}}}", each.collect::<Vec<_>>().join(" "))
        }
        _ => String::new(),
    }
}

fn slot() -> QuotedSlot {
    QuotedSlot {
        start: Time(0),
        end: Time(1),
        feasible: true,
        admitted: true,
        reason: String::new(),
        availability_ppm: 1_000_000,
        by_load: true,
        base: Su(1),
        license_price: Su(1),
        extra: Su(1),
        delayed_jobs: 1,
        total_delay: Span(1),
        own_delayed: vec![(JobId(1), Span(1))],
        nodes: "n1".into(),
        preempts: vec![RoomMaker {
            job: JobId(1),
            user: "ann".into(),
            queue: "low".into(),
            mode: PreemptMode::Requeue,
            lost_core_secs: 1,
            told: Time(1),
        }],
    }
}

#[test]
fn of_quotes() {
    let all = Quote {
        now: Time(0),
        queue: "day".into(),
        plain_start: None,
        slots: vec![slot()],
        choice: Some(0),
        notice_earliest: None,
        rules: Vec::new(),
        account: Some(("phys".into(), None)),
        licenses: Default::default(),
    };
    assert_eq!(
        names(&quote::fields(&all)),
        "now queue plain_start choice notice_earliest rules account{name left} licenses"
    );
    assert_eq!(
        names(&quote::slot_fields(&slot())),
        "start end feasible admitted reason availability available_by_load base license_price extra price \
         delayed_jobs total_delay own_delayed{job delay} nodes preempts{job user queue \
         mode lost_core_seconds told}"
    );
    assert_eq!(
        names(&quote::cluster_fields(&all)),
        "now queue plain_start notice_earliest rules licenses slots{start end feasible admitted reason \
         availability by_load base license_price extra price delayed_jobs total_delay nodes preempts{job user \
         queue mode lost_core_seconds told}}"
    );
}

#[test]
fn of_accounts() {
    assert_eq!(
        names(&account::fields(&AccountInfo::default())),
        "name members listed budget granted held charged available"
    );
    let entry = LedgerEntry {
        seq: 1,
        at: Time(0),
        from: "grants".into(),
        to: "phys".into(),
        sum: Su(1),
        reservation: None,
        why: "grant".into(),
        who: "root".into(),
    };
    let ledger = names(&account::ledger_fields(&entry));
    assert_eq!(ledger, "seq at from to sum reservation why who");
    assert_eq!(
        names(&account::sum_fields(&account::AccountSum::default())),
        "account reservations base extra charged used_core_seconds"
    );
}

#[test]
fn of_steps_and_ended_jobs() {
    let ended = StepRow {
        job: "12_3".parse().expect("a task"),
        attempt: Attempt(1),
        record: StepRecord {
            step: StepId(0),
            name: "a".into(),
            nodes: "n1".into(),
            tasks: 1,
            cores: 1,
            end: End::never_ran(EndCause::Exited, Time(0)),
        },
    };
    assert_eq!(
        names(&step::ended_fields(&ended)),
        "id job attempt step name state reason exit_code signal nodes tasks cores start end \
         elapsed user_cpu_us system_cpu_us peak_memory_bytes"
    );
    let running = StepInfo {
        key: StepKey {
            attempt: AttemptKey {
                job: JobId(12),
                attempt: Attempt(1),
            },
            step: StepId(0),
        },
        name: "a".into(),
        nodes: "n1".into(),
        tasks: 1,
        start: None,
        time_limit: None,
        memory: None,
    };
    assert_eq!(names(&step::running_fields(&running)), "id name tasks start nodes");
    let job = EndedJob {
        job: ended.job,
        state: JobState::Failed,
        exit_code: 1,
        signal: 0,
        note: String::new(),
    };
    assert_eq!(names(&job::ended_fields(&job)), "ref state exit_code signal note");
}

#[test]
fn of_the_controller() {
    assert_eq!(
        names(&meter::kind_fields(&MeterRow::default())),
        "kind count longest_turn_us longest_turn_of turns_us turn_counts longest_cpu_us \
         longest_cpu_of cpu_us cpu_counts longest_read_us longest_read_of"
    );
    assert_eq!(
        names(&meter::budget_fields(&BudgetRow::default())),
        "what used peak per_user in_all refused"
    );
    let happened = HistoryEvent {
        seq: 1,
        at: Time(0),
        what: "lost".into(),
        who: "controller".into(),
        object: "node n1".into(),
        detail: String::new(),
    };
    assert_eq!(names(&event::fields(&happened)), "seq at what who object detail");
}

/// Kinds of bars are written as serde has them.
#[test]
fn of_the_chart() {
    let kinds = [
        (BarKind::Running, "running"),
        (BarKind::Planned, "planned"),
        (BarKind::Held, "held"),
        (BarKind::Reserved, "reserved"),
    ];
    for (kind, word) in kinds {
        let bar = PlanBar {
            kind,
            label: "12".into(),
            start: Time(0),
            end: Time(1000),
            nodes: vec![0, 1, 7],
        };
        let chart = PlanChart {
            now: Time(0),
            nodes: vec!["n1".into(), "n2".into()],
            bars: vec![bar],
            beyond: 0,
        };
        let fields = chart::fields(&chart);
        assert_eq!(
            names(&fields),
            "now nodes bars{kind label start end length nodes node_count} beyond"
        );
        let FieldValue::List(bars) = &fields[2].1 else {
            panic!("bars are a list");
        };
        let FieldValue::Record(bar) = &bars[0] else {
            panic!("a bar has fields");
        };
        assert_eq!(bar[0].1, word.into());
        assert_eq!(bar[5].1, FieldValue::Text("n[1-2]".into()));
    }
}
