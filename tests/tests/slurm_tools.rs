//! Tools and scripts that were written for Slurm, unchanged, against Cosy's commands of the
//! same names: submitit, dask-jobqueue, snakemake, rendezvous by `SLURM_*` variables, and
//! job scripts in the styles that computing centres publish.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::python::{Packages, with_or_skip};
use cosy_tests::run::{finish, run, spawn};
use cosy_tests::shell::{read, shell};
use cosy_tests::{Cluster, Options, Output, wait};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn cluster(nodes: usize) -> Cluster {
    let options = Options {
        cores: 4,
        memory: "8G",
        queues: Some(
            "[[queue]]\nname = 'main'\ndefault = true\n[[queue]]\nname = 'work'\n".to_owned(),
        ),
        ..Options::default()
    };
    Cluster::start(nodes, options)
}

fn tools() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tools")
}

/// A program with the cluster's commands first in PATH and nothing that names the cluster.
fn tool(c: &Cluster, words: &[&str]) -> Command {
    let like = c.command(&["sbatch"]);
    let path = like.get_envs().find(|(name, _)| *name == "PATH").unwrap();
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .current_dir(c.work())
        .env("PATH", path.1.unwrap())
        .env("HOME", c.work())
        .env_remove("COSY_SOCKET");
    command
}

#[track_caller]
fn fine(c: &Cluster, output: Output) -> Output {
    let said = || format!("{}\n{}\n{}", output.out, output.err, c.logs());
    assert_eq!(output.code, 0, "{}", said());
    output
}

#[test]
fn submitit() {
    let packages = Packages {
        name: "submitit",
        wanted: &["submitit"],
        modules: "submitit",
    };
    let Some(python) = with_or_skip(packages) else {
        return;
    };
    let c = cluster(2);
    let script = tools().join("submitit_scenarios.py");
    let folder = c.work().join("logs");
    let words = [&python, &script, &folder].map(|p| p.to_str().unwrap());
    let out = fine(&c, run(&mut tool(&c, &words))).out;
    assert_eq!(out.lines().filter(|l| l.ends_with(" fine")).count(), 6, "{out}");
    c.until_no_job_processes();
}

#[test]
fn dask() {
    let packages = Packages {
        name: "dask",
        wanted: &["dask-jobqueue"],
        modules: "dask_jobqueue",
    };
    let Some(python) = with_or_skip(packages) else {
        return;
    };
    let c = cluster(2);
    let script = tools().join("dask_scale.py");
    let work = c.work();
    let words = [&python, &script, &work].map(|p| p.to_str().unwrap());
    let out = fine(&c, run(&mut tool(&c, &words))).out;
    assert!(out.contains("dask fine"), "{out}");
    c.until_no_job_processes();
}

#[test]
fn snakemake() {
    let packages = Packages {
        name: "snakemake",
        wanted: &["snakemake", "snakemake-executor-plugin-slurm"],
        modules: "snakemake, snakemake_executor_plugin_slurm",
    };
    let Some(python) = with_or_skip(packages) else {
        return;
    };
    let c = cluster(2);
    let snakefile = tools().join("Snakefile");
    let words = [
        python.with_file_name("snakemake").display().to_string(),
        "--executor=slurm".to_owned(),
        "--jobs=8".to_owned(),
        "--keep-going".to_owned(),
        "--default-resources=slurm_account=a".to_owned(),
        "--slurm-init-seconds-before-status-checks=2".to_owned(),
        "--seconds-between-status-checks=2".to_owned(),
        format!("--snakefile={}", snakefile.display()),
    ];
    let words: Vec<&str> = words.iter().map(|w| &**w).collect();
    let mut command = tool(&c, &words);
    let bin = python.parent().unwrap().display().to_string();
    let path = command.get_envs().find(|(n, _)| *n == "PATH").unwrap().1;
    let path = format!("{}:{bin}", path.unwrap().to_str().unwrap());
    command.env("PATH", path);
    // Every job starts snakemake itself, twice.
    let output = finish(spawn(&mut command), &[], Duration::from_secs(400));
    let said = format!("{}\n{}", output.out, output.err);
    // One of the twenty fails, the rest is done.
    assert_eq!(output.code, 1, "{said}\n{}", c.logs());
    let want: String = (0..18).map(|n| format!("{n}\n")).collect();
    let joined = fs::read_to_string(c.work().join("joined"));
    assert_eq!(joined.ok(), Some(want), "{said}\n{}", c.logs());
    assert!(said.contains("Error in rule broken"), "{said}");
    let out = c.run(&["sacct", "-X", "-n", "-P", "-o", "state"]).out;
    let count = |state: &str| out.lines().filter(|l| *l == state).count();
    assert_eq!((count("COMPLETED"), count("FAILED")), (19, 1), "{out}");
}

