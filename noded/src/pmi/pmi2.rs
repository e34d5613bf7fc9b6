//! PMI-2 on the wire: six characters of length in decimal, then `cmd=WORD;key=value;...`;
//! a semicolon in a value is doubled.
//!
//! Sources: `src/pmi/maint/pmi-2.0.txt` in MPICH, the PMI-2 page of MPICH's wiki, and
//! Slurm's manual page of `mpi/pmi2`.

use super::words::{Message, PmiRequest, Question, Reply, Thread, Verb, number, shown};
use cosy_model::limits;

/// Characters of the length before a message.
pub const LENGTH: usize = 6;

/// The length of a message.
///
/// # Errors
/// No number, or too long; in one line.
pub fn length(head: [u8; LENGTH]) -> Result<usize, String> {
    let limit = limits::PMI_MESSAGE;
    match number::<usize>(&head) {
        None => Err(format!("{} is no length of a PMI-2 message", shown(&head))),
        Some(length) if length > limit => {
            Err(format!("a PMI-2 message of {length} bytes; {limit} are allowed"))
        }
        Some(length) => Ok(length),
    }
}

/// A message's pairs.
struct Pairs(Vec<(Vec<u8>, Vec<u8>)>);

impl Pairs {
    /// At most a few pairs are of use; what follows them is left out.
    fn read(mut body: &[u8]) -> Result<Self, String> {
        const MOST_PAIRS: usize = 32;
        let mut pairs = Vec::new();
        while !body.is_empty() && pairs.len() < MOST_PAIRS {
            let Some(at) = body.iter().position(|&b| b == b'=') else {
                return Err(format!("{} in a PMI-2 message has no `=`", shown(body)));
            };
            let (value, rest) = value(&body[at + 1..]);
            pairs.push((body[..at].to_vec(), value));
            body = rest;
        }
        Ok(Self(pairs))
    }

    fn get(&self, key: &str) -> Option<&Vec<u8>> {
        let found = self.0.iter().find(|(k, _)| k == key.as_bytes());
        found.map(|(_, value)| value)
    }

    fn need(&self, key: &str) -> Result<Vec<u8>, String> {
        let found = self.get(key).cloned();
        found.ok_or_else(|| format!("a PMI-2 command without `{key}`"))
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key).and_then(|value| number(value))
    }

    fn yes(&self, key: &str) -> bool {
        self.get(key)
            .is_some_and(|v| v.eq_ignore_ascii_case(b"true"))
    }
}

/// The value up to a single semicolon, and what follows it.
fn value(mut bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut value = Vec::new();
    loop {
        let end = bytes.iter().position(|&b| b == b';').unwrap_or(bytes.len());
        value.extend_from_slice(&bytes[..end]);
        let rest = bytes.get(end + 1..).unwrap_or_default();
        let Some(more) = rest.strip_prefix(b";") else {
            return (value, rest);
        };
        value.push(b';');
        bytes = more;
    }
}

/// What a message asks.
///
/// # Errors
/// No PMI-2, in one line.
pub fn read(body: &[u8]) -> Result<Message, String> {
    let pairs = Pairs::read(body.trim_ascii_end())?;
    let command = pairs.need("cmd")?;
    let request = match &command[..] {
        b"kvs-fence" => PmiRequest::Barrier,
        b"finalize" => PmiRequest::Finalize,
        b"info-getnodeattr" => PmiRequest::NodeAttribute {
            key: pairs.need("key")?,
            wait: pairs.yes("wait"),
        },
        b"info-putnodeattr" => PmiRequest::PutNodeAttribute {
            key: pairs.need("key")?,
            value: pairs.need("value")?,
        },
        b"abort" => PmiRequest::Abort {
            code: pairs.number("exitcode").unwrap_or(1),
            reason: reason(&pairs),
        },
        other => question(other, &pairs)?.into(),
    };
    Ok(Message {
        request,
        thread: pairs.get("thrid").and_then(|word| Thread::new(word)),
    })
}

