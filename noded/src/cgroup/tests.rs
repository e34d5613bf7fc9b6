use super::*;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

const STEP: StepId = StepId(3);

fn processors(n: u32) -> Vec<u32> {
    (0..n).collect()
}

#[test]
fn processor_lists() {
    assert_eq!(ranges(vec![3, 0, 1, 2, 7]), "0-3,7");
    let groups = Cgroups {
        cpuset: Some("/x".into()),
        processors: vec![4, 5, 9],
        real: true,
        limit_cores: true,
        ..Cgroups::default()
    };
    assert_eq!(groups.cpus(&[0, 2]).as_deref(), Some("4,9"));
    assert_eq!(groups.cpus(&[0, 1, 2]), None);
    assert_eq!(groups.cpus(&[3]), None);
    assert_eq!(groups.processors_of(&[0, 2]), [4, 9]);
    assert!(groups.processors_of(&[0, 3]).is_empty());
}

/// A machine with version 2 and all its controllers.
fn version_2(real: bool) -> Cgroups {
    Cgroups {
        unified: Some("/u".into()),
        controllers: Controllers {
            memory: true,
            cpu: true,
            cpuset: true,
            pids: true,
        },
        programs: true,
        processors: processors(4),
        real,
        limit_cores: true,
        ..Cgroups::default()
    }
}

fn directory(group: &Group) -> String {
    group.path().display().to_string()
}

fn set<'a>(settings: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = settings.iter().find(|(n, _)| n == name);
    found.map(|(_, v)| v.as_str())
}

const JOB: AttemptLimits<'_> = AttemptLimits {
    name: "7.1",
    memory_bytes: Some(1 << 20),
    cores: &[0, 1],
    denied: &[],
    trigger: false,
};

#[test]
fn version_2_limits_are_settings_of_the_jobs_group() {
    let got = version_2(false).groups_for(JOB);
    assert_eq!(got.len(), 1);
    assert!(got[0].memory && got[0].unified);
    assert_eq!(directory(&got[0]), "/u/7.1/batch");
    assert_eq!(got[0].parent().as_deref(), Some(Path::new("/u")));
    let outer = got[0].within.as_ref().unwrap();
    assert!(outer.own && outer.must);
    assert_eq!(outer.directory, OsText::from("/u/7.1".to_owned()));
    assert_eq!(outer.settings[0].0, "memory.max");
    assert_eq!(set(&outer.settings, "memory.max"), Some("1048576"));
    assert_eq!(set(&outer.settings, "cpu.max"), Some("200000 100000"));
    assert_eq!(set(&outer.settings, "cpuset.cpus"), None);
    // Last: from then on nothing may run in it.
    let last = outer.settings.last().unwrap();
    assert_eq!(last.1, "+memory +cpu +cpuset +pids");
}

#[test]
fn processes_are_limited_by_cores_or_as_configured() {
    let limit = |groups: Cgroups, job: AttemptLimits<'_>| {
        let got = groups.groups_for(job);
        let outer = got[0].within.clone().unwrap();
        set(&outer.settings, "pids.max").map(str::to_owned)
    };
    let check = |processes, trigger, want: Option<&str>| {
        let job = AttemptLimits { trigger, ..JOB };
        let got = limit(version_2(true).with_processes(processes), job);
        assert_eq!(got.as_deref(), want, "{processes:?}");
    };
    check(Processes::ByCores, false, Some("5120"));
    check(Processes::Most(77), false, Some("77"));
    check(Processes::Unlimited, false, None);
    check(Processes::ByCores, true, Some("512"));
    check(Processes::Most(77), true, Some("77"));
    check(Processes::Unlimited, true, Some("512"));
}

#[test]
fn the_program_of_a_trigger_has_a_share_worth_one_core() {
    let job = AttemptLimits {
        cores: &[],
        trigger: true,
        ..JOB
    };
    for real in [false, true] {
        let got = version_2(real).groups_for(job);
        let outer = got[0].within.clone().unwrap();
        assert_eq!(set(&outer.settings, "cpu.max"), Some("100000 100000"));
        let v1 = Cgroups {
            cpu: Some("/none/c".into()),
            real,
            limit_cores: true,
            ..Cgroups::default()
        };
        let got = v1.groups_for(job);
        assert_eq!(set(&got[0].settings, "cpu.cfs_quota_us"), Some("100000"));
    }
}

