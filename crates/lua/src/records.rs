//! What a script is shown: the request, of a change the job as it is, and the partitions.

use crate::constants::{INFINITE, MAIL, NICE_OFFSET, NO_VAL, NO_VAL16, SHARED_NONE, SHARED_OK};
use crate::description::{Description, Slot};
use cosy_model::policy::UserAccounts;
use cosy_rules::protocol::{Question, QueueRow};
use serde_json::{Map, Value as Json};

/// The fields that are shown: of a change those that it asks for.
struct Fields<'a> {
    all: &'a Map<String, Json>,
    asked: Option<&'a [String]>,
}

impl Fields<'_> {
    fn get(&self, name: &str) -> Option<&Json> {
        let hidden = |asked: &[String]| !asked.iter().any(|field| field == name);
        if self.asked.is_some_and(hidden) {
            return None;
        }
        self.all.get(name)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(Json::as_i64)
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).and_then(Json::as_bool)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(Json::as_str).map(str::to_owned)
    }

    fn list(&self, name: &str) -> Vec<String> {
        let all = self.get(name).and_then(Json::as_array);
        let texts = all.into_iter().flatten().filter_map(Json::as_str);
        texts.map(str::to_owned).collect()
    }

    /// Minutes, begun ones whole.
    fn minutes(&self, name: &str) -> i64 {
        match self.get(name) {
            Some(Json::String(_)) => INFINITE,
            Some(value) => value.as_i64().map_or(NO_VAL, minutes),
            None => NO_VAL,
        }
    }
}

fn minutes(secs: i64) -> i64 {
    secs.div_euclid(60) + i64::from(secs.rem_euclid(60) > 0)
}

/// Numbers that Cosy does not have, with what they are where nothing was asked for.
const NOT_SET: [(&str, i64); 23] = [
    ("bitflags", 0),
    ("boards_per_node", NO_VAL16),
    ("contiguous", NO_VAL16),
    ("cores_per_socket", NO_VAL16),
    ("cpu_freq_gov", NO_VAL),
    ("cpu_freq_max", NO_VAL),
    ("cpu_freq_min", NO_VAL),
    ("delay_boot", NO_VAL),
    ("immediate", 0),
    ("max_cpus", NO_VAL),
    ("ntasks_per_board", NO_VAL16),
    ("ntasks_per_core", NO_VAL16),
    ("ntasks_per_socket", NO_VAL16),
    ("ntasks_per_tres", NO_VAL16),
    ("pn_min_cpus", NO_VAL16),
    ("reboot", NO_VAL16),
    ("req_switch", NO_VAL),
    ("sockets_per_board", NO_VAL16),
    ("sockets_per_node", NO_VAL16),
    ("spank_job_env_size", 0),
    ("threads_per_core", NO_VAL16),
    ("wait4switch", NO_VAL),
    ("het_job_offset", NO_VAL),
];

/// `job_desc`, as the question has it.
pub fn job_desc(question: &Question) -> Description {
    let fields = Fields {
        all: &question.fields,
        asked: question.asked.as_deref(),
    };
    let mut description = described(&fields);
    let whole = Fields {
        asked: None,
        ..fields
    };
    requester(&whole, &mut description);
    let components = whole.number("components").unwrap_or(1);
    if components > 1 {
        let number = whole.number("component").unwrap_or(0);
        description.put("het_job_offset", Some(Slot::Number(number)));
    }
    description.put("script", script(question, &whole).map(Slot::Text));
    description.put("cosy_request", whole.text("request").map(Slot::Text));
    description
}

/// The text of the script. A batch job that is a command has one that runs it: scripts take jobs
/// without one for interactive ones.
fn script(question: &Question, fields: &Fields<'_>) -> Option<String> {
    let arguments = fields.list("arguments");
    let is_command = fields.flag("script") == Some(false)
        && fields.flag("interactive") == Some(false)
        && question.asked.is_none()
        && !arguments.is_empty();
    let quoted = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
    let command = || {
        let words: Vec<String> = arguments.iter().map(quoted).collect();
        format!("#!/bin/sh\nexec {}\n", words.join(" "))
    };
    question.script.clone().or(is_command.then(command))
}

