//! What the node's daemon answers: a line, variables, `end`.

/// Bytes of an answer. The daemon keeps to half of it.
pub const BYTES: usize = 64 << 10;
/// Variables of an answer.
const VARIABLES: usize = 512;
/// The last line.
const END: &[u8] = b"\nend\n";
/// What names of variables begin with that are taken over; some more are named whole.
const PREFIXES: [&[u8]; 2] = [b"COSY_", b"SLURM_"];
const NAMES: [&[u8]; 4] = [
    b"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    b"CUDA_VISIBLE_DEVICES",
    b"ROCR_VISIBLE_DEVICES",
    b"GPU_DEVICE_ORDINAL",
];

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The user has no job on the node of that name.
    NoJobs(String),
    /// One of so many jobs, and nobody knows which.
    Unknown(u32),
    /// It is part of this job now.
    Adopted {
        job: String,
        /// `NAME=value`, without NUL and line ends.
        variables: Vec<Vec<u8>>,
    },
    /// It could not be done, and why.
    Failed(String),
}

/// Nothing more comes.
pub fn is_whole(bytes: &[u8]) -> bool {
    bytes.ends_with(END)
}

impl Answer {
    /// `None` when it is none, or not whole.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let lines = bytes.strip_suffix(END).filter(|b| b.len() <= BYTES)?;
        let mut lines = lines.split(|b| *b == b'\n');
        let first = std::str::from_utf8(lines.next()?).ok()?;
        let (what, rest) = first.split_once(' ')?;
        let text = || rest.replace(char::is_control, " ");
        let answer = match what {
            "none" => Self::NoJobs(text()),
            "unknown" => Self::Unknown(rest.parse().ok()?),
            "failed" => Self::Failed(text()),
            "adopted" => {
                return Some(Self::Adopted {
                    job: rest.parse::<u64>().ok()?.to_string(),
                    variables: variables(lines)?,
                });
            }
            _ => return None,
        };
        lines.next().is_none().then_some(answer)
    }
}

/// Those that are taken over; `None` where a line is no variable.
fn variables<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    for line in lines {
        let at = line.iter().position(|b| *b == b'=')?;
        let name = line.get(..at)?;
        if line.iter().any(u8::is_ascii_control) || all.len() >= VARIABLES {
            return None;
        }
        let known = NAMES.contains(&name) || PREFIXES.iter().any(|p| name.starts_with(p));
        let is_word = name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_');
        if known && is_word {
            all.push(line.to_vec());
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], want: Option<Answer>) {
        let shown = String::from_utf8_lossy(bytes);
        assert_eq!(Answer::read(bytes), want, "{shown:?}");
    }

    #[test]
    fn answers() {
        check(b"none n1\nend\n", Some(Answer::NoJobs("n1".into())));
        check(b"unknown 2\nend\n", Some(Answer::Unknown(2)));
        check(b"failed no room\nend\n", Some(Answer::Failed("no room".into())));
        let adopted = |variables: &[&str]| {
            Some(Answer::Adopted {
                job: "12".into(),
                variables: variables.iter().map(|v| v.as_bytes().to_vec()).collect(),
            })
        };
        check(b"adopted 12\nend\n", adopted(&[]));
        check(
            b"adopted 12\nCOSY_JOB_ID=12\nLD_PRELOAD=/x\nSLURM_A B=1\nCUDA_VISIBLE_DEVICES=\nend\n",
            adopted(&["COSY_JOB_ID=12", "CUDA_VISIBLE_DEVICES="]),
        );
    }

    #[test]
    fn what_is_no_answer() {
        let odd: [&[u8]; 14] = [
            b"",
            b"end\n",
            b"\nend\n",
            b"none n1\n",
            b"none n1\nend",
            b"none n1\nmore\nend\n",
            b"unknown many\nend\n",
            b"adopted x\nend\n",
            b"adopted -1\nend\n",
            b"adopted 1\nNOVALUE\nend\n",
            b"adopted 1\nCOSY_A=\0\nend\n",
            b"adopted 1\nCOSY_A=1\nend\nmore",
            b"welcome 1\nend\n",
            b"none \xff\nend\n",
        ];
        odd.into_iter().for_each(|bytes| check(bytes, None));
        let many: String = (0..=VARIABLES).map(|n| format!("COSY_{n}=\n")).collect();
        check(format!("adopted 1\n{many}end\n").as_bytes(), None);
        let long = format!("none {}\nend\n", "x".repeat(BYTES));
        check(long.as_bytes(), None);
    }

    /// Whatever comes is an answer or none, and what is taken over of it is harmless.
    #[test]
    fn random_bytes() {
        let whole = b"adopted 12\nCOSY_JOB_ID=12\nSLURM_NODELIST=n[1-2]\nend\n";
        let mut state = 1u64;
        let mut random = move |below: usize| {
            // A congruential generator with Knuth's figures.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut taken = 0;
        for _ in 0..100_000 {
            let mut bytes = whole.to_vec();
            for _ in 0..=random(3) {
                let at = random(bytes.len());
                bytes[at] = random(256) as u8;
            }
            bytes.truncate(bytes.len() - random(2) * random(bytes.len()));
            if let Some(Answer::Adopted { job, variables }) = Answer::read(&bytes) {
                taken += 1;
                assert!(job.parse::<u64>().is_ok());
                let good = |v: &Vec<u8>| {
                    let named = NAMES
                        .iter()
                        .chain(&PREFIXES)
                        .any(|name| v.starts_with(name));
                    named && v.contains(&b'=') && !v.contains(&0) && !v.contains(&b'\n')
                };
                assert!(variables.iter().all(good), "{variables:?}");
            }
        }
        assert!(taken > 0);
    }
}
