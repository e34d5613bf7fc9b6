//! `scancel`'s command line and sentences.
//!
//! Knows nothing of what is there to be cancelled. Source: scancel(1), captures of 22.05.

use crate::getopt::{Argument, GivenOption, Opt};
use crate::state::SlurmState;
use crate::table::Row;
use crate::targets::{self, Target};
use cosy_model::{JobState, signal};

/// The options, with what is told of each by `--help`.
pub const OPTIONS: &[Row] = &[
    Row::value(b'A', "account", "NAME", "only jobs of this account"),
    Row::flag(b'b', "batch", "signal only the batch script"),
    Row::hidden(Opt::long("ctld", Argument::Nothing)),
    Row::flag(b'f', "full", "signal the batch script and all steps"),
    Row::flag(b'H', "hurry", "accepted; there are no burst buffers here"),
    Row::flag(b'i', "interactive", "ask before each job"),
    Row::value(b'M', "clusters", "NAMES", "clusters: only this one here"),
    Row::long_flag("me", "only jobs of the user that calls"),
    Row::value(b'n', "name", "NAME", "only jobs of this name"),
    Row::value(b'w', "nodelist", "NODES", "only jobs on these nodes"),
    Row::value(b'p', "partition", "NAME", "only jobs in this partition"),
    Row::value(b'q', "qos", "NAME", "only jobs of this quality of service"),
    Row::flag(b'Q', "quiet", "say nothing of ids that are not known"),
    Row::value(b'R', "reservation", "NAME", "only jobs in this reservation"),
    Row::long_value("sibling", "NAME", "refused: there are no federations here"),
    Row::value(b's', "signal", "SIGNAL", "send this signal instead of ending them"),
    Row::value(b't', "state", "STATES", "only PENDING, RUNNING or SUSPENDED jobs"),
    Row::long_flag("usage", "say how it is called, and exit"),
    Row::value(b'u', "user", "NAME", "only jobs of this user"),
    Row::flag(b'V', "version", "say the version, and exit"),
    Row::flag(b'v', "verbose", "say what is done"),
    Row::long_value("wckey", "KEY", "only jobs of this key"),
    Row::long_flag("help", "say what options there are, and exit"),
];

/// Variables of the environment and the options that they stand for.
pub const VARIABLES: &[(&str, &str)] = &[
    ("SCANCEL_ACCOUNT", "account"),
    ("SCANCEL_BATCH", "batch"),
    ("SCANCEL_FULL", "full"),
    ("SCANCEL_HURRY", "hurry"),
    ("SCANCEL_INTERACTIVE", "interactive"),
    ("SCANCEL_NAME", "name"),
    ("SCANCEL_PARTITION", "partition"),
    ("SCANCEL_QOS", "qos"),
    ("SCANCEL_STATE", "state"),
    ("SCANCEL_USER", "user"),
    ("SCANCEL_VERBOSE", "verbose"),
    ("SCANCEL_WCKEY", "wckey"),
    ("SLURM_CLUSTERS", "clusters"),
];

/// The first pause before a signal is sent again to a job that had not begun, in milliseconds.
pub const PAUSE: u64 = 100;
/// The longest pause, in milliseconds.
const LONGEST_PAUSE: u64 = 5_000;
/// For how long it is tried, in milliseconds: Slurm tries ten times, with pauses of 5 to 14 s.
const TRIED_FOR: u64 = 95_000;

/// The pauses between tries, in milliseconds: short at first, because jobs mostly begin at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tries {
    pause: u64,
    waited: u64,
}

impl Iterator for Tries {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let pause = (self.pause * 2).clamp(PAUSE, LONGEST_PAUSE);
        self.pause = pause.min(TRIED_FOR - self.waited);
        self.waited += self.pause;
        (self.pause > 0).then_some(self.pause)
    }
}

