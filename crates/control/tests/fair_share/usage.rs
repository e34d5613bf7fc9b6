//! Use of every resource: by user, up the accounts, by quality of service.

use super::*;

/// What is told of the use of an association, with accounts by name and users as `account/user`.
fn amounts(world: &mut World) -> std::collections::BTreeMap<String, AssociationUsage> {
    let rows = associations(world);
    let name = |key: &AssociationKey| {
        let parts = [Some(&key.account), key.user.as_ref(), key.queue.as_ref()];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        parts.join("/")
    };
    let told = |row: AssociationInfo| Some((name(&row.key), row.usage?));
    rows.into_iter().filter_map(told).collect()
}

/// What is told of the use of a quality of service.
fn qos_amounts(world: &mut World, name: &str) -> AssociationUsage {
    let query = PolicyQuery::Qos {
        names: vec![name.to_owned()],
        usage: true,
    };
    let reply = world.ask_as(user(0, "root"), None, Request::Policy(query));
    let Reply::Policy(PolicyAnswer::Qos(rows)) = reply else {
        panic!("{reply:?}");
    };
    rows[0].usage.clone().expect("it was asked for")
}

fn quality(name: &str, factor_ppm: u32, flags: &[QosFlag]) -> PolicyChange {
    PolicyChange::AddQos {
        name: name.to_owned(),
        set: QosChange {
            usage_factor_ppm: Some(factor_ppm),
            flags: Some(flags.iter().copied().collect()),
            ..QosChange::default()
        },
    }
}

pub(crate) fn with_qos(name: &str) -> impl FnOnce(&mut JobSpec) {
    let name = name.to_owned();
    move |spec| spec.qos = Some(name)
}

/// Use is kept where nobody orders by it, as the configuration says; without decay, to be counted exactly.
fn kept(nodes: u32, half_life: Span) -> World {
    let priority = PriorityConfig {
        keep_usage: true,
        half_life,
        ..PriorityConfig::default()
    };
    let mut world = ordered(nodes, QueueOrder::Fcfs, priority);
    let all = vec![
        account("physics", "root", 1),
        account("optics", "physics", 1),
        member("physics", "ann", 1),
        member("optics", "bob", 1),
        quality("half", 500_000, &[]),
        quality("free", 0, &[]),
        quality("kept", 1_000_000, &[QosFlag::NoDecay]),
    ];
    changes(&mut world, all);
    world
}

/// How long ended jobs have held nodes, in seconds.
fn ran(world: &World, jobs: &[u64]) -> u64 {
    let one = |id: &u64| {
        let end = world.store.row(*id).end.clone().expect("it has ended");
        end.end.since(end.start.expect("it ran")).secs() as u64
    };
    jobs.iter().map(one).sum()
}

