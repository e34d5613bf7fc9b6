//! Node daemons: first words, reports, and what they pass on for commands of their hosts.
//! The node that speaks has a key of its own and lies.

use crate::local::{busy, finish, is_decided, who};
use cosy_control::{Caller, ClientId, Event, Facts, LinkHello, LinkId, Via};
use cosy_model::node::{NodeOrder, NodeReport};
use cosy_proto::client::RequestFrame;
use cosy_proto::link::Hello;
use cosy_proto::words;

/// The link of the node that lies.
const LINK: LinkId = LinkId(900_000);

/// Feeds one input of the fuzzer to a link.
pub fn run(bytes: &[u8]) {
    let Some((flags, bytes)) = bytes.split_first() else {
        return;
    };
    crate::stream(bytes, cosy_model::limits::HELLO_BYTES);
    let mut pieces = crate::pieces(bytes).into_iter();
    let Some(hello) = pieces.next().and_then(crate::message::<Hello>) else {
        return;
    };
    let reports: Vec<NodeReport> = pieces.filter_map(crate::message).collect();
    if reports.is_empty() {
        return;
    }
    let mut world = busy();
    world.store.a_node_lies = true;
    let hello = match hello {
        Hello::Node { orders, .. } => LinkHello::Node {
            lacks: words::lacked::<NodeOrder>(&orders),
        },
        Hello::Join { node, token, .. } => LinkHello::Join {
            node,
            token_hash: token,
        },
    };
    world.event(Event::LinkOpened {
        link: LINK,
        peer: "key1".to_owned(),
        address: None,
        hello,
    });
    for (at, report) in (0u64..).zip(reports) {
        match report {
            NodeReport::RelayRequest {
                node, uid, gid, frame, ..
            } => {
                let Some(ask) = crate::message::<RequestFrame>(&frame.0) else {
                    continue;
                };
                if !is_decided(&ask.request) {
                    continue;
                }
                let mut user = who(*flags);
                user.uid = uid;
                world.event(Event::Asked {
                    client: ClientId(1_000_000 + at),
                    caller: Box::new(Caller {
                        user,
                        gid,
                        resolved: true,
                        via: Some(Via { node, link: LINK }),
                        as_user: ask.as_user,
                        given: Vec::new(),
                    }),
                    key: ask.key.map(|k| k.0),
                    request: ask.request,
                    facts: Facts::default(),
                });
            }
            report => world.event(Event::LinkReported { link: LINK, report }),
        }
        world.deliver_all();
    }
    if flags & 16 != 0 {
        world.event(Event::LinkClosed(LINK));
    }
    finish(&mut world, *flags);
}
