//! What the commands of Slurm ask for beyond Cosy's own: licences, suspension, jobs that
//! run again, limits of running jobs, deadlines, alternatives of features, and dependencies
//! of all kinds.

mod world;

use cosy_control::*;
use cosy_model::api::{JobChange, JobField, JobFilter, JobRef, Reply, Request};
use cosy_model::job::{CountedFeatures, MemoryRequest, ResourceRequest};
use cosy_model::*;
use world::*;

fn slurm(name: &str) -> JobSpec {
    JobSpec {
        dialect: Dialect::Slurm,
        requeue: true,
        ..spec(name)
    }
}

fn root() -> User {
    user(0, "root")
}

fn licensed(count: u32) -> JobSpec {
    let mut spec = slurm("l");
    spec.licenses.set("lic", count);
    spec
}

fn dependent(kind: DependencyKind, job: u64) -> JobSpec {
    after(kind, job, slurm("d"))
}

/// Every live job, once the orders that left have been obeyed.
fn queue(world: &mut World) -> String {
    world.deliver_all();
    world.queue()
}

/// The code of what was refused of a single job; `None` when it was done.
fn code(reply: &Reply) -> Option<RefusalCode> {
    match reply {
        Reply::Done { refused, .. } => refused.first().map(|(_, refusal)| refusal.code),
        Reply::Refused(refusal) => Some(refusal.code),
        other => panic!("{other:?}"),
    }
}

// --- licences

#[test]
fn licences_are_held_once_and_hold_nobody_back() {
    let mut c = config(4, 4);
    c.licenses.set("lic", 2);
    let mut world = World::new(c);
    world.submit(licensed(2));
    world.submit(licensed(1));
    world.submit(licensed(1));
    world.submit(spec("free"));
    assert_eq!(queue(&mut world), "1:running 2:waiting/licenses 3:waiting/licenses 4:running");
    world.crash();
    for n in 0..4 {
        world.connect(n);
    }
    world.deliver_all();
    assert_eq!(
        queue(&mut world),
        "1:running 2:waiting/licenses 3:waiting/licenses 4:running",
        "also after a restart"
    );
    world.pass(10);
    assert_eq!(queue(&mut world), "2:running 3:running");
}

#[test]
fn licences_that_are_not_there_are_refused() {
    let mut c = config(1, 4);
    c.licenses.set("lic", 2);
    let mut world = World::new(c);
    let refused = world.try_submit(licensed(3), None).unwrap_err();
    assert_eq!(refused.about, Some(About::License), "{refused}");
    let mut other = slurm("x");
    other.licenses.set("nosuch", 1);
    let refused = world.try_submit(other, None).unwrap_err();
    assert_eq!(refused.about, Some(About::License), "{refused}");
}

// --- suspension

#[test]
fn a_suspended_job_keeps_its_nodes_and_its_time() {
    let mut world = World::new(config(1, 4));
    // It has asked for memory, so all of the node's is kept for it.
    let request = ResourceRequest {
        exclusive: true,
        memory: MemoryRequest::PerNode(MiB(100)),
        ..ResourceRequest::default()
    };
    let running = world.submit(JobSpec {
        request: request.clone(),
        ..slurm("s")
    });
    let behind = world.submit(JobSpec {
        request,
        ..slurm("b")
    });
    world.deliver_all();
    world.pass(4);
    let filter = ids(&[running]);
    let suspend = Request::Suspend {
        filter: filter.clone(),
    };
    let resume = Request::Resume { filter };
    assert_eq!(code(&world.ask(suspend.clone())), Some(RefusalCode::Forbidden));
    let none = world.ask_as(root(), None, resume.clone());
    assert_eq!(code(&none), Some(RefusalCode::WrongState));
    assert_eq!(code(&world.ask_as(root(), None, suspend.clone())), None);
    let again = world.ask_as(root(), None, suspend);
    assert_eq!(code(&again), Some(RefusalCode::WrongState));
    world.deliver_all();
    world.pass(100);
    assert!(queue(&mut world).starts_with("1:suspended 2:waiting"), "{}", queue(&mut world));
    assert_eq!(world.number(running, JobField::Elapsed), Some(4000));
    world.crash();
    world.connect(0);
    world.deliver_all();
    assert!(queue(&mut world).starts_with("1:suspended 2:waiting"), "{}", queue(&mut world));
    assert_eq!(code(&world.ask_as(root(), None, resume)), None);
    world.deliver_all();
    let whole = world.number(running, JobField::SuspendedFor);
    assert_eq!(whole, Some(100_000));
    world.pass(5);
    assert!(queue(&mut world).starts_with("1:running"), "{}", queue(&mut world));
    world.pass(1);
    assert_eq!(queue(&mut world), format!("{behind}:running"), "its ten seconds are over");
    assert_eq!(world.state_of(running), JobState::Completed);
}