#[test]
fn use_of_every_resource_is_counted_up_the_accounts_also_through_crashes() {
    let mut world = kept(2, Span::ZERO);
    let ann: Vec<u64> = (0..2)
        .map(|_| submit_as(&mut world, "ann", 1, |_| {}))
        .collect();
    let bob: Vec<u64> = (0..2)
        .map(|_| submit_as(&mut world, "bob", 2, |_| {}))
        .collect();
    let half = submit_as(&mut world, "bob", 1, with_qos("half"));
    let free = submit_as(&mut world, "bob", 1, with_qos("free"));
    let all: Vec<u64> = ann
        .iter()
        .chain(&bob)
        .copied()
        .chain([half, free])
        .collect();
    while all
        .iter()
        .any(|id| !world.store.ends().contains_key(&JobId(*id)))
    {
        world.pass(41);
        world.crash();
        world.connect_all();
        world.deliver_all();
    }
    let told = amounts(&mut world);
    let (of_ann, of_bob, of_half) = (ran(&world, &ann), ran(&world, &bob), ran(&world, &[half]));
    let seconds = |name: &str, tres: &Tres| told[name].used_seconds.get(tres).copied().unwrap_or(0);
    let close = |got: u64, want: u64, what: &str| {
        // a job holds its nodes a little longer than its program runs
        assert!(got >= want && got <= want + want / 20 + 60, "{what}: {got} of {want}");
    };
    close(seconds("physics/ann", &Tres::Cpu), 4 * of_ann, "cores of ann");
    close(seconds("physics/ann", &Tres::Node), of_ann, "nodes of ann");
    close(told["physics/ann"].wall_seconds, of_ann, "time of ann");
    close(seconds("optics/bob", &Tres::Cpu), 8 * of_bob + 2 * of_half, "cores of bob");
    close(told["optics/bob"].wall_seconds, of_bob + of_half / 2, "time of bob");
    close(told["optics/bob"].raw_usage, 8 * of_bob + 2 * of_half, "billing of bob");
    for tres in [Tres::Cpu, Tres::Memory, Tres::Node, Tres::Billing] {
        let (a, b) = (seconds("physics/ann", &tres), seconds("optics/bob", &tres));
        assert_eq!(seconds("optics", &tres), b, "{tres}");
        assert!(seconds("physics", &tres).abs_diff(a + b) <= 1, "{tres}");
        assert_eq!(seconds("root", &tres), seconds("physics", &tres), "{tres}");
        assert!(a > 0, "{tres}");
    }
    let in_half = qos_amounts(&mut world, "half");
    close(in_half.used_seconds[&Tres::Cpu], 2 * of_half, "the quality of service");
    assert_eq!(qos_amounts(&mut world, "free"), AssociationUsage::default());
    assert!(told["physics"].run_seconds.is_empty(), "nothing runs");
}

#[test]
fn what_runs_is_told_until_now_and_what_is_left_of_it() {
    let mut world = kept(1, Span::ZERO);
    submit_as(&mut world, "ann", 1, |_| {});
    world.pass(300);
    let told = amounts(&mut world)["root"].clone();
    let used = told.used_seconds[&Tres::Cpu];
    let left = told.run_seconds[&Tres::Cpu];
    assert!((4 * 290..=4 * 300).contains(&used), "{used}");
    assert!((3590..=3610).contains(&(used + left)), "{used} and {left} of 15 minutes");
    assert!(world.store.usage.is_empty(), "nothing has ended");
}

#[test]
fn use_without_decay_stays_and_other_use_fades() {
    let mut world = kept(1, Span::from_secs(3600));
    let fades = submit_as(&mut world, "ann", 1, |_| {});
    let stays = submit_as(&mut world, "ann", 1, with_qos("kept"));
    served(&mut world, &[fades, stays]);
    world.pass(7200);
    world.crash();
    let (in_kept, in_normal) = (qos_amounts(&mut world, "kept"), qos_amounts(&mut world, "normal"));
    let whole = 4 * ran(&world, &[stays]);
    let kept = in_kept.used_seconds[&Tres::Cpu];
    assert!((whole..whole + 60).contains(&kept), "{kept} of {whole}");
    let faded = in_normal.used_seconds[&Tres::Cpu];
    assert!((whole / 6..whole / 4).contains(&faded), "{faded} of {whole}");
    let own = amounts(&mut world)["physics/ann"].used_seconds[&Tres::Cpu];
    assert!(own < whole, "{own}: what a user has used fades whatever the job's quality of service");
}

#[test]
fn a_changed_factor_counts_for_what_runs_and_a_removed_quality_of_service_is_forgotten() {
    let mut world = kept(1, Span::ZERO);
    submit_as(&mut world, "bob", 1, with_qos("half"));
    world.pass(100);
    let before = amounts(&mut world)["optics/bob"].raw_usage;
    changes(
        &mut world,
        vec![PolicyChange::ModifyQos {
            name: "half".to_owned(),
            set: QosChange {
                usage_factor_ppm: Some(2_000_000),
                ..QosChange::default()
            },
        }],
    );
    let after = amounts(&mut world)["optics/bob"].raw_usage;
    assert!(after.abs_diff(4 * before) <= 4, "{before} {after}");
    let remove = PolicyChange::RemoveQos {
        name: "half".to_owned(),
    };
    world.pass(1000);
    assert!(qos_amounts(&mut world, "half").raw_usage > 0);
    changes(&mut world, vec![remove, quality("half", 1_000_000, &[])]);
    assert_eq!(qos_amounts(&mut world, "half").raw_usage, 0);
    world.crash();
    assert_eq!(qos_amounts(&mut world, "half").raw_usage, 0);
    let own = amounts(&mut world)["optics/bob"].raw_usage;
    assert!(own > 0, "the user's use stays");
}

