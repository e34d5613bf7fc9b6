//! Links to controllers that only say what a test tells them to.

use super::*;
use crate::epoch::KnownEpoch;
use cosy_proto::frame;
use cosy_proto::tls;
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// No event takes longer than this, however busy the machine is.
const DEADLINE: Duration = Duration::from_secs(20);

async fn in_time<T>(what: &str, event: impl Future<Output = T>) -> T {
    let got = tokio::time::timeout(DEADLINE, event).await;
    got.unwrap_or_else(|_| panic!("no {what} in time"))
}

/// A place where a controller is.
struct Controller {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

/// The controller's end of a connection of the node.
struct Line {
    stream: TlsStream<TcpStream>,
    /// The epoch that the node says it knows.
    known: u64,
}

impl Controller {
    async fn new(key: &KeyPair) -> Self {
        Self {
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            acceptor: TlsAcceptor::from(tls::server_config(key).unwrap()),
        }
    }

    fn peer(&self, own: &KeyPair, key: &KeyPair) -> Peer {
        let address = self.listener.local_addr().unwrap().to_string();
        Peer::new(address, own, key.public()).unwrap()
    }

    async fn accept(&self) -> Line {
        in_time("hello", async {
            let (tcp, _) = self.listener.accept().await.unwrap();
            let mut stream = self.acceptor.accept(tcp).await.unwrap();
            let mut header = [0; frame::HEADER];
            stream.read_exact(&mut header).await.unwrap();
            let mut body = vec![0; u32::from_le_bytes(header) as usize];
            stream.read_exact(&mut body).await.unwrap();
            let known = match frame::decode(&body).unwrap() {
                Hello::Node { epoch, .. } => epoch,
                other => panic!("{other:?}"),
            };
            Line { stream, known }
        })
        .await
    }
}

impl Line {
    async fn say(&mut self, message: &impl serde::Serialize) {
        let bytes = frame::encode(message, limits::FRAME_BYTES).unwrap();
        self.stream.write_all(&bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    async fn stand_by(&mut self) {
        let leader = Some("elsewhere:1".to_owned());
        self.say(&HelloReply::Standby { leader }).await;
    }

    async fn welcome(&mut self, epoch: u64) {
        self.say(&HelloReply::welcome(epoch)).await;
    }

    /// The node has closed it, whatever it said before.
    async fn closed(mut self) {
        let mut rest = Vec::new();
        let read = self.stream.read_to_end(&mut rest);
        let _ = in_time("end of the link", read).await;
    }
}

/// A node with two controllers.
struct Bench {
    dir: tempfile::TempDir,
    a: Controller,
    b: Controller,
    leadership: Leadership,
    events: mpsc::Receiver<LinkEvent>,
}

async fn bench() -> Bench {
    let (own, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (Controller::new(&key).await, Controller::new(&key).await);
    let leadership = Leadership::new(KnownEpoch::load(dir.path()).unwrap(), true);
    let (sender, events) = mpsc::channel(16);
    keep_up(vec![a.peer(&own, &key), b.peer(&own, &key)], &leadership, &sender);
    Bench {
        dir,
        a,
        b,
        leadership,
        events,
    }
}

impl Bench {
    async fn next(&mut self) -> LinkEvent {
        in_time("event", self.events.recv()).await.unwrap()
    }

    /// The next event is that a link is up.
    async fn up(&mut self) -> LinkTag {
        match self.next().await {
            LinkEvent::Up(tag, sender) => {
                // Without it the link would end.
                std::mem::forget(sender);
                tag
            }
            other => panic!("{other:?}"),
        }
    }
}

fn kept(dir: &Path) -> u64 {
    KnownEpoch::load(dir).unwrap().get()
}

#[tokio::test]
async fn a_parked_connection_is_welcomed_and_the_leader_before_is_left() {
    let mut bench = bench().await;
    let (mut a, mut b) = (bench.a.accept().await, bench.b.accept().await);
    assert_eq!((a.known, b.known), (0, 0));
    for _ in 0..3 {
        b.stand_by().await;
    }
    a.welcome(5).await;
    let first = bench.up().await;
    assert_eq!(kept(bench.dir.path()), 5);
    b.welcome(6).await;
    a.closed().await;
    let mut ups = Vec::new();
    let mut downs = Vec::new();
    while ups.is_empty() || downs.is_empty() {
        match bench.next().await {
            LinkEvent::Up(tag, _) => ups.push(tag),
            LinkEvent::Down(tag) => downs.push(tag),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(downs, [first]);
    assert_eq!(kept(bench.dir.path()), 6);
    assert_eq!(bench.a.accept().await.known, 6, "so that it learns that it was deposed");
}

#[tokio::test]
async fn a_deposed_controller_is_left_at_once() {
    let mut bench = bench().await;
    let mut b = bench.b.accept().await;
    b.welcome(6).await;
    bench.up().await;
    for _ in 0..2 {
        let mut a = bench.a.accept().await;
        a.welcome(5).await;
        a.closed().await;
    }
    b.say(&NodeOrder::Leaving).await;
    let next = bench.next().await;
    assert!(matches!(next, LinkEvent::Orders(..)), "no other link, but {next:?}");
}

#[tokio::test]
async fn a_leader_whose_epoch_cannot_be_kept_is_left_until_it_can() {
    let mut bench = bench().await;
    let in_the_way = bench.dir.path().join("epoch.new");
    std::fs::create_dir(&in_the_way).unwrap();
    let mut a = bench.a.accept().await;
    a.welcome(5).await;
    a.closed().await;
    std::fs::remove_dir(&in_the_way).unwrap();
    let mut a = bench.a.accept().await;
    a.welcome(5).await;
    bench.up().await;
}

/// What the daemon would do with the events that come before `until` is reached.
async fn obeyed(bench: &mut Bench, link: &mut ObeyedLink, until: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    let mut seen = 0;
    while seen < until {
        match bench.next().await {
            LinkEvent::Up(tag, sender) => {
                std::mem::forget(sender);
                link.begins(tag);
            }
            LinkEvent::Orders(tag, orders) => {
                seen += orders.len();
                let heard = orders.into_iter().filter_map(|order| match order {
                    NodeOrder::Heard { number, .. } => Some(number),
                    _ => None,
                });
                numbers.extend(heard.filter(|_| link.obeys(tag)));
            }
            LinkEvent::Down(tag) => drop(link.ends(tag)),
            LinkEvent::Absent(_) => {}
        }
    }
    numbers
}

fn order(number: u64) -> NodeOrder {
    NodeOrder::Heard {
        number,
        mark: cosy_model::OsText::default(),
    }
}

#[tokio::test]
async fn orders_that_wait_while_the_leader_changes_are_void() {
    let mut bench = bench().await;
    let (mut a, mut b) = (bench.a.accept().await, bench.b.accept().await);
    b.stand_by().await;
    a.welcome(5).await;
    let mut link = ObeyedLink::new(bench.leadership.clone());
    a.say(&order(1)).await;
    assert_eq!(obeyed(&mut bench, &mut link, 1).await, [1]);
    // The daemon takes nothing from its queue now.
    a.say(&order(2)).await;
    in_time("order in the queue", async {
        while bench.events.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    b.welcome(6).await;
    a.closed().await;
    b.say(&order(3)).await;
    assert_eq!(obeyed(&mut bench, &mut link, 2).await, [3]);
}

#[tokio::test]
async fn nobody_is_there_only_where_all_are_absent() {
    let mut bench = bench().await;
    for _ in 0..2 {
        drop((bench.a.accept().await, bench.b.accept().await));
    }
    let first = bench.next().await;
    assert!(matches!(first, LinkEvent::Absent(_)), "both take nobody on: {first:?}");
    let mut b = bench.b.accept().await;
    b.stand_by().await;
    // What the tries before it have told comes first.
    for _ in 0..2 {
        drop(bench.a.accept().await);
    }
    while bench.events.try_recv().is_ok() {}
    for _ in 0..4 {
        // It takes nobody on; the next try shows that this one was seen.
        drop(bench.a.accept().await);
    }
    assert!(bench.events.is_empty(), "b may lead at any moment");
    let Bench {
        b: place,
        mut events,
        dir: _dir,
        ..
    } = bench;
    let before = sys::since_boot();
    drop((place, b));
    match in_time("event", events.recv()).await {
        Some(LinkEvent::Absent(at)) => assert!(at < before, "when a was found absent last"),
        other => panic!("{other:?}"),
    }
}