#[test]
fn programs_meet_by_variables_alone() {
    let c = cluster(2);
    let script = tools().join("rendezvous.py");
    let line = format!("srun python3 {}", script.display());
    let words = [
        "sbatch",
        "--parsable",
        "-N2",
        "-n4",
        "-o",
        "out",
        "--wrap",
        &line,
    ];
    let job = submitted(&c, &words);
    let row = c.until_end(job);
    let out = fs::read_to_string(c.work().join("out")).unwrap();
    assert_eq!(row.outcome(), (JobState::Completed, 0), "{out}");
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    // As there: a node is filled before the next, and each has one.
    let want = [(0, 0), (1, 1), (2, 2), (3, 0)]
        .map(|(rank, local)| format!("rank {rank} local {local} of 4: 6"));
    assert_eq!(lines, want);
}

#[track_caller]
fn submitted(c: &Cluster, words: &[&str]) -> JobId {
    let mut command = c.command(words);
    command
        .env_remove("COSY_SOCKET")
        .env("HOME", c.work())
        .env("USER", "root");
    let out = fine(c, run(&mut command)).out;
    JobId(out.trim().parse().unwrap())
}

/// How a script of `tools/centres` ends, and what it writes where (`%j`: the job's id).
struct Centre {
    script: &'static str,
    exit: i32,
    output: &'static str,
    lines: &'static [&'static str],
}

const CENTRES: [Centre; 10] = [
    Centre {
        script: "01_serial.sh",
        exit: 0,
        output: "serial_test_%j.log",
        lines: &["serial: serial_job_test 1 1024"],
    },
    Centre {
        script: "02_openmp.sh",
        exit: 0,
        output: "omp.%j.out",
        lines: &["openmp: 2 threads, 2 cpus", "step: 0 2"],
    },
    Centre {
        script: "03_mpi_srun.sh",
        exit: 0,
        output: "mpi-%j.out",
        lines: &[
            "mpi: 2 nodes, 4 tasks, by node 3,1",
            "0: rank 0 of 4",
            "3: rank 3 of 4",
        ],
    },
    Centre {
        script: "04_array.sh",
        exit: 0,
        output: "array_%j_5.out",
        lines: &["array: 5 of 3 from 1 to 9: e"],
    },
    Centre {
        script: "05_scratch_trap.sh",
        exit: 0,
        output: "scratch.out",
        lines: &["scratch: script", "scratch: cleaned"],
    },
    Centre {
        script: "06_pack_steps.sh",
        exit: 0,
        output: "pack.out",
        lines: &["pack 1", "pack 4", "pack: all steps ended"],
    },
    Centre {
        script: "07_nodefile.sh",
        exit: 0,
        output: "nodefile.out",
        lines: &["nodefile: 2 nodes, head n1, here n1", "head runs on n1"],
    },
    Centre {
        script: "08_chain.sh",
        exit: 0,
        output: "chain.%j.out",
        lines: &["chain: step 1"],
    },
    Centre {
        script: "09_requeue.sh",
        exit: 0,
        output: "requeue.out",
        lines: &["requeue: restarts 0", "requeue: restarts 1"],
    },
    Centre {
        script: "10_modules.sh",
        exit: 3,
        output: "modules.out",
        lines: &["modules: project_1234 work 100", "hosts: 2"],
    },
];

#[test]
fn scripts_of_computing_centres() {
    let c = cluster(2);
    // Login shells begin with the system's PATH.
    let profile = format!("PATH={}/bin:$PATH\n", c.dir().display());
    fs::write(c.work().join(".bash_profile"), profile).unwrap();
    for centre in &CENTRES {
        let script = c.work().join(centre.script);
        fs::copy(tools().join("centres").join(centre.script), &script).unwrap();
        let job = submitted(&c, &["sbatch", "--parsable", centre.script]);
        check(&c, centre, job);
    }
    // The third of the chain was submitted by the second, that by the first.
    wait::until_true("the chain ends", || {
        let next = fs::read_to_string(c.work().join("next.2")).unwrap_or_default();
        let out = c.work().join(format!("chain.{}.out", next.trim()));
        fs::read_to_string(out).is_ok_and(|text| text == "chain: step 3\n")
    });
    c.until_no_job_processes();
}

const UNDER_WAY: [&str; 5] = [
    "PENDING",
    "CONFIGURING",
    "RUNNING",
    "COMPLETING",
    "REQUEUED",
];

