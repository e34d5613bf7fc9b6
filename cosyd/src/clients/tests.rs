//! Connections that say nothing, begin and do not go on, or do not listen: each ends by its own
//! time, and by that alone.

use super::frames::TAKE_RATE;
use super::*;
use crate::archiver::{Archiver, Retention};
use crate::hub::Hub;
use cosy_model::OsText;
use cosy_proto::client::ReplyFrame;
use cosy_proto::frame;
use std::path::PathBuf;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

/// What never passes while a test runs.
const NEVER: Duration = Duration::from_secs(100_000);
/// What passes at once, however slow the machine is.
const SOON: Duration = Duration::from_millis(20);
const PATIENT: Times = Times {
    first: NEVER,
    idle: NEVER,
    frame: NEVER,
    take: NEVER,
};

/// A desk with a core that answers everything with so many bytes.
pub(crate) fn services(times: Times, answer: usize) -> Arc<Services> {
    let (core, mut inbox) = mpsc::channel(16);
    let hub = Arc::new(Hub::default());
    let answers = hub.clone();
    tokio::spawn(async move {
        while let Some(input) = inbox.recv().await {
            if let Input::Event(event) = input
                && let Event::Asked { client, .. } = *event
            {
                answers.answer(client, Reply::Script(OsText(vec![b'#'; answer])));
            }
        }
    });
    Arc::new(Services {
        core,
        hub,
        cluster: Arc::default(),
        lookup_command: Some(vec!["/bin/false".into()]),
        database: crate::store::Location::Sqlite(PathBuf::from("/nowhere")),
        public_key: cosy_proto::keys::KeyPair::generate()
            .expect("a key")
            .public(),
        users: Arc::default(),
        budgets: Budgets::new(16, 4096),
        memory: Arc::new(crate::memory::Memory::new(None)),
        pools: Pools::start().expect("threads"),
        meter: Arc::default(),
        archiver: Archiver::start(
            crate::store::Location::Sqlite("/nowhere".into()),
            Retention::default(),
        )
        .expect("a thread"),
        gate: Arc::default(),
        standing: Arc::default(),
        epoch: 0,
        end: mpsc::channel(1).0,
        times,
    })
}

/// A connection and the conversation at its other end.
fn connect(services: Arc<Services>) -> (UnixStream, tokio::task::JoinHandle<()>) {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    (ours, tokio::spawn(services.talk(theirs)))
}

fn question() -> Vec<u8> {
    frame::encode(&RequestFrame::new(Request::Ping, None), limits::FRAME_BYTES).expect("a frame")
}

/// All that is said until the connection ends.
async fn rest(stream: &mut UnixStream) -> Vec<Reply> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.expect("it is read");
    let mut decoder = Decoder::new(limits::REPLY_BYTES);
    decoder.push(&bytes);
    let mut answers = Vec::new();
    while let Some(body) = decoder.next_frame().expect("a frame") {
        let answer: ReplyFrame = frame::decode(body).expect("an answer");
        answers.push(answer.reply);
    }
    answers
}

#[tokio::test]
async fn who_says_nothing_is_hung_up_on() {
    let first = SOON;
    let (mut stream, talk) = connect(services(Times { first, ..PATIENT }, 1));
    assert!(rest(&mut stream).await.is_empty());
    talk.await.expect("it has ended");
}

#[tokio::test]
async fn who_asks_no_more_is_hung_up_on() {
    let idle = SOON;
    let (mut stream, talk) = connect(services(Times { idle, ..PATIENT }, 1));
    stream.write_all(&question()).await.expect("it is taken");
    let answers = rest(&mut stream).await;
    assert!(matches!(answers.as_slice(), [Reply::Script(_)]), "{answers:?}");
    talk.await.expect("it has ended");
}

/// However slowly it goes on.
#[tokio::test]
async fn a_request_that_does_not_come_to_its_end_is_refused() {
    let frame = SOON;
    for drips in [false, true] {
        let (stream, talk) = connect(services(Times { frame, ..PATIENT }, 1));
        let (mut reading, mut writing) = stream.into_split();
        // The header promises more than ever comes.
        writing
            .write_all(&[200, 0, 0, 0, 1])
            .await
            .expect("it is taken");
        let drip = async {
            while drips && writing.write_all(&[1]).await.is_ok() {
                tokio::time::sleep(SOON / 10).await;
            }
        };
        let ended = async {
            let mut bytes = Vec::new();
            let _ = reading.read_to_end(&mut bytes).await;
            bytes
        };
        let (bytes, ()) = tokio::join!(ended, drip);
        let mut decoder = Decoder::new(limits::REPLY_BYTES);
        decoder.push(&bytes);
        let answer: ReplyFrame =
            frame::decode(decoder.next_frame().expect("a frame").expect("one")).expect("an answer");
        let Reply::Refused(refusal) = answer.reply else {
            panic!("{:?}", answer.reply);
        };
        assert!(refusal.message.contains("its end"), "{refusal}");
        talk.await.expect("it has ended");
    }
}

#[tokio::test]
async fn who_does_not_take_the_answer_is_hung_up_on() {
    let take = SOON;
    let services = services(Times { take, ..PATIENT }, 8 << 20);
    let (mut stream, talk) = connect(services.clone());
    stream.write_all(&question()).await.expect("it is taken");
    talk.await.expect("it has ended");
    // It is not counted any more either.
    assert!(services.budgets.all().iter().all(|b| b.row().used == 0));
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.expect("it is read");
    assert!(bytes.len() < 8 << 20);
}

/// One that takes a little all the time, but too little.
#[tokio::test]
async fn an_answer_is_taken_at_some_rate() {
    let (mut writing, mut reading) = tokio::io::duplex(16);
    let bytes = vec![0; TAKE_RATE / 2];
    let sips = async {
        let mut sip = [0; 1];
        while reading.read_exact(&mut sip).await.is_ok() {
            tokio::task::yield_now().await;
            tokio::time::sleep(SOON / 10).await;
        }
    };
    let sent = async {
        let sent = send(&mut writing, &bytes, SOON * 5).await;
        drop(writing);
        sent
    };
    let (sent, ()) = tokio::join!(sent, sips);
    assert_eq!(sent.expect_err("it is too slow").kind(), std::io::ErrorKind::TimedOut);
}

/// A command that stays with its job may be silent for as long as that takes.
#[tokio::test]
async fn who_stays_with_a_job_may_be_silent() {
    let times = Times {
        first: SOON,
        idle: SOON,
        ..PATIENT
    };
    let services = services(times, 1);
    let talk = Conversation::default();
    assert!(services.silent_until(&talk, false).is_some());
    assert!(services.silent_until(&talk, true).is_some());
    let (client, _answer) = services.hub.expect_answer();
    let presence = talk.presence(client, services.core.clone(), services.hub.clone());
    let job = cosy_model::JobId(1);
    let submitted = Reply::Submitted {
        job,
        tasks: 0,
        note: String::new(),
    };
    talk.answered(presence, Some(job), &submitted);
    assert!(services.silent_until(&talk, true).is_none());
}
