//! Metrics are text that Prometheus reads, with the names that Slurm and its exporters have.

use crate::answers::{answer, jobs, table};
use cosy_model::api::{NodeInfo, QueueInfo, Reply, Request};
use cosy_model::{Refusal, RefusalCode, Time};
use cosy_rest::metrics::{FIELDS, Families, Figures, Scrape, render};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

/// The families of a text: type, and each series with its value.
#[derive(Default)]
struct Read {
    families: BTreeMap<String, String>,
    series: BTreeMap<String, f64>,
}

/// Reads a text as strictly as the format allows: a family stands together, HELP before TYPE before its
/// values, no series twice.
fn read(text: &str) -> Read {
    let mut read = Read::default();
    let (mut help, mut family) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, words) = rest.split_once(' ').unwrap();
            assert!(is_name(name) && words.ends_with('.') && words.len() > 3, "{line}");
            help = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, help, "{line}");
            assert!(["gauge", "counter", "histogram"].contains(&kind), "{line}");
            // Names of Slurm's exporters are older than that custom.
            assert!(kind != "counter" || name.ends_with("_total"), "{line}");
            family = name.to_owned();
            assert!(
                read.families
                    .insert(family.clone(), kind.to_owned())
                    .is_none(),
                "twice: {line}"
            );
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let own = match read.families.get(&family).map(String::as_str) {
                Some("histogram") => ["_bucket", "_sum", "_count"]
                    .iter()
                    .any(|part| name == format!("{family}{part}")),
                _ => name == family,
            };
            assert!(own && is_name(name), "{line} is none of {family}");
            if let Some(labels) = series.strip_prefix(name).filter(|rest| !rest.is_empty()) {
                check_labels(labels, line);
            }
            let value: f64 = value.parse().unwrap();
            assert!(read.series.insert(series.to_owned(), value).is_none(), "twice: {line}");
        }
    }
    read
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(fits)
}

