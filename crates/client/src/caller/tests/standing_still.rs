//! One controller stands still: connections to it are made, and nobody takes them.

use super::*;
use cosy_model::api::NodeAction;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Controllers that answer whatever comes, however often, until the test is over: a busy machine may
/// have a command look more than once.
struct Answering {
    places: Places,
    over: Arc<AtomicBool>,
    asked: mpsc::Sender<(String, RequestFrame)>,
    requests: mpsc::Receiver<(String, RequestFrame)>,
}

/// What a controller says to a request; `None`: nothing.
type Says = fn(&Request) -> Option<ReplyFrame>;

impl Answering {
    fn new() -> Self {
        let (asked, requests) = mpsc::channel();
        Self {
            places: Places::new(),
            over: Arc::default(),
            asked,
            requests,
        }
    }

    fn play(&mut self, name: &str, says: Says) {
        let (over, asked, own) = (self.over.clone(), self.asked.clone(), name.to_owned());
        self.places.play(name, move |listener| {
            listener.set_nonblocking(true).unwrap();
            while !over.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        stream.set_nonblocking(false).unwrap();
                        let (asked, own) = (asked.clone(), own.clone());
                        std::thread::spawn(move || talk(stream, &own, &asked, says));
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        });
    }

    /// The answer, the notices, and who was asked what.
    fn ask(
        self,
        names: &[&str],
        retry: RetryPolicy,
        request: Request,
    ) -> (Result<Reply, CallError>, usize, Vec<(String, RequestFrame)>) {
        let sockets = names.iter().map(|name| self.places.path(name)).collect();
        let (tx, notices) = mpsc::channel();
        let mut caller =
            Caller::of_sockets(sockets, retry, move |t| tx.send(t.to_owned()).unwrap());
        let answer = caller.ask(request);
        drop(caller);
        self.over.store(true, Ordering::Relaxed);
        for thread in self.places.threads {
            thread.join().unwrap();
        }
        drop(self.asked);
        (answer, notices.iter().count(), self.requests.iter().collect())
    }
}

/// Until the command hangs up.
fn talk(
    mut stream: UnixStream,
    own: &str,
    asked: &mpsc::Sender<(String, RequestFrame)>,
    says: Says,
) {
    while let Ok(Some(frame)) = frame::read::<RequestFrame>(&mut stream, FRAME_BYTES) {
        let answer = says(&frame.request);
        let _ = asked.send((own.to_owned(), frame));
        let sent = answer.map(|answer| frame::write(&mut stream, &answer, FRAME_BYTES));
        if sent.is_some_and(|sent| sent.is_err()) {
            return;
        }
    }
}

fn leads(_: &Request) -> Option<ReplyFrame> {
    Some(pong())
}

fn stands_by(_: &Request) -> Option<ReplyFrame> {
    Some(standby())
}

#[test]
fn the_one_that_leads_is_asked() {
    let mut places = Answering::new();
    let still = UnixListener::bind(places.places.path("a")).unwrap();
    places.play("b", stands_by);
    places.play("c", leads);
    let (answer, notices, asked) = places.ask(&["a", "b", "c"], QUICK, Request::Reload);
    assert_eq!((answer.unwrap(), notices), (pong().reply, 1));
    let changes = asked.iter().filter(|(_, frame)| frame.request.changes());
    let [(who, frame)] = changes.collect::<Vec<_>>()[..] else {
        panic!("{asked:?}");
    };
    assert_eq!(who, "c");
    // What was sent first is the same request.
    assert_eq!(&read_request(&mut still.accept().unwrap().0), frame);
}

/// Also where the request does not fit into the connection, and where the wait has no end.
#[test]
fn however_it_is_waited_for() {
    let large = Request::NodeControl {
        nodes: vec!["n".repeat(1000); 2000],
        action: NodeAction::Resume,
    };
    let endless = Request::Wait { jobs: Vec::new() };
    for request in [large, endless] {
        let mut places = Answering::new();
        let still = UnixListener::bind(places.places.path("a")).unwrap();
        let (done, wait) = mpsc::channel::<()>();
        let end = std::thread::spawn(move || {
            // Not without end, where nobody looks elsewhere.
            let _ = wait.recv_timeout(Duration::from_secs(15));
            drop(still);
        });
        places.play("b", leads);
        let (answer, notices, asked) = places.ask(&["a", "b"], QUICK, request.clone());
        drop(done);
        end.join().unwrap();
        assert_eq!((answer.unwrap(), notices), (pong().reply, 1));
        assert!(asked.iter().any(|(_, frame)| frame.request == request));
    }
}