fn question(command: &[u8], pairs: &Pairs) -> Result<Question, String> {
    Ok(match command {
        b"fullinit" => Question::FullInit {
            rank: pairs.number("pmirank"),
        },
        b"job-getid" => Question::SpaceName,
        b"job-connect" => Question::Connect,
        b"job-disconnect" => Question::Disconnect,
        b"spawn" => Question::Spawn,
        b"kvs-put" => Question::Put {
            key: pairs.need("key")?,
            value: pairs.need("value")?,
        },
        b"kvs-get" => Question::Get {
            space: pairs.get("jobid").cloned(),
            key: pairs.need("key")?,
        },
        b"info-getjobattr" => Question::JobAttribute {
            key: pairs.need("key")?,
        },
        b"name-publish" => Question::Publish {
            name: pairs.need("name")?,
            port: pairs.need("port")?,
        },
        b"name-lookup" => Question::Lookup {
            name: pairs.need("name")?,
        },
        b"name-unpublish" => Question::Unpublish {
            name: pairs.need("name")?,
        },
        other => return Err(format!("{} is no command of PMI-2", shown(other))),
    })
}

fn reason(pairs: &Pairs) -> String {
    let message = pairs.get("msg").or_else(|| pairs.get("message"));
    let text = String::from_utf8_lossy(message.map_or(&[][..], Vec::as_slice));
    let clean = text.chars().filter(|c| !c.is_control());
    clean.take(limits::PMI_VALUE).collect()
}

/// An answer, with its length before it.
pub fn write(verb: Verb, thread: Option<Thread>, reply: &Reply<'_>) -> Vec<u8> {
    let mut body = format!("cmd={}-response;", command_word(verb)).into_bytes();
    if let Some(thread) = thread {
        pair(&mut body, "thrid", thread.bytes());
    }
    match reply {
        Reply::Done => pair(&mut body, "rc", b"0"),
        Reply::Number(n) => found(&mut body, verb, n.to_string().as_bytes()),
        Reply::Value(value) => found(&mut body, verb, value),
        Reply::Entry { value, .. } => found(&mut body, verb, value),
        Reply::Greeting {
            rank,
            tasks,
            program,
        } => greeting(&mut body, *rank, *tasks, *program),
        Reply::Missing if verb == Verb::Lookup => refuse(&mut body, "no such name is published"),
        Reply::Missing => {
            pair(&mut body, "rc", b"0");
            pair(&mut body, "found", b"FALSE");
        }
        Reply::Refused(why) => refuse(&mut body, why),
    }
    // Answers are far shorter than six digits can say.
    let mut bytes = format!("{:>width$}", body.len(), width = LENGTH).into_bytes();
    bytes.append(&mut body);
    bytes
}

fn pair(body: &mut Vec<u8>, key: &str, value: &[u8]) {
    body.extend_from_slice(key.as_bytes());
    body.push(b'=');
    for &byte in value {
        body.push(byte);
        if byte == b';' {
            body.push(b';');
        }
    }
    body.push(b';');
}

fn found(body: &mut Vec<u8>, verb: Verb, value: &[u8]) {
    pair(body, "rc", b"0");
    if verb == Verb::SpaceName {
        return pair(body, "jobid", value);
    }
    pair(body, "found", b"TRUE");
    pair(body, "value", value);
    if verb == Verb::Lookup {
        pair(body, "port", value);
    }
}

fn greeting(body: &mut Vec<u8>, rank: u32, tasks: u32, program: u32) {
    pair(body, "rc", b"0");
    for (key, value) in [
        ("pmi-version", 2),
        ("pmi-subversion", 0),
        ("rank", rank),
        ("size", tasks),
        ("appnum", program),
    ] {
        pair(body, key, value.to_string().as_bytes());
    }
    pair(body, "debugged", b"FALSE");
    pair(body, "pmiverbose", b"FALSE");
}

fn refuse(body: &mut Vec<u8>, why: &str) {
    pair(body, "rc", b"-1");
    pair(body, "errmsg", why.as_bytes());
}

