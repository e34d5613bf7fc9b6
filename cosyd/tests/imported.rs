//! Who may submit where after `cadm import-slurm` could submit there before. The sites are drawn by
//! chance; what Slurm would have said is a model of its documentation, written here; what is said
//! after the import is said by the configuration's own check, the rules at submission and the
//! controller. Sources of the model: slurm.conf(5), "AccountingStorageEnforce" and the parameters
//! of partitions; sacctmgr(1). Where Slurm's word has no counterpart the model lets nobody in.
//!
//! Administrators are not asked: they may change who may submit, there and here.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_control::{Caller, ClientId, Controller, Effect, Event, Facts, Loaded};
use cosy_model::api::{Reply, Request, Submission};
use cosy_model::job::ResourceRequest;
use cosy_model::policy::{NORMAL, QosRecord};
use cosy_model::{Gid, Group, JobSpec, OsText, Program, Span, Time, Uid, User};
use cosy_slurm::import::lines::Piece;
use cosy_slurm::import::{Imported, Sources, import, qos};
use cosy_slurm::sacctmgr::{load, view::PolicyView};
use cosyd::config::Config;
use cosyd::submit::{Reason, Workers, judge};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use std::path::Path;

const USERS: [(&str, &[&str]); 4] = [
    ("ann", &["staff", "phys"]),
    ("bob", &["staff"]),
    ("cyd", &["chem"]),
    ("dan", &[]),
];
const GROUPS: [&str; 3] = ["staff", "phys", "chem"];
const ACCOUNTS: [&str; 3] = ["a", "b", "c"];
const QOS: [&str; 3] = ["normal", "high", "low"];
const PARTITIONS: [&str; 2] = ["p0", "p1"];

/// A partition. `None`: nothing is said.
#[derive(Clone, Debug)]
struct Partition {
    groups: Option<Vec<&'static str>>,
    allow_accounts: Option<Vec<&'static str>>,
    deny_accounts: Option<Vec<&'static str>>,
    allow_qos: Option<Vec<&'static str>>,
    deny_qos: Option<Vec<&'static str>>,
    /// Words with one value: `MaxTime`, `RootOnly` ...
    words: Vec<(&'static str, &'static str)>,
}

/// An account or a user in one.
#[derive(Clone, Debug)]
struct Association {
    qos: Option<Vec<&'static str>>,
    default_qos: Option<&'static str>,
    option: &'static str,
}

/// Numbers of a user and of an account, and the partition that it is for; `None`: all.
type Place = (usize, usize, Option<&'static str>);

#[derive(Clone, Debug)]
struct Site {
    enforce: Vec<&'static str>,
    plugins: Option<&'static str>,
    no_root_jobs: bool,
    partitions: Vec<Partition>,
    /// In the order of [`ACCOUNTS`], each below one before it or the root.
    accounts: Vec<(usize, Association)>,
    /// User, account, partition.
    users: Vec<(Place, Association)>,
    root_qos: Option<Vec<&'static str>>,
    /// Qualities of service that are listed, each with a cell of its own.
    qos: Vec<(&'static str, (&'static str, &'static str))>,
}

/// A job that somebody asks for.
#[derive(Clone, Copy, Debug)]
struct Job {
    user: usize,
    partition: usize,
    account: Option<&'static str>,
    qos: Option<&'static str>,
    minutes: i64,
    nodes: u32,
}

fn some(all: &'static [&'static str]) -> impl Strategy<Value = Option<Vec<&'static str>>> {
    prop_oneof![
        4 => Just(None),
        1 => subsequence(all.to_vec(), 1..=all.len()).prop_map(Some),
    ]
}

