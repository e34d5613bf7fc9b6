//! How long this node may go on with what others may be given: it ends what may run again
//! elsewhere when the controller has not heard it for so long that it is given up.
//!
//! Time is measured from the moment at which something was sent of which the controller has
//! said since that it came, so it is never later than what the controller counts from. Also
//! good is that nobody listens at the controller's place, and that it is about to stop: then it
//! gives nothing to anybody, and once it begins again it waits anew.
//!
//! The file beside the attempts outlives this daemon. A successor has [`FIRST_WORD`] to reach
//! the controller before it ends anything.

use cosy_model::node::StoreMark;
use cosy_model::{OsText, Span};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a daemon that has just begun has for its first contact.
const FIRST_WORD: Duration = Duration::from_secs(10);
/// Less is no sleep, but what looking at two clocks one after the other costs.
const SLEPT: Duration = Duration::from_secs(1);
/// Reports of which it is not known yet whether they came; beyond, the oldest is forgotten.
const UNDER_WAY: usize = 64;
/// Largest file that is read, in bytes.
const FILE_BYTES: u64 = 4096;

/// What this node may count on.
#[derive(Debug)]
pub struct Lease {
    /// How long after the last sign; without one it is never alone.
    alone: Option<Duration>,
    /// The last moment at which the controller was sure to count on this node.
    sign: Duration,
    /// The controller has said that it stops.
    stopped: bool,
    /// What was reported on this link: number, and when it was sent.
    sent: VecDeque<(u64, Duration)>,
    /// When this node registered.
    registered: Option<Duration>,
    number: u64,
    /// How long the machine had slept when that was looked at last.
    slept: Option<Duration>,
    /// The end of the lease was reported.
    reported_over: bool,
    directory: PathBuf,
    seen: OsText,
}

impl Lease {
    /// As an earlier daemon left it.
    pub fn load(directory: &Path, now: Duration, same_boot: bool) -> Self {
        let kept = small_file(&directory.join("contact")).and_then(|text| {
            let text = String::from_utf8(text).ok()?;
            let (sign, alone) = text.trim().split_once(' ')?;
            let (sign, alone): (u64, u64) = (sign.parse().ok()?, alone.parse().ok()?);
            Some((Duration::from_millis(sign), Duration::from_millis(alone)))
        });
        let kept = kept.filter(|(sign, _)| same_boot && *sign <= now);
        let alone = kept.map(|(_, alone)| alone).filter(|a| !a.is_zero());
        let least = (now + FIRST_WORD).saturating_sub(alone.unwrap_or_default());
        Self {
            alone,
            sign: kept.map_or(now, |(sign, _)| sign.max(least)),
            stopped: false,
            sent: VecDeque::new(),
            registered: None,
            number: 0,
            slept: None,
            reported_over: false,
            seen: OsText(small_file(&directory.join("seen")).unwrap_or_default()),
            directory: directory.to_owned(),
        }
    }

    /// The latest mark of the controller's store, as it was signed.
    pub fn seen(&self) -> OsText {
        self.seen.clone()
    }

    /// A link is up, and this node registers.
    pub fn registers(&mut self, now: Duration) {
        self.sent.clear();
        self.registered = Some(now);
    }

    /// The number of a report that is sent now.
    pub fn next_report(&mut self, now: Duration) -> u64 {
        self.number += 1;
        if self.sent.len() >= UNDER_WAY {
            self.sent.pop_front();
        }
        self.sent.push_back((self.number, now));
        self.number
    }

    /// The registration has come, and how long this node may be alone is known.
    pub fn welcomed(&mut self, alone: Option<Span>) {
        let alone = alone.map(|span| Duration::from_millis(span.ms().max(1).unsigned_abs()));
        self.alone = alone;
        if let Some(at) = self.registered.take() {
            self.is_heard(at);
        }
    }

    /// The controller has heard the report with that number; `mark` says how far the store was.
    pub fn heard(&mut self, number: u64, mark: OsText) {
        self.keep_mark(mark);
        let mut at = None;
        while let Some((sent, when)) = self.sent.front().copied()
            && sent <= number
        {
            self.sent.pop_front();
            at = Some(when);
        }
        if let Some(at) = at {
            self.is_heard(at);
        }
    }

    /// The controller stops and gives nothing away.
    pub fn stops(&mut self) {
        self.stopped = true;
    }

    /// Nobody was at the controller's place then.
    pub fn is_absent(&mut self, at: Duration) {
        self.sign = self.sign.max(at);
        self.keep();
    }

    /// Whether the machine has just slept, of which `slept` says how long in all. Who was asleep
    /// could not ask, and whether others were given its jobs is not known: like a daemon that
    /// has just begun, it has [`FIRST_WORD`] to ask.
    pub fn wakes(&mut self, now: Duration, slept: Duration) -> bool {
        let before = self.slept.replace(slept).unwrap_or(slept);
        let woke = slept.saturating_sub(before) >= SLEPT;
        if let (true, Some(alone)) = (woke, self.alone) {
            let least = (now + FIRST_WORD).saturating_sub(alone);
            self.sign = self.sign.max(least);
        }
        woke
    }

