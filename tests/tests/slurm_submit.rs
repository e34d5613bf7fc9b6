//! `sbatch`: what it prints, with which exit code it ends, and what job comes of it. The
//! texts are those that the original prints.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::shell::{check, read, shell, submit};
use cosy_tests::{Cluster, Options, system};
use std::fs;
use std::io::Write;
use std::process::Stdio;

fn cluster(nodes: usize) -> Cluster {
    let c = Cluster::start(nodes, Options::default());
    for (name, text) in [
        ("ok.sh", "#!/bin/sh\necho out; echo err >&2\n"),
        ("exit3.sh", "#!/bin/sh\nexit 3\n"),
        ("dos.sh", "#!/bin/sh\r\necho\r\n"),
        ("empty.sh", ""),
        ("bare.sh", "echo\n"),
        ("bad.sh", "#!/bin/sh\n#SBATCH --no-such-option\ntrue\n"),
    ] {
        fs::write(c.work().join(name), text).unwrap();
    }
    c
}

const HINT: &str = "Try \"sbatch --help\" for more information\n";

#[test]
fn command_lines_that_cannot_be_read() {
    let c = cluster(1);
    let refused = |line: &str, code, what: &str| check(&c, line, code, "", what);
    let mistake = |what: &str| format!("sbatch: {what}\n{HINT}");
    refused("sbatch --no-such ok.sh", 255, &mistake("unrecognized option '--no-such'"));
    refused("sbatch -Y ok.sh", 255, &mistake("invalid option -- 'Y'"));
    refused("sbatch -n", 255, &mistake("option requires an argument -- 'n'"));
    refused("sbatch bad.sh", 255, &mistake("unrecognized option '--no-such-option'"));
    let error = |what: &str| format!("sbatch: error: {what}\n");
    refused("sbatch -t foo ok.sh", 255, &error("Invalid --time specification"));
    refused("sbatch none.sh", 1, &error("Unable to open file none.sh"));
    refused("sbatch empty.sh", 1, &error("Batch script is empty!"));
    refused("sbatch </dev/null", 1, &error("Batch script is empty!"));
    refused("sbatch .", 1, &error("Batch script is empty!"));
    refused(
        "sbatch --wrap true ok.sh",
        1,
        &error("Script arguments not permitted with --wrap option"),
    );
    let dos = "sbatch: error: Batch script contains DOS line breaks (\\r\\n)\n\
               sbatch: error: instead of expected UNIX line breaks (\\n).\n";
    refused("sbatch dos.sh", 1, dos);
    let bare = "sbatch: error: This does not look like a batch script.  The first\n\
                sbatch: error: line must start with #! followed by the path to an interpreter.\n\
                sbatch: error: For instance: #!/bin/sh\n";
    refused("sbatch bare.sh", 1, bare);
    check(&c, "sbatch --version", 0, "slurm 22.05.11\n", "");
}

#[test]
fn refusals_of_the_controller() {
    let c = cluster(2);
    let check = |options: &str, lines: &[&str]| {
        let line = format!("sbatch {options} ok.sh");
        let all: String = lines
            .iter()
            .map(|l| format!("sbatch: error: {l}\n"))
            .collect();
        check(&c, &line, 1, "", &all);
    };
    const CONFIG: &str =
        "Batch job submission failed: Requested node configuration is not available";
    check(
        "-p nosuch",
        &[
            "invalid partition specified: nosuch",
            "Batch job submission failed: Invalid partition name specified",
        ],
    );
    check("-w nosuch", &["Batch job submission failed: Invalid node name specified"]);
    check("--mem=999G", &["Memory specification can not be satisfied", CONFIG]);
    check("-c 4000", &["CPU count per node can not be satisfied", CONFIG]);
    check("-x n1,n2", &[CONFIG]);
    check("-w n1,n2 -N1", &["invalid number of nodes (-N 2-1)"]);
    check("-C nosuch", &["Batch job submission failed: Invalid feature specification"]);
    check("--gres=gpu:1", &["Invalid generic resource (gres) specification"]);
    check("--array=1-2000000", &["Batch job submission failed: Invalid job array specification"]);
    check("-d foo:1", &["Batch job submission failed: Job dependency problem"]);
    check("--reservation=no", &["Batch job submission failed: Requested reservation is invalid"]);
    let known = "Use 'sacctmgr list clusters' to see available clusters.";
    let reached = "'no' can't be reached now, or it is an invalid entry for --cluster.  ";
    check("-M no", &["Problem talking to database", &format!("{reached}{known}")]);
}

