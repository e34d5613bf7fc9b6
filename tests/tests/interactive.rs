//! Interactive jobs with real daemons: what becomes of a job when the connection of its
//! command ends, on the controller's host and on another one, and over restarts.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::{Reply, Request, Submission};
use cosy_model::{JobId, JobState, OsText, Program};
use cosy_tests::client::{Client, new_key};
use cosy_tests::{Cluster, Options, command, wait};

/// A login host, through whose daemon commands speak, too.
fn cluster(more: &str) -> Cluster {
    let options = Options {
        policy: format!("{}{more}", Options::default().policy),
        entry: |_| "login = true\n".into(),
        noded: |_| "socket = \"DIR/relay.sock\"\n".into(),
        ..Options::default()
    };
    Cluster::start(1, options)
}

/// A command's connection: to the controller, or to the daemon of its own host.
fn connect(c: &Cluster, relayed: bool) -> Client {
    let relay = c.dir().join("relay.sock");
    let path = if relayed { relay } else { c.socket() };
    wait::until("a connection", || Client::connect(&path).ok())
}

fn allocate(c: &Cluster, client: &mut Client) -> (JobId, bool) {
    let mut spec = command(&c.work(), &["true"]).spec;
    (spec.program, spec.attended) = (Program::Allocation, true);
    let submission = Submission {
        spec,
        script: OsText::default(),
        array: None,
    };
    let request = Request::Allocate(Box::new(submission));
    match client.ask_with(request, Some(new_key())).unwrap() {
        Reply::Allocated { entry, .. } => {
            assert!(entry.socket.is_some(), "the node has a socket for steps");
            (entry.key.job, true)
        }
        Reply::Submitted { job, .. } => (job, false),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_command_that_hangs_up_ends_its_job() {
    let c = cluster("");
    for relayed in [false, true] {
        let mut first = connect(&c, relayed);
        let (running, at_once) = allocate(&c, &mut first);
        assert!(at_once, "{relayed}");
        c.until_state(running, JobState::Running);
        let mut second = connect(&c, relayed);
        let (waiting, at_once) = allocate(&c, &mut second);
        assert!(!at_once, "{relayed}");
        assert_eq!(c.row(waiting).reason, "interactive_limit");
        drop(second);
        assert_eq!(c.until_end(waiting).state, JobState::Cancelled);
        assert_eq!(c.row(running).state, JobState::Running);
        drop(first);
        assert_eq!(c.until_end(running).state, JobState::Cancelled);
    }
}

#[test]
fn who_asks_once_more_still_stays() {
    let c = cluster("");
    for relayed in [false, true] {
        let mut client = connect(&c, relayed);
        let (job, _) = allocate(&c, &mut client);
        let finish = Request::Finish {
            job,
            exit_code: 3,
            signal: 0,
        };
        let mut other = connect(&c, relayed);
        let stays = std::thread::spawn(move || {
            let started = true;
            client.ask(Request::Attend { job, started }).unwrap()
        });
        let done = other.ask_with(finish, Some(new_key())).unwrap();
        assert!(matches!(done, Reply::Done { changed: 1, .. }), "{done:?}");
        let Reply::Ended(ended) = stays.join().unwrap() else {
            panic!("no end was told");
        };
        assert_eq!((ended[0].state, ended[0].exit_code), (JobState::Failed, 3));
    }
}

#[test]
fn a_way_that_broke_leaves_time_to_come_again() {
    let mut c = cluster("attend_grace = \"3s\"\n");
    for (relayed, controller) in [(false, true), (true, true), (true, false)] {
        for comes_again in [true, false] {
            let mut client = connect(&c, relayed);
            let (job, _) = allocate(&c, &mut client);
            c.until_state(job, JobState::Running);
            if controller {
                c.cosyd.kill();
                c.start_cosyd();
            } else {
                c.nodes[0].kill();
                c.start_noded(0);
            }
            c.nodes[0].await_ready();
            let again = comes_again.then(|| {
                let mut again = connect(&c, relayed);
                let started = false;
                let attend = Request::Attend { job, started };
                let told = wait::until("the controller", || match again.ask(attend.clone()) {
                    Ok(Reply::Allocated { entry, .. }) => Some(entry),
                    Ok(Reply::Refused(_)) => None,
                    Ok(other) => panic!("{other:?}"),
                    Err(_) => {
                        again = connect(&c, relayed);
                        None
                    }
                });
                assert_eq!(told.key.job, job);
                again
            });
            drop(client);
            let name = format!("{relayed} {controller} {comes_again}");
            if let Some(again) = again {
                // The end of the old connection is none of the command.
                c.until_state(job, JobState::Running);
                drop(again);
            }
            assert_eq!(c.until_end(job).state, JobState::Cancelled, "{name}");
        }
    }
}
