//! `sacctmgr show event`: since when nodes were down or drained, out of the table of events. Sources:
//! sacctmgr(1), "LIST/SHOW EVENT FORMAT OPTIONS"; recordings of 22.05.8.
//!
//! What happened to the controller's store and clocks stands where Slurm has events of the cluster;
//! they take no time.

use super::conditions::{Conditions, Subject};
use super::rows::Cells;
use crate::show::clean;
use crate::times;
use cosy_model::api::HistoryEvent;
use cosy_model::{Time, hostlist};
use jiff::tz::TimeZone;
use std::collections::BTreeMap;

/// What a list of what has happened is made with.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// Name of the cluster.
    pub cluster: &'a str,
    /// In which times are written.
    pub zone: &'a TimeZone,
    /// The moment.
    pub now: Time,
    /// From then on.
    pub from: Time,
    /// Until then.
    pub until: Time,
    /// The number of a user.
    pub uid: &'a dyn Fn(&str) -> Option<i64>,
}

/// A stretch of time in which a node could not be used, or an event of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stretch {
    /// `None`: the cluster's.
    node: Option<String>,
    since: Time,
    until: Option<Time>,
    state: &'static str,
    reason: String,
    who: String,
}

/// Why a node cannot be used now.
#[derive(Debug, Default)]
struct Standing {
    down: Option<(String, String)>,
    drained: Option<(String, String)>,
    lost: bool,
    /// Place of its open stretch in the list.
    open: Option<usize>,
}

impl Standing {
    fn now(&self) -> Option<(&'static str, String, String)> {
        let of = |state, (reason, who): &(String, String)| (state, reason.clone(), who.clone());
        if let Some(down) = &self.down {
            return Some(of("DOWN", down));
        }
        if self.lost {
            return Some(("DOWN*", "Not responding".to_owned(), String::new()));
        }
        self.drained.as_ref().map(|drained| of("DRAIN", drained))
    }
}

/// Reads the table of events, oldest first, and gives the stretches of it.
#[derive(Debug, Default)]
pub struct Reader {
    nodes: BTreeMap<String, Standing>,
    all: Vec<Stretch>,
}

impl Reader {
    /// The next event.
    pub fn read(&mut self, event: &HistoryEvent) {
        let Some(node) = event.object.strip_prefix("node ") else {
            if ["store", "clock of the controller"].contains(&event.object.as_str()) {
                self.all.push(Stretch {
                    node: None,
                    since: event.at,
                    until: Some(event.at),
                    state: "",
                    reason: format!("{} {}", event.what, event.detail).trim().to_owned(),
                    who: String::new(),
                });
            }
            return;
        };
        let standing = self.nodes.entry(node.to_owned()).or_default();
        let by = || (event.detail.clone(), event.who.clone());
        match event.what.as_str() {
            "down" => (standing.down, standing.drained) = (Some(by()), None),
            "drained" => (standing.down, standing.drained) = (None, Some(by())),
            "resumed" => (standing.down, standing.drained) = (None, None),
            "lost" => standing.lost = true,
            "back" => standing.lost = false,
            _ => return,
        }
        let now = standing.now();
        if let Some(open) = standing.open.and_then(|open| self.all.get_mut(open)) {
            let same = now
                .as_ref()
                .is_some_and(|(state, reason, _)| *state == open.state && *reason == open.reason);
            if same {
                return;
            }
            open.until = Some(event.at);
        }
        standing.open = None;
        if let Some((state, reason, who)) = now {
            standing.open = Some(self.all.len());
            self.all.push(Stretch {
                node: Some(node.to_owned()),
                since: event.at,
                until: None,
                state,
                reason,
                who,
            });
        }
    }

    /// The rows of the list.
    ///
    /// # Errors
    /// The lines about a condition that cannot be.
    pub fn rows(
        &self,
        conditions: &Conditions,
        frame: Frame<'_>,
    ) -> Result<Vec<Cells>, Vec<String>> {
        let chosen = Chosen::of(conditions)?;
        let cluster = conditions.values(Subject::Cluster);
        if !cluster.is_empty() && !cluster.contains(&frame.cluster.to_lowercase()) {
            return Ok(Vec::new());
        }
        let within = |s: &&Stretch| {
            s.since <= frame.until && s.until.is_none_or(|until| until >= frame.from)
        };
        let rows = self.all.iter().filter(within);
        Ok(rows
            .filter(|s| chosen.takes(s, conditions))
            .map(|s| cells(s, frame))
            .collect())
    }
}