#[test]
fn a_suspended_job_can_be_cancelled() {
    let mut world = World::new(config(1, 4));
    let id = world.submit(slurm("s"));
    world.pass(1);
    let filter = ids(&[id]);
    world.ask_as(
        root(),
        None,
        Request::Suspend {
            filter: filter.clone(),
        },
    );
    world.deliver_all();
    world.ask(cancels(filter));
    world.deliver_all();
    assert_eq!(world.state_of(id), JobState::Cancelled);
}

// --- again

#[test]
fn jobs_run_again() {
    let mut world = World::new(config(1, 4));
    let id = world.submit(slurm("again"));
    world.pass(1);
    let requeue = |hold| Request::Requeue {
        filter: ids(&[id]),
        hold,
        special: false,
    };
    assert_eq!(code(&world.ask(requeue(false))), None);
    world.deliver_all();
    assert_eq!(queue(&mut world), "1:waiting/begin_time");
    assert_eq!(code(&world.ask(requeue(false))), Some(RefusalCode::WrongState));
    world.pass(6);
    assert_eq!(world.number(id, JobField::Restarts), Some(1));
    assert_eq!(queue(&mut world), "1:running");
    assert_eq!(code(&world.ask(requeue(true))), None);
    world.deliver_all();
    assert_eq!(queue(&mut world), "1:waiting/held_requeued");
    let release = Request::Release { filter: ids(&[id]) };
    assert_eq!(code(&world.ask(release)), None);
    world.pass(20);
    assert_eq!(world.state_of(id), JobState::Completed);
    assert_eq!(code(&world.ask(requeue(false))), None, "also when it has ended");
    world.deliver_all();
    assert_eq!(queue(&mut world), "1:running");
    world.crash();
    world.connect(0);
    world.deliver_all();
    assert_eq!(queue(&mut world), "1:running", "also after a restart");
    world.pass(10);
    assert_eq!(world.state_of(id), JobState::Completed);
    assert_eq!(world.store.row(id).attempt, Attempt(4));
}

#[test]
fn a_special_exit_is_marked_until_the_job_is_released() {
    let mut world = World::new(config(1, 4));
    let id = world.submit(slurm("special"));
    world.pass(1);
    let requeue = Request::Requeue {
        filter: ids(&[id]),
        hold: true,
        special: true,
    };
    assert_eq!(code(&world.ask(requeue.clone())), None);
    for when in ["also while it ends", "also once it waits"] {
        world.crash();
        world.connect(0);
        world.deliver_all();
        assert_eq!(queue(&mut world), "1:waiting/held_special", "{when}");
    }
    let release = Request::Release { filter: ids(&[id]) };
    assert_eq!(code(&world.ask(release)), None);
    world.pass(20);
    assert_eq!(world.state_of(id), JobState::Completed);
    assert_eq!(code(&world.ask(requeue)), None, "also when it has ended");
    assert_eq!(queue(&mut world), "1:waiting/held_special");
}

#[test]
fn tasks_of_an_array_run_again_while_others_of_it_live() {
    let mut world = World::new(config(1, 1));
    let first = world.try_submit(slurm("a"), Some("1-2")).unwrap();
    world.pass(11);
    assert_eq!(queue(&mut world), "1_2:running");
    let requeue = Request::Requeue {
        filter: ids(&[first]),
        hold: false,
        special: false,
    };
    let one = |task| JobFilter {
        ids: vec![api::JobRef {
            job: JobId(first),
            task: Some(task),
        }],
        ..JobFilter::default()
    };
    let again = world.ask(Request::Requeue {
        filter: one(1),
        hold: false,
        special: false,
    });
    assert_eq!(code(&again), None);
    assert_eq!(queue(&mut world), "1_1:waiting/resources 1_2:running");
    world.pass(40);
    assert_eq!(queue(&mut world), "");
    assert_eq!(code(&world.ask(requeue)), Some(RefusalCode::WrongState));
}

