//! The socket for commands: questions of users and of an administrator, decided by a
//! controller with jobs, then some time, then a restart from its store.

use crate::world::{self, World, user};
use cosy_control::ClusterConfig;
use cosy_model::api::Request;
use cosy_model::{QueueSpec, Span, Uid, User};
use cosy_proto::client::RequestFrame;

/// A cluster that is cheap to make.
pub(crate) fn small() -> ClusterConfig {
    let mut config = world::config(3, 4);
    config.policy.max_array_tasks = 50;
    config.queues.push(QueueSpec {
        name: "other".to_owned(),
        ..QueueSpec::default()
    });
    config
}

/// With a job that runs, one that waits for it and an array that is held.
pub(crate) fn busy() -> World {
    let mut world = World::new(small());
    let spec = |name: &str| {
        let mut spec = world::spec(name);
        spec.request.exclusive = true;
        spec
    };
    let mut wide = spec("wide");
    wide.request.nodes = Some(3);
    world.submit(wide);
    world.deliver_all();
    world.submit(spec("next"));
    let mut held = spec("array");
    held.hold = true;
    let _ = world.try_submit(held, Some("1-8%2"));
    world
}

/// Who asks: a byte of the input decides.
pub(crate) fn who(flags: u8) -> User {
    match flags % 4 {
        0 | 1 => user(1000, "u1000"),
        2 => user(1001, "u1001"),
        _ => User {
            uid: Uid(0),
            ..user(0, "root")
        },
    }
}

/// Requests that a shell around the controller answers itself.
pub(crate) fn is_decided(request: &Request) -> bool {
    !matches!(
        request,
        Request::History { .. }
            | Request::Script { .. }
            | Request::Events { .. }
            | Request::Ledger { .. }
            | Request::Steps { .. }
            | Request::Archive { .. }
            | Request::JoinToken { .. }
    )
}

/// Feeds one input of the fuzzer to the socket of commands.
pub fn run(bytes: &[u8]) {
    let Some((flags, bytes)) = bytes.split_first() else {
        return;
    };
    crate::stream(bytes, cosy_model::limits::FRAME_BYTES);
    let mut world = None;
    for (at, piece) in (0u8..).zip(crate::pieces(bytes)) {
        let Some(ask) = crate::message::<RequestFrame>(piece) else {
            continue;
        };
        if !cosy_proto::understands(ask.version) || !is_decided(&ask.request) {
            continue;
        }
        let world = world.get_or_insert_with(busy);
        world.ask_on(who(flags.wrapping_add(at)), ask.key.map(|k| k.0), ask.request);
        world.deliver_all();
    }
    if let Some(mut world) = world {
        finish(&mut world, *flags);
    }
}

/// Some time, and a restart.
pub(crate) fn finish(world: &mut World, flags: u8) {
    world.pass(2);
    if flags & 8 != 0 {
        world.now = world.now + Span::from_secs(30);
        world.pass(2);
    }
    world.crash();
    for node in 0..world.nodes.len() {
        world.connect(node);
    }
    world.deliver_all();
    world.pass(1);
}