/// `{name="value",...}` with quotes and backslashes escaped.
fn check_labels(text: &str, line: &str) {
    let mut rest = text
        .strip_prefix('{')
        .and_then(|t| t.strip_suffix('}'))
        .unwrap_or_else(|| panic!("{line}"));
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
        assert!(is_name(name), "{line}");
        let mut end = None;
        let mut escaped = false;
        for (at, byte) in value.bytes().enumerate() {
            match byte {
                _ if escaped => {
                    assert!(b"\\\"n".contains(&byte), "{line}");
                    escaped = false;
                }
                b'\\' => escaped = true,
                b'"' => {
                    end = Some(at);
                    break;
                }
                _ => {}
            }
        }
        rest = &value[end.unwrap_or_else(|| panic!("{line}")) + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

fn scrape(families: Families) -> String {
    let mut scrape = Scrape::new(families, Time::from_secs(1_795_219_400));
    while let Some(request) = scrape.ask() {
        scrape.take(Ok(match &request {
            Request::Accounts { .. } => Reply::Accounts(vec![account()]),
            other => answer(other),
        }));
    }
    scrape.text().unwrap()
}

fn account() -> cosy_model::reservation::AccountInfo {
    cosy_model::reservation::AccountInfo {
        name: "phy\"sics\\".into(),
        budget: true,
        available: cosy_model::Su(1_500_000),
        ..Default::default()
    }
}

const EVERYTHING: Families = Families::All {
    users: true,
    nodes: true,
};

#[test]
fn texts_are_sound() {
    for families in [
        EVERYTHING,
        Families::All {
            users: false,
            nodes: false,
        },
        Families::Jobs,
        Families::UsersAndAccounts,
        Families::Nodes,
        Families::Partitions,
        Families::Scheduler,
    ] {
        let read = read(&scrape(families));
        assert!(read.families.len() > 20, "{families:?}");
    }
    let plain = read(&scrape(Families::All {
        users: false,
        nodes: false,
    }));
    let personal =
        |name: &&String| name.starts_with("slurm_user_") || name.starts_with("slurm_node_");
    assert_eq!(plain.families.keys().find(personal), None);
}

/// Of Slurm 25.11, by path; `{}` is each word that is counted of jobs.
const OF_JOBS: &str = "bootfail cancelled completed completing configuring cpus_alloc deadline expediting \
    failed fed_requeued finished gpus_alloc hold memory_alloc node_failed nodes_alloc outofmemory pending \
    powerup_node preempted requeued resizing revoked running signaling stageout started suspended timeout";
const OF_NODES: &str = "nodes nodes_alloc nodes_blocked nodes_completing nodes_cloud nodes_down nodes_drain \
    nodes_drained nodes_draining nodes_dyn_future nodes_dyn_normal nodes_external nodes_fail nodes_future \
    nodes_idle nodes_invalid_reg nodes_maint nodes_mixed nodes_noresp nodes_planned nodes_power_down \
    nodes_power_up nodes_powered_down nodes_powering_up nodes_reboot_issued nodes_reboot_req nodes_resv \
    nodes_unknown node_cpus node_cpus_alloc node_cpus_effective node_cpus_idle node_gpus node_gpus_alloc \
    node_memory_alloc_bytes node_memory_effective_bytes node_memory_free_bytes node_memory_bytes";
const OF_PARTITIONS: &str = "jobs_max_job_nodes jobs_max_job_nodes_nohold jobs_min_job_nodes \
    jobs_min_job_nodes_nohold jobs_wait_part_node_limit nodes_alloc nodes_blocked nodes_cg nodes_cloud \
    nodes_cpus_efctv nodes_cpus_idle nodes_cpus_alloc nodes_down nodes_drain nodes_drained nodes_draining \
    nodes_dyn_future nodes_dyn_normal nodes_external nodes_fail nodes_future nodes_idle nodes_invalid_reg \
    nodes_maint nodes_mem_alloc nodes_mem_avail nodes_mem_free nodes_mem_tot nodes_mixed nodes_no_resp \
    nodes_planned nodes_power_down nodes_power_up nodes_powered_down nodes_powering_down nodes_powering_up \
    nodes_reboot_issued nodes_reboot_requested nodes_resv nodes_unknown cpus gpus nodes";
const OF_SCHEDULER: &str = "agent_cnt agent_queue_size agent_thread_cnt bf_depth_mean bf_mean_cycle \
    bf_mean_table_sz bf_queue_len_mean bf_try_depth_mean backfilled_het_jobs backfilled_jobs bf_active \
    bf_cycle_cnt bf_cycle_last bf_cycle_max bf_cycle_tot bf_depth_tot bf_depth_try_tot bf_last_depth \
    bf_last_depth_try bf_queue_len bf_queue_len_tot bf_table_size bf_table_size_tot bf_when_last_cycle \
    sdiag_jobs_canceled sdiag_jobs_completed sdiag_jobs_failed sdiag_jobs_pending sdiag_jobs_running \
    sdiag_jobs_started sdiag_jobs_submitted sdiag_job_states_ts last_backfilled_jobs sdiag_latency \
    schedule_cycle_cnt schedule_cycle_depth schedule_cycle_last schedule_cycle_max schedule_cycle_tot \
    schedule_queue_len sched_exit_end sched_exit_max_depth sched_exit_max_job_start sched_exit_lic \
    sched_exit_rpc_cnt sched_exit_timeout bf_exit_end bf_exit_max_job_start bf_exit_max_job_test \
    bf_exit_state_changed bf_exit_table_limit bf_exit_timeout sched_mean_cycle sched_mean_depth_cycle \
    server_thread_cnt slurmdbd_queue_size last_proc_req_start sched_stats_timestamp";
/// Of the exporters before.
const OF_EXPORTERS: &str = "cpus_alloc cpus_idle cpus_other cpus_total gpus_alloc gpus_idle gpus_other \
    gpus_total gpus_utilization nodes_alloc nodes_comp nodes_down nodes_drain nodes_err nodes_fail nodes_idle \
    nodes_maint nodes_mix nodes_resv queue_pending queue_pending_dependency queue_running queue_suspended \
    queue_cancelled queue_completing queue_completed queue_configuring queue_failed queue_timeout \
    queue_preempted queue_node_fail partition_cpus_allocated partition_cpus_idle partition_cpus_other \
    partition_cpus_total partition_jobs_pending account_jobs_pending account_jobs_running \
    account_jobs_suspended account_cpus_running user_jobs_pending user_jobs_running user_jobs_suspended \
    user_cpus_running node_cpu_alloc node_cpu_idle node_cpu_other node_cpu_total node_mem_alloc \
    node_mem_total scheduler_threads scheduler_queue_size scheduler_dbd_queue_size scheduler_last_cycle \
    scheduler_mean_cycle scheduler_cycle_per_minute scheduler_backfill_last_cycle \
    scheduler_backfill_mean_cycle scheduler_backfill_depth_mean scheduler_backfilled_jobs_since_start_total";

#[test]
fn names_are_those_of_slurm() {
    let of = |words: &str, prefix: &str| -> BTreeSet<String> {
        words
            .split_whitespace()
            .map(|word| format!("slurm_{prefix}{word}"))
            .collect()
    };
    let names =
        |families| -> BTreeSet<String> { read(&scrape(families)).families.into_keys().collect() };
    let jobs = |prefix: &str| {
        let mut all = of(OF_JOBS, &format!("{prefix}jobs_"));
        all.insert(format!("slurm_{prefix}jobs"));
        all
    };
    assert_eq!(names(Families::Jobs), jobs(""));
    let both: BTreeSet<String> = jobs("user_").union(&jobs("account_")).cloned().collect();
    assert_eq!(names(Families::UsersAndAccounts), both);
    assert_eq!(names(Families::Nodes), of(OF_NODES, ""));
    let mut partitions: BTreeSet<String> = jobs("partition_")
        .union(&of(OF_PARTITIONS, "partition_"))
        .cloned()
        .collect();
    partitions.remove("slurm_partition_jobs_nodes_alloc");
    partitions.insert("slurm_partitions".to_owned());
    assert_eq!(names(Families::Partitions), partitions);
    assert_eq!(names(Families::Scheduler), of(OF_SCHEDULER, ""));
    let all = names(EVERYTHING);
    let missing: Vec<_> = of(OF_EXPORTERS, "").difference(&all).cloned().collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn values() {
    let read = read(&scrape(EVERYTHING));
    let check =
        |series: &str, want: f64| assert_eq!(read.series.get(series), Some(&want), "{series}");
    check("slurm_jobs", 6.0);
    check("slurm_jobs_pending", 4.0);
    check("slurm_jobs_hold", 4.0);
    check("slurm_jobs_running", 1.0);
    check("slurm_jobs_failed", 1.0);
    check("slurm_jobs_finished", 1.0);
    check("slurm_jobs_cpus_alloc", 4.0);
    check("slurm_jobs_nodes_alloc", 2.0);
    check("slurm_nodes", 2.0);
    check("slurm_nodes_mixed", 2.0);
    check("slurm_nodes_draining", 1.0);
    check("slurm_cpus_total", 32.0);
    check("slurm_cpus_other", 14.0);
    check("slurm_gpus_alloc", 2.0);
    check("slurm_partition_cpus{partition=\"main\"}", 32.0);
    check("slurm_partition_jobs_min_job_nodes{partition=\"main\"}", 2.0);
    check("slurm_partition_jobs_min_job_nodes_nohold{partition=\"main\"}", 0.0);
    check("slurm_node_cpus_alloc{node=\"n1\"}", 2.0);
    check("slurm_node_cpu_alloc{node=\"n2\",status=\"draining\"}", 2.0);
    check("slurm_user_jobs_running{username=\"ann\",user=\"ann\"}", 1.0);
    check("slurm_account_cpus_pending{account=\"physics\"}", 16.0);
    check("cosy_waiting_jobs{reason=\"held_by_user\"}", 4.0);
    check("cosy_promises_kept", 1.0);
    check("cosy_predictions_total{queue=\"main\",outcome=\"missed\"}", 13.0);
    check("cosy_reservations{state=\"active\"}", 1.0);
    check("cosy_turn_seconds_count{kind=\"submit\"}", 5.0);
    check("cosy_turn_seconds_bucket{kind=\"submit\",le=\"+Inf\"}", 5.0);
    check("cosy_account_available_su{account=\"phy\\\"sics\\\\\"}", 1.5);
    check("cosy_controller_leads{controller=\"a\"}", 1.0);
    check("cosy_license_total{license=\"matlab\"}", 10.0);
}

#[test]
fn what_is_refused_is_left_out_or_said() {
    let refusal = || Refusal::new(RefusalCode::Unavailable, "no");
    let mut scrape = Scrape::new(EVERYTHING, Time(0));
    while let Some(request) = scrape.ask() {
        scrape.take(match &request {
            Request::Accounts { .. } | Request::Controllers | Request::Meter => Err(refusal()),
            other => Ok(answer(other)),
        });
    }
    assert!(!scrape.text().unwrap().contains("cosy_account_"));
    let mut scrape = Scrape::new(EVERYTHING, Time(0));
    while scrape.ask().is_some() {
        scrape.take(Err(refusal()));
    }
    assert_eq!(scrape.text(), Err(refusal()));
}

/// Whoever looks at a node for each queue, or at a job for each user, needs minutes for this.
#[test]
fn large_clusters() {
    let mut figures = Figures::default();
    for at in 0..10_000 {
        figures.nodes.push(NodeInfo {
            name: format!("n{at}"),
            state: "idle".into(),
            queues: vec![format!("q{}", at % 100), "all".into()],
            ..NodeInfo::default()
        });
    }
    for at in 0..100 {
        let mut queue = QueueInfo::default();
        queue.spec.name = format!("q{at}");
        figures.queues.push(queue);
    }
    let page = table(FIELDS, &vec![jobs()[0].clone(); 1000]);
    for user in 0..100 {
        let mut page = page.clone();
        for (field, column) in FIELDS.iter().zip(&mut page.columns) {
            if let (cosy_model::api::JobField::User, cosy_model::api::Column::Texts(names)) =
                (field, column)
            {
                names
                    .iter_mut()
                    .enumerate()
                    .for_each(|(at, name)| *name = format!("u{}", (user * 1000 + at) % 5000));
            }
        }
        figures.jobs.add(&page);
    }
    let begin = std::time::Instant::now();
    let text = render(EVERYTHING, &figures);
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
    let read = read(&text);
    assert_eq!(read.series["slurm_jobs_running"], 100_000.0);
    assert_eq!(read.series["slurm_partition_nodes{partition=\"q7\"}"], 100.0);
}

/// The reader of Prometheus' own library for Python, where it is installed.
#[test]
fn prometheus_reads_it() {
    let program = "import sys\nfrom prometheus_client.parser import text_string_to_metric_families as read\n\
                   print(len(list(read(sys.stdin.read()))))";
    let child = Command::new("python3")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!("skipped: there is no python3");
        return;
    };
    let text = scrape(EVERYTHING);
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No module named") {
        println!("skipped: python3 has no prometheus_client");
        return;
    }
    assert!(output.status.success(), "{said}");
    let families: usize = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .unwrap();
    assert_eq!(families, read(&text).families.len());
}

const DASHBOARD: &str = include_str!("../../../../etc/grafana-cosy.json");

/// Every name in a dashboard's expressions is told.
#[test]
fn the_dashboard_uses_names_that_exist() {
    let board: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    let known = read(&scrape(EVERYTHING));
    let plain = read(&scrape(Families::All {
        users: false,
        nodes: false,
    }));
    let mut expressions = Vec::new();
    collect(&board, &mut expressions);
    assert!(expressions.len() > 20);
    for expression in expressions {
        let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let names = words.filter(|word| word.starts_with("cosy_") || word.starts_with("slurm_"));
        let names: Vec<&str> = names.collect();
        assert!(!names.is_empty(), "{expression}");
        for name in names {
            let parts = ["_bucket", "_sum", "_count"];
            let family = parts
                .iter()
                .find_map(|part| name.strip_suffix(part))
                .unwrap_or(name);
            let is = |read: &Read| {
                read.families.contains_key(name) || read.families.contains_key(family)
            };
            assert!(is(&known) && is(&plain), "{name} in {expression}");
        }
    }
}

fn collect(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(entries) => {
            for (name, value) in entries {
                match value.as_str() {
                    Some(text) if name == "expr" => found.push(text.to_owned()),
                    _ => collect(value, found),
                }
            }
        }
        serde_json::Value::Array(all) => all.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

const GUIDE: &str = include_str!("../../../../docs/metrics.md");

/// The guide has a line for each of Cosy's own names, and for no others.
#[test]
fn the_guide_has_every_name() {
    let told = read(&scrape(EVERYTHING)).families.into_keys();
    let told: BTreeSet<String> = told.filter(|name| name.starts_with("cosy_")).collect();
    let lines = GUIDE
        .lines()
        .filter_map(|line| line.strip_prefix("| `cosy_")?.split(['`', '{']).next());
    let listed: BTreeSet<String> = lines.map(|name| format!("cosy_{name}")).collect();
    assert_eq!(listed, told);
}
