//! PMI-1 on the wire: lines of `cmd=WORD key=value ...`.
//!
//! Sources: flux RFC 13 (a description of the protocol as MPICH's Hydra speaks it), and
//! `src/pmi/maint/pmi-1.1.txt` in MPICH. Names and texts of errors are single words here,
//! because programs take an answer apart at its spaces.

use super::words::{Message, PmiRequest, Question, Reply, Verb, number, shown};
use cosy_model::limits;

/// Longest name of a key-value space that programs need room for, with its NUL.
const NAME_MAX: usize = 256;

/// A line's words: keys and values.
struct Line<'a>(Vec<(&'a [u8], &'a [u8])>);

impl<'a> Line<'a> {
    /// At most a few words are of use; what follows them is left out.
    fn read(line: &'a [u8]) -> Self {
        const MOST_WORDS: usize = 16;
        let words = line.split(|b| b.is_ascii_whitespace());
        let pairs = words.filter_map(|word| {
            let at = word.iter().position(|&b| b == b'=')?;
            Some((&word[..at], &word[at + 1..]))
        });
        Self(pairs.take(MOST_WORDS).collect())
    }

    fn get(&self, key: &str) -> Option<&'a [u8]> {
        let found = self.0.iter().find(|(k, _)| *k == key.as_bytes());
        found.map(|(_, value)| *value)
    }

    fn need(&self, key: &str) -> Result<Vec<u8>, String> {
        let found = self.get(key).map(<[u8]>::to_vec);
        found.ok_or_else(|| format!("a PMI-1 command without `{key}=`"))
    }
}

/// A line that is a greeting: which version the task speaks, or why it is none.
pub fn greeting(line: &[u8]) -> Result<u32, String> {
    let words = Line::read(line);
    if words.get("cmd") != Some(b"init") {
        return Err(format!("{} is no greeting of PMI", shown(line)));
    }
    let version = words.get("pmi_version").and_then(number);
    version.ok_or_else(|| format!("{} names no version of PMI", shown(line)))
}

/// What a greeting is answered.
pub fn greeted(version: u32, subversion: u32) -> Vec<u8> {
    format!("cmd=response_to_init pmi_version={version} pmi_subversion={subversion} rc=0\n")
        .into_bytes()
}

/// What a line asks.
///
/// # Errors
/// No PMI-1, in one line.
pub fn read(line: &[u8]) -> Result<Message, String> {
    let words = Line::read(line);
    let Some(command) = words.get("cmd") else {
        return Err(format!("{} is no command of PMI-1", shown(line)));
    };
    let request = match command {
        b"barrier_in" => PmiRequest::Barrier,
        b"finalize" => PmiRequest::Finalize,
        b"abort" => PmiRequest::Abort {
            code: words.get("exitcode").and_then(number).unwrap_or(1),
            reason: reason(line),
        },
        other => question(other, &words)?.into(),
    };
    Ok(Message {
        request,
        thread: None,
    })
}

fn question(command: &[u8], words: &Line<'_>) -> Result<Question, String> {
    Ok(match command {
        b"get_maxes" => Question::Limits,
        b"get_appnum" => Question::Program,
        b"get_universe_size" => Question::Universe,
        b"get_my_kvsname" => Question::SpaceName,
        b"put" => Question::Put {
            key: words.need("key")?,
            value: words.need("value")?,
        },
        b"get" => Question::Get {
            space: words.get("kvsname").map(<[u8]>::to_vec),
            key: words.need("key")?,
        },
        b"getbyidx" => Question::Numbered {
            number: number(&words.need("idx")?).unwrap_or(usize::MAX),
        },
        b"publish_name" => Question::Publish {
            name: words.need("service")?,
            port: words.need("port")?,
        },
        b"lookup_name" => Question::Lookup {
            name: words.need("service")?,
        },
        b"unpublish_name" => Question::Unpublish {
            name: words.need("service")?,
        },
        other => return Err(format!("{} is no command of PMI-1", shown(other))),
    })
}

/// The message of an abort: everything after `message=`, made printable.
fn reason(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let message = text.split_once("message=").map_or("", |(_, m)| m);
    let clean = message.chars().filter(|c| !c.is_control());
    clean.take(limits::PMI_VALUE).collect()
}

