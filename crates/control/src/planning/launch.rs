//! From the planner's word to the nodes: numbers of cores and GPUs, orders, variables.

pub(crate) mod procedures;

use crate::jobs::file_names::{self, Names};
use crate::jobs::job::Submitted;
use crate::jobs::run::Run;
use cosy_model::job::WarnSignal;
use cosy_model::{Dialect, JobId, JobSpec, OsText, Span, Time};

/// A ticket outlives the job's limit by so much: nodes may be slow to end things.
const TICKET_MARGIN: Span = Span::from_secs(86_400);
/// Ticket of a job without limit.
const TICKET_LONGEST: Span = Span::from_secs(10 * 366 * 86_400);

/// In Slurm's dialect a signal that is not for the script alone is for the steps.
fn warn_steps(spec: &JobSpec) -> Option<WarnSignal> {
    let for_steps = |w: &WarnSignal| spec.dialect == Dialect::Slurm && !w.script_only;
    spec.warn.filter(for_steps)
}

/// Until when the ticket of an attempt is good.
pub(crate) fn ticket_expiry(run: &Run) -> Time {
    if run.limit().is_unlimited() {
        return run.allocated() + TICKET_LONGEST;
    }
    run.allocated() + run.limit() + TICKET_MARGIN
}

/// Output, error and input file of a job that runs on `node`.
pub(crate) fn files(
    job: &Submitted,
    id: JobId,
    index: Option<u32>,
    node: &str,
) -> (OsText, OsText, OsText) {
    let spec = &job.spec;
    let names = Names {
        job: id.0,
        array: job.base.0,
        index,
        name: &spec.name,
        user: &job.user,
        node,
    };
    let standard: &[u8] = if index.is_some() {
        match spec.dialect {
            Dialect::Cosy => b"cosy-%A_%a.out",
            Dialect::Slurm => b"slurm-%A_%a.out",
        }
    } else {
        match spec.dialect {
            Dialect::Cosy => b"cosy-%j.out",
            Dialect::Slurm => b"slurm-%j.out",
        }
    };
    let pattern = |p: &Option<OsText>| p.as_ref().map(|p| file_names::expand(&p.0, &names));
    (
        pattern(&spec.stdout).unwrap_or_else(|| file_names::expand(standard, &names)),
        pattern(&spec.stderr).unwrap_or_default(),
        pattern(&spec.stdin).unwrap_or_default(),
    )
}
