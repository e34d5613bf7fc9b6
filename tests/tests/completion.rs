//! What shells complete with a real cluster: each is typed to on a terminal of its own.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::people::{self, ANN};
use cosy_tests::screen::OnScreen;
use cosy_tests::{Cluster, Options};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::{Duration, Instant};

const SIZE: (u16, u16) = (100, 40);

/// A job that runs, one that waits, one that has ended, and a reservation with a name that would be
/// more than a name to a shell.
fn busy() -> Cluster {
    let c = Cluster::start(
        2,
        Options {
            controller: "[account.physics]\nbudget = 400\n".to_owned(),
            ..Options::default()
        },
    );
    c.run(&["csub", "--wait", "-Q", "-J", "over", "--", "true"])
        .expect(0);
    c.run(&["csub", "-Q", "-t", "60", "-J", "runs", "--", "sleep", "600"])
        .expect(0);
    c.run(&[
        "csub", "-Q", "--hold", "-a", "1-9", "-J", "many", "--", "true",
    ])
    .expect(0);
    c.until_state(JobId(2), JobState::Running);
    for name in ["plain", "$(touch broken);x"] {
        let words = ["cresv", "book", "-N", "1", "-t", "10", "--at", "now+1h"];
        c.run(&[&words[..], &["--name", name]].concat()).expect(0);
    }
    let flow =
        "[workflow]\nname = 'night'\n[tasks.a]\ncommand = ['sleep', '600']\nestimate = '10m'\n";
    std::fs::write(c.work().join("flow.toml"), flow).unwrap();
    c.run(&["cosy", "flow", "submit", "flow.toml"]).expect(0);
    c
}

/// A shell that has read its script.
struct Shell {
    screen: OnScreen,
    name: &'static str,
}