/// The queue of connections of one that stands still may be full, too.
#[test]
fn also_when_it_takes_no_more_connections() {
    let mut places = Answering::new();
    let still = UnixListener::bind(places.places.path("a")).unwrap();
    rustix::net::listen(&still, 0).unwrap();
    let _queued = UnixStream::connect(places.places.path("a")).unwrap();
    places.play("b", leads);
    let (answer, notices, _) = places.ask(&["a", "b"], QUICK, Request::Reload);
    assert_eq!((answer.unwrap(), notices), (pong().reply, 1));
}

/// A controller that is only slow with a request has it once, and nobody else has it.
#[test]
fn one_that_is_slow_is_waited_for() {
    let retry = RetryPolicy {
        looks: Looks {
            after: Duration::from_millis(20),
            wait: Duration::from_secs(20),
        },
        ..QUICK
    };
    let mut places = Answering::new();
    let (tx, asked) = mpsc::channel();
    places.places.play("a", move |listener| {
        let mut stream = accept(&listener);
        tx.send(read_request(&mut stream)).unwrap();
        // Any answer shows that it is there.
        for answer in [
            pong(),
            refused(RefusalCode::Invalid, "too many connections"),
        ] {
            tx.send(serve(&listener, &[answer]).remove(0)).unwrap();
        }
        reply(&mut stream, &pong());
    });
    places.play("b", leads);
    let (answer, notices, elsewhere) = places.ask(&["a", "b"], retry, Request::Reload);
    assert_eq!((answer.unwrap(), notices), (pong().reply, 0));
    let asked: Vec<_> = asked.iter().map(|frame| frame.request).collect();
    assert_eq!(asked[..3], [Request::Reload, Request::Ping, Request::Ping]);
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}

/// Where nobody leads elsewhere, the first one is waited for.
#[test]
fn one_that_goes_on_answers() {
    let mut places = Answering::new();
    let still = UnixListener::bind(places.places.path("a")).unwrap();
    let (tx, looked) = mpsc::channel();
    places.asked = tx;
    places.play("b", stands_by);
    // It goes on when the other one has been asked.
    let goes_on = std::thread::spawn(move || {
        looked.recv().unwrap();
        let mut first = accept(&still);
        read_request(&mut first);
        reply(&mut first, &pong());
        looked
    });
    let retry = RetryPolicy {
        looks: Looks {
            wait: Duration::from_millis(50),
            ..QUICK.looks
        },
        ..QUICK
    };
    let (answer, notices, _) = places.ask(&["a", "b"], retry, Request::Reload);
    assert_eq!((answer.unwrap(), notices), (pong().reply, 0));
    goes_on.join().unwrap();
}

/// What a node may not pass on is the controller's own to answer, also when it is silent for a while.
#[test]
fn what_a_node_may_not_pass_on() {
    static PASSED: AtomicBool = AtomicBool::new(false);
    let mut places = Answering::new();
    places.play("a", |_| PASSED.load(Ordering::Relaxed).then(pong));
    places.play("b", |request| {
        PASSED.fetch_or(request.changes(), Ordering::Relaxed);
        match request.changes() {
            true => Some(refused(RefusalCode::Forbidden, "not through here")),
            false => Some(pong()),
        }
    });
    let (answer, _, asked) = places.ask(&["a", "b"], QUICK, Request::Reload);
    assert_eq!(answer.unwrap(), pong().reply);
    let changes = asked.iter().filter(|(_, frame)| frame.request.changes());
    let who: Vec<&str> = changes.map(|(who, _)| who.as_str()).collect();
    assert_eq!(who, ["a", "b", "a"]);
}

/// A controller whose database does not answer says so to pings: the user is told, once, and the
/// request is waited for; also where there is no other socket.
#[test]
fn one_that_cannot_answer_now_says_why() {
    let retry = RetryPolicy {
        looks: Looks {
            wait: Duration::from_secs(20),
            ..QUICK.looks
        },
        ..QUICK
    };
    for names in [&["a"][..], &["a", "b"]] {
        let mut places = Answering::new();
        let (tx, told) = mpsc::channel();
        places.places.play("a", move |listener| {
            let mut stream = accept(&listener);
            read_request(&mut stream);
            for _ in 0..2 {
                serve(&listener, &[refused(RefusalCode::Unavailable, "no database")]);
            }
            tx.send(()).unwrap();
            reply(&mut stream, &pong());
        });
        places.play("b", stands_by);
        let (answer, notices, asked) = places.ask(names, retry, Request::Reload);
        assert_eq!((answer.unwrap(), notices), (pong().reply, 1));
        assert!(told.try_recv().is_ok());
        assert!(
            asked
                .iter()
                .all(|(_, frame)| frame.request == Request::Ping),
            "{asked:?}"
        );
    }
}
