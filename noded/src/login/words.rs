//! What is said at the socket for logins: one line, and some lines as the answer.
//!
//! ```text
//! login 1 UID newest|tell     what is wanted where it is not known which of several jobs it is
//!
//! none NODE                   the user has no job here
//! unknown COUNT               one of so many jobs, and nobody knows which ('tell')
//! failed WHY
//! adopted JOB                 the process that asks belongs to that job now, whose variables follow
//! NAME=value                  any number of these
//! end                         the last line of each answer
//! ```
//!
//! `crates/pam` is the other side, of whatever release.

use cosy_model::{JobId, Uid, variables};
use std::collections::BTreeMap;

/// Bytes of a question.
pub const ASK_BYTES: u64 = 128;
/// Bytes of all variables of an answer; `pam_cosy.so` reads no more than twice as many.
const VARIABLES_BYTES: usize = 32 << 10;
/// Bytes of one value.
const VALUE_BYTES: usize = 8 << 10;
/// Version of these words.
const VERSION: &str = "1";
/// What names of variables begin with that a session is given; some more are named whole.
const PREFIXES: [&str; 2] = [variables::PREFIX, "SLURM_"];
const NAMES: [&[u8]; 4] = [
    b"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    b"CUDA_VISIBLE_DEVICES",
    b"ROCR_VISIBLE_DEVICES",
    b"GPU_DEVICE_ORDINAL",
];

/// What is wanted where a user has several jobs and the connection tells nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfSeveral {
    /// The job that has begun last.
    Newest,
    /// To be told.
    Tell,
}

/// May this user in, and to which job does the session belong?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoginAsk {
    /// The user who logs in.
    pub uid: Uid,
    /// Where it is not known which job it is.
    pub of_several: OfSeveral,
}

impl LoginAsk {
    /// Reads a question; `None` when it is none.
    pub fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.strip_suffix('\n')?.split(' ').collect();
        let ["login", VERSION, uid, of_several] = words[..] else {
            return None;
        };
        let of_several = match of_several {
            "newest" => OfSeveral::Newest,
            "tell" => OfSeveral::Tell,
            _ => return None,
        };
        Some(Self {
            uid: Uid(uid.parse().ok()?),
            of_several,
        })
    }
}

/// What is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoginAnswer {
    /// The user has no job on this node.
    NoJobs {
        /// Name of the node.
        node: String,
    },
    /// It is one of so many jobs, and not known which.
    Unknown(usize),
    /// It belongs to this job now.
    Adopted {
        /// The job.
        job: JobId,
        /// What the session finds in its environment, as far as it may be told.
        variables: BTreeMap<Vec<u8>, Vec<u8>>,
    },
    /// It could not be made part of a job, and why.
    Failed(String),
}

impl LoginAnswer {
    /// The lines.
    pub fn encode(&self) -> Vec<u8> {
        let plain = |text: &str| text.replace(char::is_control, " ");
        let mut lines = match self {
            Self::NoJobs { node } => format!("none {}\n", plain(node)).into_bytes(),
            Self::Unknown(count) => format!("unknown {count}\n").into_bytes(),
            Self::Failed(why) => format!("failed {}\n", plain(why)).into_bytes(),
            Self::Adopted { job, .. } => format!("adopted {job}\n").into_bytes(),
        };
        if let Self::Adopted { variables, .. } = self {
            let told = variables
                .iter()
                .filter(|(name, value)| may_tell(name, value));
            for (name, value) in told {
                if lines.len().saturating_add(name.len() + value.len()) < VARIABLES_BYTES {
                    lines.extend([&name[..], b"=", value, b"\n"].concat());
                }
            }
        }
        lines.extend(b"end\n");
        lines
    }
}

/// Whether a session is told a variable.
fn may_tell(name: &[u8], value: &[u8]) -> bool {
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let known = NAMES.contains(&name)
        || PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix.as_bytes()));
    known
        && name.iter().all(word)
        && value.len() <= VALUE_BYTES
        && !value.iter().any(u8::is_ascii_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions() {
        let check = |line: &str, want: Option<(u32, OfSeveral)>| {
            let got = LoginAsk::read(line).map(|ask| (ask.uid.0, ask.of_several));
            assert_eq!(got, want, "{line}");
        };
        check("login 1 1000 newest\n", Some((1000, OfSeveral::Newest)));
        check("login 1 7 tell\n", Some((7, OfSeveral::Tell)));
        for odd in [
            "",
            "\n",
            "login 1 1000 newest",
            "login 2 1000 newest\n",
            "login 1 -1 newest\n",
            "login 1 99999999999 newest\n",
            "login 1 1000 any\n",
            "login 1 1000 newest more\n",
        ] {
            check(odd, None);
        }
    }

    #[test]
    fn answers() {
        let check = |answer: LoginAnswer, want: &str| {
            assert_eq!(String::from_utf8(answer.encode()).unwrap(), want);
        };
        check(LoginAnswer::NoJobs { node: "n1".into() }, "none n1\nend\n");
        check(LoginAnswer::Unknown(2), "unknown 2\nend\n");
        check(LoginAnswer::Failed("a\nb".into()), "failed a b\nend\n");
        let variables = [
            ("COSY_JOB_ID", "7"),
            ("SLURM_JOB_ID", "7"),
            ("CUDA_VISIBLE_DEVICES", "0,1"),
            ("LD_PRELOAD", "/x.so"),
            ("COSY_TWO\nLINES", "x"),
            ("COSY_LINES", "a\nLD_PRELOAD=/x.so"),
            ("COSY_LONG", &"x".repeat(VALUE_BYTES + 1)),
        ];
        let own = |(name, value): (&str, &str)| (name.into(), value.into());
        let answer = LoginAnswer::Adopted {
            job: JobId(7),
            variables: variables.map(own).into(),
        };
        check(answer, "adopted 7\nCOSY_JOB_ID=7\nCUDA_VISIBLE_DEVICES=0,1\nSLURM_JOB_ID=7\nend\n");
    }

    #[test]
    fn an_answer_has_a_bound() {
        let variables = (0..100).map(|n| {
            let value = vec![b'x'; VALUE_BYTES];
            (format!("COSY_{n}").into_bytes(), value)
        });
        let answer = LoginAnswer::Adopted {
            job: JobId(7),
            variables: variables.collect(),
        };
        let bytes = answer.encode();
        assert!(bytes.len() < VARIABLES_BYTES + 8 && bytes.ends_with(b"\nend\n"));
    }
}
