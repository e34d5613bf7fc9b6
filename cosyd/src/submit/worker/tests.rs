//! Workers that answer, hang, crash, eat memory and talk nonsense. Each is a script of the shell.

use super::*;
use cosy_model::{JobSpec, MiB, OsText, Program, User};
use cosy_rules::protocol::Sees;
use cosy_rules::{Field, Requester, Subject, Value};

fn policy(script: &str) -> WorkerPolicy {
    WorkerPolicy {
        command: ["/bin/sh", "-c", script].map(str::to_owned).into(),
        uid: 65_534,
        timeout: Duration::from_secs(60),
        memory: MiB(512),
        network: false,
        fail_open: false,
        sees: Sees::default(),
        script: None,
    }
}

fn asked(kept: &mut Option<Worker>, policy: &WorkerPolicy) -> Result<Wanted, String> {
    let user = User {
        name: "ann".into(),
        ..User::default()
    };
    let mut spec = JobSpec::plain("job", Program::Allocation, OsText::from("/"));
    let subject = Subject {
        requester: Requester {
            request: "submit",
            user: &user,
            admin: false,
            default_queue: None,
        },
        spec: &mut spec,
        array: None,
        indices: None,
        environment: None,
        component: 0,
    };
    let question = Question {
        version: protocol::VERSION,
        fields: protocol::fields(&subject),
        ..Question::default()
    };
    ask(kept, policy, question)
}

#[test]
fn a_worker_stays_and_sees_the_fields() {
    let script = r#"n=0; while read -r line; do n=$((n+1)); case $line in *'"user":"ann"'*) ;; *) exit;; esac
        echo "{\"id\":$n,\"set\":{\"queue\":\"gpu\",\"time_limit\":\"2h\",\"memory_per_node\":1024},\"remarks\":[\"$$\"]}"; done"#;
    let (mut kept, policy) = (None, policy(script));
    let first = asked(&mut kept, &policy).unwrap();
    let want = [
        (Field::MemoryPerNode, Value::Size(1024)),
        (Field::Queue, Value::Text("gpu".into())),
        (Field::TimeLimit, Value::Time(7200)),
    ];
    assert_eq!(first.set, want);
    let second = asked(&mut kept, &policy).unwrap();
    assert_eq!(first.remarks, second.remarks, "another process has answered");
    // Another configuration has another worker.
    let other = self::policy("read -r line; echo '{\"id\":1,\"refuse\":\"no\"}'");
    assert_eq!(asked(&mut kept, &other).unwrap().refuse.as_deref(), Some("no"));
}

#[test]
fn what_does_not_answer_as_it_should_is_killed() {
    let check = |script: &str, want: &str| {
        let mut kept = None;
        let why = asked(&mut kept, &policy(script)).unwrap_err();
        assert!(why.contains(want), "{script}: {why}");
        assert!(kept.is_none(), "{script}: it lives on");
    };
    check("exit 3", "");
    check("read -r line; kill -9 $$", "it has ended");
    check("read -r line; echo rubbish", "its answer is none");
    check("read -r line; echo '{\"id\":7}'", "it answers request 7 and was asked 1");
    check("read -r line; printf '{\"id\":1}\\nmore\\n'; sleep 1000", "more than one line");
    check(
        "read -r line; echo '{\"id\":1,\"set\":{\"user\":\"root\"}}'",
        "'user', which cannot be set",
    );
    check(
        "read -r line; echo '{\"id\":1,\"set\":{\"nodes\":\"many\"}}'",
        "nodes to what is not a number",
    );
    check("read -r line; echo '{\"id\":1,\"run\":\"x\"}'", "unknown field");
    check("yes | tr -d '\\n'", "longer than 65536 bytes");
    // More memory than it may have: the shell's child fails, and the shell ends.
    check(
        "read -r line; head -c 2000000000 /dev/zero | tail -c 1900000000 >/dev/null || exit",
        "it has ended",
    );
    let missing = WorkerPolicy {
        command: vec!["/none".into()],
        ..policy("")
    };
    let why = asked(&mut None, &missing).unwrap_err();
    assert!(why.starts_with("/none: "), "{why}");
}

#[test]
fn what_hangs_is_killed_with_what_it_has_started() {
    let seconds = format!("7{}", std::process::id());
    let hangs = WorkerPolicy {
        timeout: Duration::from_millis(300),
        ..policy(&format!("sleep {seconds} & read -r line; wait"))
    };
    let mut kept = None;
    let why = asked(&mut kept, &hangs).unwrap_err();
    assert!(why.contains("not answered in time"), "{why}");
    assert!(kept.is_none());
    let lives = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let mut lines = all.map(|e| std::fs::read(e.path().join("cmdline")).unwrap_or_default());
        let sleeps = format!("sleep\0{seconds}\0");
        lines.any(|line| line == sleeps.as_bytes())
    };
    let until = Instant::now() + Duration::from_secs(30);
    while lives() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!lives());
}

#[test]
fn as_root_it_is_somebody_else_without_network() {
    if !nix::unistd::geteuid().is_root() {
        return cosy_skip::skip("needs root");
    }
    let script = "read -r line; u=$(id -u); g=$(id -G); n=$(grep -c : /proc/net/dev); echo \"{\\\"id\\\":1,\\\"remarks\\\":[\\\"$u $g $n\\\"]}\"";
    let wanted = asked(&mut None, &policy(script)).unwrap();
    // Of interfaces there is only the loopback of its own namespace.
    assert_eq!(wanted.remarks, ["65534 65534 1"]);
}