fn partition() -> impl Strategy<Value = Partition> {
    let words = vec![
        ("MaxTime", "30"),
        ("MaxTime", "UNLIMITED"),
        ("MaxTime", "soon"),
        ("MaxNodes", "2"),
        ("MaxNodes", "few"),
        ("MinNodes", "2"),
        ("MinNodes", "many"),
        ("RootOnly", "YES"),
        ("RootOnly", "NO"),
        ("State", "DRAIN"),
        ("State", "INACTIVE"),
        ("State", "ASLEEP"),
        ("AllocNodes", "login"),
        ("ReqResv", "YES"),
        ("AllowWizards", "merlin"),
        ("QOS", "high"),
        ("Hidden", "YES"),
        ("PriorityJobFactor", "7"),
        ("TRESBillingWeights", "CPU=1.0,Mem=0.25G"),
    ];
    let words = prop::collection::vec(select(words), 0..3).prop_map(|mut words| {
        words.sort_by_key(|(name, _)| *name);
        words.dedup_by_key(|(name, _)| *name);
        words
    });
    let lists = (some(&GROUPS), some(&ACCOUNTS), some(&ACCOUNTS), some(&QOS), some(&QOS));
    (lists, prop_oneof![2 => Just(Vec::new()), 3 => words]).prop_map(|(lists, words)| {
        let (groups, allow_accounts, deny_accounts, allow_qos, deny_qos) = lists;
        Partition {
            groups,
            allow_accounts,
            deny_accounts,
            allow_qos,
            deny_qos,
            words,
        }
    })
}

fn association() -> impl Strategy<Value = Association> {
    let option = prop_oneof![
        6 => Just(""),
        1 => Just("GrpJobs=5"),
        1 => Just("GrpTRES=energy=5"),
        1 => Just("MaxWizards=3"),
        1 => Just("GrpSubmitJobs=0"),
        1 => Just("MaxSubmitJobs=0"),
        1 => Just("Fairshare=7"),
    ];
    let default = prop_oneof![3 => Just(None), 1 => select(QOS.to_vec()).prop_map(Some)];
    (some(&QOS), default, option).prop_map(|(qos, default_qos, option)| Association {
        qos,
        default_qos,
        option,
    })
}

fn site() -> impl Strategy<Value = Site> {
    let enforce = subsequence(vec!["associations", "limits", "qos", "safe", "wckeys"], 0..=3);
    let enforce = prop_oneof![
        1 => Just(Vec::new()),
        3 => subsequence(vec!["associations", "limits", "qos"], 1..=3),
        1 => enforce,
    ];
    let plugins = prop_oneof![
        6 => Just(None),
        1 => Just(Some("lua")),
        1 => Just(Some("all_partitions")),
    ];
    let user = (
        0..USERS.len(),
        0..ACCOUNTS.len(),
        prop_oneof![
            4 => Just(None),
            1 => select(vec![Some("p0"), Some("p1"), Some("gone")]),
        ],
    );
    let accounts = (association(), association(), association(), 0..2usize, 0..3usize);
    let accounts = accounts.prop_map(|(a, b, c, of_b, of_c)| vec![(0, a), (of_b, b), (of_c, c)]);
    let cell = select(vec![
        ("Priority", "5"),
        ("MaxTRES", "cpu=64"),
        ("MaxTRES", "energy=5"),
        ("Flags", "RequiresReservation"),
        ("LimitFactor", "0.5"),
    ]);
    let qos = subsequence(QOS.to_vec(), 1..=3).prop_flat_map(move |names| {
        let cells = prop::collection::vec(cell.clone(), names.len());
        cells.prop_map(move |cells| names.clone().into_iter().zip(cells).collect())
    });
    (
        (enforce, plugins, any::<bool>()),
        prop::collection::vec(partition(), PARTITIONS.len()),
        accounts,
        prop::collection::vec((user, association()), 0..8),
        some(&QOS),
        qos,
    )
        .prop_map(
            |((enforce, plugins, no_root_jobs), partitions, accounts, mut users, root_qos, qos)| {
                users.sort_by_key(|(key, _)| *key);
                users.dedup_by_key(|(key, _)| *key);
                Site {
                    enforce,
                    plugins,
                    no_root_jobs,
                    partitions,
                    accounts,
                    users,
                    root_qos,
                    qos,
                }
            },
        )
}