/// The command's word, which its answer repeats.
const fn command_word(verb: Verb) -> &'static str {
    match verb {
        Verb::FullInit => "fullinit",
        Verb::SpaceName => "job-getid",
        Verb::Connect => "job-connect",
        Verb::Disconnect => "job-disconnect",
        Verb::Barrier => "kvs-fence",
        Verb::Put => "kvs-put",
        Verb::Get => "kvs-get",
        Verb::PutNodeAttribute => "info-putnodeattr",
        Verb::NodeAttribute => "info-getnodeattr",
        Verb::Publish => "name-publish",
        Verb::Lookup => "name-lookup",
        Verb::Unpublish => "name-unpublish",
        Verb::Spawn => "spawn",
        Verb::Finalize => "finalize",
        // The rest is asked in PMI-1 only.
        Verb::JobAttribute | Verb::Limits | Verb::Program | Verb::Universe | Verb::Numbered => {
            "info-getjobattr"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(body: &str, expected: impl Into<PmiRequest>) {
        assert_eq!(read(body.as_bytes()).unwrap().request, expected.into(), "{body}");
    }

    #[test]
    fn messages_are_read() {
        let put = Question::Put {
            key: b"k".to_vec(),
            value: b"a;b=c;".to_vec(),
        };
        check("cmd=kvs-put;key=k;value=a;;b=c;;;", put);
        check("cmd=fullinit;pmirank=3;threaded=FALSE;", Question::FullInit { rank: Some(3) });
        let wait = PmiRequest::NodeAttribute {
            key: b"shm".to_vec(),
            wait: true,
        };
        check("cmd=info-getnodeattr;key=shm;wait=TRUE;", wait);
        let abort = PmiRequest::Abort {
            code: 1,
            reason: "why".to_owned(),
        };
        check("cmd=abort;isworld=TRUE;msg=why;", abort);
        let fence = read(b"cmd=kvs-fence;thrid=0x7ffe12;").unwrap();
        assert_eq!((fence.request, fence.thread), (PmiRequest::Barrier, Thread::new(b"0x7ffe12")));
        assert_eq!(read(b"cmd=kvs-fence;thrid=a b;").unwrap().thread, None);
    }

    fn refused(body: &str, word: &str) {
        let error = read(body.as_bytes()).unwrap_err();
        assert!(error.contains(word), "{error}");
    }

    #[test]
    fn what_is_no_message() {
        refused("", "without `cmd`");
        refused("hello", "has no `=`");
        refused("cmd=fly;", "`fly` is no command");
        refused("cmd=kvs-put;key=a;", "without `value`");
        assert_eq!(length(*b"    12"), Ok(12));
        assert_eq!(length(*b"12    "), Ok(12));
        assert!(
            length(*b"999999")
                .unwrap_err()
                .contains("65536 are allowed")
        );
        assert!(length(*b"-00001").is_err());
        assert!(length(*b"cmd=in").is_err());
    }

    fn check_reply(verb: Verb, thread: Option<Thread>, reply: &Reply<'_>, expected: &str) {
        let bytes = write(verb, thread, reply);
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn answers_are_written() {
        check_reply(Verb::Put, None, &Reply::Done, "    26cmd=kvs-put-response;rc=0;");
        check_reply(
            Verb::Barrier,
            Thread::new(b"4"),
            &Reply::Done,
            "    36cmd=kvs-fence-response;thrid=4;rc=0;",
        );
        check_reply(
            Verb::Get,
            None,
            &Reply::Value(b"a;b"),
            "    48cmd=kvs-get-response;rc=0;found=TRUE;value=a;;b;",
        );
        check_reply(
            Verb::Get,
            None,
            &Reply::Missing,
            "    38cmd=kvs-get-response;rc=0;found=FALSE;",
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn values_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut body = b"cmd=kvs-put;".to_vec();
            pair(&mut body, "key", &bytes);
            pair(&mut body, "value", &bytes);
            // An empty value before another pair is told apart, one that begins with a
            // semicolon too.
            let request = read(&body).unwrap().request;
            prop_assert_eq!(request, Question::Put { key: bytes.clone(), value: bytes }.into());
        }
    }
}
