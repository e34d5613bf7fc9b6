//! What the interface tells is what `scontrol show` tells.

use crate::answers::{get, jobs, nodes, queue, reservation, table};
use cosy_model::api::JobField;
use cosy_slurm::job::{ClusterFacts, JobView};
use cosy_slurm::show::{job, node, partition, reservation as slot};
use jiff::tz::TimeZone;
use serde_json::Value;
use std::collections::BTreeMap;

/// The words `Name=value` of a record.
fn words(text: &str) -> BTreeMap<String, String> {
    let pairs = text
        .split_whitespace()
        .filter_map(|word| word.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// A value as `scontrol` writes it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "(null)".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all
            .iter()
            .map(|v| v.as_str().unwrap())
            .collect::<Vec<_>>()
            .join("+"),
        Value::Object(o) if o["infinite"] == true => "UNLIMITED".to_owned(),
        Value::Object(o) => o["number"].to_string(),
        Value::Bool(flag) => u8::from(*flag).to_string(),
        other => other.to_string(),
    }
}

fn check(record: &BTreeMap<String, String>, value: &Value, pairs: &[(&str, &str)]) {
    for (word, pointer) in pairs {
        let told = value
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{pointer}"));
        assert_eq!(Some(&shown(told)), record.get(*word), "{word} and {pointer}");
    }
}

#[test]
fn of_jobs() {
    let rows = jobs();
    let table = table(JobField::ALL, &rows);
    let around = ClusterFacts {
        default_memory: [("main".to_owned(), cosy_model::MiB(100))].into(),
        reservations: [(1, "course".to_owned())].into(),
        ..ClusterFacts::default()
    };
    let (_, value, _) = get("slurm/v0.0.44/jobs", "");
    for row in 0..rows.len() {
        let options = job::ShowOptions {
            zone: &TimeZone::UTC,
            details: false,
        };
        let sheet = job::sheet(&JobView::new(&table, row, &around), options);
        let record = words(&sheet.text(true));
        let told = &value["jobs"][row];
        check(
            &record,
            told,
            &[
                ("JobId", "/job_id"),
                ("JobState", "/job_state"),
                ("Reason", "/state_reason"),
                ("Partition", "/partition"),
                ("Account", "/account"),
                ("Priority", "/priority"),
                ("Restarts", "/restart_cnt"),
                ("Requeue", "/requeue"),
                ("BatchFlag", "/batch_flag"),
                ("NumCPUs", "/cpus"),
                ("NumTasks", "/tasks"),
                ("CPUs/Task", "/cpus_per_task"),
                ("Dependency", "/dependency"),
                ("WorkDir", "/current_working_directory"),
                ("Licenses", "/licenses"),
            ],
        );
        let held = record["TRES"].clone();
        let tres = [&told["tres_alloc_str"], &told["tres_req_str"]].map(shown);
        assert!(tres.contains(&held), "{held} is none of {tres:?}");
        let exit = format!(
            "{}:{}",
            told["exit_code"]["return_code"]["number"], told["exit_code"]["signal"]["id"]["number"]
        );
        assert_eq!(record["ExitCode"], exit);
        let unlimited = told["time_limit"]["infinite"] == true;
        assert_eq!(record["TimeLimit"] == "UNLIMITED", unlimited);
    }
    let running = &value["jobs"][0];
    assert_eq!(running["stdout_expanded"], "out-12-say \"hi\".txt");
    assert_eq!(running["time_limit"]["number"], 60);
    assert_eq!(running["resv_name"], "course");
    assert_eq!(running["group_name"], "users");
    assert_eq!(running["job_resources"]["nodes"]["allocation"][1]["name"], "n2");
    assert_eq!(running["end_time"]["number"], 1_795_222_900);
    assert_eq!(running["gres_detail"], serde_json::json!(["gpu:1(IDX:0)"]));
    let waiting = &value["jobs"][1];
    assert_eq!((&waiting["hold"], &waiting["array_task_string"]), (&true.into(), &"1-4%2".into()));
    assert_eq!(waiting["array_job_id"]["number"], 13);
    assert_eq!(waiting["array_task_id"]["set"], false);
}

