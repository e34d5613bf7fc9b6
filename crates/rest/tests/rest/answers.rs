//! A small cluster that answers: two nodes, a queue, jobs in several states, a reservation, accounts.

use cosy_model::api::{
    BudgetRow, Column, ControllerRole, ControllerRow, JobField as F, MeterRow, NO_NUMBER, NodeInfo,
    PredictionRecord, QueueInfo, Reply, Request, StepRow, Table,
};
use cosy_model::policy::{
    AccountEntry, AccountRecord, AssociationInfo, AssociationKey, AssociationSettings,
    AssociationUsage, Enforce, LimitKey, LimitKind, PolicyAnswer, PolicyQuery, QosFlag, QosInfo,
    QosRecord, Tres, UserEntry, UserRecord,
};
use cosy_model::reservation::ReservationInfo;
use cosy_model::{Amounts, MiB, QueueSpec, Settings, Span, Time};
use cosy_rest::Client;
use cosy_rest::call::Call;
use cosy_rest::json::Misfit;
use cosy_rest::read::Reading;
use serde_json::{Value, json};

/// A row of jobs: fields and values as text.
pub type Row = Vec<(F, &'static str)>;

/// A table of those fields out of rows that have some of them.
pub fn table(fields: &[F], rows: &[Row]) -> Table {
    let mut table = Table::new(fields);
    for row in rows {
        for (field, column) in fields.iter().zip(&mut table.columns) {
            let value = row.iter().find(|cell| cell.0 == *field).map(|cell| cell.1);
            match column {
                Column::Numbers(all) => {
                    all.push(value.and_then(|n| n.parse().ok()).unwrap_or(NO_NUMBER));
                }
                Column::Texts(all) => all.push(value.unwrap_or_default().to_owned()),
                Column::Words { .. } => unreachable!("a new table has none"),
            }
        }
        table.rows += 1;
    }
    table
}

fn common(id: &'static str, state: &'static str) -> Row {
    vec![
        (F::Id, id),
        (F::Ref, id),
        (F::State, state),
        (F::Name, "say \"hi\""),
        (F::User, "ann"),
        (F::Uid, "1000"),
        (F::Gid, "100"),
        (F::Account, "physics"),
        (F::Queue, "main"),
        (F::Submit, "1795219200000"),
        (F::Cores, "4"),
        (F::Tasks, "2"),
        (F::CoresPerTask, "2"),
        (F::MinNodes, "2"),
        (F::Batch, "1"),
        (F::Requeue, "1"),
        (F::Stdout, "out-%j-%x.txt"),
        (F::Workdir, "/home/ann"),
    ]
}

/// Jobs that are told with the living.
pub fn jobs() -> Vec<Row> {
    let mut running = common("12", "running");
    running.extend([
        (F::Start, "1795219300000"),
        (F::Nodes, "n[1-2]"),
        (F::NodeCount, "2"),
        (F::BatchHost, "n1"),
        (F::CoreIds, "n1:0-1;n2:0-1"),
        (F::GpuIds, "n1:0"),
        (F::Gres, "gpu:1"),
        (F::Gpus, "2"),
        (F::MinMemoryPerNode, "2048"),
        (F::TimeLimit, "3600000"),
        (F::LatestEnd, "1795222900000"),
        (F::Reservation, "1"),
        (F::MailTypes, "begin,end"),
        (F::Licenses, "matlab:2"),
        (F::SubmitLine, "sbatch a.sh"),
    ]);
    let mut waiting = common("13", "waiting");
    waiting.extend([
        (F::Reason, "held_by_user"),
        (F::Priority, "0"),
        (F::ArrayId, "13"),
        (F::ArrayAtOnce, "2"),
        (F::TimeLimit, "9223372036854775807"),
        (F::DependencyText, "afterok:12(unfulfilled)"),
        (F::EndIfNever, "1"),
    ]);
    waiting[1] = (F::Ref, "13_[1-4%2]");
    let mut failed = common("11", "failed");
    failed.extend(ended());
    vec![running, waiting, failed]
}

fn ended() -> Row {
    vec![
        (F::Eligible, "1795219200000"),
        (F::Start, "1795219210000"),
        (F::End, "1795219220000"),
        (F::Elapsed, "10000"),
        (F::Nodes, "n1"),
        (F::NodeCount, "1"),
        (F::ExitCode, "3"),
        (F::PeakMemory, "1048576"),
        (F::UserCpu, "1500000"),
    ]
}

/// Jobs that are over.
pub fn history() -> Vec<Row> {
    let mut failed = common("11", "failed");
    failed.extend(ended());
    let mut cancelled = common("10", "cancelled");
    cancelled.extend(ended());
    cancelled.push((F::Reason, "cancelled by bob"));
    vec![failed, cancelled]
}

fn node(name: &str, state: &str) -> NodeInfo {
    NodeInfo {
        name: name.into(),
        state: state.into(),
        amounts: Amounts {
            cores: 16,
            memory: MiB(64_000),
            gpus: 2,
            ..Amounts::default()
        },
        used: Amounts {
            cores: 2,
            memory: MiB(2048),
            gpus: 1,
            ..Amounts::default()
        },
        jobs: 1,
        features: vec!["fast".into()],
        queues: vec!["main".into()],
        version: "0.1.0".into(),
        last_seen: Some(Time::from_secs(1_795_219_300)),
        ..NodeInfo::default()
    }
}

pub fn nodes() -> Vec<NodeInfo> {
    let mut drained = node("n2", "draining");
    drained.reason = "bad disk".into();
    drained.reason_by = "root".into();
    drained.reason_since = Some(Time::from_secs(1_795_219_000));
    vec![node("n1", "mixed"), drained]
}

pub fn queue() -> QueueInfo {
    QueueInfo {
        spec: QueueSpec {
            name: "main".into(),
            max_time: Some(Span::from_minutes(600)),
            default_memory_per_core: Some(MiB(100)),
            ..QueueSpec::default()
        },
        default: true,
        waiting: 4,
        running: 1,
        nodes: 2,
        nodes_up: 1,
        cores: 32,
        cores_used: 4,
        predictions: PredictionRecord {
            kept: 87,
            missed: 13,
        },
        ..QueueInfo::default()
    }
}

pub fn reservation() -> ReservationInfo {
    serde_json::from_value(json!({
        "id": 1, "series": null, "name": "course", "name_given": true, "user": "ann", "uid": 1000,
        "usable": true, "account": null, "queue": "main", "state": "active", "degraded": false,
        "start": 1_795_219_000_000_i64, "end": 1_795_222_000_000_i64, "movable_from": null,
        "hold_until": null, "free_until": null, "nodes": "n1", "node_count": 1, "cores": 16,
        "gpus": 0, "licenses": [], "base": 0, "extra": 0, "charged": 5_000_000,
        "sharing": {"users": ["ann", "bob"], "groups": [], "accounts": []}, "job": null,
        "used_core_ms": 0, "delayed_jobs": 0, "total_delay": 0, "made": 1_795_218_000_000_i64,
        "named": true, "flags": ["MAINT", "FIRST_CORES"], "rule": "FREQ=DAILY", "comment": "",
        "note": "", "preempts": []
    }))
    .unwrap()
}

fn association(id: u32, account: &str, user: Option<&str>, parent: &str) -> AssociationInfo {
    let mut own = AssociationSettings::default();
    own.limits.set(LimitKey::plain(LimitKind::MaxJobs), Some(7));
    own.limits
        .set(LimitKey::of(LimitKind::GrpTres, Tres::Cpu), Some(64));
    own.limits
        .set(LimitKey::of(LimitKind::GrpTresMins, Tres::gpus()), Some(600));
    AssociationInfo {
        id,
        key: AssociationKey {
            account: account.into(),
            user: user.map(str::to_owned),
            queue: None,
        },
        parent: parent.into(),
        parent_id: 0,
        depth: 0,
        own,
        effective: Vec::new(),
        qos: vec!["normal".into()],
        default_qos: Some("normal".into()),
        is_default: user.is_some(),
        usage: Some(AssociationUsage {
            used_seconds: [(Tres::Cpu, 3600)].into(),
            run_seconds: [(Tres::Cpu, 60)].into(),
            raw_usage: 3600,
            norm_shares_ppb: 500_000_000,
            level_fs_ppb: u64::MAX,
            fair_share_ppb: user.map(|_| 250_000_000),
            ..AssociationUsage::default()
        }),
    }
}

fn policy(query: &PolicyQuery) -> PolicyAnswer {
    match query {
        PolicyQuery::Accounts { .. } => PolicyAnswer::Accounts(vec![AccountEntry {
            record: AccountRecord {
                name: "physics".into(),
                parent: Some("root".into()),
                coordinators: ["bob".to_owned()].into(),
                ..AccountRecord::default()
            },
        }]),
        PolicyQuery::Users { .. } => PolicyAnswer::Users {
            users: vec![UserEntry {
                record: UserRecord {
                    name: "ann".into(),
                    default_account: Some("physics".into()),
                    wckeys: ["key".to_owned()].into(),
                    ..UserRecord::default()
                },
                coordinates: vec!["physics".into()],
                level: cosy_model::policy::AdminLevel::Operator,
            }],
            more: false,
        },
        PolicyQuery::Associations { skip, .. } => {
            let all = [
                association(1, "root", None, ""),
                association(2, "physics", None, "root"),
                association(3, "physics", Some("ann"), ""),
            ];
            // Page by page, so that pages are put together.
            let rows: Vec<_> = all.iter().skip(*skip as usize).take(2).cloned().collect();
            PolicyAnswer::Associations {
                more: *skip + 2 < 3,
                rows,
                enforce: Enforce::default(),
            }
        }
        PolicyQuery::Qos { .. } => PolicyAnswer::Qos(vec![QosInfo {
            record: QosRecord {
                id: 1,
                name: "normal".into(),
                flags: QosFlag::ALL.iter().copied().collect(),
                ..QosRecord::default()
            },
            usage: None,
        }]),
        PolicyQuery::Standing { .. } => unreachable!("nobody asks it here"),
    }
}

fn settings() -> Settings {
    Settings {
        cluster: "tiny".into(),
        host: "head".into(),
        licenses: vec![cosy_model::License {
            name: "matlab".into(),
            total: 10,
            used: 2,
            ..cosy_model::License::default()
        }],
        ..Settings::default()
    }
}

fn steps() -> Vec<StepRow> {
    vec![
        serde_json::from_value(json!({
            "job": {"job": 11, "task": null}, "attempt": 1,
            "record": {"step": 0, "name": "work", "nodes": "n1", "tasks": 2, "cores": 4, "end": {
                "cause": "exited", "exit_code": 3, "signal": 0, "start": 1_795_219_211_000_i64,
                "end": 1_795_219_219_000_i64, "user_cpu_us": 1_000_000, "system_cpu_us": 5,
                "peak_memory_bytes": 4096}}
        }))
        .unwrap(),
    ]
}

/// Answers a request.
pub fn answer(request: &Request) -> Reply {
    match request {
        Request::Settings => Reply::Settings(Box::new(settings())),
        Request::Controllers => Reply::Controllers(vec![
            ControllerRow {
                name: "b".into(),
                address: String::new(),
                role: ControllerRole::StandsBy,
                silent_ms: 9000,
            },
            ControllerRow {
                name: "a".into(),
                address: String::new(),
                role: ControllerRole::Leads,
                silent_ms: 0,
            },
        ]),
        Request::Meter => Reply::Meter {
            kinds: vec![
                MeterRow {
                    kind: "submit".into(),
                    count: 5,
                    turns_us: 1000,
                    longest_turn_us: 400,
                    longest_read_us: 90,
                    ..MeterRow::default()
                },
                MeterRow {
                    kind: "whole turn".into(),
                    count: 50,
                    turns_us: 9000,
                    longest_turn_us: 800,
                    ..MeterRow::default()
                },
            ],
            budgets: vec![BudgetRow {
                what: "jobs under way".into(),
                used: 6,
                in_all: 1000,
                ..BudgetRow::default()
            }],
        },
        Request::Queues => Reply::Queues(vec![queue()]),
        Request::Nodes => Reply::Nodes(nodes()),
        Request::Reservations { .. } => Reply::Reservations(vec![reservation()]),
        Request::Jobs { filter, fields, .. } => {
            let mut rows = jobs();
            rows.retain(|row| {
                let state = row[2].1;
                let named = filter.ids.is_empty()
                    || filter.ids.iter().any(|id| id.job.0.to_string() == row[0].1);
                named
                    && (filter.states.is_empty() || filter.states.iter().any(|s| s.word() == state))
            });
            Reply::Jobs(table(fields, &rows))
        }
        Request::History { fields, .. } => Reply::Jobs(table(fields, &history())),
        Request::Steps { .. } => Reply::StepsPage {
            rows: steps(),
            more: None,
        },
        Request::Policy(query) => Reply::Policy(policy(query)),
        other => unreachable!("{other:?}"),
    }
}

/// Who asks in tests.
pub fn client() -> Client<'static> {
    Client {
        source: "[::1]:4000",
        user: "ann",
        group: "users",
        group_name: &|gid| (gid == 100).then(|| "users".to_owned()),
    }
}

/// The whole answer to a call: status, document, and what did not fit.
pub fn get(path: &str, query: &str) -> (u16, Value, Vec<Misfit>) {
    let call = Call::read("GET", path, query).unwrap_or_else(|e| panic!("{path}: {:?}", e.1));
    let now = "2026-11-21T12:00:00+00:00[+00:00]".parse().unwrap();
    let mut reading = Reading::new(call, now);
    let mut count = 0;
    while let Some(request) = reading.ask() {
        reading.take(Ok(answer(&request)));
        count += 1;
        assert!(count < 100, "{path} asks for ever");
    }
    let mut text = String::new();
    let misfits = reading.write(&client(), &mut |piece| text.push_str(piece));
    let value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}\n{text}"));
    (reading.status(), value, misfits)
}
