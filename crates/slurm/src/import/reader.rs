//! What has been read so far, and the report of what is not carried over.

use super::lines::{Line, Place};
use super::records::{Cluster, Node};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// Most lines of a report; the rest is counted.
const MOST_NOTES: usize = 5000;

/// What could not be carried over, line by line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Report {
    lines: Vec<String>,
    more: usize,
}

impl Report {
    /// A line about the whole.
    pub(super) fn say(&mut self, text: impl Into<String>) {
        match self.lines.len() < MOST_NOTES {
            true => self.lines.push(text.into()),
            false => self.more += 1,
        }
    }

    /// A line about one of a file.
    pub(super) fn at(&mut self, place: &Place, text: impl Display) {
        self.say(match place.number {
            0 => text.to_string(),
            _ => format!("{place}: {text}"),
        });
    }

    /// All of it.
    pub(super) fn finished(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines
                .push(format!("and {} lines more that are not shown", self.more));
        }
        self.lines
    }
}

/// All that is read.
#[derive(Default)]
pub(super) struct Reader {
    pub cluster: Cluster,
    pub nodes: Vec<Node>,
    /// Nodes that have been named.
    pub known: BTreeSet<String>,
    /// Lines of sets and of partitions, until all nodes are known.
    pub sets: Vec<Line>,
    /// Lines of `topology.conf`, likewise.
    pub switches: Vec<Line>,
    pub partitions: Vec<(Line, BTreeMap<String, String>)>,
    pub report: Report,
    /// Values of lines that are called `DEFAULT`.
    pub node_defaults: BTreeMap<String, String>,
    pub queue_defaults: BTreeMap<String, String>,
    /// Names of parameters that mean nothing here.
    pub without_meaning: BTreeSet<String>,
    /// Programs beside jobs have been named.
    pub hooks: bool,
    /// Path of the site's `job_submit.lua`, where there is one.
    pub lua: Option<String>,
    /// An included file was not there: partitions may be missing.
    pub incomplete: bool,
}

impl Reader {
    pub(super) fn note(&mut self, line: &Line, text: &str) {
        self.report.at(&line.place, text);
    }

    /// What was read of a value; that nothing was is told.
    pub(super) fn told<T>(
        &mut self,
        line: &Line,
        name: &str,
        value: &str,
        read: Option<T>,
    ) -> Option<T> {
        if read.is_none() {
            self.note(line, &format!("{name}={value} is not understood"));
        }
        read
    }
}
