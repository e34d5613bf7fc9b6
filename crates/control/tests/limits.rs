//! Limits of accounts and qualities of service: a scenario in text for each, in `tests/limits`.
//!
//! ```text
//! case what it shows
//! config limits_pend|safe|queue qos=NAME|queue max_time=MINUTES|...    before anything else
//! set account physics GrpTRES=cpu=4      limits, flags=..., of account, user USER@ACCOUNT or qos
//! 1 ann submits -n4 : runs               the job is known as 1 from now on
//! 2 ann submits -n4 : waits assoc:GrpTRES=cpu : account physics: ...
//! - ann submits -n6 : refused assoc:GrpTRES=cpu : account physics: ...
//! 1 starts in SECONDS                    what is told, - for nothing
//! 1 ends | pass SECONDS | crash | 2 : runs
//! ```
//!
//! There are three nodes with 8 cores, 16,000 MiB and two GPUs each. Accounts: physics with lab below
//! it, chem. Users: ann in physics and lab, bob in physics, eve in chem.

#![allow(clippy::unwrap_used)]

mod world;

use cosy_control::ClusterConfig;
use cosy_model::api::{JobField, JobRef, Reply, Request, Submission};
use cosy_model::job::{MemoryRequest, ResourceRequest};
use cosy_model::policy::*;
use cosy_model::{JobId, JobSpec, MiB, OsText, QueueSpec, Refusal, Span, Time, WaitReason};
use std::collections::{BTreeMap, BTreeSet};
use world::*;

fn person(name: &str) -> cosy_model::User {
    let uid = match name {
        "root" => 0,
        "ann" => 1000,
        "bob" => 1001,
        "eve" => 1002,
        other => panic!("nobody is called {other}"),
    };
    user(uid, name)
}

fn key(account: &str, user: Option<&str>) -> AssociationKey {
    AssociationKey {
        account: account.to_owned(),
        user: user.map(str::to_owned),
        queue: None,
    }
}