/// An answer's line.
pub fn write(verb: Verb, reply: &Reply<'_>) -> Vec<u8> {
    let mut line = format!("cmd={}", answers(verb)).into_bytes();
    match reply {
        Reply::Done if verb == Verb::Limits => line.extend(maxes()),
        Reply::Done => line.extend(b" rc=0 msg=success info=ok"),
        Reply::Number(n) => line.extend(format!(" rc=0 {}={n}", field(verb)).bytes()),
        Reply::Value(value) if value.iter().all(u8::is_ascii_graphic) => {
            line.extend(format!(" rc=0 msg=success info=ok {}=", field(verb)).bytes());
            line.extend_from_slice(value);
        }
        Reply::Value(_) => line.extend(refusal("this value cannot be said in PMI-1")),
        Reply::Entry { key, value, next } => {
            line.extend(format!(" rc=0 nextidx={next} key=").bytes());
            line.extend_from_slice(key);
            line.extend_from_slice(b" val=");
            line.extend_from_slice(value);
        }
        Reply::Greeting { rank, tasks, .. } => {
            line.extend(format!(" rc=0 rank={rank} size={tasks}").bytes());
        }
        Reply::Missing if verb == Verb::Numbered => {
            line.extend_from_slice(b" rc=-2 reason=no_more_keyvals");
        }
        Reply::Missing if verb == Verb::Get => {
            line.extend_from_slice(b" rc=-1 msg=key_not_found value=unknown");
        }
        Reply::Missing => line.extend(refusal("not found")),
        Reply::Refused(why) => line.extend(refusal(why)),
    }
    line.push(b'\n');
    line
}

fn maxes() -> Vec<u8> {
    let (key, value) = (limits::PMI_KEY + 1, limits::PMI_VALUE + 1);
    format!(" rc=0 kvsname_max={NAME_MAX} keylen_max={key} vallen_max={value}").into_bytes()
}

/// Reasons are one word on this wire.
fn refusal(why: &str) -> Vec<u8> {
    let word = why.bytes().map(|b| match b {
        b'=' => b'_',
        b if b.is_ascii_graphic() => b,
        _ => b'_',
    });
    b" rc=-1 info=fail msg="
        .iter()
        .copied()
        .chain(word)
        .collect()
}

/// The word that answers.
const fn answers(verb: Verb) -> &'static str {
    match verb {
        Verb::Limits => "maxes",
        Verb::Program => "appnum",
        Verb::Universe => "universe_size",
        Verb::SpaceName => "my_kvsname",
        Verb::Barrier => "barrier_out",
        Verb::Put => "put_result",
        Verb::Numbered => "getbyidx_results",
        Verb::Publish => "publish_result",
        Verb::Lookup => "lookup_result",
        Verb::Unpublish => "unpublish_result",
        Verb::Spawn => "spawn_result",
        Verb::Finalize => "finalize_ack",
        // The rest is asked in PMI-2 only.
        Verb::Get
        | Verb::FullInit
        | Verb::JobAttribute
        | Verb::PutNodeAttribute
        | Verb::NodeAttribute
        | Verb::Connect
        | Verb::Disconnect => "get_result",
    }
}

/// The word before what is told.
const fn field(verb: Verb) -> &'static str {
    match verb {
        Verb::Program => "appnum",
        Verb::Universe => "size",
        Verb::SpaceName => "kvsname",
        Verb::Lookup => "port",
        Verb::Limits
        | Verb::FullInit
        | Verb::Barrier
        | Verb::Put
        | Verb::Get
        | Verb::Numbered
        | Verb::JobAttribute
        | Verb::PutNodeAttribute
        | Verb::NodeAttribute
        | Verb::Publish
        | Verb::Unpublish
        | Verb::Spawn
        | Verb::Connect
        | Verb::Disconnect
        | Verb::Finalize => "value",
    }
}

/// Lines of a `mcmd=spawn` until `endcmd`. All that matters is when the last of its
/// commands has been said, because only that is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SpawnLines {
    total: u32,
    so_far: u32,
}

impl SpawnLines {
    /// True for a line that begins a command of several lines.
    pub fn begins(line: &[u8]) -> bool {
        line.starts_with(b"mcmd=spawn")
    }