/// The job of a change as it is.
pub fn job_record(question: &Question) -> Description {
    let none = Map::new();
    let fields = Fields {
        all: question.old.as_ref().unwrap_or(&none),
        asked: None,
    };
    let mut record = described(&fields);
    requester(&fields, &mut record);
    let number = fields.text("job").unwrap_or_default();
    let mut ids = number.split('_').map(|part| part.parse().ok());
    let id = ids.next().flatten();
    record.put("job_id", id.map(Slot::Number));
    record.put("array_task_id", ids.next().flatten().map(Slot::Number));
    record
}

fn requester(fields: &Fields<'_>, description: &mut Description) {
    description.put("user_name", fields.text("user").map(Slot::Text));
    description.put("user_id", fields.number("uid").map(Slot::Number));
    description.put("group_id", fields.number("gid").map(Slot::Number));
}

fn described(fields: &Fields<'_>) -> Description {
    let mut description = Description::default();
    for (name, unset) in NOT_SET {
        description.put(name, Some(Slot::Number(unset)));
    }
    texts(fields, &mut description);
    places(fields, &mut description);
    amounts(fields, &mut description);
    course(fields, &mut description);
    description
}

fn texts(fields: &Fields<'_>, description: &mut Description) {
    let same = [
        ("account", "account"),
        ("admin_comment", "admin_comment"),
        ("alloc_node", "submit_host"),
        ("array_inx", "array_indices"),
        ("comment", "comment"),
        ("dependency", "dependency"),
        ("mail_user", "mail_user"),
        ("name", "name"),
        ("qos", "qos"),
        ("std_err", "stderr"),
        ("std_in", "stdin"),
        ("std_out", "stdout"),
        ("wckey", "wckey"),
        ("work_dir", "working_directory"),
    ];
    for (name, field) in same {
        description.put(name, fields.text(field).map(Slot::Text));
    }
    let reservation = fields.number("reservation");
    let reservation = reservation.map(|number| Slot::Text(number.to_string()));
    description.put("reservation", reservation);
    let arguments = fields.list("arguments");
    let count = i64::try_from(arguments.len()).unwrap_or(i64::MAX);
    description.put("argc", Some(Slot::Number(count)));
    let arguments = Some(arguments).filter(|all| !all.is_empty());
    description.put("argv", arguments.map(Slot::List));
}

fn places(fields: &Fields<'_>, description: &mut Description) {
    let joined = |list: Vec<String>, between: &str| {
        let text = list.join(between);
        Some(Slot::Text(text)).filter(|_| !list.is_empty())
    };
    let queues = joined(fields.list("queues"), ",");
    let queue = fields.text("queue").filter(|name| !name.is_empty());
    description.put("partition", queues.or(queue.map(Slot::Text)));
    let folded = |name| {
        let all = fields.list(name);
        let text = cosy_model::fold(&all);
        Some(Slot::Text(text)).filter(|_| !all.is_empty())
    };
    description.put("exc_nodes", folded("avoid_nodes"));
    description.put("req_nodes", folded("require_nodes"));
    description.put("licenses", joined(fields.list("licenses"), ","));
    let mut features = fields.list("features");
    let any = fields.list("any_features").join("|");
    let same = fields.list("same_features").join("|");
    let counted = fields.list("counted_features");
    match (any.is_empty(), features.is_empty() && same.is_empty()) {
        (true, _) => {}
        (false, true) => features.push(any),
        (false, false) => features.push(format!("({any})")),
    }
    if !same.is_empty() {
        features.push(format!("[{same}]"));
    }
    match counted.len() {
        0 | 1 => features.extend(counted),
        _ => features.push(format!("[{}]", counted.join("&"))),
    }
    description.put("features", joined(features, "&"));
}