#[test]
fn supervisors_of_steps_are_in_their_job() {
    let v2 = version_2(true);
    let keep = v2.keep_of(JOB).unwrap();
    assert_eq!(directory(&keep), "/u/7.1/keep");
    assert_eq!(keep.within.unwrap().settings[0].1, "1048576");
    assert_eq!(v2.groups_for_supervisor(JOB), []);
    let v1 = Cgroups {
        memory: Some("/m".into()),
        pids: Some("/p".into()),
        ..Cgroups::default()
    };
    assert_eq!(v1.keep_of(JOB), None);
    let got = v1.groups_for_supervisor(JOB);
    let paths: Vec<String> = got.iter().map(directory).collect();
    assert_eq!(paths, ["/m/7.1/keep", "/p/7.1"]);
    assert!(got.iter().all(|g| g.strict) && got[1].shared);
    let unlimited = AttemptLimits {
        memory_bytes: None,
        ..JOB
    };
    assert_eq!(v1.groups_for_supervisor(unlimited)[..], got[1..]);
}

#[test]
fn version_2_steps_lie_in_the_jobs_group() {
    let groups = version_2(true);
    let check = |memory, cores: &[u32], want: &[(&str, &str)]| {
        let step = StepLimits {
            step: STEP,
            memory_bytes: memory,
            cores,
            denied: &[],
        };
        let got = groups.groups_for_step(JOB, step);
        assert_eq!(got.len(), 1, "{got:?}");
        assert_eq!(directory(&got[0]), "/u/7.1/s.3");
        let outer = got[0].within.clone().unwrap();
        assert_eq!(outer.settings[0].1, "1048576");
        assert!(outer.must && !outer.own, "stays when the step is over");
        let settings: Vec<_> = got[0].settings.iter().map(|(n, v)| (&**n, &**v)).collect();
        assert_eq!(settings, want);
    };
    let together = ("memory.oom.group", "1");
    check(None, &[], &[together]);
    check(None, &[1], &[("cpuset.cpus", "1"), together]);
    let swap = ("memory.swap.max", "0");
    check(Some(4096), &[], &[("memory.max", "4096"), swap, together]);
    // Never more than the job has.
    let all = [("memory.max", "1048576"), swap, together];
    check(Some(1 << 30), &[], &all);
}

#[test]
fn sessions_have_all_of_their_job() {
    let got = version_2(true).groups_for_logins(JOB);
    assert_eq!(got.len(), 1, "{got:?}");
    assert_eq!((&*directory(&got[0]), got[0].unified), ("/u/7.1/login", true));
    assert_eq!(got[0].settings.iter().find(|(file, _)| file == TOGETHER), None);
    let outer = got[0].within.clone().unwrap();
    assert_eq!((outer.settings[0].1.as_str(), outer.own), ("1048576", false));
}

#[test]
fn a_session_is_taken_in_and_killed_with_its_job() {
    let Some(here) = Here::new("login", |c| c.unified.is_some()) else {
        return;
    };
    let job = AttemptLimits {
        name: "4.1",
        ..AttemptLimits::default()
    };
    let groups = here.0.groups_for_logins(job);
    groups.iter().for_each(|g| g.create().unwrap());
    let mut session = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
    let pid = nix::unistd::Pid::from_raw(session.id() as i32);
    groups.iter().for_each(|g| g.take_in(pid).unwrap());
    assert_eq!(groups[0].processes(), [pid.as_raw()]);
    here.0.remove_job("4.1");
    assert_eq!(session.wait().unwrap().signal(), Some(9));
    assert_eq!(here.directories(), Vec::<PathBuf>::new());
    groups[0].take_in(pid).unwrap_err();
}