    /// Takes a further line; `Some` at the end: whether an answer is due.
    pub fn take(&mut self, line: &[u8]) -> Option<bool> {
        if line == b"endcmd" {
            return Some(self.so_far >= self.total);
        }
        let words = Line::read(line);
        let named = |key| words.get(key).and_then(number);
        self.total = named("totspawns").unwrap_or(self.total);
        self.so_far = named("spawnssofar").unwrap_or(self.so_far);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: impl Into<PmiRequest>) {
        assert_eq!(read(line.as_bytes()).unwrap().request, expected.into(), "{line}");
    }

    #[test]
    fn lines_are_read() {
        check("cmd=barrier_in", PmiRequest::Barrier);
        check("  cmd=get_maxes  more=1", Question::Limits);
        let put = Question::Put {
            key: b"P0-card".to_vec(),
            value: b"a=b$c".to_vec(),
        };
        check("cmd=put kvsname=x key=P0-card value=a=b$c", put.clone());
        check("value=a=b$c key=P0-card cmd=put", put);
        let get = Question::Get {
            space: Some(b"x".to_vec()),
            key: b"k".to_vec(),
        };
        check("cmd=get kvsname=x key=k", get);
        let abort = PmiRequest::Abort {
            code: 7,
            reason: "it is over".to_owned(),
        };
        check("cmd=abort exitcode=7 message=it is over", abort);
        check("cmd=getbyidx kvsname=x idx=2", Question::Numbered { number: 2 });
    }

    fn refused(line: &[u8], word: &str) {
        let error = read(line).unwrap_err();
        assert!(error.contains(word), "{error}");
    }

    #[test]
    fn what_is_no_command() {
        refused(b"", "no command of PMI-1");
        refused(b"cmd", "no command of PMI-1");
        refused(b"\x00\xff\x1b[31m", "\\x00\\xff\\x1b[31m");
        refused(b"cmd=fly", "`fly` is no command");
        refused(b"cmd=put key=a", "without `value=`");
        refused(b"cmd=put value=a", "without `key=`");
        refused(&[b'x'; 100], "...");
        assert!(greeting(b"cmd=init").is_err());
        assert!(greeting(b"cmd=barrier_in").is_err());
        assert_eq!(greeting(b"cmd=init pmi_version=2 pmi_subversion=0"), Ok(2));
    }

    fn check_reply(verb: Verb, reply: &Reply<'_>, expected: &str) {
        let line = String::from_utf8(write(verb, reply)).unwrap();
        assert_eq!(line, format!("{expected}\n"));
    }

    #[test]
    fn answers_are_written() {
        let limits = "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024";
        check_reply(Verb::Limits, &Reply::Done, limits);
        check_reply(Verb::Universe, &Reply::Number(8), "cmd=universe_size rc=0 size=8");
        check_reply(
            Verb::Get,
            &Reply::Value(b"v"),
            "cmd=get_result rc=0 msg=success info=ok value=v",
        );
        check_reply(
            Verb::Get,
            &Reply::Missing,
            "cmd=get_result rc=-1 msg=key_not_found value=unknown",
        );
        check_reply(
            Verb::Get,
            &Reply::Value(b"a\ncmd=finalize_ack"),
            "cmd=get_result rc=-1 info=fail msg=this_value_cannot_be_said_in_PMI-1",
        );
        check_reply(
            Verb::Put,
            &Reply::Refused("a=b\nc".to_owned()),
            "cmd=put_result rc=-1 info=fail msg=a_b_c",
        );
        check_reply(
            Verb::Lookup,
            &Reply::Value(b"p"),
            "cmd=lookup_result rc=0 msg=success info=ok port=p",
        );
    }

    #[test]
    fn spawns_are_answered_once() {
        let mut lines = SpawnLines::default();
        assert!(SpawnLines::begins(b"mcmd=spawn"));
        for (line, expected) in [
            ("nprocs=2", None),
            ("execname=./a b=c", None),
            ("totspawns=2", None),
            ("spawnssofar=1", None),
            ("endcmd", Some(false)),
            ("totspawns=2", None),
            ("spawnssofar=2", None),
            ("endcmd", Some(true)),
        ] {
            assert_eq!(lines.take(line.as_bytes()), expected, "{line}");
        }
    }
}