fn amounts(fields: &Fields<'_>, description: &mut Description) {
    let mut put = |name: &str, number: i64| description.put(name, Some(Slot::Number(number)));
    let nodes = fields.number("nodes");
    put("min_nodes", nodes.unwrap_or(NO_VAL));
    put("max_nodes", fields.number("max_nodes").or(nodes).unwrap_or(NO_VAL));
    put("num_tasks", fields.number("tasks").unwrap_or(NO_VAL));
    put("ntasks_per_node", fields.number("tasks_per_node").unwrap_or(NO_VAL16));
    let cores = fields.number("cores_per_task");
    let given = cores.filter(|n| fields.asked.is_some() || *n != 1);
    put("cpus_per_task", given.unwrap_or(NO_VAL16));
    put("min_cpus", fields.number("cores").unwrap_or(NO_VAL));
    put("pn_min_tmp_disk", fields.number("disk_per_node").unwrap_or(NO_VAL));
    for (name, field) in [
        ("min_mem_per_node", "memory_per_node"),
        ("min_mem_per_cpu", "memory_per_core"),
    ] {
        description.put(name, fields.number(field).map(Slot::Number));
    }
    let written = ["tres_per_job", "tres_per_socket", "tres_per_task"];
    for name in written {
        description.put(name, fields.text(name).map(Slot::Text));
    }
    if written.iter().any(|name| fields.text(name).is_some()) {
        // GPUs of nodes follow from those of the job, of sockets or of tasks, and are none that were
        // asked for.
        let text = fields.text("tres_per_node").map(Slot::Text);
        return description.put("tres_per_node", text);
    }
    let typed = fields.list("gpu_types").into_iter();
    let mut resources: Vec<String> = typed.map(|kind| format!("gres/gpu:{kind}")).collect();
    let gpus = fields.number("gpus_per_node").unwrap_or(0);
    if resources.is_empty()
        && (gpus > 0
            || fields
                .asked
                .is_some_and(|_| fields.number("gpus_per_node").is_some()))
    {
        resources.push(format!("gres/gpu:{gpus}"));
    }
    let others = fields.list("resources").into_iter();
    resources.extend(others.map(|resource| format!("gres/{resource}")));
    let text = Some(resources.join(",")).filter(|text| !text.is_empty());
    description.put("tres_per_node", text.map(Slot::Text));
}

fn course(fields: &Fields<'_>, description: &mut Description) {
    let mut put = |name: &str, number: i64| description.put(name, Some(Slot::Number(number)));
    put("time_limit", fields.minutes("time_limit"));
    put("time_min", fields.minutes("time_min"));
    put("begin_time", fields.number("begin").unwrap_or(0));
    put("end_time", fields.number("deadline").unwrap_or(0));
    let nice = fields.number("nice").filter(|nice| *nice != 0);
    put("nice", nice.map_or(NO_VAL, |nice| NICE_OFFSET + nice));
    let site = fields.number("site_factor").filter(|points| *points != 0);
    put("site_factor", site.map_or(NO_VAL, |points| NICE_OFFSET.saturating_add(points)));
    let held = fields.flag("hold") == Some(true);
    let priority = if held {
        Some(0)
    } else {
        fields.number("priority")
    };
    put("priority", priority.unwrap_or(NO_VAL));
    put("requeue", fields.flag("requeue").map_or(NO_VAL16, i64::from));
    put(
        "shared",
        match fields.flag("exclusive") {
            Some(true) => SHARED_NONE,
            Some(false) if fields.asked.is_some() => SHARED_OK,
            Some(false) | None => NO_VAL16,
        },
    );
    let types = fields.list("mail_types");
    let asked = MAIL
        .iter()
        .filter(|(_, word)| types.iter().any(|t| t == word));
    put("mail_type", asked.fold(0, |bits, (bit, _)| bits | bit));
}

