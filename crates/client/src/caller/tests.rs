//! Callers of controllers that only say what a test tells them to.

use super::*;
use cosy_proto::client::RequestFrame;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::mpsc;

const QUICK: RetryPolicy = RetryPolicy {
    answer_timeout: Duration::from_secs(20),
    reconnect_for: Duration::from_secs(20),
    pause: Duration::from_millis(1),
    looks: Looks {
        after: Duration::from_millis(100),
        wait: Duration::from_millis(500),
    },
    controller_wait: None,
};

fn pong() -> ReplyFrame {
    ReplyFrame::new(Reply::Pong {
        cluster: "c".into(),
        version: "0".into(),
        now: cosy_model::Time(0),
        set_aside: Vec::new(),
        clocks: Vec::new(),
    })
}

/// Lets `serve` play the controller while `request` is asked.
fn check(
    retry: RetryPolicy,
    request: Request,
    serve: impl FnOnce(UnixListener) + Send + 'static,
) -> (Result<Reply, CallError>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let controller = std::thread::spawn(move || serve(listener));
    let (tx, rx) = mpsc::channel();
    let mut caller = Caller::new(&path, retry, move |t| tx.send(t.to_owned()).unwrap());
    let answer = caller.ask(request);
    drop(caller);
    controller.join().unwrap();
    (answer, rx.iter().collect())
}

fn read_request(stream: &mut UnixStream) -> RequestFrame {
    frame::read(stream, FRAME_BYTES).unwrap().unwrap()
}

fn reply(stream: &mut UnixStream, answer: &ReplyFrame) {
    frame::write(stream, answer, FRAME_BYTES).unwrap();
}

#[test]
fn the_same_key_after_a_loss() {
    let (answer, notices) = check(QUICK, Request::Reload, |listener| {
        let first = read_request(&mut listener.accept().unwrap().0);
        // The second one dies in the middle of its answer.
        let (mut stream, _) = listener.accept().unwrap();
        assert_eq!(read_request(&mut stream), first);
        stream.write_all(&[9, 0, 0, 0, 1]).unwrap();
        drop(stream);
        let (mut stream, _) = listener.accept().unwrap();
        assert_eq!(read_request(&mut stream), first);
        assert!(first.key.is_some());
        reply(&mut stream, &pong());
    });
    assert_eq!(answer.unwrap(), pong().reply);
    assert_eq!(notices.len(), 1, "{notices:?}");
}

#[test]
fn a_connection_that_was_closed_between_two_questions_is_no_loss() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let (closed, wait) = mpsc::channel();
    let controller = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&mut stream);
            reply(&mut stream, &pong());
            drop(stream);
            closed.send(()).unwrap();
        }
    });
    let (tx, notices) = mpsc::channel();
    let mut caller = Caller::new(&path, QUICK, move |t| tx.send(t.to_owned()).unwrap());
    for _ in 0..2 {
        assert_eq!(caller.ask(Request::Ping).unwrap(), pong().reply);
        wait.recv().unwrap();
    }
    drop(caller);
    controller.join().unwrap();
    assert_eq!(notices.iter().count(), 0);
}

#[test]
fn reads_carry_no_key() {
    let (answer, notices) = check(QUICK, Request::Ping, |listener| {
        let (mut stream, _) = listener.accept().unwrap();
        assert_eq!(read_request(&mut stream).key, None);
        reply(&mut stream, &pong());
    });
    assert!(answer.is_ok() && notices.is_empty());
}

#[test]
fn silence_ends() {
    let retry = RetryPolicy {
        answer_timeout: Duration::from_millis(30),
        reconnect_for: Duration::ZERO,
        pause: Duration::ZERO,
        looks: Looks::USUAL,
        controller_wait: None,
    };
    let (done, wait) = mpsc::channel::<()>();
    let (answer, _) = check(retry, Request::Reload, move |listener| {
        let held = listener.accept().unwrap();
        std::thread::spawn(move || {
            let _ = wait.recv();
            drop(held);
        });
    });
    drop(done);
    let text = answer.unwrap_err().to_string();
    assert!(text.contains("does not answer") && text.contains("not known"), "{text}");
}

#[test]
fn garbage_is_final() {
    for bytes in [
        &[255; 8][..],
        &[3, 0, 0, 0, 1, 2, 3],
        b"HTTP/1.1 200 OK\r\n",
    ] {
        let (answer, _) = check(QUICK, Request::Reload, move |listener| {
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&mut stream);
            stream.write_all(bytes).unwrap();
        });
        assert!(matches!(answer, Err(CallError::Garbage { .. })), "{bytes:?} {answer:?}");
    }
}