#[test]
fn devices_by_either_version() {
    let denied = [
        DeviceNumber {
            block: false,
            major: 195,
            minor: 1,
        },
        DeviceNumber {
            block: true,
            major: 8,
            minor: 0,
        },
    ];
    let job = AttemptLimits {
        denied: &denied,
        ..JOB
    };
    let v2 = version_2(true);
    assert_eq!(v2.groups_for(job)[0].denied, denied);
    let task = v2.groups_for_task("7.1", STEP, 0, &denied);
    assert_eq!(directory(&task[0]), "/u/7.1/s.3/t.0");
    assert_eq!(task[0].denied, denied);
    let v1 = Cgroups {
        unified: Some("/u".into()),
        devices: Some("/d".into()),
        ..Cgroups::default()
    };
    let got = v1.groups_for(job);
    assert_eq!(directory(&got[0]), "/u/7.1");
    assert!(got[0].denied.is_empty() && got[0].within.is_none());
    let texts: Vec<&str> = got[1].settings.iter().map(|(_, v)| v.as_str()).collect();
    assert_eq!(texts, ["c 195:1 rwm", "b 8:0 rwm"]);
    assert!(got[1].shared && got[1].strict);
    assert_eq!(v1.groups_for_task("7.1", STEP, 0, &denied), got[1..]);
    assert_ne!(
        directory(&v1.groups_for_task("7.1", STEP, 0, &denied[..1])[0]),
        directory(&got[1]),
        "another set is another group"
    );
    assert!(v1.groups_for_task("7.1", STEP, 0, &[]).is_empty());
}

/// This machine's groups under a name of this test, removed at its end.
struct Here(Cgroups);

impl Here {
    /// `None`, having said so, where this process may not use what `enough` wants.
    fn new(test: &str, enough: impl Fn(&Cgroups) -> bool) -> Option<Self> {
        let devices = test.starts_with("devices");
        let name = format!("cosy-test-{test}-{}", std::process::id());
        let (found, missing) =
            Cgroups::detect(&name, None, 1, true, crate::detect::processors(), devices);
        if !enough(&found) {
            eprintln!("{test}: not tested: there are no such control groups here: {missing:?}");
            return None;
        }
        Some(Self(found))
    }

    fn directories(&self) -> Vec<PathBuf> {
        let inside = |p: &PathBuf| fs::read_dir(p).into_iter().flatten().flatten();
        let all = self.0.parents().flat_map(inside).map(|e| e.path());
        all.filter(|p| p.is_dir()).collect()
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.0.clean(|_| false);
        self.0.remove_parents();
    }
}

/// Runs a script in groups that are made for it.
fn run_in(groups: &[Group], script: &str) -> Output {
    for group in groups {
        group.create().unwrap();
    }
    let join: String = groups
        .iter()
        .map(|g| format!("echo $$ > {}/cgroup.procs && ", directory(g)))
        .collect();
    Command::new("/bin/sh")
        .args(["-c", &format!("{join}exec sh -c '{script}'")])
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn a_step_is_kept_to_its_memory_inside_its_jobs() {
    let Some(here) = Here::new("memory", |c| c.memory.is_some() || c.controllers.memory) else {
        return;
    };
    const MIB: u64 = 1 << 20;
    let job = AttemptLimits {
        name: "1.1",
        memory_bytes: Some(64 * MIB),
        ..AttemptLimits::default()
    };
    let check = |step: u32, memory: Option<u64>, use_mib: u64, killed: bool| {
        let step = StepLimits {
            step: StepId(step),
            memory_bytes: memory,
            ..StepLimits::default()
        };
        let groups = here.0.groups_for_step(job, step);
        let script = format!("head -c {} /dev/zero | tail -c {}", 2 * use_mib * MIB, use_mib * MIB);
        let output = run_in(&groups, &format!("{script} > /dev/null; exit $?"));
        let memory = groups.iter().find(|g| g.memory).unwrap();
        assert_eq!(memory.out_of_memory_kills() > 0, killed, "{output:?}");
        assert_eq!(output.status.success(), !killed, "{output:?}");
        let peak = memory.peak_memory().unwrap();
        let least = if killed { 16 } else { use_mib };
        assert!(peak >= least * MIB && peak <= 64 * MIB, "{peak}");
        groups.iter().for_each(Group::remove);
        assert!(!memory.path().exists());
        peak
    };
    let small = check(0, Some(16 * MIB), 8, false);
    check(1, Some(16 * MIB), 32, true);
    // More than the job has; and not limited itself.
    check(2, Some(256 * MIB), 128, true);
    check(3, None, 128, true);
    let of_job = here.0.usage_of_job("1.1").peak_bytes.unwrap();
    assert!(of_job >= small, "{of_job} {small}");
    // The job's groups stay until it is over.
    assert!(!here.directories().is_empty());
    here.0.remove_job("1.1");
    assert_eq!(here.directories(), Vec::<PathBuf>::new());
}

#[test]
fn a_job_has_no_more_processes_than_it_may() {
    let Some(here) = Here::new("pids", |c| c.pids.is_some() || c.controllers.pids) else {
        return;
    };
    let mut here = here;
    here.0.processes = Processes::Most(9);
    let job = AttemptLimits {
        name: "4.1",
        ..AttemptLimits::default()
    };
    let groups = here.0.groups_for(job);
    let script =
        "i=0; while [ $i -lt 20 ]; do sleep 1000 > /dev/null 2>&1 & i=$((i+1)); done; wait";
    let output = run_in(&groups, script);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("fork"), "{output:?}");
    here.0.remove_job("4.1");
    assert_eq!(here.directories(), Vec::<PathBuf>::new());
}