// --- Slurm's files

impl Site {
    fn conf(&self) -> String {
        let mut text = String::from("ClusterName=site\nNodeName=n[1-4] CPUs=64 RealMemory=1000\n");
        if !self.enforce.is_empty() {
            text.push_str(&format!("AccountingStorageEnforce={}\n", self.enforce.join(",")));
        }
        if let Some(plugin) = self.plugins {
            text.push_str(&format!("JobSubmitPlugins={plugin}\n"));
        }
        if self.no_root_jobs {
            text.push_str("DisableRootJobs=YES\n");
        }
        for (name, p) in PARTITIONS.iter().zip(&self.partitions) {
            text.push_str(&format!("PartitionName={name} Nodes=ALL"));
            let lists = [
                ("AllowGroups", &p.groups),
                ("AllowAccounts", &p.allow_accounts),
                ("DenyAccounts", &p.deny_accounts),
                ("AllowQos", &p.allow_qos),
                ("DenyQos", &p.deny_qos),
            ];
            for (word, list) in lists {
                if let Some(list) = list {
                    text.push_str(&format!(" {word}={}", list.join(",")));
                }
            }
            for (word, value) in &p.words {
                text.push_str(&format!(" {word}={value}"));
            }
            text.push('\n');
        }
        text
    }

    fn dump(&self) -> String {
        let list = |qos: &Option<Vec<&str>>| match qos {
            Some(list) => format!(":QOS='{}'", list.join(",")),
            None => String::new(),
        };
        let own = |a: &Association| {
            let option = match a.option {
                "" => String::new(),
                option => format!(":{option}"),
            };
            let default = a.default_qos.map(|q| format!(":DefaultQOS='{q}'"));
            format!("{option}{}{}", default.unwrap_or_default(), list(&a.qos))
        };
        let mut text = format!("Cluster - 'site':Fairshare=1{}\n", list(&self.root_qos));
        for (at, (above, association)) in self.accounts.iter().enumerate() {
            let parent = above.checked_sub(1).map_or("root", |above| ACCOUNTS[above]);
            text.push_str(&format!("Parent - '{parent}'\n"));
            text.push_str(&format!("Account - '{}'{}\n", ACCOUNTS[at], own(association)));
        }
        for ((user, account, partition), association) in &self.users {
            let partition = partition.map_or(String::new(), |p| format!(":Partition='{p}'"));
            text.push_str(&format!("Parent - '{}'\n", ACCOUNTS[*account]));
            text.push_str(&format!("User - '{}'{partition}{}\n", USERS[*user].0, own(association)));
        }
        text
    }

    fn qos_list(&self) -> String {
        let command = qos::command();
        let titles: Vec<&str> = command.split('=').nth(1).unwrap().split(',').collect();
        let mut text = format!("{}\n", titles.join("|"));
        for (name, (title, value)) in &self.qos {
            let cell = |t: &&str| match *t {
                "Name" => *name,
                t if t == *title => *value,
                _ => "",
            };
            let cells: Vec<&str> = titles.iter().map(cell).collect();
            text.push_str(&format!("{}\n", cells.join("|")));
        }
        text
    }
}

// --- what Slurm says

impl Site {
    fn enforces(&self, word: &str) -> bool {
        let implied = match word {
            "associations" => !self.enforce.is_empty(),
            "limits" => self.enforce.contains(&"safe"),
            _ => false,
        };
        implied || self.enforce.contains(&word)
    }

    /// Whether some account and quality of service, those that are named where they are, let the job in.
    fn takes(&self, job: Job) -> bool {
        let accounts = job
            .account
            .map_or(ACCOUNTS.to_vec(), |account| vec![account]);
        let qos = job.qos.map_or(QOS.to_vec(), |qos| vec![qos]);
        let any = |account: &str| qos.iter().any(|qos| self.may(job, account, qos));
        accounts.into_iter().any(any)
    }