#[test]
fn what_is_printed_for_a_job() {
    let c = cluster(1);
    check(&c, "sbatch ok.sh", 0, "Submitted batch job 1\n", "");
    check(&c, "sbatch --parsable ok.sh", 0, "2\n", "");
    check(&c, "sbatch -Q ok.sh", 0, "", "");
    check(&c, "sbatch -W exit3.sh", 3, "Submitted batch job 4\n", "");
    check(&c, "sbatch -W --wrap 'kill -9 $$'", 1, "Submitted batch job 5\n", "");
    check(
        &c,
        "sbatch -W -o x --array=1-3 --wrap 'exit $SLURM_ARRAY_TASK_ID'",
        3,
        "Submitted batch job 6\n",
        "",
    );
}

#[test]
fn scripts_from_everywhere() {
    let c = cluster(1);
    let bin = c.work().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("found.sh"), "#!/bin/sh\necho found\n").unwrap();
    let ran = |line: &str, file: &str, want: &str| {
        let output = shell(&c, line);
        assert_eq!(output.code, 0, "{line}: {}", output.err);
        assert_eq!(read(&c, file), want, "{line}");
    };
    ran("sbatch -W -o a ok.sh", "a", "out\nerr\n");
    ran("PATH=$PWD/bin:$PATH sbatch -W -o b found.sh", "b", "found\n");
    ran("printf '#!/bin/sh\\necho piped\\n' | sbatch -W -o c", "c", "piped\n");
    ran("printf '#!/bin/sh\\necho piped $1\\n' | sbatch -W -o d /dev/stdin x", "d", "piped x\n");
    ran("sbatch -W -o e --wrap 'echo $0 | grep -c slurm_script'", "e", "1\n");
    fs::write(c.work().join("args.sh"), "#!/bin/sh\necho \"$#:$1:$2\"\n").unwrap();
    ran("sbatch -W -o f args.sh 'one two' -n", "f", "2:one two:-n\n");
    fs::write(c.work().join("front"), "echo front; exit 0\n").unwrap();
    ran("sbatch -W -o g --bbf front ok.sh", "g", "front\n");
}

#[test]
fn precedence() {
    let c = cluster(1);
    let script = "#!/bin/sh\n#SBATCH -J script -t 7\n\n#SBATCH --output=\"quoted %j.txt\" # c\n\
                  echo $SLURM_JOB_NAME\n#SBATCH -J late\n";
    fs::write(c.work().join("d.sh"), script).unwrap();
    let check = |before: &str, options: &str, want: &str| {
        let output = shell(&c, &format!("{before} sbatch -W --parsable {options} d.sh"));
        let name = format!("quoted {}.txt", output.out.trim());
        assert_eq!(read(&c, &name), want, "{before} {options}: {}", output.err);
    };
    check("", "", "script\n");
    check("SBATCH_JOB_NAME=variable", "", "variable\n");
    check("SBATCH_JOB_NAME=variable", "-J line", "line\n");
    let output = shell(&c, "SBATCH_OUTPUT=o.%j sbatch -W --parsable --wrap 'echo here'");
    assert_eq!(read(&c, &format!("o.{}", output.out.trim())), "here\n");
}

#[test]
fn verbose_tells_what_was_asked_for() {
    let c = cluster(1);
    let told = shell(
        &c,
        "SBATCH_DEBUG=2 SBATCH_TIMELIMIT=3 sbatch -A Foo --mem=2048 -o none -H --wrap true",
    );
    for line in [
        "sbatch: account             : Foo\n",
        "sbatch: mem                 : 2G\n",
        "sbatch: output              : /dev/null\n",
        "sbatch: time                : 00:03:00\n",
        "sbatch: verbose             : 2\n",
        "sbatch: debug:  propagating RLIMIT_NOFILE=",
    ] {
        assert!(told.err.contains(line), "{line}: {}", told.err);
    }
    for account in ["Foo", "foo"] {
        let found = shell(&c, &format!("squeue -h -A {account} -o %a")).out;
        assert_eq!(found, "foo\n", "{account}");
    }
}