fn change(w: &mut World, changes: Vec<PolicyChange>) -> Result<(), Refusal> {
    let id = w.id() as u8;
    let request = Request::ChangePolicy {
        changes,
        dry_run: false,
    };
    match w.ask_as(person("root"), Some([id; 16]), request) {
        Reply::Done { .. } => Ok(()),
        Reply::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn account(name: &str, parent: &str, qos: &[&str]) -> PolicyChange {
    let qos: BTreeSet<String> = qos.iter().map(|name| (*name).to_owned()).collect();
    PolicyChange::AddAccount {
        name: name.to_owned(),
        parent: Some(parent.to_owned()),
        description: None,
        organization: None,
        set: AssociationChange {
            qos: (!qos.is_empty()).then_some(QosListChange::Exactly(qos)),
            ..AssociationChange::default()
        },
    }
}

fn member(account: &str, user: &str) -> PolicyChange {
    PolicyChange::AddAssociation {
        key: key(account, Some(user)),
        set: AssociationChange::default(),
    }
}

fn make_tree(w: &mut World) {
    let qos = |name: &str| PolicyChange::AddQos {
        name: name.to_owned(),
        set: QosChange::default(),
    };
    let all = ["normal", "high", "low"];
    change(
        w,
        vec![
            qos("high"),
            qos("low"),
            qos("pq"),
            account("physics", "root", &all),
            account("lab", "physics", &[]),
            account("chem", "root", &all),
            member("physics", "ann"),
            member("lab", "ann"),
            member("physics", "bob"),
            member("chem", "eve"),
        ],
    )
    .unwrap();
}

/// `GrpTRES=cpu=4`, `MaxJobs=-1`.
fn limit(word: &str) -> (LimitKey, Option<u64>) {
    let (key, value) = word.rsplit_once('=').unwrap();
    let value = (value != "-1").then(|| value.parse().unwrap());
    (key.parse().unwrap(), value)
}

fn set(words: &[&str]) -> PolicyChange {
    let (what, name, rest) = match words {
        [what, name, rest @ ..] => (*what, *name, rest),
        _ => panic!("{words:?}"),
    };
    let (mut flags, mut gone) = (BTreeSet::new(), BTreeSet::new());
    let mut limits = Vec::new();
    let mut factor: Option<u32> = None;
    for word in rest {
        if let Some(given) = word.strip_prefix("factor_ppm=") {
            factor = given.parse().ok();
            continue;
        }
        match word.strip_prefix("flags=") {
            Some(all) => {
                for flag in all.split(',') {
                    match flag.strip_prefix('-') {
                        Some(flag) => gone.insert(QosFlag::of_word(flag).unwrap()),
                        None => flags.insert(QosFlag::of_word(flag).unwrap()),
                    };
                }
            }
            None => limits.push(limit(word)),
        }
    }
    let of_association = |key| PolicyChange::ModifyAssociation {
        key,
        set: AssociationChange {
            limits: limits.clone(),
            ..AssociationChange::default()
        },
    };
    match what {
        "account" => of_association(key(name, None)),
        "user" => {
            let (user, account) = name.split_once('@').unwrap();
            of_association(key(account, Some(user)))
        }
        "qos" => PolicyChange::ModifyQos {
            name: name.to_owned(),
            set: QosChange {
                limits,
                add_flags: flags,
                usage_factor_ppm: factor,
                remove_flags: gone,
                ..QosChange::default()
            },
        },
        other => panic!("{other}"),
    }
}

/// Options as users write them, as far as the scenarios need them.
fn job(words: &[&str]) -> (JobSpec, Option<String>) {
    let mut spec = JobSpec {
        time_limit: Some(Span::from_minutes(10)),
        ..spec("job")
    };
    spec.account = Some("physics".to_owned());
    let mut request = ResourceRequest::default();
    let mut array = None;
    for word in words {
        if let Some(n) = word.strip_prefix("-n") {
            request.tasks = Some(n.parse().unwrap());
        } else if let Some(n) = word.strip_prefix("-N") {
            request.nodes = Some(n.parse().unwrap());
        } else if let Some(n) = word.strip_prefix("--mem=") {
            request.memory = MemoryRequest::PerNode(MiB(n.parse().unwrap()));
        } else if let Some(text) = word.strip_prefix("--time=") {
            spec.time_limit = (text != "none").then(|| Span::from_minutes(text.parse().unwrap()));
        } else if let Some(names) = word.strip_prefix("-p") {
            spec.queues = names.split(',').map(str::to_owned).collect();
        } else if *word == "--slurm" {
            spec.dialect = cosy_model::Dialect::Slurm;
        } else if *word == "--exclusive" {
            request.exclusive = true;
        } else if let Some(text) = word.strip_prefix("--gpus=") {
            let gpus: cosy_model::device::GpuRequest = text.parse().unwrap();
            request.gpus_per_node = gpus.count;
            request.gpu_types = gpus.types;
        } else if let Some(n) = word.strip_prefix("--fpga=") {
            request.other_per_node.set("fpga", n.parse().unwrap());
        } else if let Some(text) = word.strip_prefix("-L") {
            let (name, count) = text.split_once(':').unwrap();
            spec.licenses.set(name, count.parse().unwrap());
        } else if let Some(name) = word.strip_prefix("-A") {
            spec.account = Some(name.to_owned());
        } else if let Some(name) = word.strip_prefix("--qos=") {
            spec.qos = Some(name.to_owned());
        } else if let Some(text) = word.strip_prefix("--array=") {
            array = Some(text.to_owned());
        } else {
            panic!("{word}");
        }
    }
    spec.request = request;
    (spec, array)
}

fn configured(words: &[&str], config: &mut ClusterConfig) {
    match words {
        ["limits_pend"] => config.policy.limits_pend = true,
        ["safe"] => config.enforce.safe = true,
        ["second", rest @ ..] => {
            let second = QueueSpec {
                name: "second".to_owned(),
                nodes: Some(vec!["n3".to_owned()]),
                ..config.queues[0].clone()
            };
            config.queues[0].nodes = Some(vec!["n1".to_owned(), "n2".to_owned()]);
            config.queues.push(second);
            config.queues.reverse();
            configured(&[&["queue"], rest].concat(), config);
            config.queues.reverse();
        }
        ["queue", word] => {
            let (name, value) = word.split_once('=').unwrap();
            let list = || value.split(',').map(str::to_owned).collect::<Vec<String>>();
            let queue: &mut QueueSpec = &mut config.queues[0];
            match name {
                "qos" => queue.admits.qos = Some(value.to_owned()),
                "allow_accounts" => queue.admits.allow_accounts = Some(list()),
                "deny_accounts" => queue.admits.deny_accounts = list(),
                "allow_qos" => queue.admits.allow_qos = Some(list()),
                "deny_qos" => queue.admits.deny_qos = list(),
                "max_time" => queue.max_time = Some(Span::from_minutes(value.parse().unwrap())),
                "default_time" => {
                    queue.default_time = Some(Span::from_minutes(value.parse().unwrap()));
                }
                "max_nodes" => queue.max_nodes = Some(value.parse().unwrap()),
                other => panic!("{other}"),
            }
        }
        other => panic!("{other:?}"),
    }
}

struct Play {
    w: World,
    /// Numbers of jobs by the names that the scenario gives them.
    jobs: BTreeMap<String, u64>,
}

impl Play {
    fn new(config: ClusterConfig, devices: bool) -> Self {
        let mut w = match devices {
            true => World::with_devices(config),
            false => World::new(config),
        };
        w.run_time = Span::from_secs(1_000_000);
        make_tree(&mut w);
        Self {
            w,
            jobs: BTreeMap::new(),
        }
    }

    fn submit(&mut self, who: &str, words: &[&str]) -> Result<u64, Refusal> {
        let (spec, array) = job(words);
        let submission = Submission {
            spec,
            script: OsText::default(),
            array: array.map(|text| text.parse().unwrap()),
        };
        let request = Request::Submit(Box::new(submission));
        let reply = self.w.ask_as(person(who), None, request);
        self.w.deliver_all();
        match reply {
            Reply::Submitted { job, .. } => Ok(job.0),
            Reply::Refused(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    /// What is told of a job: its state, or why it waits and the sentence of it.
    fn told(&mut self, id: u64) -> (String, String) {
        let job = JobRef {
            job: JobId(id),
            task: None,
        };
        let reply = self
            .w
            .ask_as(person("root"), None, Request::Explain { job });
        let Reply::Explained { table, lines } = reply else {
            panic!("{reply:?}");
        };
        let state = table.text(0, JobField::State);
        let reason = table.text(0, JobField::Reason);
        match reason.is_empty() {
            true => (state.to_string(), lines.join(" ")),
            false => (format!("waits {reason}"), lines.join(" ")),
        }
    }

    /// In how many seconds a job is told to start, if it is.
    fn starts_in(&mut self, id: u64) -> Option<i64> {
        let job = JobRef {
            job: JobId(id),
            task: None,
        };
        let reply = self
            .w
            .ask_as(person("root"), None, Request::Explain { job });
        let Reply::Explained { table, .. } = reply else {
            panic!("{reply:?}");
        };
        let start = Time(table.number(0, JobField::PredictedStart)?);
        Some(start.since(self.w.now).ms() / 1000)
    }

    fn end(&mut self, id: u64) {
        for n in 0..self.w.nodes.len() {
            let known: Vec<_> = self.w.nodes[n].known.keys().copied().collect();
            for key in known
                .into_iter()
                .filter(|key| key.job().is_some_and(|own| own.job == JobId(id)))
            {
                self.w.end(n, key, 0);
            }
        }
        self.w.deliver_all();
    }

    fn line(&mut self, line: &str) {
        let (does, want) = match line.split_once(" : ") {
            Some((does, want)) => (does, Some(want)),
            None => (line, None),
        };
        let words: Vec<&str> = does.split_whitespace().collect();
        match words.as_slice() {
            ["set", rest @ ..] => {
                let all = set(rest);
                change(&mut self.w, vec![all]).unwrap();
                self.w.deliver_all();
            }
            [name, "starts", "in", secs] => {
                let secs = (*secs != "-").then(|| secs.parse().unwrap());
                assert_eq!(self.starts_in(self.jobs[*name]), secs, "{name} starts in");
            }
            ["pass", secs] => self.w.pass(secs.parse().unwrap()),
            ["crash"] => {
                self.w.crash();
                self.w.connect_all();
                self.w.deliver_all();
            }
            [name, "ends"] => self.end(self.jobs[*name]),
            [name, who, "submits", options @ ..] => {
                let outcome = self.submit(who, options);
                self.expect(name, outcome, want.unwrap());
            }
            [name] => {
                let id = self.jobs[*name];
                self.expect(name, Ok(id), want.unwrap());
            }
            other => panic!("{other:?}"),
        }
    }

    fn expect(&mut self, name: &str, outcome: Result<u64, Refusal>, want: &str) {
        let (state, sentence) = match want.split_once(" : ") {
            Some((state, sentence)) => (state, sentence),
            None => (want, ""),
        };
        let (is, said) = match outcome {
            Ok(id) => {
                self.jobs.insert(name.to_owned(), id);
                self.told(id)
            }
            Err(refusal) => {
                let limit = refusal.limit.map(|hit| hit.word());
                let word = limit.or_else(|| refusal.about.map(|about| format!("{about:?}")));
                (format!("refused {}", word.unwrap_or_default()), refusal.message)
            }
        };
        let state = match state {
            "runs" => "running",
            other => other,
        };
        assert_eq!(is, state, "{name}: {said}");
        assert!(said.contains(sentence), "{name} is told '{said}', not '{sentence}'");
        if let Some(word) = is.strip_prefix("waits ") {
            assert!(WaitReason::of_word(word).is_some(), "{word}");
        }
    }
}

/// Plays a case: its first lines configure the cluster.
fn play(lines: &[&str]) {
    let mut config = config(3, 8);
    config.enforce = Enforce {
        associations: true,
        limits: true,
        qos: true,
        safe: false,
    };
    config.licenses.set("lic", 10);
    let mut devices = false;
    let mut rest = lines.iter();
    let mut first = None;
    for line in rest.by_ref() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["config", "devices"] => devices = true,
            ["config", words @ ..] => configured(words, &mut config),
            _ => {
                first = Some(*line);
                break;
            }
        }
    }
    let mut play = Play::new(config, devices);
    for line in first.into_iter().chain(rest.copied()) {
        let step = std::panic::AssertUnwindSafe(|| play.line(line));
        if let Err(why) = std::panic::catch_unwind(step) {
            eprintln!("at '{line}'");
            std::panic::resume_unwind(why);
        }
    }
}

/// Each line of what real Slurm said of a limit, played here: the same jobs run, wait and are refused,
/// for the same reason.
#[test]
fn as_slurm_did() {
    let recorded = include_str!("../../slurm/recordings/reasons.txt");
    let mut played = 0;
    let mut wrong = Vec::new();
    for line in recorded.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [place, limit, jobs, flag, _, want] = cells.as_slice() else {
            panic!("{line}");
        };
        // There were minutes used before; and with the very first limit of the recording the first
        // job had ended when the second came: with DenyOnLimit it waits there, too.
        let used_before = limit.starts_with("GrpTRESMins=mem");
        let had_ended = *place == "assoc-acct" && *limit == "GrpTRES=cpu=4" && *want == "-";
        if *flag == "-" && (used_before || had_ended) {
            continue;
        }
        let said = as_slurm(place, limit, jobs, flag);
        if said != *want {
            wrong.push(format!("{line}: here {said}"));
        }
        played += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(played, 112);
}

/// Waiting jobs count as gathering age whether or not a limit says how many may.
#[test]
fn who_gathers_age_is_counted_without_a_limit() {
    let mut config = config(1, 8);
    config.enforce.limits = true;
    let mut play = Play::new(config, false);
    let ageing = |play: &mut Play| -> Vec<u32> {
        let query = PolicyQuery::Associations {
            accounts: vec!["physics".to_owned()],
            users: Vec::new(),
            usage: true,
            skip: 0,
        };
        let root = user(0, "root");
        let reply = play.w.ask_as(root, None, Request::Policy(query));
        let Reply::Policy(PolicyAnswer::Associations { rows, .. }) = reply else {
            panic!("{reply:?}");
        };
        let counts = |row: &AssociationInfo| row.usage.as_ref().map_or(0, |use_of| use_of.accruing);
        rows.iter().take(3).map(counts).collect()
    };
    let ids: Vec<_> = [&["-n8"][..], &["-n8"], &["-n8"]]
        .map(|words| play.submit("ann", words).unwrap())
        .into();
    // the account, ann and bob in it
    assert_eq!(ageing(&mut play), [2, 2, 0], "{ids:?}");
    let limit = |value| AssociationChange {
        limits: vec![("GrpJobsAccrue".parse().unwrap(), value)],
        ..AssociationChange::default()
    };
    for (value, want) in [(Some(1), [1, 1, 0]), (None, [2, 2, 0])] {
        let set = limit(value);
        let key = key("physics", None);
        change(&mut play.w, vec![PolicyChange::ModifyAssociation { key, set }]).unwrap();
        play.w.pass(2);
        assert_eq!(ageing(&mut play), want, "{value:?}");
    }
}

/// What becomes of the last of these jobs, in the words of the recording.
fn as_slurm(place: &str, limit: &str, jobs: &str, flag: &str) -> String {
    let mut config = config(3, 8);
    config.enforce = Enforce {
        associations: true,
        limits: true,
        qos: true,
        safe: false,
    };
    config.policy.limits_pend = true;
    config.licenses.set("lic", 10);
    let mut play = Play::new(config, false);
    let at = match place {
        "qos" => LimitPlace::Qos,
        _ => LimitPlace::Association,
    };
    let (key, value) = cosy_slurm::sacctmgr::settings::limit(at, limit).unwrap()[0].clone();
    let set = AssociationChange {
        limits: vec![(key.clone(), value)],
        ..AssociationChange::default()
    };
    let mut qos = QosChange {
        add_flags: QosFlag::of_word(flag).into_iter().collect(),
        ..QosChange::default()
    };
    let user = (place == "assoc-user").then_some("ann");
    if at == LimitPlace::Qos {
        qos.limits.push((key.clone(), value));
    }
    let mut changes = vec![PolicyChange::ModifyQos {
        name: "high".to_owned(),
        set: qos,
    }];
    if at == LimitPlace::Association {
        let key = self::key("physics", user);
        changes.push(PolicyChange::ModifyAssociation { key, set });
    }
    change(&mut play.w, changes).unwrap();
    let mut words: Vec<String> = vec!["--qos=high".to_owned()];
    let mut count = 1;
    let mut all = jobs.split_whitespace().skip(1).peekable();
    while let Some(word) = all.next() {
        match word.strip_prefix('x').and_then(|n| n.parse().ok()) {
            Some(n) => count = n,
            None if word == "-L" => words.push(format!("-L{}", all.next().unwrap())),
            None => words.push(word.to_owned()),
        }
    }
    // Slurm gives a job that names no memory all of a node.
    let memory = words.iter().any(|word| word.starts_with("--mem"));
    if key.tres == Some(Tres::Memory) && !memory {
        words.push("--mem=100".to_owned());
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcomes: Vec<_> = (0..count).map(|_| play.submit("ann", &words)).collect();
    match outcomes.into_iter().next_back().unwrap() {
        Ok(id) => match play.told(id).0.strip_prefix("waits ") {
            Some(word) => {
                let Some(WaitReason::Limit(hit)) = WaitReason::of_word(word) else {
                    panic!("{word}");
                };
                format!("waits {}", cosy_slurm::limit_reason::reason(&hit))
            }
            None => "-".to_owned(),
        },
        Err(refusal) => {
            let hit = refusal.limit.unwrap();
            format!("refused {}", cosy_slurm::limit_reason::reason(&hit))
        }
    }
}

#[test]
fn scenarios() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/limits");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|f| f.unwrap().path())
        .collect();
    files.sort();
    let (mut cases, mut failed) = (0, Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        for case in text.split("\ncase ").skip(1) {
            let mut lines = case.lines().map(str::trim);
            let title = lines.next().unwrap_or_default();
            eprintln!("{name}: {title}");
            let lines: Vec<&str> = lines
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .collect();
            let played = std::panic::catch_unwind(|| play(&lines));
            if played.is_err() {
                failed.push(format!("{name}: {title}"));
            }
            cases += 1;
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(cases > 30, "only {cases} cases were found");
}