/// What is to be done, and to which jobs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CancelRequest {
    /// Ids, in their order.
    pub targets: Vec<Target>,
    /// Only jobs that charge this account.
    pub account: Option<String>,
    /// Only jobs of this name.
    pub name: Option<String>,
    /// Only jobs on one of these nodes, a host list as it was written.
    pub nodes: Option<String>,
    /// Only jobs of this partition.
    pub partition: Option<String>,
    /// Only jobs of this quality of service.
    pub qos: Option<String>,
    /// Only jobs in this reservation, by its name.
    pub reservation: Option<String>,
    /// Only jobs in one of these states; all when empty.
    pub states: Vec<SlurmState>,
    /// User as given.
    pub user: Option<String>,
    /// The calling user.
    pub me: bool,
    /// Only jobs submitted with this key (`--wckey`).
    pub wckey: Option<String>,
    /// Clusters as given.
    pub clusters: Option<String>,
    /// Signal; without, the jobs are ended.
    pub signal: Option<i32>,
    /// Only to the script.
    pub batch: bool,
    /// To the script and the steps.
    pub full: bool,
    /// Ask before each.
    pub interactive: bool,
    /// What went well is not reported (`--quiet`).
    pub quiet: bool,
    /// Each signal that is sent is reported (`--verbose`).
    pub verbose: bool,
}

/// What is wrong with the command line: whole lines for standard error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CancelError(pub Vec<String>);

fn error(text: String) -> CancelError {
    CancelError(vec![format!("scancel: error: {text}")])
}

impl CancelRequest {
    /// Takes options and ids over; later options count more.
    ///
    /// # Errors
    /// The first that makes no sense.
    pub fn read(options: &[GivenOption], words: &[String]) -> Result<Self, CancelError> {
        let mut wanted = Self::default();
        for found in options {
            wanted.option(found)?;
        }
        for word in words.iter().flat_map(|w| targets::words(w)) {
            let bad = || error(format!("Invalid job id {word}"));
            wanted.targets.push(targets::parse(word).ok_or_else(bad)?);
        }
        if wanted.targets.is_empty() && !wanted.chooses() {
            return Err(error("No job identification provided".to_owned()));
        }
        Ok(wanted)
    }

    /// True when jobs are chosen by more than their ids.
    pub fn chooses(&self) -> bool {
        let given = [
            &self.account,
            &self.name,
            &self.nodes,
            &self.partition,
            &self.qos,
            &self.reservation,
            &self.user,
            &self.wckey,
        ];
        given.iter().any(|g| g.is_some()) || self.me || !self.states.is_empty()
    }

    /// Cosy's states that are meant; all when empty.
    pub fn job_states(&self) -> Vec<JobState> {
        let of = |s: &SlurmState| -> Vec<JobState> {
            let also = (*s == SlurmState::Running).then_some(JobState::Starting);
            s.job_states().chain(also).collect()
        };
        self.states.iter().flat_map(of).collect()
    }

    /// The conditions as they are told where no job meets them.
    pub fn conditions(&self) -> String {
        let states: Vec<&str> = self.states.iter().map(|s| s.name()).collect();
        let states = (!states.is_empty()).then(|| states.join(","));
        let qos = self.qos.as_ref().map(|qos| qos.to_lowercase());
        let told = [
            ("account", &self.account),
            ("job_name", &self.name),
            ("nodelist", &self.nodes),
            ("partition", &self.partition),
            ("qos", &qos),
            ("reservation", &self.reservation),
            ("state", &states),
            ("user_name", &self.user),
            ("wckey", &self.wckey),
        ];
        let told = told
            .iter()
            .filter_map(|(name, value)| Some(format!("{name}={} ", value.as_ref()?)));
        told.collect()
    }

    /// True when the jobs are to be ended as such, instead of being sent a signal.
    pub fn ends(&self) -> bool {
        !self.batch && self.signal.is_none_or(|s| s == signal::KILL)
    }