/// Conditions that are more than a comparison of words.
struct Chosen {
    nodes: Vec<String>,
    of_cluster: bool,
    of_nodes: bool,
    only_open: bool,
}

impl Chosen {
    fn of(conditions: &Conditions) -> Result<Self, Vec<String>> {
        let mut it = Self {
            nodes: Vec::new(),
            of_cluster: true,
            of_nodes: true,
            only_open: conditions
                .values(Subject::CondFlags)
                .iter()
                .any(|flag| flag.eq_ignore_ascii_case("open")),
        };
        let kinds: Vec<String> = conditions
            .all(&[Subject::Event, Subject::Name])
            .iter()
            .map(|kind| kind.to_ascii_lowercase())
            .collect();
        let is = |kind: &String, whole: &str| !kind.is_empty() && whole.starts_with(kind.as_str());
        if let Some(bad) = kinds
            .iter()
            .find(|kind| !is(kind, "cluster") && !is(kind, "nodes"))
        {
            return Err(vec![format!(
                " Unknown event type: '{}'  Valid events are Cluster and Node.",
                clean(bad)
            )]);
        }
        if !kinds.is_empty() {
            it.of_cluster = kinds.iter().any(|kind| is(kind, "cluster"));
            it.of_nodes = kinds.iter().any(|kind| is(kind, "nodes"));
        }
        let named = conditions.values(Subject::Node);
        if !named.is_empty() {
            it.of_cluster = false;
            it.nodes = hostlist::expand(&named.join(","))
                .map_err(|e| vec![format!("sacctmgr: error: {e}")])?;
        }
        Ok(it)
    }

    fn takes(&self, stretch: &Stretch, conditions: &Conditions) -> bool {
        let among = |subject, value: &str| {
            let values = conditions.values(subject);
            values.is_empty() || values.iter().any(|v| v.eq_ignore_ascii_case(value))
        };
        let kind = match &stretch.node {
            None => self.of_cluster,
            Some(node) => {
                self.of_nodes && (self.nodes.is_empty() || self.nodes.iter().any(|n| n == node))
            }
        };
        let states = conditions.values(Subject::State);
        let state = states.is_empty()
            || states.iter().any(|wanted| {
                let wanted = wanted.to_ascii_uppercase();
                !wanted.is_empty()
                    && !stretch.state.is_empty()
                    && (stretch.state.starts_with(&wanted) || wanted.starts_with(stretch.state))
            });
        kind && state
            && (!self.only_open || stretch.until.is_none())
            && among(Subject::Reason, &stretch.reason)
            && among(Subject::User, &stretch.who)
    }
}

fn cells(stretch: &Stretch, frame: Frame<'_>) -> Cells {
    let end = stretch.until.unwrap_or(frame.now);
    Cells::from([
        ("Cluster", frame.cluster.to_owned()),
        ("NodeName", stretch.node.clone().unwrap_or_default()),
        ("TimeStart", times::timestamp(stretch.since, frame.zone)),
        ("TimeEnd", times::timestamp_or(stretch.until, frame.zone, "Unknown")),
        ("State", stretch.state.to_owned()),
        ("Reason", stretch.reason.clone()),
        ("User", user(&stretch.who, frame.uid)),
        ("Duration", times::duration(end.since(stretch.since))),
        (
            "Event",
            match stretch.node {
                Some(_) => "Node".to_owned(),
                None => "Cluster".to_owned(),
            },
        ),
    ])
}

