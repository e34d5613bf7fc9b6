//! Users log in on nodes: those without a job are refused, those with one become part of it and leave
//! with it. A real `sshd` and `pam_cosy.so`.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::logins::{self, Site};
use cosy_tests::run::Output;
use cosy_tests::{people, system, wait};
use nix::sys::signal::Signal;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Submits as ann, and waits until it runs.
fn running(site: &Site, words: &[&str]) -> JobId {
    let words = [&["sbatch", "-o", "/dev/null", "-t", "30"], words].concat();
    let told = site.cluster.run_as(people::ANN, &words).expect(0).out;
    let job = JobId(told.trim().rsplit(' ').next().unwrap().parse().unwrap());
    site.cluster.until_state(job, JobState::Running);
    job
}

/// What a session finds in its environment.
fn variable(output: &Output, name: &str) -> Option<String> {
    let prefix = format!("{name}=");
    let mut lines = output.out.lines();
    lines.find_map(|line| line.strip_prefix(&*prefix).map(str::to_owned))
}

/// In every hierarchy in which the job's program is in a group of the job, the session is in one too,
/// and in those that are shared by jobs in the same one.
fn are_in_the_same_groups(program: &str, session: &str, job: &str) {
    let of_job = format!("/{job}.1");
    let mut found = 0;
    for line in program.lines() {
        let (hierarchy, path) = line.split_at(line.rfind(':').unwrap());
        let want = match path.find(&of_job) {
            Some(at) if path.contains("cosy") => path[..at + of_job.len()].to_owned(),
            _ if path.contains("/cpus-") => path.to_owned(),
            _ => continue,
        };
        found += 1;
        let is_it = |own: &str| own.starts_with(hierarchy) && own.contains(&*want);
        assert!(session.lines().any(is_it), "{line} and\n{session}");
    }
    if found == 0 {
        system::skip("no control groups: it is not looked where a session is");
    }
}

/// A session that stays, and ignores that it is to hang up.
struct Session {
    child: Child,
    /// Process of its shell.
    pid: i32,
}

impl Session {
    fn start(site: &Site, node: usize) -> Self {
        let words = site.ssh("ann", node);
        let line = "trap '' HUP; (setsid sleep 1003 &) ; echo $$; exec sleep 1003";
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .arg(line)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = String::new();
        let out = child.stdout.as_mut().unwrap();
        let mut byte = [0];
        while out.read(&mut byte).unwrap() > 0 && byte[0] != b'\n' {
            told.push(char::from(byte[0]));
        }
        let pid = told
            .parse()
            .unwrap_or_else(|_| panic!("no session: {}", site.said()));
        Self { child, pid }
    }