#[test]
fn who_does_not_want_to_run_again_does_not() {
    let mut world = World::new(config(1, 4));
    let id = world.submit(JobSpec {
        requeue: false,
        ..slurm("once")
    });
    world.pass(1);
    let reply = world.ask(Request::Requeue {
        filter: ids(&[id]),
        hold: false,
        special: false,
    });
    let Reply::Done { refused, .. } = reply else {
        panic!("{reply:?}")
    };
    assert_eq!(refused[0].1.about, Some(About::Requeue));
}

// --- holds and priorities

/// A task that was held alone is no longer like the others, also when it is the last of them;
/// an array that is held as a whole stays one line.
#[test]
fn tasks_that_are_held_alone_have_lines_of_their_own() {
    let lines = |world: &mut World| -> Vec<String> {
        let request = Request::Jobs {
            filter: JobFilter::default(),
            fields: vec![JobField::Ref],
            fold_arrays: true,
        };
        let Reply::Jobs(table) = world.ask_as(root(), None, request) else {
            panic!("no list");
        };
        let mut all: Vec<String> = (0..table.rows)
            .map(|row| table.text(row, JobField::Ref).to_owned())
            .collect();
        all.sort_unstable();
        all
    };
    let mut world = World::new(config(1, 2));
    let array = world.try_submit(spec("a"), Some("0-5")).unwrap();
    let hold = |task: Option<u32>| Request::Hold {
        filter: JobFilter {
            ids: vec![JobRef {
                job: JobId(array),
                task,
            }],
            ..JobFilter::default()
        },
        as_user: false,
    };
    let begin = lines(&mut world);
    assert_eq!(begin, ["1_0", "1_1", "1_[2-5]"]);
    world.ask_as(root(), None, hold(Some(5)));
    let alone = lines(&mut world);
    assert_eq!(alone, ["1_0", "1_1", "1_5", "1_[2-4]"]);
    world.ask_as(root(), None, hold(Some(4)));
    world.ask_as(root(), None, hold(Some(3)));
    world.ask_as(root(), None, hold(Some(2)));
    let last = lines(&mut world);
    assert_eq!(last, ["1_0", "1_1", "1_2", "1_3", "1_4", "1_5"]);
    let mut world = World::new(config(1, 2));
    world.try_submit(spec("a"), Some("0-5")).unwrap();
    world.ask_as(root(), None, hold(None));
    assert_eq!(lines(&mut world), ["1_0", "1_1", "1_[2-5]"]);
}

#[test]
fn an_administrator_holds_as_such_or_as_the_user() {
    let mut world = World::new(config(1, 4));
    let id = world.submit(JobSpec {
        begin: Some(world.now + Span::from_secs(60)),
        ..slurm("h")
    });
    let hold = |as_user| Request::Hold {
        filter: ids(&[id]),
        as_user,
    };
    let release = || Request::Release { filter: ids(&[id]) };
    world.ask_as(root(), None, hold(true));
    assert_eq!(queue(&mut world), "1:waiting/held_by_user");
    assert_eq!(code(&world.ask(release())), None);
    world.ask_as(root(), None, hold(false));
    assert_eq!(queue(&mut world), "1:waiting/held_by_admin");
    assert_eq!(code(&world.ask(hold(false))), None);
    assert_eq!(queue(&mut world), "1:waiting/held_by_admin", "the user cannot soften it");
    assert_eq!(code(&world.ask(release())), Some(RefusalCode::Forbidden));
    assert_eq!(world.number(id, JobField::Priority), Some(0));
}

#[test]
fn priorities_say_who_comes_first() {
    let mut world = World::new(config(1, 1));
    let first = world.submit(slurm("running"));
    for _ in 0..3 {
        world.submit(slurm("w"));
    }
    let priority = |id: u64, priority: u32| Request::Change {
        filter: ids(&[id]),
        change: Box::new(JobChange {
            priority: Some(priority),
            ..JobChange::default()
        }),
    };
    let denied = world.ask(priority(4, u32::MAX));
    assert_eq!(code(&denied), Some(RefusalCode::Forbidden));
    assert_eq!(code(&world.ask(priority(2, 100))), None, "lower is allowed");
    let top = Request::Top { filter: ids(&[4]) };
    assert_eq!(code(&world.ask(top.clone())), Some(RefusalCode::Forbidden));
    assert_eq!(code(&world.ask_as(root(), None, top)), None);
    world.pass(11);
    assert_eq!(world.state_of(first), JobState::Completed);
    assert!(queue(&mut world).ends_with("4:running"), "{}", queue(&mut world));
    world.pass(10);
    assert_eq!(queue(&mut world), "2:waiting/resources 3:running");
    assert_eq!(world.number(3, JobField::Priority), Some(4_294_901_757));
    assert_eq!(world.number(2, JobField::Priority), Some(100));
    assert_eq!(code(&world.ask(priority(2, 0))), None);
    assert_eq!(world.text(2, JobField::Reason), "held_by_user");
}

