//! Comments of the Standard Workload Format that a replay wants: the size of the machine
//! and names. One comment is our own: `; Cancel: JOB SECONDS`, the time (since the begin
//! of the log) at which a job leaves if it still waits, which the format has no field for.

use super::row;
use crate::log_input::{MAX_JOBS, Names};
use std::collections::BTreeMap;

/// What the comments say so far.
pub struct Header {
    processors: Option<u32>,
    nodes: Option<u32>,
    /// By job number, in milliseconds.
    pub cancels: BTreeMap<u64, i64>,
    /// By number of the log in thousandths.
    pub users: Names<i64>,
    pub accounts: Names<i64>,
    pub queues: Names<i64>,
}

impl Header {
    pub fn new() -> Self {
        Self {
            processors: None,
            nodes: None,
            cancels: BTreeMap::new(),
            users: Names::default(),
            accounts: Names::default(),
            queues: Names::default(),
        }
    }

    /// Processors of the machine; a log that only names nodes has one in each.
    pub fn machine(&self) -> Option<u32> {
        self.processors.or(self.nodes)
    }

    /// Takes `; KEY: VALUE`; other comments are free text.
    pub fn comment(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_start().trim_start_matches(';');
        let Some((key, value)) = text.split_once(':') else {
            return;
        };
        match key.trim() {
            "MaxProcs" => self.processors = count(value).or(self.processors),
            "MaxNodes" => self.nodes = count(value).or(self.nodes),
            "User" => named(&mut self.users, value),
            "Group" => named(&mut self.accounts, value),
            "Queue" => named(&mut self.queues, value),
            "Cancel" => self.cancel(value),
            _ => {}
        }
    }

    fn cancel(&mut self, value: &str) {
        let mut words = value.split_whitespace();
        let job = words.next().and_then(|word| word.parse().ok());
        let at = words.next().and_then(|word| row::seconds(word.as_bytes()));
        if let (Some(job), Some(at), true) = (job, at, self.cancels.len() < MAX_JOBS) {
            self.cancels.insert(job, at);
        }
    }
}

/// `338 (batch partition; 512 total)` is 338.
fn count(value: &str) -> Option<u32> {
    let word = value.split_whitespace().next()?;
    word.parse().ok().filter(|count| *count > 0)
}

/// ` 3  normal` names number 3.
fn named(names: &mut Names<i64>, value: &str) {
    let Some((number, name)) = value.trim().split_once(char::is_whitespace) else {
        return;
    };
    let key = number.parse::<u32>().ok().map(|key| i64::from(key) * 1000);
    if let (Some(key), true) = (key, names.count() < MAX_JOBS) {
        names.rename(key, name.trim().to_owned());
    }
}