fn reset(account: &str, user: Option<&str>) -> PolicyChange {
    PolicyChange::ResetUsage {
        association: Some(AssociationKey {
            account: account.to_owned(),
            user: user.map(str::to_owned),
            queue: None,
        }),
        qos: None,
    }
}

/// What was used before an administrator said so does not count, of running jobs neither, also after a crash.
#[test]
fn use_is_forgotten_where_an_administrator_says_so() {
    let mut world = kept(2, Span::ZERO);
    let first = submit_as(&mut world, "ann", 1, |_| {});
    served(&mut world, &[first]);
    submit_as(&mut world, "bob", 1, with_qos("half"));
    submit_as(&mut world, "ann", 1, |_| {});
    world.pass(300);
    let cpu = |world: &mut World, name: &str| {
        let told = amounts(world)[name].used_seconds.clone();
        told.get(&Tres::Cpu).copied().unwrap_or(0)
    };
    let (ann, bob) = (cpu(&mut world, "physics/ann"), cpu(&mut world, "optics/bob"));
    assert!(ann > 3000 && bob > 500, "{ann} {bob}");
    changes(&mut world, vec![reset("physics", Some("ann"))]);
    assert_eq!(cpu(&mut world, "physics/ann"), 0);
    assert_eq!(cpu(&mut world, "root"), bob, "what others have used stays");
    world.pass(60);
    world.crash();
    world.connect_all();
    world.deliver_all();
    let since = cpu(&mut world, "physics/ann");
    assert!((230..=260).contains(&since), "{since} of one minute");
    changes(&mut world, vec![reset("physics", None)]);
    assert_eq!(cpu(&mut world, "root"), 0, "optics is below physics");
    assert!(qos_amounts(&mut world, "half").raw_usage > 0);
    let of_qos = PolicyChange::ResetUsage {
        association: None,
        qos: Some("half".to_owned()),
    };
    changes(&mut world, vec![of_qos]);
    assert_eq!(qos_amounts(&mut world, "half").raw_usage, 0);
    let unknown = Request::ChangePolicy {
        changes: vec![reset("physics", Some("eve"))],
        dry_run: false,
    };
    let reply = world.ask_as(user(0, "root"), Some([99; 16]), unknown);
    assert!(matches!(&reply, Reply::Refused(_)), "{reply:?}");
}

/// A GPU of which the node tells no type is counted as a GPU alone, also after a crash.
#[test]
fn gpus_without_a_type_are_counted_as_gpus() {
    let mut world = kept(1, Span::ZERO);
    world.nodes[0].gpu_types = vec!["a".to_owned(), String::new()];
    world.connect(0);
    world.deliver_all();
    let job = submit_as(&mut world, "ann", 1, |_| {});
    served(&mut world, &[job]);
    let used = amounts(&mut world)["physics/ann"].used_seconds.clone();
    world.crash();
    assert_eq!(amounts(&mut world)["physics/ann"].used_seconds, used);
    let gpus = |kind: Option<&str>| Tres::Gres {
        name: "gpu".into(),
        kind: kind.map(Into::into),
    };
    let all = used[&gpus(None)];
    assert!(all > 0);
    assert_eq!(used.get(&gpus(Some("a"))), Some(&(all / 2)));
    assert_eq!(used.get(&gpus(Some(""))), None);
}