    fn option(&mut self, found: &GivenOption) -> Result<(), CancelError> {
        let text = found.text();
        match found.name {
            "account" => self.account = Some(text),
            "name" => self.name = Some(text),
            "nodelist" => self.nodes = Some(text),
            "partition" => self.partition = Some(text),
            "qos" => self.qos = Some(text),
            "reservation" => self.reservation = Some(text),
            "user" => self.user = Some(text),
            "wckey" => self.wckey = Some(text),
            "clusters" => self.clusters = Some(text),
            "state" => self.states = states(&text)?,
            "signal" => self.signal = Some(signal(&text)?),
            "sibling" => return Err(error("there are no federations here".to_owned())),
            "batch" => self.batch = true,
            "full" => self.full = true,
            "interactive" => self.interactive = true,
            "quiet" => self.quiet = true,
            "verbose" => self.verbose = true,
            "me" => self.me = true,
            _ => {}
        }
        Ok(())
    }
}

fn signal(text: &str) -> Result<i32, CancelError> {
    let bad = || CancelError(vec![format!("Unknown job signal: {text}")]);
    cosy_model::signal::number(text).ok_or_else(bad)
}

fn states(text: &str) -> Result<Vec<SlurmState>, CancelError> {
    let one = |word: &str| {
        let known = word.parse::<SlurmState>().ok();
        let fine = known.filter(|s| {
            matches!(s, SlurmState::Pending | SlurmState::Running | SlurmState::Suspended)
        });
        fine.ok_or_else(|| {
            CancelError(vec![
                format!("Invalid job state specified: {word}"),
                "Valid job states are PENDING, RUNNING, and SUSPENDED".to_owned(),
            ])
        })
    };
    text.split(',').map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::getopt::{Order, parse};
    use crate::table;
    use std::ffi::OsString;

    fn read(line: &str) -> Result<CancelRequest, Vec<String>> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let parsed = parse(&table::opts(OPTIONS), Order::Permute, &args);
        assert_eq!(parsed.mistake, None, "{line}");
        let words: Vec<String> = parsed
            .words
            .iter()
            .map(|w| w.to_string_lossy().into_owned())
            .collect();
        CancelRequest::read(&parsed.found, &words).map_err(|m| m.0)
    }

    #[test]
    fn mistakes() {
        let check = |line: &str, want: &str| {
            assert_eq!(read(line).map_err(|m| m.join("|")), Err(want.to_owned()), "{line}");
        };
        check("foo", "scancel: error: Invalid job id foo");
        check("12x", "scancel: error: Invalid job id 12x");
        check("1,", "scancel: error: Invalid job id ");
        check("-s FOO 1", "Unknown job signal: FOO");
        check(
            "-t FOO",
            "Invalid job state specified: FOO|Valid job states are PENDING, RUNNING, and SUSPENDED",
        );
        check("", "scancel: error: No job identification provided");
        check("-Q -v", "scancel: error: No job identification provided");
    }

    #[test]
    fn selections() {
        let wanted = read("12 13_[1-2] 14.0 -u ann -t R,pending").unwrap();
        let texts: Vec<&str> = wanted.targets.iter().map(|t| t.text.as_str()).collect();
        assert_eq!(texts, ["12", "13_[1-2]", "14.0"]);
        assert_eq!(wanted.user.as_deref(), Some("ann"));
        assert_eq!(wanted.job_states(), [JobState::Running, JobState::Starting, JobState::Waiting]);
        assert!(read("--me").unwrap().chooses());
        assert!(!read("12").unwrap().chooses());
    }

    #[test]
    fn conditions_are_told() {
        let told = |line: &str| read(line).unwrap().conditions();
        assert_eq!(told("-n INVALID -q INVALID"), "job_name=INVALID qos=invalid ");
        assert_eq!(told("-n x -t PD -u root"), "job_name=x state=PENDING user_name=root ");
    }

    #[test]
    fn pauses_between_tries() {
        let all: Vec<u64> = Tries::default().collect();
        assert_eq!(all[..8], [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(all.iter().sum::<u64>(), TRIED_FOR);
    }

    #[test]
    fn what_ends_a_job() {
        let check = |line: &str, ends| assert_eq!(read(line).unwrap().ends(), ends, "{line}");
        check("1", true);
        check("-s KILL 1", true);
        check("-f -s 9 1", true);
        check("-b 1", false);
        check("-s USR1 1", false);
        check("-s TERM 1", false);
    }
}