impl Shell {
    fn start(c: &Cluster, name: &'static str, words: &[&str], read: &str) -> Self {
        let path = format!("{}/bin:{}", c.dir().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(name);
        command
            .args(words)
            .current_dir(c.work())
            .env("COSY_SOCKET", c.socket())
            .env("PATH", path)
            .env("PS1", "ready> ")
            .env("INPUTRC", "/dev/null")
            .env("HOME", c.work());
        let mut screen = OnScreen::start(&mut command, SIZE);
        screen.keys(&format!("{read}; echo com''plete\r"));
        screen.until("\ncomplete");
        Self { screen, name }
    }

    /// What is typed, and what stands on the screen when a key after it is `@`.
    #[track_caller]
    fn check(&mut self, typed: &str, want: &str) {
        self.press(&format!("{typed}\t@"), &format!("{want}@"));
    }

    /// The same where several are offered, which some shells list at the second time only.
    #[track_caller]
    fn check_list(&mut self, typed: &str, want: &[&str]) {
        for want in want {
            self.press(&format!("{typed}\t\t"), want);
        }
    }

    #[track_caller]
    fn press(&mut self, keys: &str, want: &str) {
        // An empty screen with an empty line.
        self.screen.keys(&format!("\u{5}\u{15}\u{c}{keys}"));
        let what = format!("{}: {want:?} of {keys:?}", self.name);
        self.screen.until_seen(&what, |text| text.contains(want));
    }
}

fn is_there(shell: &str) -> bool {
    let there = Command::new(shell)
        .args(["-c", "true"])
        .status()
        .is_ok_and(|s| s.success());
    if !there {
        cosy_skip::skip(&format!("{shell} is not installed"));
    }
    there
}

/// What bash and zsh do alike.
fn names(shell: &mut Shell) {
    shell.check("csub -q ma", "csub -q main ");
    shell.check("csub --queue=ma", "csub --queue=main ");
    shell.check("sbatch -p ma", "sbatch -p main ");
    shell.check("sbatch --partition=ma", "sbatch --partition=main ");
    shell.check("ccancel 3", "ccancel 3 ");
    shell.check_list("cosy hist 1", &["12"]);
    shell.check("csub --reserv", "csub --reservation ");
    shell.check("srun --reservation pl", "srun --reservation plain ");
    shell.check("scontrol show part", "scontrol show partition ");
    shell.check("scontrol update PartitionN", "scontrol update PartitionName=");
    shell.check("scontrol update partitionname=ma", "scontrol update partitionname=main ");
    shell.check("cstat queu", "cstat queues ");
    shell.check("cosy flow show ", "cosy flow show 1 ");
    shell.check("csub --account ph", "csub --account physics ");
    shell.check("env A=1 csub -o wor", "csub -o work.txt ");
    shell.check_list("ccancel ", &["2", "3"]);
    shell.check_list("cadm node drain n", &["n1", "n2"]);
    shell.check_list("scontrol show node n", &["n1", "n2"]);
    shell.check_list("cresv cancel ", &["1", "2"]);
}

#[test]
fn bash_completes_names() {
    let c = busy();
    std::fs::write(c.work().join("work.txt"), "").unwrap();
    let words = ["--norc", "--noprofile", "-i"];
    let mut shell = Shell::start(&c, "bash", &words, "source <(cosy completion bash)");
    names(&mut shell);
    // The one with a harmless name is the only one.
    shell.check("srun --reservation ", "srun --reservation plain ");
    assert!(!c.work().join("broken").exists());
}

#[test]
fn zsh_completes_names() {
    if !is_there("zsh") {
        return;
    }
    let c = busy();
    std::fs::write(c.work().join("work.txt"), "").unwrap();
    let read = "autoload -Uz compinit && compinit -u; source <(cosy completion zsh)";
    let mut shell = Shell::start(&c, "zsh", &["-f", "-i"], read);
    names(&mut shell);
    shell.check_list("ccancel ", &["-- running runs", "-- waiting many"]);
    shell.check_list("cosy hist 1", &["1  -- completed over"]);
    assert!(!c.work().join("broken").exists());
}

#[test]
fn fish_completes_names() {
    if !is_there("fish") {
        return;
    }
    let c = busy();
    std::fs::write(c.work().join("work.txt"), "").unwrap();
    let offers = |line: &str| {
        let path = format!("{}/bin:{}", c.dir().display(), std::env::var("PATH").unwrap());
        let script = "cosy completion fish | source; complete -C $argv[1]";
        let mut command = Command::new("fish");
        command
            .args(["--no-config", "-c", script, line])
            .current_dir(c.work())
            .env("COSY_SOCKET", c.socket())
            .env("PATH", path)
            .env("HOME", c.work());
        cosy_tests::run::run(&mut command).expect(0).out
    };
    let check = |line: &str, want: &str| {
        let got = offers(line);
        let found = got
            .lines()
            .any(|l| l == want || l.starts_with(&format!("{want}\t")));
        assert!(found, "{line}: {got}");
    };
    check("csub -q ma", "main");
    check("csub --queue=ma", "--queue=main");
    check("sbatch -p ma", "main");
    check("ccancel ", "2\trunning runs");
    check("cosy hist ", "1\tcompleted over");
    check("csub --reserv", "--reservation");
    check("scontrol show node n", "n2");
    check("csub -o wor", "work.txt");
    check("srun --reservation ", "plain");
    assert!(!offers("srun --reservation ").contains("touch"));
    assert!(!c.work().join("broken").exists());
}

/// The files that `make install` puts where shells look.
#[test]
fn installed_scripts_complete() {
    let c = busy();
    c.run(&["cosy", "generate", "completions", "made"])
        .expect(0);
    let words = ["--norc", "--noprofile", "-i"];
    let read = "source made/bash/csub.bash; source made/slurm/bash/scancel.bash";
    let mut bash = Shell::start(&c, "bash", &words, read);
    bash.check("csub -q ma", "csub -q main ");
    bash.check("scancel 3", "scancel 3 ");
    if is_there("zsh") {
        let read = "fpath=($PWD/made/zsh $PWD/made/slurm/zsh $fpath); autoload -Uz compinit && compinit -u";
        let mut zsh = Shell::start(&c, "zsh", &["-f", "-i"], read);
        zsh.check("scancel 3", "scancel 3 ");
        zsh.check("csub -q ma", "csub -q main ");
    }
    if is_there("fish") {
        let script = "set -p fish_complete_path $PWD/made/fish $PWD/made/slurm/fish; \
                      complete -C 'csub -q ma'; complete -C 'scancel 3'";
        let mut fish = Command::new("fish");
        let path = format!("{}/bin:{}", c.dir().display(), std::env::var("PATH").unwrap());
        fish.args(["--no-config", "-c", script])
            .current_dir(c.work())
            .env("COSY_SOCKET", c.socket())
            .env("PATH", path)
            .env("HOME", c.work());
        let got = cosy_tests::run::run(&mut fish).expect(0).out;
        assert!(got.starts_with("main\t") && got.contains("\n3\twaiting many"), "{got}");
    }
}

/// Whoever sees all jobs has no use for a list of them.
#[test]
fn only_own_jobs_are_offered() {
    if !nix::unistd::getuid().is_root() {
        return cosy_skip::skip("no root: there is no other user");
    }
    let c = people::start(1, Options::default());
    let words = ["csub", "-Q", "--hold", "--", "true"];
    c.run(&words).expect(0);
    c.run_as(ANN, &words).expect(0);
    let ask = ["cosy", "__complete", "fish", "--", "ccancel", ""];
    assert_eq!(c.run(&ask).expect(0).out, "names\n1\twaiting true\n");
    assert_eq!(c.run_as(ANN, &ask).expect(0).out, "names\n2\twaiting true\n");
}

/// A controller that is not there, or takes the call and says nothing: nothing is offered, nothing
/// is said, and soon.
#[test]
fn without_a_controller_nothing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let silent = folder.path().join("silent");
    let _listener = UnixListener::bind(&silent).unwrap();
    for socket in [folder.path().join("none"), silent] {
        let mut command = Command::new(cosy_tests::programs::folder().join("cosy"));
        command
            .args(["__complete", "fish", "--", "csub", "-q", ""])
            .env("COSY_SOCKET", &socket);
        let begun = Instant::now();
        let output = command.output().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(5), "{socket:?}");
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(["", "names\n"].contains(&said.as_str()), "{said}");
    }
}

/// Its options are made ahead, by the shell's own means.
#[test]
fn cosy_sim_completes() {
    let folder = tempfile::tempdir().unwrap();
    let sim = cosy_tests::programs::folder().join("cosy-sim");
    if !sim.exists() {
        return cosy_skip::skip("cosy-sim is not built");
    }
    let mut pages = Command::new(sim);
    pages.args(["pages", "completions"]).arg(folder.path());
    cosy_tests::run::run(&mut pages).expect(0);
    let script = "source \"$1\"; COMP_WORDS=(cosy-sim tr); COMP_CWORD=1; \
                  _cosy__sim cosy-sim tr cosy-sim; echo \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script, "bash"])
        .arg(folder.path().join("bash/cosy-sim.bash"));
    let got = cosy_tests::run::run(&mut bash).expect(0).out;
    assert!(got.split_whitespace().any(|w| w == "try"), "{got}");
}
