//! `scontrol show step`. Source: scontrol(1), captures of 22.05.

use super::{Sheet, clean, or_null};
use crate::clock;
use cosy_model::{Span, Time, Uid};
use jiff::tz::TimeZone;

/// A step as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Id as users write it: `101.batch`, `101_3.0`.
    pub id: String,
    /// Owner of the job.
    pub uid: Uid,
    /// When it began; none while it waits.
    pub start: Option<Time>,
    /// Its own limit.
    pub time_limit: Option<Span>,
    /// Slurm's state word.
    pub state: &'static str,
    /// Name of the job's queue, a partition to Slurm.
    pub queue: String,
    /// Nodes as a host list.
    pub nodes: String,
    /// Number of nodes.
    pub node_count: u32,
    /// Cores; the batch script, which shares those of the job, has none of its own.
    pub cores: u32,
    /// Number of tasks on all nodes together.
    pub tasks: u32,
    /// Name that the step was given, by default its program's.
    pub name: String,
    /// Its resources: `cpu=2,mem=200M,node=1`; empty for the batch script.
    pub tres: String,
}

impl Step {
    /// All of it as lines.
    pub fn sheet(&self, zone: &TimeZone) -> Sheet {
        let mut sheet = Sheet::new();
        sheet
            .line(format!(
                "StepId={} UserId={} StartTime={} TimeLimit={}",
                self.id,
                self.uid.0,
                clock::stamp_or(self.start, zone, "Unknown"),
                clock::span(self.time_limit.unwrap_or(Span::UNLIMITED))
            ))
            .line(format!(
                "State={} Partition={} NodeList={}",
                self.state,
                clean(&self.queue),
                or_null(&clean(&self.nodes))
            ))
            .line(format!(
                "Nodes={} CPUs={} Tasks={} Name={} Network=(null)",
                self.node_count,
                self.cores,
                self.tasks,
                clean(&self.name)
            ))
            .line(format!("TRES={}", or_null(&self.tres)))
            .line("ResvPorts=(null)")
            .line("CPUFreqReq=Default")
            .line("SrunHost:Pid=(null):0");
        sheet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_captured() {
        let step = Step {
            id: "101.batch".into(),
            uid: Uid(33),
            start: Some(Time::from_secs(1_795_227_628)),
            time_limit: None,
            state: "RUNNING",
            queue: "main".into(),
            nodes: "n5".into(),
            node_count: 1,
            cores: 0,
            tasks: 1,
            name: "batch".into(),
            tres: String::new(),
        };
        let want = "StepId=101.batch UserId=33 StartTime=2026-11-21T02:20:28 TimeLimit=UNLIMITED\n   \
            State=RUNNING Partition=main NodeList=n5\n   \
            Nodes=1 CPUs=0 Tasks=1 Name=batch Network=(null)\n   \
            TRES=(null)\n   ResvPorts=(null)\n   CPUFreqReq=Default\n   \
            SrunHost:Pid=(null):0\n\n";
        assert_eq!(step.sheet(&TimeZone::UTC).text(false), want);
    }
}