fn check(c: &Cluster, centre: &Centre, job: JobId) {
    let wait = ["sacct", "-n", "-X", "-P", "-o", "state,exitcode", "-j"];
    let id = job.to_string();
    let words = [&wait[..], &[&id]].concat();
    let state = wait::until("the job ends", || {
        let out = c.run(&words).out;
        let ended = |l: &str| !UNDER_WAY.contains(&word(l));
        (!out.is_empty() && out.lines().all(ended)).then_some(out)
    });
    let name = centre.output.replace("%j", &id);
    let text = fs::read_to_string(c.work().join(&name)).unwrap_or_default();
    let want = match centre.exit {
        0 => "COMPLETED|0:0".to_owned(),
        code => format!("FAILED|{code}:0"),
    };
    let said = || format!("{}: {state}\n{name}:\n{text}\n{}", centre.script, c.logs());
    assert!(state.lines().all(|l| l == want), "{}", said());
    for line in centre.lines {
        assert!(text.lines().any(|l| l == *line), "no '{line}'\n{}", said());
    }
}

fn word(line: &str) -> &str {
    line.split(['|', ' ']).next().unwrap_or_default()
}

/// Command lines that adapters of other projects had to be written for elsewhere: waiting for the
/// end, scripts on standard input, arguments of scripts, one run for all nodes, `--overcommit`.
#[test]
fn command_lines_of_other_projects() {
    let c = cluster(2);
    let check = |line: &str, code: i32, file: &str, want: &str| {
        let said = shell(&c, line);
        assert_eq!(said.code, code, "{line}: {}", said.err);
        if !file.is_empty() {
            assert_eq!(read(&c, file), want, "{line}");
        }
    };
    let entry = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1\n\
        printf '<%s>' \"$@\"; echo \" $SLURM_NNODES $SLURM_NTASKS\"\n";
    fs::write(c.work().join("entry.sh"), entry).unwrap();
    fs::create_dir(c.work().join("logs")).unwrap();
    check("sbatch --wait --wrap 'exit 7'", 7, "", "");
    check("sbatch -W -o ok.out --wrap 'echo ok'", 0, "ok.out", "ok\n");
    // The script is the batch script's, its arguments are its own, and it runs once.
    let line = "sbatch --wait -o a.out entry.sh -- --image 'reg/a:b' --flag 'two words' -N 5";
    let want = "<--><--image><reg/a:b><--flag><two words><-N><5> 2 2\n";
    check(line, 0, "a.out", want);
    check("sbatch --wait -o b.out < entry.sh", 0, "b.out", "<> 2 2\n");
    let line = "cat entry.sh | sbatch --wait -o c.out --nodes=1";
    check(line, 0, "c.out", "<> 1 1\n");
    let line = "sbatch --wait -o d.out <<'EOF'\n#!/bin/sh\necho $0 | grep -c script\nEOF";
    check(line, 0, "", "");
    // With srun it runs once for each task.
    let line = "srun -N2 --ntasks-per-node=1 ./entry.sh --run x | sort > e.out";
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(c.work().join("entry.sh"), mode).unwrap();
    check(line, 0, "e.out", "<--run><x> 2 2\n<--run><x> 2 2\n");
    check("srun -N1 -n12 --overcommit hostname | wc -l > f.out", 0, "f.out", "12\n");
    let line = "sbatch -W -O -N1 -n12 -o g.out --wrap 'srun --overcommit hostname | wc -l'";
    check(line, 0, "g.out", "12\n");
    let line = "sbatch --comment=0195-uuid --output=logs/slurm-%j.log --ntasks=1 -H --parsable \
        entry.sh 0195-uuid";
    let job = shell(&c, line).expect(0).out;
    let listed = shell(&c, "squeue -h --format='%i %k'").expect(0).out;
    assert_eq!(listed, format!("{} 0195-uuid\n", job.trim()));
}