    fn may(&self, job: Job, account: &str, qos: &str) -> bool {
        self.plugins.is_none_or(|plugin| plugin != "lua")
            && self.partition_takes(job, account, qos)
            && (!self.enforces("associations") || self.has(job, account, qos))
    }

    fn partition_takes(&self, job: Job, account: &str, qos: &str) -> bool {
        let p = &self.partitions[job.partition];
        let groups = USERS[job.user].1;
        let word = |name: &str| p.words.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        let fits = |name: &str, value: i64, least: bool| match word(name) {
            None | Some("UNLIMITED") => true,
            Some(text) => text.parse().is_ok_and(|limit: i64| {
                if least {
                    value >= limit
                } else {
                    value <= limit
                }
            }),
        };
        let nodes = i64::from(job.nodes);
        p.groups
            .as_ref()
            .is_none_or(|all| all.iter().any(|group| groups.contains(group)))
            && p.allow_accounts
                .as_ref()
                .is_none_or(|all| all.contains(&account))
            && !p
                .deny_accounts
                .as_ref()
                .is_some_and(|all| all.contains(&account))
            && p.allow_qos.as_ref().is_none_or(|all| all.contains(&qos))
            && !p.deny_qos.as_ref().is_some_and(|all| all.contains(&qos))
            && word("RootOnly") != Some("YES")
            && word("State").is_none()
            && ["AllocNodes", "ReqResv", "AllowWizards"]
                .iter()
                .all(|w| word(w).is_none())
            && (word("QOS").is_none() || self.counts("high"))
            && fits("MaxTime", job.minutes, false)
            && fits("MaxNodes", nodes, false)
            && fits("MinNodes", nodes, true)
    }

    /// The user is in the account for the partition, and has the quality of service there.
    fn has(&self, job: Job, account: &str, qos: &str) -> bool {
        let at = ACCOUNTS.iter().position(|a| *a == account);
        let of = |partition: Option<&str>| {
            let mut all = self.users.iter();
            let found = all.find(|((user, own, p), _)| {
                *user == job.user && Some(*own) == at && *p == partition
            });
            found.map(|(_, association)| association)
        };
        let Some(own) = of(Some(PARTITIONS[job.partition])).or(of(None)) else {
            return false;
        };
        let mut chain = vec![own];
        let mut up = at;
        while let Some(at) = up {
            let (above, association) = &self.accounts[at];
            chain.push(association);
            up = above.checked_sub(1);
        }
        let lists = chain.iter().map(|a| a.qos.as_ref());
        let list = lists.chain([self.root_qos.as_ref()]).flatten().next();
        let allowed = match list {
            Some(list) => list.contains(&qos),
            None => qos == NORMAL,
        };
        // What nothing here counts lets nobody in; users have no keys in these dumps.
        let odd = |a: &&Association| a.option == "MaxWizards=3" || a.option == "GrpTRES=energy=5";
        let shut = |a: &&Association| a.option == "GrpSubmitJobs=0";
        let nearest = chain.iter().find(|a| a.option.starts_with("MaxSubmitJobs"));
        let listed = self.qos.iter().any(|(name, _)| *name == qos);
        (!self.enforces("qos") || allowed && listed)
            && !self.enforces("wckeys")
            && !(chain.iter().any(odd) && self.enforces("limits"))
            && !(chain.iter().any(shut) && self.enforces("limits"))
            && !(nearest.is_some() && self.enforces("limits"))
            && self.counts(qos)
            // whatever is enforced
            && self.value(qos) != Some("RequiresReservation")
    }

    fn value(&self, qos: &str) -> Option<&str> {
        let listed = self.qos.iter().find(|(name, _)| *name == qos);
        listed.map(|(_, (_, value))| *value)
    }