/// What the policy says of the account and the partition that a script finds in `job_desc` now.
pub fn of_policy(question: &Question, description: &Description, name: &str) -> Option<Slot> {
    let accounts = question.accounts.as_ref()?;
    let own = || {
        let target = question.fields.get("target_queue").and_then(Json::as_str);
        let queue = description.text("partition").or(target);
        accounts.of(description.text("account"), queue)
    };
    let text = match name {
        "default_account" => accounts.default_account.clone(),
        "default_qos" => own().and_then(|own| own.default_qos.clone()),
        "assoc_qos" => own().map(|own| own.qos.join(",")),
        "assoc_comment" => own().map(|own| own.comment.clone()),
        _ => None,
    };
    text.filter(|text| !text.is_empty()).map(Slot::Text)
}

/// Names that are not there for a partition whose lists are left out: what is nil would be read as
/// "everybody may".
pub const LEFT_OUT: [&str; 4] = ["allow_accounts", "deny_accounts", "allow_qos", "deny_qos"];

/// The priority of a quality of service; none of one that is not there.
///
/// # Errors
/// Nothing is told while the script is loaded, or not of as many as there are.
pub fn qos_priority(accounts: Option<&UserAccounts>, name: &str) -> Result<Option<u32>, String> {
    let accounts =
        accounts.ok_or("priorities are known for a request, not while the script is loaded")?;
    let told = accounts.qos_priorities.get(name).copied();
    if told.is_none() && accounts.priorities_left_out {
        let all = accounts.qos_priorities.len();
        return Err(format!(
            "'{name}' is not among the {all} qualities of service whose priorities are known here, and there are more"
        ));
    }
    Ok(told)
}

/// A partition by the names that scripts know.
pub fn partition(row: &QueueRow) -> Vec<(&'static str, Slot)> {
    let limit = |secs: Option<i64>, unset| secs.map_or(unset, minutes);
    let number = |n: Option<u32>, unset| n.map_or(unset, i64::from);
    let state = match row.state.as_str() {
        "open" => 3,
        "drained" => 2,
        "stopped" => 1,
        _ => 0,
    };
    let mut all = vec![
        ("name", Slot::Text(row.name.clone())),
        ("flag_default", Slot::Number(row.default.into())),
        ("max_time", Slot::Number(limit(row.max_time, INFINITE))),
        ("default_time", Slot::Number(limit(row.default_time, NO_VAL))),
        ("max_nodes", Slot::Number(number(row.max_nodes, INFINITE))),
        ("max_nodes_orig", Slot::Number(number(row.max_nodes, INFINITE))),
        ("min_nodes", Slot::Number(0)),
        ("min_nodes_orig", Slot::Number(0)),
        ("max_cpus_per_node", Slot::Number(INFINITE)),
        ("total_nodes", Slot::Number(row.nodes.into())),
        ("state_up", Slot::Number(state)),
        ("priority", Slot::Number(row.priority.into())),
        ("priority_tier", Slot::Number(row.priority.into())),
        ("priority_job_factor", Slot::Number(row.priority.into())),
        ("max_share", Slot::Number((!row.exclusive).into())),
        ("max_oversubscribe", Slot::Number((!row.exclusive).into())),
    ];
    if !row.node_list.is_empty() {
        all.push(("nodes", Slot::Text(row.node_list.clone())));
    }
    let listed = |list: &[String]| Slot::Text(list.join(","));
    let allowed = [
        ("allow_accounts", &row.allow_accounts),
        ("allow_groups", &row.groups),
        ("allow_qos", &row.allow_qos),
    ];
    for (name, list) in allowed {
        all.extend(list.as_deref().map(|list| (name, listed(list))));
    }
    for (name, list) in [
        ("deny_accounts", &row.deny_accounts),
        ("deny_qos", &row.deny_qos),
    ] {
        all.extend((!list.is_empty()).then(|| (name, listed(list))));
    }
    all.extend(row.qos.clone().map(|qos| ("qos", Slot::Text(qos))));
    let sizes = [
        ("max_mem_per_node", row.max_memory),
        ("def_mem_per_cpu", row.default_memory_per_core),
    ];
    for (name, mib) in sizes {
        let mib = mib.and_then(|mib| i64::try_from(mib).ok());
        all.extend(mib.map(|mib| (name, Slot::Number(mib))));
    }
    all
}