    #[track_caller]
    fn until_ended(mut self, site: &Site) {
        wait::until_true("the session has ended", || !system::is_alive(self.pid));
        wait::until("its connection too", || self.child.try_wait().unwrap());
        let mark = site.cluster.dir().display().to_string();
        wait::until_true("nothing of it is left", || {
            let left =
                system::processes_where(|words| words.have("sleep\x001003") && words.have(&mark));
            left.is_empty()
        });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn who_has_a_job_gets_in_and_leaves_with_it() {
    let Some(site) = logins::start_or_skip(1, logins::listen) else {
        return;
    };
    let refused = site.log_in("ann", 1, "echo in");
    assert!(refused.code != 0 && refused.out.is_empty(), "{refused:?}\n{}", site.said());
    let why = "access denied: you have no job on node n1";
    assert!(refused.err.contains(why), "{refused:?}\n{}", site.said());
    site.log_in("root", 1, "true").expect(0);

    let own_group = site.cluster.work().join("group");
    let script =
        format!("cat /proc/self/cgroup > {0}.new; mv {0}.new {0}; sleep 1000", own_group.display());
    let job = running(&site, &["-n2", "--mem", "200", "--wrap", &script]);
    let session = site.log_in("ann", 1, "env; cat /proc/self/cgroup");
    let session = session.expect(0);
    let own = job.to_string();
    for name in ["SLURM_JOB_ID", "COSY_JOB_ID"] {
        assert_eq!(variable(&session, name).as_ref(), Some(&own), "{}", session.out);
    }
    for (name, value) in [
        ("SLURM_JOB_NODELIST", "n1"),
        ("SLURM_JOB_CPUS_PER_NODE", "2"),
        ("SLURM_JOB_USER", "ann"),
        ("COSY_NODENAME", "n1"),
    ] {
        assert_eq!(variable(&session, name).as_deref(), Some(value), "{}", session.out);
    }
    assert_eq!(variable(&session, "SLURM_PROCID"), None);
    let of_job = wait::until("the job is where it belongs", || fs::read_to_string(&own_group).ok());
    let asked = site.log_in_asked("ann", 1, "env; cat /proc/self/cgroup");
    for session in [session, asked.expect(0)] {
        assert_eq!(variable(&session, "SLURM_JOB_ID").as_ref(), Some(&own), "{}", session.out);
        are_in_the_same_groups(&of_job, &session.out, &own);
    }
    // Others are not let in by it.
    assert_ne!(site.log_in("bob", 1, "true").code, 0);

    let stays = Session::start(&site, 1);
    site.cluster.cancel(job);
    site.cluster.until_state(job, JobState::Cancelled);
    stays.until_ended(&site);
    assert_ne!(site.log_in("ann", 1, "true").code, 0);
    site.cluster
        .run(&["csub", "--wait", "-Q", "--", "true"])
        .expect(0);
}

fn ends_with_its_job(site: &mut Site) {
    let job = running(site, &["--wrap", "sleep 1000"]);
    let stays = Session::start(site, 1);
    site.cluster.nodes[0].kill();
    let start = Instant::now();
    let refused = site.log_in("ann", 1, "true");
    assert!(refused.code != 0 && refused.err.contains("try again"), "{refused:?}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert!(system::is_alive(stays.pid), "the session goes on without the daemon");
    site.cluster.start_noded(0);
    site.cluster.nodes[0].await_ready();
    wait::until_true("users get in again", || site.log_in("ann", 1, "true").code == 0);
    assert!(system::is_alive(stays.pid), "{}", site.said());
    site.cluster.cancel(job);
    site.cluster.until_state(job, JobState::Cancelled);
    stays.until_ended(site);
}

#[test]
fn sessions_outlive_the_daemon_and_end_with_their_job() {
    if let Some(mut site) = logins::start_or_skip(1, logins::listen) {
        ends_with_its_job(&mut site);
    }
}

#[test]
fn without_control_groups_sessions_end_with_their_job() {
    let without = |node| format!("{}cgroup = \"none\"\n", logins::listen(node));
    if let Some(mut site) = logins::start_or_skip(1, without) {
        ends_with_its_job(&mut site);
    }
}

#[test]
fn of_several_jobs_it_is_the_one_at_the_other_end() {
    let Some(site) = logins::start_or_skip(2, logins::listen) else {
        return;
    };
    let work = site.cluster.work();
    for (node, name) in [(2, "there"), (1, "back")] {
        let ssh = site.ssh("ann", node).join(" ");
        let out = work.join(name).display().to_string();
        // Where there are control groups a program is known by them alone, on the way back.
        let clean = match name {
            "back" => "$(grep -q /cosy- /proc/self/cgroup && echo env -i PATH=$PATH)",
            _ => "",
        };
        let text = format!(
            "#!/bin/sh\n{clean} {ssh} 'echo $SLURM_JOB_ID' > {out}.new 2> {out}.err && mv {out}.new {out}\n"
        );
        let script = work.join(format!("go-{name}"));
        fs::write(&script, text).unwrap();
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // It logs in from its first node to its second one and back, when others of the user run there.
    let go = work.join("go");
    let script = format!(
        "while ! test -e {0}; do sleep 0.05; done\n{0}-there\nsrun -N1 -n1 -w n2 {0}-back\nsleep 1000",
        go.display()
    );
    let wide = running(&site, &["-N2", "-n2", "--wrap", &script]);
    let newer = [1, 2].map(|node| {
        let name = format!("n{node}");
        running(&site, &["-w", &name, "--wrap", "sleep 1000"])
    });
    // Somebody from elsewhere gets into the newest one there.
    for (job, node) in newer.into_iter().zip(1..) {
        let told = site.log_in("ann", node, "echo $SLURM_JOB_ID").expect(0);
        assert_eq!(told.out.trim(), job.to_string(), "{}", site.said());
    }
    site.configure(1, "action_unknown=deny");
    let refused = site.log_in("ann", 1, "true");
    assert!(refused.code != 0 && refused.err.contains("to which of your 2 jobs"), "{refused:?}");
    site.configure(1, "action_unknown=allow");
    let told = site.log_in("ann", 1, "echo in $SLURM_JOB_ID").expect(0);
    assert_eq!(told.out, "in\n");
    site.configure(1, "action_unknown=deny");
    fs::write(go, "").unwrap();
    for name in ["there", "back"] {
        let read = |name: &str| fs::read_to_string(work.join(name)).ok();
        let error = || read(&format!("{name}.err")).filter(|text| text.contains("denied"));
        let told = wait::until("a login from inside of the job", || read(name).or_else(error));
        assert_eq!(told.trim(), wide.to_string(), "{name}: {}", site.said());
    }
}

#[test]
fn what_the_administrator_may_say() {
    let Some(site) = logins::start_or_skip(1, logins::listen) else {
        return;
    };
    let check = |words: &str, user: &str, want: Result<(), &str>| {
        site.configure(1, words);
        let got = site.asks("sshd-n1", user);
        let said = format!("{}{}", got.out, got.err);
        match want {
            Ok(()) => assert_eq!(got.code, 0, "{words}: {said}"),
            Err(why) => assert!(got.code != 0 && said.contains(why), "{words}: {said}"),
        }
    };
    check("", "ann", Err("you have no job on node n1"));
    check("action_no_jobs=ignore", "ann", Ok(()));
    check("service=login", "ann", Ok(()));
    let wrong = "is not configured well";
    for words in [
        "action_no_jobs=allow",
        "sokcet=/x",
        "action_failure=allow log_level=much",
    ] {
        check(words, "ann", Err(wrong));
        check(words, "root", Ok(()));
    }
    let nobody = "cannot tell to which job you belong";
    check("socket=/nowhere", "ann", Err(nobody));
    check("socket=/nowhere", "root", Ok(()));
    check("socket=/nowhere action_no_jobs=ignore", "ann", Err(nobody));
    check("socket=/nowhere action_failure=allow", "ann", Ok(()));
    let job = running(&site, &["--wrap", "sleep 1000"]);
    check("", "ann", Ok(()));
    check("", "bob", Err("you have no job"));
    // A daemon that stands still is not waited for.
    site.cluster.nodes[0].signal(Signal::SIGSTOP);
    let start = Instant::now();
    check("", "ann", Err(nobody));
    let waited = start.elapsed();
    site.cluster.nodes[0].signal(Signal::SIGCONT);
    assert!(waited < Duration::from_secs(10), "{waited:?}");
    wait::until_true("it answers again", || site.asks("sshd-n1", "ann").code == 0);
    site.cluster.cancel(job);
}

/// Somebody who listens in the daemon's place and says that.
fn false_daemon(site: &Site, name: &str, say: fn(&mut UnixStream)) {
    let path = site.cluster.dir().join(name);
    let listener = UnixListener::bind(&path).unwrap();
    site.configure(1, &format!("socket={}", path.display()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            say(&mut stream);
            // Until the other side has gone.
            while stream.read(&mut [0; 256]).is_ok_and(|got| got > 0) {}
        });
        let refused = site.log_in("ann", 1, "echo in");
        let why = "cannot tell to which job you belong";
        assert!(refused.code != 0 && refused.out.is_empty(), "{name}: {refused:?}");
        assert!(refused.err.contains(why), "{name}: {refused:?}\n{}", site.said());
    });
}

#[test]
fn false_daemons_let_nobody_in() {
    let Some(site) = logins::start_or_skip(1, logins::listen) else {
        return;
    };
    running(&site, &["--wrap", "sleep 1000"]);
    false_daemon(&site, "silent", |_| {});
    false_daemon(&site, "garbage", |stream| drop(stream.write_all(b"\0\xff\n\nadopted\nend\n")));
    false_daemon(&site, "half", |stream| drop(stream.write_all(b"adopted 1\nCOSY_A=1\n")));
    false_daemon(&site, "endless", |stream| while stream.write_all(&[b'a'; 4096]).is_ok() {});
    false_daemon(&site, "variables", |stream| {
        let line = format!("COSY_A={}\n", "x".repeat(1000));
        let _ = stream.write_all(b"adopted 1\n");
        while stream.write_all(line.as_bytes()).is_ok() {}
    });
    // `sshd` lives, and lets in whom the true one lets in.
    site.configure(1, "");
    site.log_in("ann", 1, "true").expect(0);
}

/// Users cannot make themselves, or anything, part of a job of anybody.
#[test]
fn the_socket_is_roots() {
    let Some(site) = logins::start_or_skip(1, logins::listen) else {
        return;
    };
    running(&site, &["--wrap", "sleep 1000"]);
    let socket = site.login_socket(1);
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let ask = |uid: u32| {
        people::as_user(uid, || {
            let mut stream = UnixStream::connect(&socket)?;
            stream.write_all(format!("login 1 {} newest\n", people::ANN).as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<String, std::io::Error>(answer)
        })
    };
    ask(people::ANN).unwrap_err();
    // Also where somebody has opened it.
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    for uid in [people::ANN, people::BOB] {
        assert!(ask(uid).is_ok_and(|answer| answer.is_empty()) || ask(uid).is_err());
    }
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    assert!(!own.contains("/login"), "{own}");
}