/// What a poller that gives each job of a build service to Slurm says (CliMA/slurm-buildkite,
/// `SlurmJobScheduler`), word for word but for paths and partition.
#[test]
fn a_poller_of_a_build_service() {
    let c = cluster(2);
    fs::create_dir(c.work().join("logs")).unwrap();
    let script = "#!/bin/bash\nprintf '<%s>' \"$@\"; echo; test -z \"$2\" || exec sleep 1000\n";
    fs::write(c.work().join("schedule_job.sh"), script).unwrap();
    let url = |uuid: &str| format!("https://buildkite.com/clima/amip/builds/93#{uuid}");
    let submit = |uuid: &str, modules: &str| {
        let line = format!(
            "sbatch --parsable --job-name=buildkite '--comment={}' --output=logs/slurm-%j.log \
             --ntasks=2 --mem-per-cpu=100M --exclusive --partition=main,work --time=1:05:00 \
             $PWD/schedule_job.sh {uuid} {modules}",
            url(uuid)
        );
        let out = shell(&c, &line).expect(0);
        JobId(out.out.trim().parse().unwrap())
    };
    let [one, two] =
        ["01934580-f7e9-4296", "01934580-f7d7-45ea"].map(|uuid| submit(uuid, "climate"));
    c.until_state(one, JobState::Running);
    c.until_state(two, JobState::Running);
    let current = || {
        let line = "squeue --name=buildkite --noheader --format=%k,%A";
        let out = shell(&c, line).expect(0).out;
        let mut lines: Vec<String> = out.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let line = |uuid, job| format!("{},{job}", url(uuid));
    let want = [
        line("01934580-f7d7-45ea", two),
        line("01934580-f7e9-4296", one),
    ];
    assert_eq!(current(), want);
    shell(&c, &format!("scancel --name=buildkite {one}")).expect(0);
    c.until_end(one);
    assert_eq!(current(), want[..1]);
    shell(&c, "scancel --name=buildkite").expect(0);
    c.until_end(two);
    // What it says when a submission fails: the message goes along as an argument.
    let line = format!(
        "sbatch --parsable --job-name=bk_error --time=00:01:00 --ntasks=1 '--comment={}' \
         --output=logs/slurm-%j.log $PWD/schedule_job.sh 0193 '' 'sbatch: error: no
such partition'",
        url("0193")
    );
    let job = JobId(shell(&c, &line).expect(0).out.trim().parse().unwrap());
    c.until_end(job);
    let told = "<0193><><sbatch: error: no\nsuch partition>\n";
    assert_eq!(read(&c, &format!("logs/slurm-{job}.log")), told);
}

/// What launchers of trainings and of image builds say (AMD-AGI/Primus `primus-cli slurm`,
/// ROCm/rocm-aic `_sbatch_run` and `cmd_load`, a harness that submits with `--wait --parsable`).
#[test]
fn launchers_of_trainings_and_builds() {
    let c = cluster(2);
    let check = |line: &str, code: i32, want: &str| {
        let said = shell(&c, line);
        assert_eq!((said.code, said.out.as_str()), (code, want), "{line}: {}", said.err);
    };
    let entry = "#!/bin/bash\nprintf '<%s>' \"$@\"; echo \" $SLURM_NNODES\"\n";
    let path = c.work().join("primus-cli-slurm-entry.sh");
    fs::write(&path, entry).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&path, mode).unwrap();
    // srun: once for each node; sbatch: once.
    let once = "<--><container><--><train><pretrain><--config><exp.yaml> 2\n";
    check(
        "srun -N 2 -p work -q burst ./primus-cli-slurm-entry.sh -- container -- train pretrain \
         --config exp.yaml",
        0,
        &once.repeat(2),
    );
    let line = "sbatch --wait --output=run.log -N 2 ./primus-cli-slurm-entry.sh --debug -- container \
                -- benchmark gemm -M 4096 -N 4096 -K 4096 >/dev/null";
    check(line, 0, "");
    let want = "<--debug><--><container><--><benchmark><gemm><-M><4096><-N><4096><-K><4096> 2\n";
    assert_eq!(read(&c, "run.log"), want);
    // The id comes while the job runs; the exit code is the job's.
    let line =
        "bash -c 'stdbuf -oL sbatch --parsable --wait --job-name=aai-day-build --partition=main \
        --output=/dev/null --nodelist=n2 --nodes=1 --ntasks=1 --cpus-per-task=2 --mem=8G \
        --overcommit --time=00:10:00 <<<\"$script\" >id & pid=$!
        while [ ! -s id ] || [ ! -e begun ]; do sleep 0.05; done
        test \"$(cat begun)\" = \"$(head -n1 id)\" && touch go; wait $pid'";
    let script = "export script='#!/bin/bash\necho $SLURM_JOB_ID > begun
        while [ ! -e go ]; do sleep 0.05; done; exit 9'";
    check(&format!("{script}\n{line}"), 9, "");
    check(
        "srun --job-name=aai-day-load --partition=main --nodelist=n1,n2 --nodes=2 \
         --ntasks-per-node=1 --cpus-per-task=2 --mem=8G --overcommit --time=00:10:00 \
         bash -c 'set -euo pipefail; echo $SLURMD_NODENAME: loaded' | sort",
        0,
        "n1: loaded\nn2: loaded\n",
    );
    fs::write(c.work().join("job.sbatch"), "#!/bin/sh\nexit 4\n").unwrap();
    let said = shell(&c, "sbatch --wait --parsable -o /dev/null job.sbatch");
    assert_eq!(said.code, 4, "{said:?}");
    let job = JobId(said.out.trim().parse().unwrap());
    let line = format!("sacct -nXP -j {job} -o state,exitcode");
    check(&line, 0, "FAILED|4:0\n");
    // One more that was written for a drop-in that lacked these.
    let line = "sbatch --wait -N2 -o d.out --wrap 'scontrol show hostnames; srun --overlap -N1 -n1 \
                true && squeue --me -h -o %A' >/dev/null";
    check(line, 0, "");
    let told = read(&c, "d.out");
    assert!(told.starts_with("n1\nn2\n") && told.lines().count() == 3, "{told}");
}