/// `root(0)`; who is no user of this host by name alone.
fn user(who: &str, uid: &dyn Fn(&str) -> Option<i64>) -> String {
    match uid(who) {
        Some(uid) => format!("{who}({uid})"),
        None => who.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sacctmgr::columns::{TableStyle, columns, text, usual};
    use crate::sacctmgr::entity::Entity;

    const RECORDED: &str = include_str!("../../recordings/sacctmgr-events.txt");

    fn event(at: &str, what: &str, object: &str, detail: &str) -> HistoryEvent {
        let at: jiff::Timestamp = format!("2026-11-25T{at}Z").parse().unwrap();
        HistoryEvent {
            seq: 0,
            at: Time(at.as_millisecond()),
            what: what.to_owned(),
            who: "root".to_owned(),
            object: object.to_owned(),
            detail: detail.to_owned(),
        }
    }

    fn shown(reader: &Reader, words: &[&str]) -> String {
        let mut conditions = Conditions::default();
        for word in words {
            if let Err(lines) = conditions.read(word) {
                return format!("2 {}\n= 1\n", lines[0]);
            }
        }
        let frame = Frame {
            cluster: "base",
            zone: &TimeZone::UTC,
            now: Time(i64::MAX / 4),
            from: Time(0),
            until: Time(i64::MAX / 4),
            uid: &|name| (name == "root").then_some(0),
        };
        let rows = match reader.rows(&conditions, frame) {
            Ok(rows) => rows,
            Err(lines) => return format!("2 {}\n= 1\n", lines[0]),
        };
        let format = usual(Entity::Event, false, false);
        let look = TableStyle {
            parsable: true,
            ..TableStyle::default()
        };
        let cell = |row: &Cells, name: &str| row.get(name).cloned().unwrap_or_default();
        let text = text(&columns(&format).unwrap(), &rows, &look, cell);
        let lines: String = text.lines().map(|line| format!("1 {line}\n")).collect();
        format!("{lines}= 0\n")
    }

    /// What was recorded of Slurm, with the same things done to nodes. Its line about the registration
    /// of the cluster is not in Cosy's table.
    #[test]
    fn as_recorded() {
        let mut reader = Reader::default();
        for event in [
            event("16:54:37", "down", "node n3", "bad disk"),
            event("16:54:37", "drained", "node n4", "fan"),
            event("16:54:38", "resumed", "node n3", ""),
        ] {
            reader.read(&event);
        }
        let mut compared = 0;
        for block in RECORDED.split("$ sacctmgr -P show event").skip(1) {
            let (command, want) = block.split_once('\n').unwrap();
            let words = command.replace("reason='bad disk'", "reason=bad_disk");
            let words = words
                .split_whitespace()
                .filter(|w| !w.starts_with("start="));
            let words: Vec<String> = words.map(|w| w.replace('_', " ")).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let want = want.split("$ ").next().unwrap();
            let want: String = want
                .lines()
                .filter(|line| !line.contains("Cluster Registered"))
                .map(|line| format!("{line}\n"))
                .collect();
            assert_eq!(shown(&reader, &words), want, "{command}");
            compared += 1;
        }
        assert_eq!(compared, 8);
    }

    #[test]
    fn what_follows_what() {
        let mut reader = Reader::default();
        for event in [
            event("10:00:00", "drained", "node n1", "fan"),
            event("10:05:00", "lost", "node n1", ""),
            event("10:06:00", "back", "node n1", ""),
            event("10:07:00", "drained", "node n1", "fan"),
            event("10:08:00", "down", "node n1", "burnt"),
            event("10:09:00", "resumed", "node n1", ""),
            event("10:10:00", "back", "node n1", ""),
            event("10:11:00", "clock_set", "clock of the controller", "by 3 s"),
            event("10:12:00", "started", "job 4", ""),
        ] {
            reader.read(&event);
        }
        let told: Vec<String> = reader
            .all
            .iter()
            .map(|s| {
                let minute = |t: Time| t.0 / 60_000 % 60;
                format!("{} {}-{}", s.state, minute(s.since), s.until.map_or(-1, minute))
            })
            .collect();
        assert_eq!(told, ["DRAIN 0-5", "DOWN* 5-6", "DRAIN 6-8", "DOWN 8-9", " 11-11"]);
        assert!(shown(&reader, &["condflags=open"]).ends_with("User\n= 0\n"));
        assert!(shown(&reader, &["event=cluster"]).contains("clock_set by 3 s"));
    }
}