#[test]
fn the_batch_program_and_steps_go_apart() {
    let Some(here) = Here::new("apart", |c| c.unified.is_some()) else {
        return;
    };
    let batch = here.0.groups_for(AttemptLimits {
        name: "2.1",
        ..AttemptLimits::default()
    });
    let job = AttemptLimits {
        name: "2.1",
        ..AttemptLimits::default()
    };
    let step = here.0.groups_for_step(job, StepLimits::default());
    let sleep = |groups: &[Group]| {
        groups.iter().for_each(|g| g.create().unwrap());
        let join = format!("echo $$ > {}/cgroup.procs", directory(&groups[0]));
        let mut child = Command::new("/bin/sh")
            .args(["-c", &format!("{join}; echo; exec sleep 1000")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Joined as soon as it has said something.
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        child
    };
    let (mut script, mut task) = (sleep(&batch), sleep(&step));
    batch[0].kill();
    assert_eq!(script.wait().unwrap().signal(), Some(9));
    assert_eq!(batch[0].processes(), Vec::<i32>::new());
    assert_eq!(step[0].processes(), [task.id() as i32], "the step runs on");
    batch[0].remove();
    assert!(step[0].path().exists());
    here.0.remove_job("2.1");
    assert_eq!(task.wait().unwrap().signal(), Some(9));
    assert_eq!(here.directories(), Vec::<PathBuf>::new());
}

/// A task that is kept from /dev/full opens /dev/zero only.
fn check_devices(groups: &Cgroups) {
    let denied = crate::devices::number_of(Path::new("/dev/full")).unwrap();
    let job = AttemptLimits {
        name: "3.1",
        ..AttemptLimits::default()
    };
    let step = StepLimits {
        step: STEP,
        ..StepLimits::default()
    };
    let mut all = groups.groups_for_step(job, step);
    all.extend(groups.groups_for_task("3.1", STEP, 0, &[denied]));
    let output = run_in(&all, "head -c 1 /dev/zero && : < /dev/full");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout, [0], "{error}");
    assert!(error.contains("Operation not permitted"), "{error}");
    assert!(!output.status.success());
    // The step itself is not kept from it.
    all.pop();
    let output = run_in(&all, "head -c 1 /dev/full");
    assert_eq!(output.stdout, [0], "{output:?}");
}

#[test]
fn version_1_keeps_devices_away() {
    if let Some(here) = Here::new("devices-1", |c| c.devices.is_some()) {
        check_devices(&here.0);
    }
}

#[test]
fn version_2_keeps_devices_away() {
    let works = |c: &Cgroups| c.unified.as_deref().is_some_and(program::works);
    if let Some(mut here) = Here::new("devices-2", works) {
        // Where both are there version 1 is used: leave it out.
        let version_1 = here.0.devices.take();
        here.0.programs = true;
        check_devices(&here.0);
        here.0.devices = version_1;
    }
}