// --- limits

#[test]
fn the_limit_of_a_running_job() {
    let mut world = World::new(config(1, 1));
    let id = world.submit(slurm("r"));
    let behind = world.submit(slurm("b"));
    world.run_times.insert(JobId(id), Span::from_secs(50));
    world.pass(1);
    let limit = |secs| Request::Change {
        filter: ids(&[id]),
        change: Box::new(JobChange {
            time_limit: Some(Span::from_secs(secs)),
            ..JobChange::default()
        }),
    };
    assert_eq!(code(&world.ask(limit(70))), Some(RefusalCode::Forbidden));
    assert_eq!(code(&world.ask_as(root(), None, limit(90))), None);
    assert_eq!(world.number(id, JobField::TimeLimit), Some(90_000));
    assert_eq!(code(&world.ask(limit(5))), None);
    world.deliver_all();
    world.crash();
    world.connect(0);
    world.deliver_all();
    assert_eq!(world.number(id, JobField::TimeLimit), Some(5000));
    world.pass(5);
    assert_eq!(queue(&mut world), format!("{behind}:running"));
}

#[test]
fn deadlines_end_what_cannot_be_over_by_then() {
    let mut world = World::new(config(1, 1));
    let now = world.now;
    let until = |secs: i64| JobSpec {
        deadline: Some(now + Span::from_secs(secs)),
        time_limit: Some(Span::from_secs(20)),
        ..slurm("d")
    };
    let late = world.submit(until(10));
    assert_eq!(world.state_of(late), JobState::Deadline);
    let fits = world.submit(until(25));
    let stuck = world.submit(until(25));
    assert_eq!(queue(&mut world), format!("{fits}:running {stuck}:waiting/resources"));
    world.pass(7);
    assert_eq!(world.state_of(stuck), JobState::Deadline);
    world.pass(5);
    assert_eq!(world.state_of(fits), JobState::Completed);
}

// --- beyond the queue

#[test]
fn in_slurms_words_a_job_beyond_its_queue_waits() {
    let mut c = config(2, 4);
    c.queues[0].max_time = Some(Span::from_minutes(30));
    let mut world = World::new(c);
    let long = |dialect| JobSpec {
        dialect,
        time_limit: Some(Span::from_minutes(60)),
        ..slurm("long")
    };
    let wide = |nodes| JobSpec {
        request: ResourceRequest {
            nodes: Some(nodes),
            ..ResourceRequest::default()
        },
        ..slurm("wide")
    };
    assert!(world.try_submit(long(Dialect::Cosy), None).is_err());
    world.submit(long(Dialect::Slurm));
    world.submit(wide(3));
    assert_eq!(queue(&mut world), "1:waiting/queue_time_limit 2:waiting/queue_node_limit");
    assert_eq!(world.number(1, JobField::TimeLimit), Some(3_600_000));
    let shorter = world.ask(Request::Change {
        filter: ids(&[1]),
        change: Box::new(JobChange {
            time_limit: Some(Span::from_minutes(10)),
            ..JobChange::default()
        }),
    });
    assert_eq!(code(&shorter), None);
    world.crash();
    for n in 0..2 {
        world.connect(n);
    }
    world.deliver_all();
    assert_eq!(queue(&mut world), "1:running 2:waiting/queue_node_limit");
    let mut memory = slurm("memory");
    memory.request.memory = cosy_model::job::MemoryRequest::PerNode(MiB(1 << 30));
    let refused = world.try_submit(memory, None).unwrap_err();
    assert_eq!(refused.about, Some(About::Memory), "{refused}");
}

// --- features

fn with_features() -> ClusterConfig {
    let mut c = config(4, 4);
    let features = [&["a", "r1"][..], &["b", "r1"], &["a", "b", "r2"], &["r2"]];
    for (node, features) in c.nodes.iter_mut().zip(features) {
        node.features = features.iter().map(|f| (*f).to_owned()).collect();
    }
    c
}

fn groups(groups: &[&[&str]]) -> Vec<Vec<String>> {
    let texts = |g: &&[&str]| g.iter().map(|t| (*t).to_owned()).collect();
    groups.iter().map(texts).collect()
}