    /// Whether what a quality of service limits is counted here, and lets a job outside of
    /// reservations in; a partition's own as that of a job.
    fn counts(&self, qos: &str) -> bool {
        let odd = ["energy=5", "RequiresReservation"];
        !self.enforces("limits") || self.value(qos).is_none_or(|value| !odd.contains(&value))
    }
}

// --- what is said after the import

/// A controller with what was imported.
struct After {
    config: Config,
    controller: Controller,
    asked: u64,
}

fn user(at: Option<usize>) -> User {
    let (name, groups): (&str, &[&str]) = at.map_or(("root", &[]), |at| USERS[at]);
    let id = at.map_or(0, |at| 1000 + at as u32);
    let own = Group {
        gid: Gid(id),
        name: name.to_owned(),
    };
    let others = groups.iter().map(|group| Group {
        gid: Gid(5000 + GROUPS.iter().position(|g| g == group).unwrap() as u32),
        name: (*group).to_owned(),
    });
    User {
        uid: Uid(id),
        name: name.to_owned(),
        gid: Gid(id),
        groups: std::iter::once(own).chain(others).collect(),
        home: "/".to_owned(),
        shell: "/bin/sh".to_owned(),
    }
}

impl After {
    fn new(imported: &Imported) -> Self {
        let config = cosyd::config::parse(Path::new("cosy.toml"), &imported.toml);
        let config = config.unwrap_or_else(|faults| panic!("{faults}\n{}", imported.toml));
        let loaded = Loaded {
            next_job: 1,
            ..Loaded::default()
        };
        let controller = Controller::restore(config.cluster.clone(), loaded, Time::from_secs(1000));
        let mut after = Self {
            config,
            controller,
            asked: 0,
        };
        let fresh = PolicyView {
            qos: vec![QosRecord {
                name: NORMAL.to_owned(),
                ..QosRecord::default()
            }],
            ..PolicyView::default()
        };
        let text = imported.accounts.as_deref().unwrap();
        let changes = load::read(&fresh, text, false).unwrap().changes;
        if !changes.is_empty() {
            let dry_run = false;
            let reply = after.ask(None, Request::ChangePolicy { changes, dry_run });
            assert!(matches!(reply, Reply::Done { .. }), "{reply:?}\n{text}");
        }
        after
    }

    fn ask(&mut self, who: Option<usize>, request: Request) -> Reply {
        self.asked += 1;
        let client = ClientId(self.asked);
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.asked.to_le_bytes());
        let asked = Event::Asked {
            client,
            caller: Box::new(Caller::known(user(who))),
            key: Some(key),
            request,
            facts: Facts::default(),
        };
        let now = Time::from_secs(1000);
        self.controller.handle(now, asked);
        loop {
            let batch = self.controller.settle(now);
            assert!(!batch.is_empty(), "no answer");
            for effect in batch.effects {
                match effect {
                    Effect::Reply { client: to, reply } if to == client => return reply,
                    Effect::TellDurable => self.controller.handle(now, Event::BecameDurable),
                    _ => {}
                }
            }
        }
    }

    fn takes(&mut self, who: Option<usize>, job: Job) -> bool {
        let program = Program::Command {
            argv: vec![OsText::from("true")],
        };
        let spec = JobSpec {
            queue: Some(PARTITIONS[job.partition].to_owned()),
            account: job.account.map(str::to_owned),
            qos: job.qos.map(str::to_owned),
            time_limit: Some(Span::from_minutes(job.minutes)),
            request: ResourceRequest {
                nodes: Some(job.nodes),
                ..ResourceRequest::default()
            },
            ..JobSpec::plain("job", program, OsText::from("/"))
        };
        let mut request = Request::Submit(Box::new(Submission {
            spec,
            script: OsText::default(),
            array: None,
        }));
        if let Some(rules) = &self.config.submit {
            let reason = Reason {
                user: user(who),
                admin: who.is_none(),
                ..Reason::default()
            };
            let judged = judge(rules, &reason, &mut Workers::default(), request);
            if judged.refused.is_some() {
                return false;
            }
            request = judged.request;
        }
        match self.ask(who, request) {
            Reply::Submitted { .. } => true,
            Reply::Refused(_) => false,
            other => panic!("{other:?}"),
        }
    }
}

