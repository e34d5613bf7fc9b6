//! Who makes room for whom: `PreemptType`, `PreemptMode` and what belongs to them, of the cluster and
//! of partitions. Source: slurm.conf(5); Slurm's "Preemption".

use super::lines::Line;
use super::reader::Reader;
use crate::sacctmgr::values::seconds;
use crate::submit::times::limit;
use cosy_model::Span;
use cosy_model::policy::PreemptMode;

/// Longest grace time that is carried over.
const LONGEST: Span = Span::from_secs(366 * 86_400);

impl Reader {
    /// A parameter that begins with `Preempt`. False for one that is not known here.
    pub(super) fn preempt(&mut self, line: &Line, name: &str, value: &str) -> bool {
        match name.to_ascii_lowercase().as_str() {
            "preempttype" => {
                let kind = value.rsplit('/').next().unwrap_or_default();
                let by = match kind.to_ascii_lowercase().as_str() {
                    "none" => Some(None),
                    "qos" => Some(Some("qos")),
                    "partition_prio" => Some(Some("queue")),
                    _ => None,
                };
                self.cluster.preemption.by = self.told(line, name, value, by).flatten();
            }
            "preemptmode" => {
                for word in value.split(',').map(str::trim).filter(|w| !w.is_empty()) {
                    match word.to_ascii_lowercase().as_str() {
                        "within" => self.cluster.preemption.within = true,
                        lower => match PreemptMode::of_word(lower) {
                            Some(mode) => self.cluster.preemption.mode = Some(mode),
                            None => self.note(line, &format!("{name}={word} is not carried over")),
                        },
                    }
                }
            }
            "preemptexempttime" => {
                let exempt = match value {
                    "-1" | "0" => Some(Span::ZERO),
                    value => limit(value).filter(|span| *span <= LONGEST),
                };
                let exempt = self.told(line, name, value, exempt);
                self.cluster.preemption.exempt = exempt.filter(|span| *span > Span::ZERO);
            }
            "preemptparameters" => self.preempt_parameters(line, value),
            _ => return false,
        }
        true
    }

    fn preempt_parameters(&mut self, line: &Line, value: &str) {
        for word in value.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            let (name, number) = word.split_once('=').unwrap_or((word, ""));
            let preemption = &mut self.cluster.preemption;
            match (name.to_ascii_lowercase().as_str(), number.parse::<u32>()) {
                ("send_user_signal", _) => preemption.own_signal = true,
                ("min_exempt_priority", Ok(least)) => preemption.exempt_priority = Some(least),
                _ => self.note(line, &format!("PreemptParameters={word} is not carried over")),
            }
        }
    }

    /// What a partition says of how its jobs make room.
    pub(super) fn partition_preempt(
        &mut self,
        line: &Line,
        queue: &str,
        (said, grace): (Option<&str>, Option<&str>),
    ) -> (Option<PreemptMode>, Option<Span>) {
        let own = said.and_then(|text| PreemptMode::of_word(&text.to_ascii_lowercase()));
        if let (Some(text), None) = (said, own) {
            let text = format!("partition {queue}: PreemptMode={text} is not carried over");
            self.note(line, &text);
        }
        let time = grace.and_then(seconds).filter(|span| *span <= LONGEST);
        if let (Some(text), None) = (grace, time) {
            let text = format!("partition {queue}: GraceTime={text} is not carried over");
            self.note(line, &text);
        }
        (own, time.filter(|span| *span > Span::ZERO))
    }
}