#[test]
fn features_in_alternatives() {
    let check = |any: &[&[&str]], same: &[&[&str]], nodes: u32, want: Result<&str, About>| {
        let mut world = World::new(with_features());
        let request = ResourceRequest {
            nodes: Some(nodes),
            exclusive: true,
            any_features: groups(any),
            same_features: groups(same),
            ..ResourceRequest::default()
        };
        let got = world.try_submit(
            JobSpec {
                request,
                ..spec("f")
            },
            None,
        );
        let got = match got {
            Ok(id) => Ok(world.text(id, JobField::Nodes)),
            Err(refusal) => Err(refusal.about.expect("what it is about")),
        };
        assert_eq!(got, want.map(str::to_owned), "{any:?} {same:?} {nodes}");
    };
    check(&[&["a"], &["b"]], &[], 3, Ok("n[1-3]"));
    check(&[&["a", "b"]], &[], 1, Ok("n3"));
    check(&[&["a"], &["b"]], &[], 4, Err(About::NodeCount));
    check(&[&["nosuch"]], &[], 1, Err(About::Feature));
    check(&[], &[&["r1"], &["r2"]], 2, Ok("n[1-2]"));
    check(&[&["b"]], &[&["r1"], &["r2"]], 1, Ok("n2"));
    check(&[], &[&["r1"], &["r2"]], 3, Err(About::NodeCount));
}

#[test]
fn features_by_numbers_of_nodes() {
    let check = |counts: &[(&str, u32)], nodes: Option<u32>, want: Result<&str, About>| {
        let mut world = World::new(with_features());
        let counted = counts.iter().map(|(feature, nodes)| CountedFeatures {
            any: groups(&[&[*feature]]),
            nodes: *nodes,
        });
        let request = ResourceRequest {
            nodes,
            exclusive: true,
            counted_features: counted.collect(),
            ..ResourceRequest::default()
        };
        let f = JobSpec {
            request,
            ..spec("f")
        };
        let got = match world.try_submit(f, None) {
            Ok(id) => Ok(world.text(id, JobField::Nodes)),
            Err(refusal) => Err(refusal.about.expect("what it is about")),
        };
        assert_eq!(got, want.map(str::to_owned), "{counts:?} {nodes:?}");
    };
    check(&[("r1", 1), ("r2", 1)], None, Ok("n[1,3]"));
    check(&[("r1", 1), ("r2", 2)], None, Ok("n[1,3-4]"));
    check(&[("r2", 1)], Some(2), Ok("n[1,3]"));
    check(&[("a", 2), ("b", 1)], Some(3), Ok("n[1-3]"));
    check(&[("a", 2), ("b", 2)], None, Err(About::Node));
    check(&[("r1", 2), ("r2", 2)], Some(3), Err(About::Node));
    check(&[("nosuch", 2)], None, Err(About::Feature));
}

#[test]
fn who_may_choose_a_group_takes_the_one_that_is_free() {
    let mut world = World::new(with_features());
    let on = |node: &str| JobSpec {
        request: ResourceRequest {
            require: vec![node.to_owned()],
            exclusive: true,
            ..ResourceRequest::default()
        },
        ..spec("on")
    };
    let long = world.submit(on("n1"));
    world.run_times.insert(JobId(long), Span::from_secs(50));
    world.submit(on("n3"));
    let choosy = world.submit(JobSpec {
        request: ResourceRequest {
            nodes: Some(2),
            exclusive: true,
            same_features: groups(&[&["r1"], &["r2"]]),
            ..ResourceRequest::default()
        },
        ..spec("choosy")
    });
    assert_eq!(world.text(choosy, JobField::State), "waiting");
    world.pass(12);
    assert_eq!(world.text(choosy, JobField::Nodes), "n[3-4]");
}

// --- dependencies

#[test]
fn dependencies_tell_how_they_stand() {
    let mut world = World::new(config(4, 4));
    let good = world.submit(slurm("good"));
    let array = world.try_submit(slurm("array"), Some("1-2")).unwrap();
    let one = world.submit(dependent(DependencyKind::AfterOk, good));
    let all = world.submit(dependent(DependencyKind::AfterOk, array));
    let not = world.submit(dependent(DependencyKind::AfterNotOk, good));
    let started = world.submit(dependent(DependencyKind::After, good));
    let mut check = |id: u64, want: &str| {
        assert_eq!(world.text(id, JobField::DependencyText), want, "{id}");
    };
    check(one, "afterok:1(unfulfilled)");
    check(all, "afterok:2_*(unfulfilled)");
    check(started, "");
    world.pass(11);
    let left = world.text(not, JobField::DependencyText);
    assert_eq!(left, "afternotok:1(failed)");
    assert_eq!(world.text(not, JobField::Reason), "dependency_never");
    assert_eq!(world.text(all, JobField::State), "running");
}