#[test]
fn least_cores_of_a_node() {
    let c = cluster(1);
    let wrap = "--wrap 'echo $SLURM_CPUS_ON_NODE $SLURM_TASKS_PER_NODE ${SLURM_NTASKS-none}; srun -n3 -l echo a'";
    shell(&c, &format!("sbatch -W -o o --mincpus=3 {wrap}"));
    let mut lines: Vec<String> = read(&c, "o").lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["0: a", "1: a", "2: a", "3 3 none"]);
}

#[test]
fn one_of_several_partitions() {
    let queues = "[[queue]]\nname = \"short\"\nnodes = \"n1\"\nmax_time = \"30m\"\n\
                  [[queue]]\nname = \"main\"\ndefault = true\nnodes = \"n[1-2]\"\n";
    let options = Options {
        queues: Some(queues.to_owned()),
        ..Options::default()
    };
    let c = Cluster::start(2, options);
    let none = "sbatch: error: invalid partition specified: nope\n\
                sbatch: error: Batch job submission failed: Invalid partition name specified\n";
    check(&c, "sbatch -p main,nope --wrap true", 1, "", none);
    let goes = |options: &str, want: &str| {
        let job = submit(&c, &format!("-H {options} --wrap true"));
        let line = format!("cosy stat job {job} --json | tr -d ' ' | grep '^\"queue\"'");
        let told = format!("\"queue\":\"{want}\",\n");
        assert_eq!(shell(&c, &line).out, told, "{options}");
    };
    goes("-t 20 -p short,main", "short");
    goes("-t 20 -p main,short", "main");
    goes("-t 40 -p short,main", "main");
    goes("-t 20 -N 2 -p short,main", "main");
    // All of the first one's nodes are taken: the second one starts it now.
    let first = submit(&c, "-t 20 -p short --exclusive --wrap 'sleep 600'");
    c.until(first, "it runs", |row| row.state == JobState::Running);
    goes("-t 20 -p short,main", "main");
    // It waits for the first one's and goes where there is room before that.
    let second = submit(&c, "-t 30 -p main -w n2 --exclusive --wrap 'sleep 600'");
    c.until(second, "it runs", |row| row.state == JobState::Running);
    let third = submit(&c, "-t 20 -p short,main --exclusive --wrap 'sleep 600'");
    let partition = || shell(&c, &format!("squeue -h -j {third} -o %P,%T")).out;
    assert_eq!(partition(), "short,main,PENDING\n");
    shell(&c, &format!("scancel {second}"));
    c.until(third, "it runs", |row| row.state == JobState::Running);
    assert_eq!(partition(), "main,RUNNING\n");
}

#[test]
fn an_array_has_no_parts() {
    let c = cluster(1);
    let what = "sbatch: error: Batch job submission failed: Invalid job array specification\n";
    check(&c, "sbatch -a 0-1 -n1 : -n2 --wrap true", 1, "", what);
}

#[test]
fn variables_that_go_along() {
    let c = cluster(1);
    let check = |export: &str, want: &str| {
        let wrap = "--wrap 'echo $FOO,$BAR,$SLURM_EXPORT_ENV'";
        shell(&c, &format!("FOO=a BAR=b sbatch -W -o o {export} {wrap}"));
        assert_eq!(read(&c, "o"), want, "{export}");
    };
    check("", "a,b,\n");
    check("--export=ALL", "a,b,ALL\n");
    check("--export=FOO", "a,,FOO\n");
    check("--export=NONE,BAR=x", ",x,NONE,BAR=x\n");
    check("--export=ALL,FOO=y", "y,b,ALL,FOO=y\n");
}

#[test]
fn dependencies_and_arrays() {
    let c = cluster(1);
    let bad = submit(&c, "exit3.sh");
    let after = submit(&c, &format!("-d afternotok:{bad} -o n --wrap 'echo after'"));
    assert_eq!(c.until_end(after).outcome(), (JobState::Completed, 0));
    assert_eq!(read(&c, "n"), "after\n");
    let array = submit(&c, "--array=1,5-9:2%2 -o t-%A-%a --wrap 'echo $SLURM_ARRAY_TASK_ID'");
    let last = submit(&c, &format!("-d afterok:{array} --wrap true"));
    assert_eq!(c.until_end(last).outcome(), (JobState::Completed, 0));
    for index in [1, 5, 7, 9] {
        assert_eq!(read(&c, &format!("t-{array}-{index}")), format!("{index}\n"));
    }
}

