//! Scripts as sites have them, and as nobody should.

use super::*;
use serde_json::{Map, Value as Json, json};

/// A script with that body of `slurm_job_submit`.
fn submitting(body: &str) -> String {
    format!(
        "function slurm_job_submit(job_desc, part_list, submit_uid)\n{body}\nend\n\
         function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)\n{body}\nend\n"
    )
}

fn load(text: &str) -> (Machine, Answer) {
    Machine::load(Load {
        path: "/etc/cosy/job_submit.lua".into(),
        text: text.into(),
        memory: 128 << 20,
    })
}

fn fields(value: Json) -> Map<String, Json> {
    match value {
        Json::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn question(more: Json) -> Question {
    let mut all = fields(json!({
        "request": "submit", "user": "ann", "uid": 1000, "gid": 100, "name": "job.sh", "cores_per_task": 1,
        "gpus_per_node": 0, "nice": 0, "hold": false, "requeue": true, "exclusive": false, "cores": 1,
        "components": 1, "component": 0, "arguments": ["/home/ann/job.sh", "a", "b"],
    }));
    all.extend(fields(more));
    let queue = |name: &str, default, max_time| QueueRow {
        name: name.into(),
        default,
        max_time,
        state: "open".into(),
        priority: if default { 1 } else { 5 },
        ..QueueRow::default()
    };
    Question {
        fields: all,
        queues: Some(vec![queue("day", true, Some(86_400)), queue("gpu", false, None)]),
        script: Some("#!/bin/sh\nhostname\n".into()),
        environment: Some([("LAB".into(), "x".into())].into()),
        ..Question::default()
    }
}

fn judged(body: &str, more: Json) -> Answer {
    let (machine, answer) = load(&submitting(body));
    assert_eq!(answer.failed, None, "{body}");
    machine.judge(question(more))
}

/// What the script wants with `body`, in JSON.
fn set(body: &str, more: Json) -> Json {
    let answer = judged(body, more);
    assert_eq!((&answer.failed, &answer.refuse), (&None, &None), "{body}");
    Json::Object(answer.set)
}

/// What is logged of an expression.
fn shown(expression: &str, more: Json) -> String {
    let body = format!("slurm.log_info('%s', tostring({expression})) return slurm.SUCCESS");
    let answer = judged(&body, more);
    assert_eq!(answer.failed, None, "{expression}");
    answer.log.into_iter().map(|line| line.text).collect()
}

#[test]
fn what_was_not_asked_for() {
    let check = |expression: &str, want: &str| {
        assert_eq!(shown(expression, json!({})), want, "{expression}");
    };
    for name in [
        "account",
        "partition",
        "qos",
        "features",
        "gres",
        "tres_per_node",
        "licenses",
        "tres_per_job",
        "tres_per_socket",
        "tres_per_task",
        "default_account",
        "default_qos",
        "assoc_qos",
        "assoc_comment",
    ] {
        check(&format!("job_desc.{name}"), "nil");
    }
    for name in [
        "min_mem_per_node",
        "min_mem_per_cpu",
        "spank_job_env",
        "core_spec",
        "nonsense",
    ] {
        check(&format!("job_desc.{name}"), "nil");
    }
    for name in [
        "time_limit",
        "min_nodes",
        "max_nodes",
        "num_tasks",
        "priority",
        "nice",
        "site_factor",
    ] {
        check(&format!("job_desc.{name} == slurm.NO_VAL"), "true");
    }
    for name in [
        "cpus_per_task",
        "ntasks_per_node",
        "shared",
        "threads_per_core",
        "contiguous",
    ] {
        check(&format!("job_desc.{name} == slurm.NO_VAL16"), "true");
    }
    check("job_desc.pn_min_memory == slurm.NO_VAL64", "true");
    check("job_desc.time_limit == 4294967294", "true");
    check("job_desc.begin_time", "0");
    check("job_desc.script", "#!/bin/sh\nhostname\n");
    check("job_desc.argc", "3");
    check("job_desc.argv[0] .. job_desc.argv[2]", "/home/ann/job.shb");
    check("job_desc.environment.LAB", "x");
    check("job_desc.environment['NONE']", "nil");
    check("submit_uid", "1000");
    check("job_desc.user_name", "ann");
    check("job_desc.cosy_request", "submit");
}

#[test]
fn what_was_asked_for() {
    let check = |expression: &str, more: Json, want: &str| {
        assert_eq!(shown(expression, more), want, "{expression}");
    };
    check("job_desc.time_limit", json!({"time_limit": 3601}), "61");
    check("job_desc.time_limit == slurm.INFINITE", json!({"time_limit": "unlimited"}), "true");
    check("job_desc.partition", json!({"queue": "a", "queues": ["a", "b"]}), "a,b");
    check("job_desc.gres", json!({"gpus_per_node": 2}), "gres/gpu:2");
    let typed = json!({"gpus_per_node": 2, "gpu_types": ["a100:2"], "resources": ["fpga:1"]});
    check("job_desc.tres_per_node", typed, "gres/gpu:a100:2,gres/fpga:1");
    check("job_desc.min_mem_per_node", json!({"memory_per_node": 4000}), "4000");
    check("job_desc.pn_min_memory", json!({"memory_per_node": 4000}), "4000");
    check("job_desc.pn_min_memory >= slurm.MEM_PER_CPU", json!({"memory_per_core": 4000}), "true");
    check("job_desc.max_nodes", json!({"nodes": 2}), "2");
    check("job_desc.nice - slurm.NICE_OFFSET", json!({"nice": -5}), "-5");
    check("job_desc.priority", json!({"hold": true}), "0");
    check("job_desc.site_factor - slurm.NICE_OFFSET", json!({"site_factor": -7}), "-7");
    check("job_desc.min_mem_per_node", json!({"memory_per_node": 0}), "0");
    check("job_desc.pn_min_memory", json!({"memory_per_node": 0}), "0");
    check("job_desc.shared", json!({"exclusive": true}), "0");
    check("job_desc.mail_type", json!({"mail_types": ["begin", "80"]}), "65");
    check("job_desc.exc_nodes", json!({"avoid_nodes": ["n1", "n2"]}), "n[1-2]");
    let features = json!({"features": ["x"], "any_features": ["a", "b&c"], "same_features": ["r"]});
    check("job_desc.features", features, "x&(a|b&c)&[r]");
    check("job_desc.het_job_offset", json!({"components": 2, "component": 1}), "1");
    check("job_desc.licenses", json!({"licenses": ["m:2"]}), "m:2");
}

#[test]
fn what_scripts_set() {
    let check = |body: &str, more: Json, want: Json| {
        assert_eq!(set(&format!("{body} return slurm.SUCCESS"), more), want, "{body}");
    };
    check("job_desc.partition = 'gpu'", json!({}), json!({"queue": "gpu"}));
    check("job_desc.partition = 'a,b'", json!({}), json!({"queues": ["a", "b"]}));
    check("job_desc.partition = ''", json!({"queue": "day"}), json!({"queue": null}));
    check("job_desc.time_limit = 240", json!({}), json!({"time_limit": 14_400}));
    check("job_desc.time_limit = 10 / 3", json!({}), json!({"time_limit": 180}));
    check("job_desc.time_limit = '7'", json!({}), json!({"time_limit": 420}));
    check("job_desc.time_limit = slurm.INFINITE", json!({}), json!({"time_limit": "unlimited"}));
    check(
        "job_desc.time_limit = slurm.NO_VAL",
        json!({"time_limit": 60}),
        json!({"time_limit": null}),
    );
    check("job_desc.time_limit = 2", json!({"time_limit": 90}), json!({}));
    check(
        "job_desc.min_nodes = 1 job_desc.max_nodes = 1",
        json!({}),
        json!({"nodes": 1, "max_nodes": null}),
    );
    check("job_desc.max_nodes = 4", json!({"nodes": 2}), json!({"nodes": 2, "max_nodes": 4}));
    check("job_desc.account = 5", json!({}), json!({"account": "5"}));
    check("job_desc.nice = slurm.NICE_OFFSET + 10", json!({}), json!({"nice": 10}));
    check("job_desc.priority = 0", json!({}), json!({"hold": true}));
    check("job_desc.site_factor = slurm.NICE_OFFSET + 5", json!({}), json!({"site_factor": 5}));
    check("job_desc.site_factor = slurm.NICE_OFFSET - 5", json!({}), json!({"site_factor": -5}));
    check("job_desc.site_factor = 0", json!({}), json!({"site_factor": -2_147_483_648_i64}));
    check("job_desc.min_mem_per_node = 0", json!({}), json!({"memory_per_node": 0}));
    check(
        "job_desc.tres_per_task = 'gres/gpu:2'",
        json!({"nodes": 2, "tasks": 6}),
        json!({
            "nodes": 2, "tasks_per_node": 3, "gpus_per_node": 6, "gpu_types": []
        }),
    );
    let asked = json!({"gpus_per_node": 4, "tres_per_job": "gres/gpu:4"});
    check(
        "job_desc.tres_per_job = ''",
        asked,
        json!({
            "gpus_per_node": 0, "gpu_types": [], "resources": []
        }),
    );
    check("job_desc.shared = 0", json!({}), json!({"exclusive": true}));
    check(
        "job_desc.features = 'a&b'",
        json!({}),
        json!({
            "features": ["a", "b"], "any_features": [], "same_features": []
        }),
    );
    check(
        "job_desc.gres = 'gpu:a100:2,fpga'",
        json!({}),
        json!({
            "gpus_per_node": 2, "gpu_types": ["a100:2"], "resources": ["fpga:1"]
        }),
    );
    check("job_desc.gres = job_desc.gres", json!({"gpus_per_node": 2}), json!({}));
    check("job_desc.gres = 'gpu:2'", json!({"gpus_per_node": 2}), json!({}));
    check(
        "job_desc.tres_per_job = 'gres/gpu:4'",
        json!({"nodes": 2}),
        json!({
            "nodes": 2, "gpus_per_node": 2, "gpu_types": []
        }),
    );
    check(
        "job_desc.min_mem_per_node = 100",
        json!({"memory_per_core": 5}),
        json!({"memory_per_node": 100}),
    );
    check("job_desc.pn_min_memory = 100", json!({}), json!({"memory_per_node": 100}));
    check(
        "job_desc.pn_min_memory = slurm.MEM_PER_CPU + 4096",
        json!({}),
        json!({"memory_per_core": 4096}),
    );
    check("job_desc.licenses = 'a:2,b'", json!({}), json!({"licenses": ["a:2", "b:1"]}));
    check("job_desc.mail_type = 3", json!({}), json!({"mail_types": ["begin", "end"]}));
    check("job_desc.exc_nodes = 'n[1-2]'", json!({}), json!({"avoid_nodes": ["n1", "n2"]}));
    check("job_desc.reservation = '7'", json!({}), json!({"reservation": 7}));
    check("job_desc.std_out = '/x/%j'", json!({}), json!({"stdout": "/x/%j"}));
    check("job_desc.nonsense = 1 job_desc.user_id = 0", json!({}), json!({}));
    check("job_desc.burst_buffer = ''", json!({}), json!({}));
}

#[test]
fn variables_and_the_script() {
    let body = "job_desc.environment.A = 'new' job_desc.environment['LAB'] = nil
        if job_desc.environment.LAB ~= nil or job_desc.environment.A ~= 'new' then return 1 end
        job_desc.script = job_desc.script .. 'date\\n' return 0";
    let answer = judged(body, json!({}));
    assert_eq!(answer.failed, None);
    assert_eq!(answer.environment, [("A".into(), Some("new".into())), ("LAB".into(), None)].into());
    assert_eq!(answer.script.as_deref(), Some("#!/bin/sh\nhostname\ndate\n"));
    let command = json!({"script": false, "interactive": false, "arguments": ["echo", "it's"]});
    let (machine, _) = load(&submitting("slurm.log_user('%s', job_desc.script) return 0"));
    let bare = |more| Question {
        script: None,
        ..question(more)
    };
    let shown = machine.judge(bare(command.clone())).remarks;
    assert_eq!(shown, ["#!/bin/sh", "exec 'echo' 'it'\\''s'", ""]);
    let (machine, _) = load(&submitting("job_desc.script = 'x' return 0"));
    let why = machine.judge(bare(command)).refuse.unwrap();
    assert!(why.contains("only a batch script can be changed"), "{why}");
    let untouched = judged("return slurm.SUCCESS", json!({}));
    assert_eq!((untouched.script, untouched.environment.len()), (None, 0));
    let (machine, _) = load(&submitting("job_desc.environment.A = 'x' return 0"));
    let bare = Question {
        environment: None,
        ..question(json!({}))
    };
    assert!(machine.judge(bare).environment.is_empty());
}

#[test]
fn refusals_say_what_the_script_said_or_what_slurm_says() {
    let check = |body: &str, text: &str, number: Option<u32>| {
        let answer = judged(body, json!({}));
        assert_eq!(answer.refuse.as_deref(), Some(text), "{body}: {answer:?}");
        assert_eq!(answer.number, number, "{body}");
    };
    check("return slurm.ERROR", "Unspecified error", None);
    check("return slurm.FAILURE", "Unspecified error", None);
    check("return slurm.ESLURM_INVALID_QOS", "Invalid qos specification", Some(2066));
    check("return 2001.0", "No partition specified or system default partition", Some(2001));
    check(
        "slurm.log_user('no %s', 'way') slurm.user_msg('b\\nc') return 2001",
        "no way\nb\nc",
        Some(2001),
    );
    let body = "slurm.ESLURM_MINE = 9999 return slurm.ESLURM_MINE";
    check(body, "Unspecified error", Some(9999));
    let passed = judged("slurm.log_user('mind') return slurm.SUCCESS", json!({}));
    assert_eq!((passed.refuse, passed.remarks), (None, vec!["mind".to_owned()]));
    for body in ["return nil", "return {}", "return true"] {
        let passed = judged(body, json!({}));
        assert_eq!((&passed.refuse, &passed.failed), (&None, &None), "{body}");
        assert!(passed.log[0].text.contains("no number"), "{body}");
    }
}

#[test]
fn what_cosy_cannot_do_is_refused() {
    let check = |body: &str, want: &str| {
        let answer = judged(&format!("{body} return slurm.SUCCESS"), json!({"time_limit": 60}));
        let text = answer.refuse.unwrap_or_default();
        assert!(
            text.starts_with("job_submit.lua: job_desc.") && text.contains(want),
            "{body}: {text}"
        );
        assert!(answer.set.is_empty(), "{body}");
    };
    check("job_desc.burst_buffer = 'x'", "burst_buffer is set to 'x', which Cosy cannot do");
    check("job_desc.threads_per_core = 1", "threads_per_core is set to 1");
    check("job_desc.tres_per_task = 'gres/gpu:1'", "tres_per_task is set to 'gres/gpu:1': set");
    check("job_desc.tres_per_socket = 'gres/gpu:1'", "tres_per_socket is set to 'gres/gpu:1': set");
    check("job_desc.tres_per_job = 'gpu:3' job_desc.min_nodes = 2", "set job_desc.tres_per_node");
    check("job_desc.gres = 'gpu:x:y:z'", "no gres here");
    check("job_desc.gres = 'gpu:1,gpu:a100:1'", "cannot be mixed");
    check("job_desc.features = 'a*2'", "no constraint here");
    check("job_desc.reservation = 'mine'", "by number");
    check("job_desc.shared = slurm.JOB_SHARED_USER", "shared is set to 2");
    check("job_desc.site_factor = 1e19", "site_factor is set to 10000000000000000000");
    check("job_desc.mail_type = slurm.MAIL_ARRAY_TASKS", "mail_type is set to 512");
    check("job_desc.dependency = 'afterok:1'", "dependency is set to");
    check("job_desc.array_inx = '1-9'", "array_inx is set to");
}

#[test]
fn partitions_as_scripts_go_through_them() {
    let body = "local all = {}
        for name, part in pairs(part_list) do
            all[#all + 1] = name .. part.name .. part.flag_default .. ':' .. part.max_time .. ':' .. part.priority
        end
        table.sort(all) slurm.log_user('%s', table.concat(all, ' '))
        if part_list['none'] == nil and part_list.gpu.allow_groups == nil then return 0 end return 1";
    let answer = judged(body, json!({}));
    assert_eq!(answer.remarks, ["dayday1:1440:1 gpugpu0:4294967295:5"], "{answer:?}");
}

#[test]
fn a_change_shows_what_it_asks_for_and_the_job_as_it_is() {
    let text = "function slurm_job_submit() return 1 end
        function slurm_job_modify(d, rec, parts, uid)
            slurm.log_user('%s %s %s %s %s %s', d.partition, d.time_limit, tostring(d.num_tasks == slurm.NO_VAL),
                rec.partition, rec.time_limit, rec.user_name .. rec.job_id .. uid)
            if d.partition ~= rec.partition then return slurm.ESLURM_INVALID_PARTITION_NAME end
            d.time_limit = 30
            return slurm.SUCCESS
        end";
    let (machine, answer) = load(text);
    assert_eq!(answer.failed, None);
    let ask = |queue: &str| {
        let now = json!({"queue": queue, "time_limit": 600, "tasks": 3, "requeue": true});
        Question {
            asked: Some(vec!["queue".into()]),
            old: Some(fields(json!({
                "queue": "day", "time_limit": 600, "tasks": 3, "user": "bob", "uid": 7, "job": "12_3"
            }))),
            ..question(now)
        }
    };
    let answer = machine.judge(ask("day"));
    assert_eq!(answer.remarks, ["day 4294967294 true day 10 bob121000"]);
    assert_eq!(Json::Object(answer.set), json!({"time_limit": 1800}));
    assert_eq!(machine.judge(ask("gpu")).number, Some(2000));
}

#[test]
fn what_is_not_there() {
    let check = |body: &str, want: &str| {
        let answer = judged(body, json!({}));
        let why = answer.failed.unwrap_or_default();
        assert!(why.contains(want), "{body}: {why}");
    };
    for word in [
        "load('x')",
        "loadstring('x')",
        "dofile('/x')",
        "require('posix')",
        "loadfile('x')",
    ] {
        check(&format!("{word} return 0"), "is not there: scripts run without files");
    }
    for word in [
        "io.open('/etc/passwd')",
        "io.popen('id')",
        "os.execute('id')",
        "os.remove('/x')",
        "os.exit(0)",
    ] {
        check(&format!("{word} return 0"), "is not there: scripts run without files");
    }
    check("return string.dump(function() end)", "attempt to call a nil value (field 'dump')");
    check("return debug.getinfo(1)", "global 'debug'");
    check("return slurm.ESLURM_NONE", "slurm.ESLURM_NONE is not known here");
    check(
        "for _ in pairs(slurm.jobs) do end return 0",
        "slurm.jobs and slurm.reservations are not there",
    );
    check("return slurm.reservations.x.y", "slurm.jobs and slurm.reservations are not there");
    check(
        "job_desc.time_limit = nil return 0",
        "job_desc.time_limit is a number, and is set to a value of type nil",
    );
    check(
        "job_desc.account = {} return 0",
        "job_desc.account is a text, and is set to a value of type table",
    );
    check("job_desc.time_limit = 'soon' return 0", "job_desc.time_limit is a number");
    check("return nothing.x", "job_submit.lua:2: attempt to index a nil value (global 'nothing')");
    check("error({}) return 0", "");
    check("error() return 0", "");
    check("error(setmetatable({}, {__tostring = function() return 'odd' end})) return 0", "");
    assert_eq!(shown("os.getenv('HOME')", json!({})), "nil");
    assert_eq!(
        shown("type(os.time()) .. type(os.date('%H')) .. type(os.clock())", json!({})),
        "numberstringnumber"
    );
    assert_eq!(shown("unpack({1, 2}) + math.pow(2, 3) + table.getn({1})", json!({})), "10.0");
    assert_eq!(shown("slurm.time_str2mins('1-0')", json!({})), "1440");
    assert_eq!(shown("string.format('%u %x %d', 7.0, 255, 3)", json!({})), "7 ff 3");
    assert_eq!(shown("pcall(require, 'posix')", json!({})), "false");
}

#[test]
fn scripts_that_cannot_be_loaded() {
    let check = |text: &str, want: &str| {
        let why = load(text).1.failed.unwrap_or_default();
        assert!(why.contains(want), "{text}: {why}");
    };
    check("function slurm_job_submit(", "job_submit.lua:1: <name> or");
    check("x = 1", "job_submit.lua has no function slurm_job_submit");
    check("function slurm_job_submit() end", "has no function slurm_job_modify");
    check(
        &format!("{} return slurm.ERROR", submitting("return 0")),
        "returns -1 when it is loaded",
    );
    check("error('as told')", "as told");
    check("\u{1b}Lua", "attempt to load a binary chunk");
    check("while true do end", "stopped after");
    let (_, answer) = load(&format!("slurm.log_info('here') {}", submitting("return 0")));
    assert_eq!((answer.failed, answer.log.len()), (None, 1));
}

#[test]
fn scripts_that_attack() {
    let check = |body: &str, want: &str| {
        let (machine, _) = load(&submitting(body));
        let answer = machine.judge(question(json!({})));
        let why = answer.failed.clone().unwrap_or_default();
        assert!(why.contains(want), "{body}: {answer:?}");
    };
    check("while true do end", "stopped after 50000000 instructions");
    check("local function f() return 1 + f() end return f()", "not enough memory");
    check("local t = {} for i = 1, 1e9 do t[i] = i end", "not enough memory");
    check("return string.rep('x', 1e9)", "not enough memory");
    check("return string.rep('x', 1e18, 'y')", "resulting string too large");
    check("local s = 'x' while true do s = s .. s end", "not enough memory");
    check("return #string.format('%99999d', 1)", "invalid conversion");
    check("return #(('%s'):rep(1e7)):format()", "no value");
    check("coroutine.wrap(function() while true do end end)() return 0", "stopped after");
    check(
        "local c = coroutine.create(function() coroutine.yield() end) while true do coroutine.resume(c) end",
        "stopped after",
    );
    check(
        "setmetatable(_G, {__index = function(t, k) return t[k .. 'x'] end}) return undefined",
        "",
    );
    check("job_desc.environment = {} return 0 / nil", "");
    check(
        "for i = 1, 5000 do job_desc.environment['V' .. i] = 'x' end return 0",
        "more than 1000 variables",
    );
}

#[test]
fn nothing_is_left_for_the_next_request() {
    let body = "if count ~= nil or (''):upper() ~= '' or slurm.SUCCESS ~= 0 then return 1 end
        count = 1 slurm.SUCCESS = 7
        getmetatable('').__index = {upper = function() return 'mine' end}
        string.format = nil
        return 0";
    let (machine, _) = load(&submitting(body));
    for _ in 0..3 {
        let answer = machine.judge(question(json!({})));
        assert_eq!((answer.refuse, answer.failed), (None, None));
    }
}

#[test]
fn finalizers_run_before_the_answer() {
    let body =
        "setmetatable({}, {__gc = function() slurm.log_user('late') error('x') end}) return 0";
    let answer = judged(body, json!({}));
    assert_eq!((answer.refuse, answer.failed), (None, None));
}

#[test]
fn what_is_said_is_bounded() {
    let body = "for i = 1, 5000 do slurm.log_user('%s', ('x'):rep(5000)) slurm.log_info('y') print('z') end return 0";
    let answer = judged(body, json!({}));
    assert_eq!((answer.remarks.len(), answer.log.len()), (LINES, LINES));
    assert!(answer.remarks.iter().all(|line| line.len() <= LINE_BYTES));
}

/// Public scripts go through all four, and add up what they find.
#[test]
fn gpus_are_told_in_the_words_in_which_they_were_asked_for() {
    let all = "tostring(job_desc.tres_per_node) .. ' ' .. tostring(job_desc.tres_per_job) .. ' ' ..
        tostring(job_desc.tres_per_socket) .. ' ' .. tostring(job_desc.tres_per_task)";
    let check = |more: Json, want: &str| assert_eq!(shown(all, more), want);
    check(json!({"gpus_per_node": 2}), "gres/gpu:2 nil nil nil");
    let job = json!({"gpus_per_node": 2, "tres_per_job": "gres/gpu:4"});
    check(job, "nil gres/gpu:4 nil nil");
    let both = json!({
        "gpus_per_node": 2, "tres_per_job": "gres/gpu:4", "tres_per_node": "gres/gpu:2,gres/fpga:1"
    });
    check(both, "gres/gpu:2,gres/fpga:1 gres/gpu:4 nil nil");
    let task = json!({"gpus_per_node": 2, "tres_per_task": "gres/gpu:a100:1"});
    check(task, "nil nil nil gres/gpu:a100:1");
    let socket = json!({"gpus_per_node": 2, "tres_per_socket": "gres/gpu:1"});
    check(socket, "nil nil gres/gpu:1 nil");
}

#[test]
fn accounts_and_qualities_of_service_of_the_user() {
    let accounts = json!({
        "default_account": "physics",
        "accounts": [
            {"account": "physics", "default_qos": "normal", "qos": ["high", "normal"]},
            {"account": "physics", "queue": "gpu", "qos": ["gpu"]},
            {"account": "lab", "default_qos": "lab", "qos": ["lab"], "comment": "until 2031"},
        ],
        "qos_priorities": {"high": 1000, "normal": 0},
    });
    let asked = |more: Json| Question {
        accounts: Some(serde_json::from_value(accounts.clone()).unwrap()),
        ..question(more)
    };
    let judge = |body: &str, question: Question| {
        let (machine, _) = load(&submitting(&format!("{body} return slurm.SUCCESS")));
        let answer = machine.judge(question);
        assert_eq!((&answer.failed, &answer.refuse), (&None, &None), "{body}");
        answer
    };
    let body =
        "slurm.log_user('%s %s %s %s', job_desc.default_account, tostring(job_desc.default_qos),
        tostring(job_desc.assoc_qos), tostring(job_desc.assoc_comment))";
    let check = |before: &str, more: Json, want: &str| {
        let answer = judge(&format!("{before} {body}"), asked(more));
        assert_eq!(answer.remarks, [want], "{before}");
    };
    check("", json!({}), "physics normal high,normal nil");
    check("", json!({"target_queue": "gpu"}), "physics nil gpu nil");
    check("", json!({"account": "lab"}), "physics lab lab until 2031");
    check("", json!({"account": "none"}), "physics nil nil nil");
    // As in Slurm they follow what the script sets.
    check("job_desc.account = 'lab'", json!({}), "physics lab lab until 2031");
    check("job_desc.partition = 'gpu'", json!({}), "physics nil gpu nil");
    let priorities = "slurm.log_user('%s %s %s', slurm.get_qos_priority('high'),
        slurm.get_qos_priority('normal'), tostring(slurm.get_qos_priority('none')))";
    assert_eq!(judge(priorities, asked(json!({}))).remarks, ["1000 0 nil"]);
    let fills = "if job_desc.qos == nil then job_desc.qos = job_desc.default_qos end";
    assert_eq!(Json::Object(judge(fills, asked(json!({}))).set), json!({"qos": "normal"}));
    // Nobody sets them, and a user whom the policy does not know has none.
    let sets = "job_desc.default_qos = 'x' slurm.log_user('%s', job_desc.default_qos)";
    assert_eq!(judge(sets, asked(json!({}))).remarks, ["normal"]);
    let nobody = Question {
        accounts: Some(Default::default()),
        ..question(json!({"account": "lab"}))
    };
    let none = "slurm.log_user('%s', tostring(job_desc.default_account or job_desc.assoc_qos))";
    assert_eq!(judge(none, nobody).remarks, ["nil"]);
}

#[test]
fn a_priority_that_is_not_told_is_an_error() {
    let asks = "slurm.get_qos_priority('low') return slurm.SUCCESS";
    let accounts = json!({"qos_priorities": {"high": 1000}, "priorities_left_out": true});
    let question = Question {
        accounts: Some(serde_json::from_value(accounts).unwrap()),
        ..question(json!({}))
    };
    let (machine, _) = load(&submitting(asks));
    let failed = machine.judge(question).failed.unwrap_or_default();
    assert!(failed.contains("'low' is not among the 1 qualities of service"), "{failed}");
    let (_, answer) = load(&format!("slurm.get_qos_priority('low') {}", submitting("")));
    let failed = answer.failed.unwrap_or_default();
    assert!(failed.contains("not while the script is loaded"), "{failed}");
}

#[test]
fn lists_that_are_left_out_open_no_partition() {
    let judge = |body: &str| {
        let mut question = question(json!({}));
        let gpu = &mut question.queues.as_mut().unwrap()[1];
        (gpu.lists_left_out, gpu.qos) = (true, Some("part".to_owned()));
        let (machine, _) = load(&submitting(body));
        machine.judge(question)
    };
    for name in ["allow_accounts", "deny_accounts", "allow_qos", "deny_qos"] {
        let answer =
            judge(&format!("if part_list.gpu.{name} == nil then job_desc.partition = 'gpu' end"));
        let failed = answer.failed.unwrap_or_default();
        let want = format!("part_list['gpu'].{name} is too long to be told");
        assert!(failed.contains(&want), "{failed}");
    }
    let others =
        "slurm.log_user('%s %s %s', part_list.gpu.qos, tostring(part_list.gpu.allow_groups),
        tostring(part_list.day.allow_accounts)) return slurm.SUCCESS";
    let answer = judge(others);
    assert_eq!(answer.remarks, ["part nil nil"], "{answer:?}");
}

#[test]
fn lists_of_partitions() {
    let body = "local p = part_list.gpu
        slurm.log_user('%s %s %s %s %s', p.allow_accounts, p.deny_accounts, p.allow_qos, p.deny_qos, p.qos)
        local d = part_list.day
        if d.allow_accounts or d.deny_accounts or d.allow_qos or d.deny_qos or d.qos then return 1 end
        return slurm.SUCCESS";
    let names = |all: &[&str]| {
        all.iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    let mut question = question(json!({}));
    let gpu = &mut question.queues.as_mut().unwrap()[1];
    gpu.allow_accounts = Some(names(&["physics", "lab"]));
    gpu.deny_accounts = names(&["guests"]);
    gpu.allow_qos = Some(names(&["gpu"]));
    gpu.deny_qos = names(&["low", "free"]);
    gpu.qos = Some("part".to_owned());
    let (machine, _) = load(&submitting(body));
    let answer = machine.judge(question);
    assert_eq!(answer.remarks, ["physics,lab guests gpu low,free part"], "{answer:?}");
}