#[test]
fn of_nodes_and_partitions() {
    let (_, value, _) = get("slurm/v0.0.43/nodes", "");
    for (at, own) in nodes().iter().enumerate() {
        let record = words(&node::sheet(own, &TimeZone::UTC, "25.05.0").text(true));
        let told = &value["nodes"][at];
        check(
            &record,
            told,
            &[
                ("NodeName", "/name"),
                ("State", "/state"),
                ("CPUTot", "/cpus"),
                ("CPUAlloc", "/alloc_cpus"),
                ("RealMemory", "/real_memory"),
                ("AllocMem", "/alloc_memory"),
                ("Gres", "/gres"),
                ("Version", "/version"),
                ("Sockets", "/sockets"),
                ("CoresPerSocket", "/cores"),
                ("ThreadsPerCore", "/threads"),
                ("AvailableFeatures", "/features"),
            ],
        );
    }
    assert_eq!(value["nodes"][0]["reservation"], "course");
    assert_eq!(value["nodes"][1]["reason_set_by_user"], "root");
    let record = words(&partition::sheet(&queue(), &nodes(), None).text(true));
    let (_, value, _) = get("slurm/v0.0.42/partitions", "");
    check(
        &record,
        &value["partitions"][0],
        &[
            ("PartitionName", "/name"),
            ("State", "/partition/state"),
            ("TotalCPUs", "/cpus/total"),
            ("TotalNodes", "/nodes/total"),
            ("Nodes", "/nodes/configured"),
            ("PriorityTier", "/priority/tier"),
            ("TRES", "/tres/configured"),
            ("MaxNodes", "/maximums/nodes"),
            ("DefMemPerCPU", "/defaults/partition_memory_per_cpu"),
            ("GraceTime", "/grace_time"),
        ],
    );
    assert_eq!(value["partitions"][0]["maximums"]["time"]["number"], 600);
}

#[test]
fn of_reservations() {
    let record = words(&slot::sheet(&reservation(), &TimeZone::UTC).text(true));
    let (_, value, _) = get("slurm/v0.0.44/reservations", "");
    let told = &value["reservations"][0];
    check(
        &record,
        told,
        &[
            ("ReservationName", "/name"),
            ("NodeCnt", "/node_count"),
            ("CoreCnt", "/core_count"),
            ("Nodes", "/node_list"),
            ("Users", "/users"),
            ("PartitionName", "/partition"),
            ("TRES", "/tres"),
        ],
    );
    let flags: Vec<&str> = record["Flags"]
        .split(',')
        .filter(|flag| *flag != "FIRST_CORES")
        .collect();
    let own: Vec<&str> = told["flags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f.as_str().unwrap())
        .collect();
    assert_eq!(own, flags);
}

#[test]
fn of_the_accounting() {
    let (_, value, _) = get("slurmdb/v0.0.44/jobs", "start_time=1795219200&users=ann");
    let ids: Vec<i64> = value["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|j| j["job_id"].as_i64().unwrap())
        .collect();
    assert_eq!(ids, [10, 11, 12, 13]);
    let (cancelled, failed) = (&value["jobs"][0], &value["jobs"][1]);
    assert_eq!(cancelled["kill_request_user"], "bob");
    assert_eq!(cancelled["state"]["current"][0], "CANCELLED");
    assert_eq!(failed["exit_code"]["return_code"]["number"], 3);
    assert_eq!(failed["exit_code"]["status"][0], "ERROR");
    assert_eq!(failed["time"]["planned"]["number"], 10);
    let steps: Vec<&str> = failed["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["step"]["id"].as_str().unwrap())
        .collect();
    assert_eq!(steps, ["11.batch", "11.0"]);
    // What `sacct --state` leaves out is left out here.
    let (_, value, _) = get("slurmdb/v0.0.44/jobs", "state=FAILED&skip_steps=true");
    assert_eq!(value["jobs"].as_array().unwrap().len(), 1);
    assert!(value["jobs"][0]["steps"].as_array().unwrap().is_empty());
    assert_eq!(get("slurmdb/v0.0.44/jobs", "state=NOSUCH").0, 400);
    assert_eq!(get("slurmdb/v0.0.44/jobs", "association=5").0, 500);
    let (_, value, _) = get("slurmdb/v0.0.44/associations", "");
    let lines: Vec<&str> = value["associations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["lineage"].as_str().unwrap())
        .collect();
    assert_eq!(lines, ["/", "/physics/", "/physics/0-ann/"]);
    assert_eq!(value["associations"][1]["max"]["jobs"]["active"]["number"], 7);
    assert_eq!(value["associations"][1]["max"]["jobs"]["per"]["count"]["infinite"], true);
    assert_eq!(value["associations"][1]["max"]["tres"]["total"][0]["count"], 64);
}