#[test]
fn what_is_taken_as_the_original_takes_it() {
    let options = Options {
        head: "[licenses]\nlic = 1\n".to_owned(),
        ..Options::default()
    };
    let c = Cluster::start(1, options);
    // Nobody knows that job any more: there is nothing to wait for.
    let free = submit(&c, "-d afterok:999999 --wrap true");
    assert_eq!(c.until_end(free).outcome(), (JobState::Completed, 0));
    let line = "sbatch -L lic:2 --wrap true";
    let what = "sbatch: error: Batch job submission failed: Invalid license specification\n";
    check(&c, line, 1, "", what);
    let licensed = submit(&c, "-L lic --wrap true");
    assert_eq!(c.until_end(licensed).outcome(), (JobState::Completed, 0));
    // What is only recorded is shown again.
    let shown = |options: &str| {
        let held = submit(&c, &format!("-H {options} --wrap true"));
        let line = format!("scontrol show job {held} | grep -o 'OverS.*Contiguous=.'");
        shell(&c, &line).out
    };
    assert_eq!(shown("-s"), "OverSubscribe=YES Contiguous=0\n");
    assert_eq!(shown("--contiguous"), "OverSubscribe=OK Contiguous=1\n");
    assert_eq!(shown("--exclusive"), "OverSubscribe=NO Contiguous=0\n");
    // More nodes than there are: it waits until there are.
    let large = submit(&c, "-N 99 --wrap true");
    c.until(large, "it waits", |row| row.state == JobState::Waiting);
    let reason = shell(&c, &format!("squeue -h -j {large} -o %r"));
    assert_eq!(reason.out, "PartitionNodeLimit\n", "{}", reason.err);
}

#[test]
fn a_batch_job_is_pending_until_it_is_looked_at() {
    let options = Options {
        policy: "batch_delay = \"1h\"\n".to_owned(),
        ..Options::default()
    };
    let c = Cluster::start(1, options);
    let looks = |job: JobId| shell(&c, &format!("squeue -h -j {job} -o '%t %r %D'")).out;
    assert_eq!(looks(submit(&c, "--wrap true")), "PD None 1\n");
    assert_eq!(looks(submit(&c, "-N 99 --wrap true")), "PD PartitionConfig 99\n");
    assert_eq!(looks(submit(&c, "-H --wrap true")), "PD JobHeldUser 1\n");
    let config = shell(&c, "scontrol show config | grep ^SchedulerParameters").out;
    assert!(config.contains("batch_sched_delay=3600"), "{config}");
    // What stays with its job does not wait.
    check(&c, "srun echo ran", 0, "ran\n", "");
}

#[test]
fn what_a_cancelled_job_waited_for_is_told() {
    let c = cluster(1);
    let job = submit(&c, "-H --wrap true");
    check(&c, &format!("scancel {job}"), 0, "", "");
    let told = shell(&c, &format!("scontrol show job {job}")).out;
    assert!(told.contains("JobState=CANCELLED Reason=JobHeldUser "), "{told}");
}

#[test]
fn a_script_on_an_open_descriptor_is_read_once() {
    let c = cluster(1);
    let mut command = c.command(&["sbatch", "-W", "-o", "o"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"#!/bin/sh\nhead -c 10 | wc -c\n").unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
    assert_eq!(read(&c, "o").trim(), "0");
}

/// In some containers the leaders of a command's session and process group are outside of
/// the namespace of process ids: the system says 0 for both.
#[test]
fn a_session_led_from_outside_of_the_namespace() {
    let c = cluster(1);
    let inside = |line: &str| shell(&c, &format!("unshare --pid --fork --kill-child {line}"));
    if inside("true").code != 0 {
        system::skip("no namespaces of process ids here");
        return;
    }
    for line in [
        "sbatch --wait --wrap true",
        "srun true",
        "salloc -Q true",
        "csub --wait -- true",
        "calloc -- true",
        "cosy dev -q -N 1 -- true",
    ] {
        let done = inside(line);
        assert_eq!(done.code, 0, "{line}: {done:?}");
    }
    let shown = shell(&c, "scontrol show job 0").out;
    let mut lines = shown.lines().filter(|l| l.contains("AllocNode:Sid="));
    let line = lines.next().unwrap_or_default();
    assert!(line.ends_with(":0"), "{shown}");
}