    fn is_heard(&mut self, at: Duration) {
        (self.stopped, self.reported_over) = (false, false);
        self.sign = self.sign.max(at);
        self.keep();
    }

    /// What may run again here may have been given to others.
    pub fn is_over(&self, now: Duration) -> bool {
        let alone = self.alone.filter(|_| !self.stopped);
        alone.is_some_and(|alone| now >= self.sign + alone)
    }

    /// The same, once for each time.
    pub fn is_just_over(&mut self, now: Duration) -> bool {
        self.is_over(now) && !std::mem::replace(&mut self.reported_over, true)
    }

    /// For how long there was no sign.
    pub fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.sign)
    }

    fn keep(&self) {
        let alone = self.alone.unwrap_or_default();
        let text = format!("{} {}\n", self.sign.as_millis(), alone.as_millis());
        write_small(&self.directory.join("contact"), text.as_bytes());
    }

    /// The later one is kept: only that of a controller with an old store is earlier.
    fn keep_mark(&mut self, mark: OsText) {
        let events = |text: &OsText| StoreMark::from_bytes(&text.0).map(|mark| mark.events);
        if events(&mark) > events(&self.seen) {
            write_small(&self.directory.join("seen"), &mark.0);
            self.seen = mark;
        }
    }
}

fn small_file(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(FILE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Where it cannot be written the next one may.
fn write_small(path: &Path, bytes: &[u8]) {
    if let Err(e) = crate::spool::write_whole(path, bytes) {
        tracing::debug!("{}: {e}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn lease(directory: &Path) -> Lease {
        let mut lease = Lease::load(directory, at(100), true);
        lease.registers(at(100));
        lease.welcomed(Some(Span::from_secs(60)));
        lease
    }

    #[test]
    fn it_counts_from_what_was_heard() {
        let dir = tempfile::tempdir().unwrap();
        let mut lease = lease(dir.path());
        let (first, second) = (lease.next_report(at(110)), lease.next_report(at(120)));
        assert!(!lease.is_over(at(159)) && lease.is_over(at(160)));
        lease.heard(first, OsText::default());
        assert!(!lease.is_over(at(169)) && lease.is_over(at(170)));
        assert!(lease.is_just_over(at(170)) && !lease.is_just_over(at(171)));
        lease.heard(second, OsText::default());
        assert!(!lease.is_over(at(179)) && lease.is_just_over(at(180)));
        lease.heard(second, OsText::default());
        assert!(lease.is_over(at(180)), "the same word again is no new sign");
    }

    #[test]
    fn a_controller_that_does_not_work_gives_nothing_away() {
        let dir = tempfile::tempdir().unwrap();
        let mut lease = lease(dir.path());
        lease.is_absent(at(150));
        assert!(!lease.is_over(at(209)) && lease.is_over(at(210)));
        lease.stops();
        assert!(!lease.is_over(at(100_000)));
        lease.registers(at(100_000));
        lease.welcomed(Some(Span::from_secs(60)));
        assert!(lease.is_over(at(100_060)));
        lease.welcomed(None);
        assert!(!lease.is_over(at(200_000)), "it is switched off");
    }

    #[test]
    fn after_a_sleep_it_asks_first() {
        let dir = tempfile::tempdir().unwrap();
        let mut lease = lease(dir.path());
        assert!(!lease.wakes(at(110), at(7)), "nobody knows of how long before");
        assert!(!lease.wakes(at(120), at(7)));
        assert!(lease.is_over(at(1000)));
        assert!(lease.wakes(at(1000), at(887)));
        assert!(!lease.is_over(at(1009)) && lease.is_over(at(1010)));
        assert!(!lease.wakes(at(1001), at(887)), "once");
    }

    #[test]
    fn words_of_an_earlier_link_count_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut lease = lease(dir.path());
        let old = lease.next_report(at(150));
        lease.registers(at(155));
        lease.heard(old, OsText::default());
        assert!(lease.is_over(at(160)));
    }

    #[test]
    fn a_successor_goes_on_with_it() {
        let dir = tempfile::tempdir().unwrap();
        drop(lease(dir.path()));
        let next = Lease::load(dir.path(), at(130), true);
        assert!(!next.is_over(at(159)) && next.is_over(at(160)));
        let late = Lease::load(dir.path(), at(1000), true);
        assert!(!late.is_over(at(1009)), "it may reach the controller first");
        assert!(late.is_over(at(1010)));
        let rebooted = Lease::load(dir.path(), at(130), false);
        assert!(!rebooted.is_over(at(9999)), "nothing of before runs");
        std::fs::write(dir.path().join("contact"), "x").unwrap();
        assert!(!Lease::load(dir.path(), at(130), true).is_over(at(9999)));
    }

    #[test]
    fn the_latest_mark_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut lease = lease(dir.path());
        let mark = |events| {
            let mark = StoreMark {
                events,
                ..StoreMark::default()
            };
            OsText(mark.to_bytes())
        };
        for events in [5, 7, 6] {
            lease.heard(0, mark(events));
        }
        assert_eq!(lease.seen(), mark(7));
        assert_eq!(Lease::load(dir.path(), at(1), true).seen(), mark(7));
    }
}
