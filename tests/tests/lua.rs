//! `job_submit.lua` in a real controller: scripts as sites have them, and scripts that hang, crash
//! and eat memory.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::Request;
use cosy_tests::client::new_key;
use cosy_tests::people::{self, ANN, BOB};
use cosy_tests::{Client, Cluster, Options, system};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

const QUEUES: &str = "[[queue]]\nname = \"main\"\ndefault = true\nmax_time = \"8h\"\n\
    [[queue]]\nname = \"gpu\"\n[licenses]\nscratch = 9\n";

/// Requests of a burst.
const BURST: u64 = 1000;

/// A script in a folder of its own, and the queues and settings that name it.
struct Site {
    folder: TempDir,
}

impl Site {
    fn new(text: &str) -> Self {
        let site = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        site.write(text);
        site
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("job_submit.lua")
    }

    fn write(&self, text: &str) {
        fs::write(self.file(), text).unwrap();
        fs::set_permissions(self.file(), fs::Permissions::from_mode(0o644)).unwrap();
    }

    fn options(&self, more: &str) -> Options {
        let file = self.file();
        let lua = format!("[submit]\nlua = {file:?}\n{more}\n");
        Options {
            queues: Some(format!("{QUEUES}{lua}")),
            ..Options::default()
        }
    }
}