fn jobs() -> impl Iterator<Item = Job> {
    let accounts = [None, Some("a"), Some("b"), Some("c"), Some("gone")];
    let qos = [
        None,
        Some("normal"),
        Some("high"),
        Some("low"),
        Some("gone"),
    ];
    let sizes = [(10, 1), (100, 1), (10, 3), (10, 2)];
    let people = (0..USERS.len()).flat_map(|user| (0..PARTITIONS.len()).map(move |p| (user, p)));
    people.flat_map(move |(user, partition)| {
        accounts.into_iter().flat_map(move |account| {
            qos.into_iter().flat_map(move |qos| {
                sizes.into_iter().map(move |(minutes, nodes)| Job {
                    user,
                    partition,
                    account,
                    qos,
                    minutes,
                    nodes,
                })
            })
        })
    })
}

fn imported(site: &Site) -> Imported {
    import(&Sources {
        conf: &[Piece::file("slurm.conf", &site.conf())],
        accounts: Some(&Piece::file("dump", &site.dump())),
        qos: Some(&Piece::file("qos", &site.qos_list())),
        ..Sources::default()
    })
    .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..Default::default() })]

    #[test]
    fn nobody_gets_in_who_was_kept_out(site in site()) {
        let all = imported(&site);
        let mut after = After::new(&all);
        for job in jobs() {
            let user = Some(job.user);
            prop_assert!(
                !after.takes(user, job) || site.takes(job),
                "{job:?} of {}\n{}\n{}\n{}\n{}\n{}",
                USERS[job.user].0,
                site.conf(),
                site.dump(),
                site.qos_list(),
                all.toml,
                all.accounts.unwrap()
            );
        }
        if site.no_root_jobs {
            let job = jobs().next().unwrap();
            prop_assert!(!after.takes(None, job), "root");
        }
    }
}

/// The model above is no wall: where Slurm's words have counterparts, who might may.
#[test]
fn who_might_may() {
    let open = Partition {
        groups: Some(vec!["staff"]),
        allow_accounts: None,
        deny_accounts: None,
        allow_qos: None,
        deny_qos: None,
        words: vec![("MaxNodes", "2"), ("MaxTime", "30"), ("MinNodes", "2")],
    };
    let own = |qos: Option<Vec<&'static str>>| Association {
        qos,
        default_qos: None,
        option: "Fairshare=7",
    };
    let site = Site {
        enforce: vec!["associations", "qos"],
        plugins: None,
        no_root_jobs: true,
        partitions: vec![
            open.clone(),
            Partition {
                groups: None,
                words: Vec::new(),
                ..open
            },
        ],
        accounts: vec![(0, own(None)), (1, own(Some(vec!["high"]))), (0, own(None))],
        users: vec![
            ((0, 0, None), own(Some(vec!["normal", "low"]))),
            ((0, 1, Some("p1")), own(None)),
            ((2, 2, None), own(None)),
        ],
        root_qos: None,
        qos: QOS.map(|name| (name, ("Priority", "5"))).to_vec(),
    };
    let mut after = After::new(&imported(&site));
    let mut taken = 0;
    for job in jobs().filter(|job| job.account.is_some() && job.qos.is_some()) {
        let takes = after.takes(Some(job.user), job);
        assert_eq!(takes, site.takes(job), "{job:?}");
        taken += u32::from(takes);
    }
    // ann in a with two qualities, in b with one in p1; cyd in c with one, not in p0.
    assert_eq!(taken, 2 + 2 * 4 + 4 + 4);
}