#[test]
fn a_job_may_end_when_it_can_never_run() {
    for (own, cluster, ends) in [
        (None, false, false),
        (None, true, true),
        (Some(true), false, true),
        (Some(false), true, false),
    ] {
        let mut c = config(1, 4);
        c.end_if_never = cluster;
        let mut world = World::new(c);
        let good = world.submit(slurm("good"));
        let never = world.submit(JobSpec {
            end_if_never: own,
            ..dependent(DependencyKind::AfterNotOk, good)
        });
        world.pass(11);
        let ended = world.state_of(never) == JobState::Cancelled;
        assert_eq!(ended, ends, "{own:?} {cluster}");
        if ends {
            assert_eq!(world.store.row(never).note, cosy_view::words::end_note::NEVER_NOTE);
        }
    }
}

#[test]
fn tasks_follow_the_tasks_of_another_array() {
    let mut world = World::new(config(4, 4));
    let first = world.try_submit(slurm("a"), Some("1-2")).unwrap();
    world.run_times.insert(JobId(first), Span::from_secs(30)); // its last task has the array's id
    let second = dependent(DependencyKind::AfterCorr, first);
    world.try_submit(second, Some("1-2")).unwrap();
    world.pass(12);
    assert_eq!(queue(&mut world), "1_2:running 3_1:running 3_2:waiting/dependency");
    world.pass(20);
    assert_eq!(queue(&mut world), "3_2:running");
}

#[test]
fn one_of_several_is_enough() {
    let mut world = World::new(config(4, 4));
    let good = world.submit(slurm("good"));
    let long = world.submit(slurm("long"));
    world.run_times.insert(JobId(long), Span::from_secs(40));
    let one = |kind, job| Dependency {
        kind,
        job: JobId(job),
        task: None,
        delay: Span::ZERO,
    };
    let either = world.submit(JobSpec {
        dependencies: vec![
            one(DependencyKind::AfterNotOk, good),
            one(DependencyKind::AfterAny, long),
        ],
        any_dependency: true,
        ..slurm("either")
    });
    world.pass(12);
    let left = world.text(either, JobField::DependencyText);
    assert_eq!(left, "afternotok:1(failed)?afterany:2(unfulfilled)");
    world.pass(30);
    assert_eq!(queue(&mut world), "3:running");
}

#[test]
fn a_while_after_a_start() {
    let mut world = World::new(config(4, 4));
    let first = world.submit(slurm("first"));
    world.run_times.insert(JobId(first), Span::from_secs(50));
    let mut later = dependent(DependencyKind::After, first);
    later.dependencies[0].delay = Span::from_secs(30);
    world.submit(later);
    world.pass(28);
    assert_eq!(queue(&mut world), "1:running 2:waiting/dependency");
    world.pass(4);
    assert_eq!(queue(&mut world), "1:running 2:running");
}

#[test]
fn in_slurms_words_nobody_waits_for_what_is_not_known() {
    let mut world = World::new(config(1, 4));
    world.submit(dependent(DependencyKind::AfterOk, 999_999));
    assert_eq!(queue(&mut world), "1:running");
    let mut cosy = dependent(DependencyKind::AfterOk, 999_999);
    cosy.dialect = Dialect::Cosy;
    let refused = world.try_submit(cosy, None).unwrap_err();
    assert_eq!(refused.code, RefusalCode::NotFound);
}

#[test]
fn allocations_in_slurms_words_are_not_limited() {
    let mut c = config(4, 4);
    c.policy.interactive_per_user = 1;
    let mut world = World::new(c);
    for dialect in [Dialect::Slurm, Dialect::Slurm, Dialect::Cosy, Dialect::Cosy] {
        let spec = JobSpec {
            dialect,
            program: Program::Allocation,
            attended: true,
            ..spec("a")
        };
        world.ask_on(user(1000, "u1000"), None, allocates(spec));
    }
    assert_eq!(queue(&mut world), "1:running 2:running 3:running 4:waiting/interactive_limit");
}