fn script(c: &Cluster, name: &str, text: &str) -> String {
    let file = c.work().join(name);
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

fn shown(c: &Cluster, id: &str, format: &str) -> String {
    let done = c.run(&["squeue", "-h", "-o", format, "-j", id]).expect(0);
    done.out.trim().to_owned()
}

/// What a site's script does: routes, demands, fills in, caps, forbids, tells.
const POLICY: &str = r#"
local function say(...) slurm.log_user(...) end

local function partition(job_desc, part_list)
    if job_desc.partition ~= nil then
        if part_list[job_desc.partition] == nil then
            say("there is no partition %s for you", job_desc.partition)
            return slurm.ESLURM_INVALID_PARTITION_NAME
        end
        return slurm.SUCCESS
    end
    if job_desc.licenses ~= nil and string.find(job_desc.licenses, "scratch:[3-9]") then
        job_desc.partition = "gpu"
        say("routed to %s", job_desc.partition)
        return slurm.SUCCESS
    end
    for _, part in pairs(part_list) do
        if part.flag_default == 1 then job_desc.partition = part.name end
    end
    return slurm.SUCCESS
end

local function limit(job_desc)
    if job_desc.time_limit == slurm.NO_VAL then
        if job_desc.script == nil or job_desc.script == "" then
            job_desc.time_limit = 240
        else
            say("give a time limit with -t")
            return slurm.ESLURM_MISSING_TIME_LIMIT
        end
    end
    return slurm.SUCCESS
end

local function sizes(job_desc)
    if job_desc.min_nodes == slurm.NO_VAL then
        job_desc.min_nodes = 1
        job_desc.max_nodes = 1
    end
    if job_desc.num_tasks == slurm.NO_VAL then job_desc.num_tasks = job_desc.min_nodes end
    if job_desc.min_mem_per_node ~= nil and job_desc.min_mem_per_node > 1000 then
        slurm.log_info("BAD: %s(%u) asks for %d MB", job_desc.user_name, job_desc.user_id, job_desc.min_mem_per_node)
        say("at most 1000 MB on a node")
        return slurm.ESLURM_INVALID_TASK_MEMORY
    end
    return slurm.SUCCESS
end

local function words(job_desc)
    if job_desc.environment["PROJECT"] == "closed" then return slurm.ERROR end
    if job_desc.script ~= nil and string.find(job_desc.script, "forbidden") then
        say("line 1\nline 2")
        return slurm.ERROR
    end
    if job_desc.environment["PROJECT"] ~= nil then job_desc.environment["PROJECT"] = "open" end
    return slurm.SUCCESS
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    for _, check in ipairs({ partition, limit, sizes, words }) do
        local code = check(job_desc, part_list, submit_uid)
        if code ~= slurm.SUCCESS then return code end
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    if job_desc.partition ~= nil and job_desc.partition ~= job_rec.partition then
        say("job %d of %s stays in %s", job_rec.job_id, job_rec.user_name, job_rec.partition)
        return slurm.ESLURM_INVALID_PARTITION_NAME
    end
    if job_desc.time_limit ~= slurm.NO_VAL and job_desc.time_limit > 100 then job_desc.time_limit = 100 end
    return slurm.SUCCESS
end

slurm.log_info("loaded")
return slurm.SUCCESS
"#;

#[test]
fn a_policy_as_sites_have_it() {
    let site = Site::new(POLICY);
    let c = Cluster::start(1, site.options(""));
    let submit = |words: &[&str]| c.run(&[&["sbatch", "-H", "--parsable"], words].concat());
    let job = submit(&["-t", "5", "--wrap", "true"]).expect(0);
    let id = job.out.trim();
    assert_eq!(shown(&c, id, "%P %l %D"), "main 5:00 1");
    let routed = submit(&["-t", "5", "-L", "scratch:4", "--wrap", "true"]).expect(0);
    assert_eq!(routed.err.trim(), "sbatch: routed to gpu");
    assert_eq!(shown(&c, routed.out.trim(), "%P"), "gpu");
    // Refused, with what the script says and what Slurm says with its number.
    let check = |words: &[&str], want: &[&str]| {
        let refused = submit(words).expect(1);
        let lines: Vec<&str> = refused.err.lines().collect();
        let want: Vec<String> = want.iter().map(|l| format!("sbatch: error: {l}")).collect();
        assert_eq!(lines, want, "{words:?}");
    };
    let failed = "Batch job submission failed: ";
    check(
        &["--wrap", "true"],
        &[
            "give a time limit with -t",
            &format!("{failed}Time limit specification required, but not provided"),
        ],
    );
    check(
        &["-t", "5", "--mem=2G", "--wrap", "true"],
        &[
            "at most 1000 MB on a node",
            &format!("{failed}Memory required by task is not available"),
        ],
    );
    check(
        &["-t", "5", "--wrap", "forbidden"],
        &["line 1", "line 2", &format!("{failed}Unspecified error")],
    );
    check(
        &["-t", "5", "--export=PROJECT=closed", "--wrap", "true"],
        &[&format!("{failed}Unspecified error")],
    );
    c.run(&["csub", "-H", "--", "true"])
        .expect_refusal("give a time limit with -t");
    // What it sets in the job's variables is what the job has.
    let set = [
        "-t",
        "5",
        "--export=PROJECT=mine",
        "--wrap",
        "echo is $PROJECT",
    ];
    let done = c
        .run(&[&["sbatch", "-W", "-o", "out"], &set[..]].concat())
        .expect(0);
    assert!(done.out.starts_with("Submitted"), "{}", done.out);
    assert_eq!(fs::read_to_string(c.work().join("out")).unwrap().trim(), "is open");
    // Changes: as the script sees them, with the job as it is.
    let update = |what: &str| c.run(&["scontrol", "update", &format!("JobId={id}"), what]);
    let refused = update("Partition=gpu").expect(1);
    let want = format!("scontrol: error: job {id} of ");
    assert!(refused.err.starts_with(&want), "{}", refused.err);
    let want = format!("Invalid partition name specified for job {id}");
    assert!(refused.err.trim().ends_with(&want), "{}", refused.err);
    update("TimeLimit=300").expect(0);
    assert_eq!(shown(&c, id, "%P %l"), "main 1:40:00");
    update("Partition=main").expect(0);
    update("JobName=new").expect(0);
    // Without a script the limit is filled in; quotes are judged like everything else.
    let done = c.run(&[
        "salloc",
        "-n",
        "1",
        "sh",
        "-c",
        "squeue -h -o %l -j $SLURM_JOB_ID",
    ]);
    assert!(done.out.contains("4:00:00"), "{done:?}");
    c.run(&[
        "cresv",
        "quote",
        "-N",
        "1",
        "-t",
        "1h",
        "-q",
        "none",
        "--soonest",
    ])
    .expect_refusal("there is no partition none for you");
}

#[test]
fn tried_and_read_again() {
    let site = Site::new(POLICY);
    let c = Cluster::start(1, site.options("timeout = \"30s\""));
    let file = script(&c, "slurm.sh", "#!/bin/sh\n#SBATCH --mem=2G -t 5\ntrue\n");
    let done = c.run(&["cadm", "rule", "test", &file]).expect(1);
    assert!(done.out.contains("at most 1000 MB on a node"), "{}", done.out);
    assert!(done.out.contains("the log: lua: BAD: "), "{}", done.out);
    let limited = script(&c, "limited.sh", "#!/bin/sh\n#SBATCH -t 5\ntrue\n");
    let fine = script(&c, "fine.sh", "#!/bin/sh\ntrue\n");
    let done = c.run(&["cadm", "rule", "test", &limited]).expect(0);
    for want in ["queue becomes main", "nodes becomes 1", "goes on"] {
        assert!(done.out.contains(want), "{want}: {}", done.out);
    }
    // A script with faults never gets into force, and the old one stays.
    let submit = ["csub", "-H", &fine];
    for (bad, want) in [
        ("function slurm_job_submit(", "job_submit.lua:1: "),
        ("x = 1", "has no function slurm_job_submit"),
        ("while true do end", "stopped after"),
    ] {
        site.write(bad);
        c.run(&["cadm", "reload"]).expect_refusal(want);
        c.run(&submit).expect_refusal("give a time limit with -t");
    }
    fs::set_permissions(site.file(), fs::Permissions::from_mode(0o666)).unwrap();
    c.run(&["cadm", "reload"]).expect_refusal("chmod go-w");
    site.write("function slurm_job_submit() return 0 end function slurm_job_modify() return 0 end");
    c.run(&submit).expect_refusal("give a time limit with -t");
    c.run(&["cadm", "reload"]).expect(0);
    c.run(&submit).expect(0);
    // One whose job cannot be done is refused with a sentence, open or closed.
    site.write(
        "function slurm_job_submit(d) d.burst_buffer = 'x' return 0 end function slurm_job_modify() return 0 end",
    );
    c.run(&["cadm", "reload"]).expect(0);
    c.run(&submit)
        .expect_refusal("job_desc.burst_buffer is set to 'x', which Cosy cannot do");
    site.write(
        "function slurm_job_submit() return nothing.x end function slurm_job_modify() return 0 end",
    );
    c.run(&["cadm", "reload"]).expect(0);
    c.run(&submit)
        .expect_refusal("the script that judges requests here has failed");
    let done = c.run(&["cadm", "rule", "test", &fine]).expect(1);
    assert!(
        done.out
            .contains("attempt to index a nil value (global 'nothing')"),
        "{}",
        done.out
    );
}

/// Tells what it reads, gives points, and forbids `--mem=0`.
const READS: &str = r#"
function slurm_job_submit(d, parts)
    if d.min_mem_per_node == 0 or d.tres_per_job ~= nil then
        slurm.log_user("mem %s job %s node %s", tostring(d.min_mem_per_node), tostring(d.tres_per_job),
            tostring(d.tres_per_node))
        return slurm.ERROR
    end
    slurm.log_user("%s %s %s", d.default_account, d.default_qos, d.assoc_qos)
    slurm.log_user("%s %s %s", d.assoc_comment, slurm.get_qos_priority("high"),
        tostring(slurm.get_qos_priority("none")))
    slurm.log_user("%s %s", parts.main.allow_accounts, parts.main.deny_qos)
    if d.name == "points" then d.site_factor = slurm.NICE_OFFSET + 500 end
    return slurm.SUCCESS
end
function slurm_job_modify(d, rec)
    if d.comment ~= nil and rec.site_factor == slurm.NO_VAL then d.site_factor = slurm.NICE_OFFSET - 7 end
    return slurm.SUCCESS
end
"#;

#[test]
fn accounts_are_read_and_points_of_the_site_given() {
    if !system::root_or_skip() {
        return;
    }
    let site = Site::new(READS);
    let queue = "[[queue]]\nname = \"main\"\ndefault = true\norder = \"weights\"\n\
        allow_accounts = [\"physics\", \"chem\"]\ndeny_qos = [\"low\"]\n";
    let with = |more: &str| Options {
        policy: "enforce = [\"qos\"]\n".into(),
        head: "[priority.weights]\nage = 10\n".into(),
        queues: Some(format!("{queue}{more}")),
        ..Options::default()
    };
    let submit = format!("[submit]\nlua = {:?}\n", site.file());
    let mut c = people::start(1, with(&submit));
    let people = "[[qos]]\nname='high'\npriority=40\n[[account]]\nname='physics'\nqos='high,normal'\n\
        [[user]]\nname='ann'\n[[user.in]]\naccount='physics'\ndefault-qos='high'\ncomment='guest of lab 3'\n";
    fs::write(c.work().join("site.toml"), people).unwrap();
    c.run(&["cadm", "account", "load", "site.toml"]).expect(0);
    // What is submitted waits.
    c.run(&["cadm", "queue", "stop", "main"]).expect(0);
    let submits = |c: &Cluster, name: &str| {
        let words = ["sbatch", "-J", name, "--parsable", "--wrap", "true"];
        c.run_as(ANN, &words).expect(0)
    };
    let given = submits(&c, "points");
    let lines: Vec<&str> = given.err.lines().collect();
    assert_eq!(
        lines,
        [
            "sbatch: physics high high,normal",
            "sbatch: guest of lab 3 40 nil",
            "sbatch: physics,chem low"
        ]
    );
    let (given, plain) = (given.out.trim().to_owned(), submits(&c, "plain").out);
    let plain = plain.trim().to_owned();
    let points = |c: &Cluster, job: &str| {
        let words = ["sprio", "-h", "-o", "%S", "-j", job];
        c.run(&words).expect(0).out.trim().to_owned()
    };
    assert_eq!(points(&c, &given), "500");
    assert_eq!(points(&c, &plain), "0");
    let update = [
        "scontrol",
        "update",
        &format!("JobId={plain}"),
        "Comment=mine",
    ];
    c.run_as(ANN, &update).expect(0);
    assert_eq!(points(&c, &plain), "-7");
    let own = [
        "scontrol",
        "update",
        &format!("JobId={plain}"),
        "SiteFactor=900",
    ];
    assert_ne!(c.run_as(ANN, &own).code, 0, "points that no script gives are an administrator's");
    for (words, told) in [
        (["--mem=0", "-n1"], "mem 0 job nil node nil"),
        (["-G", "2"], "mem nil job gres/gpu:2 node nil"),
    ] {
        let words = [&["sbatch"], &words[..], &["--wrap", "true"]].concat();
        let refused = c.run_as(ANN, &words).expect(1);
        assert!(refused.err.contains(told), "{words:?}: {}", refused.err);
    }
    // What came out is kept: a controller without the script knows it.
    c.reconfigure(|o| o.queues = with("").queues);
    c.cosyd.kill();
    c.start_cosyd();
    assert_eq!((points(&c, &given).as_str(), points(&c, &plain).as_str()), ("500", "-7"));
}

/// What a script does, by the name of the job.
const ATTACKS: &str = r#"
function slurm_job_submit(d)
    if d.name == "loop" then while true do pcall(function() while true do end end) end end
    if d.name == "pattern" then return #string.find(("a"):rep(40), ("a-"):rep(40) .. "b") end
    if d.name == "gc" then setmetatable({}, { __gc = function() while true do end end }) end
    if d.name == "eat" then local t = {} while true do t[#t + 1] = ("x"):rep(1e6) .. #t end end
    if d.name == "recurse" then local function f() return 1 + f() end return f() end
    if d.name == "babble" then for i = 1, 1e5 do print(i) slurm.log_user("%d", i) end end
    return slurm.SUCCESS
end
function slurm_job_modify() return slurm.SUCCESS end
"#;

#[test]
fn scripts_that_hang_and_eat_memory() {
    let site = Site::new(ATTACKS);
    let mut c = Cluster::start(1, site.options(""));
    let submit = |c: &Cluster, name: &str| c.run(&["csub", "-H", "-J", name, "--", "true"]);
    submit(&c, "fine").expect(0);
    for name in ["loop", "pattern", "gc", "eat", "recurse"] {
        submit(&c, name).expect_refusal("the script that judges requests here has failed");
        submit(&c, "fine").expect(0);
    }
    let babbled = submit(&c, "babble").expect(0);
    assert!(babbled.err.lines().count() <= 20, "{}", babbled.err.len());
    c.reconfigure(|o| o.queues = site.options("on_failure = \"open\"").queues);
    c.run(&["cadm", "reload"]).expect(0);
    for name in ["loop", "eat"] {
        submit(&c, name).expect(0);
    }
}

#[test]
fn a_user_who_hangs_it_holds_up_nobody_else() {
    if !system::root_or_skip() {
        return;
    }
    let site = Site::new(ATTACKS);
    let c = people::start_with_connections(BURST, site.options("timeout = \"1s\""));
    c.run_as(ANN, &["csub", "-H", "-J", "pattern", "--", "true"])
        .expect_refusal("the script that judges requests here has failed");
    // One after the other is judged, of one user one at a time: each takes a second.
    let mut burst: Vec<Client> = people::as_user(ANN, || {
        let connect = |_| Client::connect(&c.socket()).unwrap();
        (0..BURST).map(connect).collect()
    });
    let mut job = cosy_tests::script(&c.work(), "exit 0");
    (job.spec.name, job.spec.hold) = ("pattern".into(), true);
    for client in &mut burst {
        let request = Request::Submit(Box::new(job.clone()));
        client.send(request, Some(new_key())).unwrap();
    }
    for _ in 0..3 {
        c.run_as(BOB, &["csub", "-H", "-J", "fine", "--", "true"])
            .expect(0);
    }
    let waiting = burst.iter().filter(|client| !client.has_answer().unwrap());
    assert!(waiting.count() > 0, "the burst was over before others asked");
}

#[test]
fn a_program_that_is_killed_is_started_again() {
    let site = Site::new(POLICY);
    let c = Cluster::start(1, site.options(""));
    let submit = || c.run(&["csub", "-H", "-t", "5m", "--", "true"]).expect(0);
    submit();
    let cosyd = c.cosyd.pid();
    let all = || {
        let children = fs::read_dir("/proc").unwrap().flatten();
        let of_cosyd = move |e: &fs::DirEntry| {
            let stat = fs::read_to_string(e.path().join("stat")).unwrap_or_default();
            let parent = stat.rsplit(") ").next().and_then(|s| s.split(' ').nth(1));
            stat.contains("(cosy-lua)") && parent == Some(&cosyd.to_string())
        };
        let pids = children
            .filter(of_cosyd)
            .filter_map(|e| e.file_name().to_str()?.parse().ok());
        pids.collect::<Vec<i32>>()
    };
    let before = all();
    assert!(!before.is_empty());
    for pid in &before {
        let pid = nix::unistd::Pid::from_raw(*pid);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    }
    for _ in 0..8 {
        submit();
    }
}

/// What a submission costs without rules, with a script, and with a program that judges: the time of
/// `csub` and of `sbatch`, medians of several rounds in turn. docs/BENCHMARKS.md has what came out.
#[test]
#[ignore = "it measures, and shows nothing"]
fn what_a_submission_costs() {
    let site = Site::new(POLICY);
    let judge = "n=0; while read -r line; do n=$((n+1)); echo \"{\\\"id\\\":$n}\"; done";
    let worker = format!("worker = [\"/bin/sh\", \"-c\", {judge:?}]");
    let with = |submit: String| {
        let options = Options {
            queues: Some(format!("{QUEUES}{submit}")),
            ..Options::default()
        };
        Cluster::start(1, options)
    };
    let rule = "[[submit.rule]]\nname = \"x\"\nwhen = \"gpus > 0\"\nrefuse = \"no\"\n";
    let kinds = [
        ("no rules", with(String::new())),
        ("one rule", with(rule.to_owned())),
        ("a worker", with(format!("[submit]\n{worker}\n"))),
        (
            "a worker that sees all",
            with(format!(
                "[submit]\n{worker}\nworker_sees = [\"script\", \"environment\", \"queues\"]\n"
            )),
        ),
        ("a script in Lua", Cluster::start(1, site.options(""))),
    ];
    let mut times = vec![Vec::new(); kinds.len()];
    for _ in 0..40 {
        for (at, (_, c)) in kinds.iter().enumerate() {
            let since = std::time::Instant::now();
            c.run(&["sbatch", "-H", "-t", "5", "--wrap", "true"])
                .expect(0);
            times[at].push(since.elapsed());
        }
    }
    for ((name, _), mut times) in kinds.iter().zip(times) {
        times.sort_unstable();
        let (median, least) = (times[times.len() / 2], times[0]);
        println!("{name}: median {median:?}, least {least:?}");
    }
}
