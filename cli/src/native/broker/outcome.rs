//! The outcome of a booking on several clusters: what each of them has now, and what was tried.

use super::clusters::Cluster;
use super::transport::ClusterError;
use cosy_model::reservation::ReservationInfo;
use cosy_model::{ReservationId, Time, variables};

/// What one cluster has of the booking now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClusterOutcome {
    /// Booked: charged and promised.
    Booked(Vec<ReservationInfo>),
    /// Held, to be confirmed by the user.
    Held(Vec<ReservationInfo>),
    /// Nothing: reservations were held or booked and have been given back.
    GivenBack(Vec<ReservationId>),
    /// Nothing: the cluster refused, or was not reached.
    Nothing(ClusterError),
    /// Nothing: no request was sent to it.
    Untried,
    /// Perhaps a hold that nobody knows the id of; it lapses by itself.
    Lapsing(ClusterError),
    /// Reservations that could not be given back.
    Left {
        /// Reservations that are still there.
        ids: Vec<ReservationId>,
        /// When they lapse by themselves; `None` when they do not, or may be booked for good.
        lapses: Option<Time>,
        /// Why they could not be given back.
        why: ClusterError,
    },
    /// Perhaps booked: nobody knows.
    Unclear(ClusterError),
}

/// A cluster with its outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterResult {
    /// Where the booking was tried.
    pub cluster: Cluster,
    /// What the cluster has now.
    pub outcome: ClusterOutcome,
}

impl ClusterResult {
    /// True when the cluster has, or may have, something that is not part of a successful booking.
    pub(super) const fn leaves_something(&self) -> bool {
        match self.outcome {
            ClusterOutcome::Left { .. }
            | ClusterOutcome::Unclear(_)
            | ClusterOutcome::Lapsing(_) => true,
            ClusterOutcome::Booked(_)
            | ClusterOutcome::Held(_)
            | ClusterOutcome::GivenBack(_)
            | ClusterOutcome::Nothing(_)
            | ClusterOutcome::Untried => false,
        }
    }
}

/// Whether the booking succeeded as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Everything was booked or held.
    Done,
    /// Nothing was booked, and nothing is left anywhere.
    Nothing,
    /// Nothing was booked as a whole, but clusters have, or may have, something: the results say what
    /// to do about it.
    Leftover,
}

/// A slot that was tried and could not be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RejectedSlot {
    /// Name of the cluster.
    pub cluster: String,
    /// Start of the slot; `None` when the cluster offered none.
    pub start: Option<Time>,
    /// The reason in one line.
    pub why: String,
}

/// The outcome of a booking on several clusters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The outcome as a whole.
    pub verdict: Verdict,
    /// The clusters that took part.
    pub results: Vec<ClusterResult>,
    /// Slots that were tried and could not be had, in order.
    pub tried: Vec<RejectedSlot>,
    /// Starts of a repeating reservation that were not possible, and other words of the
    /// controllers.
    pub notes: Vec<String>,
}

impl Outcome {
    /// An outcome whose verdict follows from its parts.
    pub(super) fn of(
        results: Vec<ClusterResult>,
        tried: Vec<RejectedSlot>,
        notes: Vec<String>,
    ) -> Self {
        let got = |p: &ClusterResult| {
            matches!(p.outcome, ClusterOutcome::Booked(_) | ClusterOutcome::Held(_))
        };
        let verdict = if !results.is_empty() && results.iter().all(got) {
            Verdict::Done
        } else if results.iter().any(ClusterResult::leaves_something) {
            Verdict::Leftover
        } else {
            Verdict::Nothing
        };
        Self {
            verdict,
            results,
            tried,
            notes,
        }
    }

    /// The exit code: 0 done, 3 when not one cluster was reached, else 1.
    pub fn exit_code(&self) -> u8 {
        let gone = |p: &ClusterResult| {
            matches!(p.outcome, ClusterOutcome::Nothing(ClusterError::Unreachable(_)))
        };
        match self.verdict {
            Verdict::Done => crate::exit::OK,
            Verdict::Nothing if !self.results.is_empty() && self.results.iter().all(gone) => {
                crate::exit::UNREACHABLE
            }
            Verdict::Nothing | Verdict::Leftover => crate::exit::FAILED,
        }
    }
}

/// The command line that does `what` to reservations of a cluster.
pub fn command(cluster: &Cluster, what: &str, ids: &[ReservationId]) -> String {
    let path = cluster.socket.display().to_string();
    // Only a NUL cannot be quoted, and no path has one.
    let path = shlex::try_quote(&path).map_or_else(|_| path.clone(), Into::into);
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    format!("{}={path} cresv {what} {}", variables::SOCKET, ids.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_survive_a_shell() {
        for path in [
            "/run/b.sock",
            "/run/my clusters/it's \"b\" $HOME `x`",
            "/a\nb",
        ] {
            let cluster = Cluster {
                name: "b".into(),
                socket: path.into(),
            };
            let line = command(&cluster, "cancel", &[ReservationId(1), ReservationId(2)]);
            let words = shlex::split(&line).unwrap();
            let socket = format!("COSY_SOCKET={path}");
            assert_eq!(words, [socket.as_str(), "cresv", "cancel", "1", "2"], "{line}");
        }
    }
}