#[test]
fn nobody_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut caller = Caller::new(&path, QUICK, |_| ());
    let error = caller.ask(Request::Ping).unwrap_err();
    assert!(error.is_unreachable());
    assert!(error.to_string().contains("is cosyd running?"));
}

#[test]
fn far_versions() {
    let (answer, _) = check(QUICK, Request::Ping, |listener| {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream);
        let answer = ReplyFrame {
            version: cosy_proto::PROTOCOL + 7,
            ..pong()
        };
        reply(&mut stream, &answer);
    });
    assert!(matches!(answer, Err(CallError::Version { .. })));
}

#[test]
fn an_answer_that_only_the_next_version_has() {
    #[derive(serde::Serialize)]
    struct NewerReply {
        version: u32,
        reply: &'static str,
    }
    let (answer, _) = check(QUICK, Request::Ping, |listener| {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream);
        let answer = NewerReply {
            version: cosy_proto::PROTOCOL + 1,
            reply: "dance",
        };
        stream
            .write_all(&frame::encode(&answer, 1000).unwrap())
            .unwrap();
    });
    let error = answer.unwrap_err().to_string();
    assert!(error.contains("use programs of one release"), "{error}");
}

/// Sockets of controllers, each played by a thread; what `play` gives is its whole life.
struct Places {
    dir: tempfile::TempDir,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Places {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            threads: Vec::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn play(&mut self, name: &str, serve: impl FnOnce(UnixListener) + Send + 'static) {
        let listener = UnixListener::bind(self.path(name)).unwrap();
        self.threads
            .push(std::thread::spawn(move || serve(listener)));
    }

    /// Asks at these sockets; gives the answer and how many notices there were.
    fn ask(
        self,
        names: &[&str],
        retry: RetryPolicy,
        request: Request,
    ) -> (Result<Reply, CallError>, usize) {
        let sockets = names.iter().map(|name| self.path(name)).collect();
        let (tx, notices) = mpsc::channel();
        let mut caller =
            Caller::of_sockets(sockets, retry, move |t| tx.send(t.to_owned()).unwrap());
        let answer = caller.ask(request);
        drop(caller);
        for thread in self.threads {
            thread.join().unwrap();
        }
        (answer, notices.iter().count())
    }
}

fn refused(code: RefusalCode, text: &str) -> ReplyFrame {
    ReplyFrame::new(Reply::Refused(Refusal::new(code, text)))
}

fn standby() -> ReplyFrame {
    refused(RefusalCode::Standby, "this controller stands by; b:7817 leads")
}

/// The next connection; a command that does not come is not waited for without end.
fn accept(listener: &UnixListener) -> UnixStream {
    let until = Instant::now() + Duration::from_secs(10);
    listener.set_nonblocking(true).unwrap();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                return stream;
            }
            Err(_) => assert!(Instant::now() < until, "nobody comes"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Answers one request on each of so many connections; gives the requests.
fn serve(listener: &UnixListener, answers: &[ReplyFrame]) -> Vec<RequestFrame> {
    let answer = |answer| {
        let mut stream = accept(listener);
        let request = read_request(&mut stream);
        reply(&mut stream, answer);
        // Until the command has turned away.
        let _ = stream.read(&mut [0]);
        request
    };
    answers.iter().map(answer).collect()
}

#[test]
fn the_next_one_is_asked_where_one_stands_by() {
    let mut places = Places::new();
    let (tx, keys) = mpsc::channel();
    for (name, answer) in [("a", standby()), ("b", pong())] {
        let tx = tx.clone();
        places.play(name, move |listener| {
            tx.send(serve(&listener, &[answer])).unwrap();
        });
    }
    drop(tx);
    let (answer, notices) = places.ask(&["a", "b"], QUICK, Request::Reload);
    assert_eq!((answer.unwrap(), notices), (pong().reply, 0));
    let keys: Vec<_> = keys.iter().flatten().map(|frame| frame.key).collect();
    assert!(keys.len() == 2 && keys[0] == keys[1] && keys[0].is_some(), "{keys:?}");
}

#[test]
fn the_one_that_answers_is_kept() {
    let mut places = Places::new();
    places.play("a", |listener| drop(serve(&listener, &[standby()])));
    places.play("b", |listener| {
        let mut stream = accept(&listener);
        for _ in 0..3 {
            read_request(&mut stream);
            reply(&mut stream, &pong());
        }
    });
    let sockets = vec![places.path("a"), places.path("b")];
    let mut caller = Caller::of_sockets(sockets, QUICK, |_| ());
    for _ in 0..3 {
        assert_eq!(caller.ask(Request::Ping).unwrap(), pong().reply);
    }
    assert_eq!(caller.sockets(), [places.path("b"), places.path("a")]);
    drop(caller);
    places.threads.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn one_of_those_that_stand_by_leads_later() {
    let mut places = Places::new();
    let (tx, keys) = mpsc::channel();
    let unavailable = refused(RefusalCode::Unavailable, "not now");
    let of_a = vec![standby(), unavailable, standby()];
    let of_b = vec![standby(), standby(), pong()];
    for (name, answers) in [("a", of_a), ("b", of_b)] {
        let tx = tx.clone();
        places.play(name, move |listener| {
            tx.send(serve(&listener, &answers)).unwrap();
        });
    }
    drop(tx);
    // Nobody is at the third place.
    let (answer, notices) = places.ask(&["a", "b", "c"], QUICK, Request::Reload);
    assert_eq!((answer.unwrap(), notices), (pong().reply, 1));
    let keys: Vec<_> = keys.iter().flatten().map(|frame| frame.key).collect();
    assert!(keys.len() == 6 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

/// A takeover in the middle of a request: the leader is lost, and the other one leads soon.
#[test]
fn a_leader_that_is_lost_is_found_again_elsewhere() {
    let mut places = Places::new();
    let (tx, keys) = mpsc::channel();
    let of_first = tx.clone();
    places.play("a", move |listener| {
        let mut stream = accept(&listener);
        of_first.send(vec![read_request(&mut stream)]).unwrap();
    });
    let of_b = vec![standby(), refused(RefusalCode::Unavailable, "soon"), pong()];
    places.play("b", move |listener| {
        tx.send(serve(&listener, &of_b)).unwrap();
    });
    let (answer, notices) = places.ask(&["a", "b"], QUICK, Request::Reload);
    assert_eq!((answer.unwrap(), notices), (pong().reply, 1));
    let keys: Vec<_> = keys.iter().flatten().map(|frame| frame.key).collect();
    assert!(keys.len() == 4 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[test]
fn where_none_leads_each_is_named() {
    let retry = RetryPolicy {
        reconnect_for: Duration::from_millis(300),
        ..QUICK
    };
    let mut places = Places::new();
    places.play("a", |listener| {
        listener.set_nonblocking(true).unwrap();
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            if let Ok((mut stream, _)) = listener.accept() {
                stream.set_nonblocking(false).unwrap();
                read_request(&mut stream);
                reply(&mut stream, &standby());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let (answer, _) = places.ask(&["a", "b"], retry, Request::Reload);
    let error = answer.unwrap_err();
    let text = error.to_string();
    assert!(error.is_unreachable(), "{text}");
    let parts = [
        "no controller leads",
        "/a: this controller stands by; b:7817 leads",
        "/b: No such",
    ];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

/// Without one that stands by nothing is repeated, and the first one's word counts.
#[test]
fn several_that_are_unreachable_are_asked_once() {
    let mut places = Places::new();
    places.play("b", |listener| {
        serve(&listener, &[refused(RefusalCode::Unavailable, "not now")]);
    });
    let (answer, notices) = places.ask(&["a", "b"], QUICK, Request::Reload);
    assert!(matches!(answer, Err(CallError::Unreachable { .. })), "{answer:?}");
    assert_eq!(notices, 0);
}

#[test]
fn one_that_cannot_answer_now_is_asked_once() {
    let (answer, notices) = check(QUICK, Request::Reload, |listener| {
        serve(&listener, &[refused(RefusalCode::Unavailable, "not now")]);
    });
    assert_eq!(answer.unwrap_err().to_string(), "not now");
    assert!(notices.is_empty());
}

#[test]
fn one_alone_that_stands_by_is_asked_again() {
    let (answer, notices) = check(QUICK, Request::Ping, |listener| {
        let mut stream = accept(&listener);
        for answer in [standby(), standby(), pong()] {
            read_request(&mut stream);
            reply(&mut stream, &answer);
        }
    });
    assert_eq!(answer.unwrap(), pong().reply);
    assert_eq!(notices.len(), 1, "{notices:?}");
}

/// What a node may not pass on is no answer where the controller itself cannot answer now; where it
/// stands by it is the leader's.
#[test]
fn what_a_node_may_not_pass_on() {
    let check = |first: ReplyFrame, want: &str| {
        let mut places = Places::new();
        places.play("a", |listener| drop(serve(&listener, &[first])));
        places.play("b", |listener| {
            serve(&listener, &[refused(RefusalCode::Forbidden, "not through here")]);
        });
        let (answer, _) = places.ask(&["a", "b"], QUICK, Request::Reload);
        assert_eq!(answer.unwrap_err().to_string(), want);
    };
    check(refused(RefusalCode::Unavailable, "not now"), "not now");
    check(standby(), "not through here");
}

mod standing_still;
