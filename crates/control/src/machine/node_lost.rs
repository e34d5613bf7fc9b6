//! Attempts that end because nodes were lost, and the names of these nodes.
//!
//! Always holds: a node is named only where its loss ends the attempt, not where it was
//! lost while the attempt was cleaned up after an end of its own.

use crate::jobs::job::Job;
use crate::jobs::losses::LostRun;
use crate::jobs::run::Run;
use crate::machine::Machine;
use crate::record::AfterRun;
use cosy_model::node::KillCause;
use cosy_model::{End, EndCause, Time};

impl Machine {
    /// `node n1 was lost`, where that ends the job's attempt.
    pub(crate) fn lost_words(&self, job: &Job) -> Option<String> {
        let lost = job.run()?.lost().iter();
        let names: Vec<&str> = lost.map(|n| &*self.node(*n).spec.name).collect();
        match names.len() {
            0 => None,
            1 => Some(format!("node {} was lost", names[0])),
            _ => Some(format!("nodes {} were lost", cosy_model::fold(&names))),
        }
    }

    /// The same, or that its supervisor was killed, and what its end is put down to then.
    pub(crate) fn loss(&self, job: &Job) -> Option<(EndCause, String)> {
        let killed = || {
            let run = job.run().filter(|run| run.killed().is_none())?;
            let cause = &run.reported()?.cause;
            (*cause == EndCause::SupervisorLost).then(|| (cause.clone(), self.supervisor_lost(job)))
        };
        let lost = self.lost_words(job);
        lost.map(|words| (EndCause::NodeLost, words))
            .or_else(killed)
    }

    /// Said of an attempt whose supervisor was killed.
    pub(crate) fn supervisor_lost(&self, job: &Job) -> String {
        let node = job.run().and_then(Run::first).map(|node| self.name(node));
        format!("its supervisor on node {} was killed", node.unwrap_or("(none)"))
    }

    /// What ended the job's attempt without its doing; `None` where that was something else.
    pub(crate) fn lost_run(&self, job: &Job) -> Option<LostRun> {
        let (run, (_, words)) = (job.run()?, self.loss(job)?);
        // A supervisor that was killed is that on the first node.
        let supervisor = run.first().filter(|_| run.lost().is_empty());
        let nodes = run.lost().iter().copied().chain(supervisor);
        Some(LostRun {
            nodes: nodes.map(|node| self.name(node).to_owned()).collect(),
            had_begun: run.started().is_some(),
            words,
        })
    }
}

/// What follows an attempt that is lost with a node, before that is settled. One whose program
/// may have run is followed by another only where the job may run again.
pub(crate) fn after_loss(job: &Job, now: Time) -> AfterRun {
    let Some(run) = job.run() else {
        return AfterRun::Requeue;
    };
    match run.killed() {
        Some(KillCause::Cancelled) => {
            return AfterRun::End(lost_end(EndCause::Cancelled, run.started(), now));
        }
        Some(KillCause::Requeued) => return AfterRun::Requeue,
        Some(KillCause::TimeLimit | KillCause::Superseded) | None => {}
    }
    // Where nobody knows whether it has run it waits, and is held.
    let asks = run.is_doubtful() && !job.spec().attended;
    match asks || job.submitted().runs_again(run.may_have_run()) {
        true => AfterRun::Requeue,
        false => AfterRun::End(lost_end(EndCause::NodeLost, run.started(), now)),
    }
}

/// The end of an attempt of which nothing more is heard.
fn lost_end(cause: EndCause, start: Option<Time>, now: Time) -> End {
    End {
        start,
        ..End::never_ran(cause, now)
    }
}
