//! What became of a booking: what is where now, and what was tried before.

use super::clusters::Cluster;
use super::wire::Failure;
use cosy_model::reservation::ReservationInfo;
use cosy_model::{ReservationId, Time, variables};

/// What a cluster has of this booking now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClusterOutcome {
    /// Booked: charged and promised.
    Booked(Vec<ReservationInfo>),
    /// Held, to be confirmed by the user.
    Held(Vec<ReservationInfo>),
    /// Nothing: it was held or booked there and given back.
    GivenBack(Vec<ReservationId>),
    /// Nothing: it refused, or was not reached.
    Nothing(Failure),
    /// Nothing was asked there.
    Untried,
    /// Perhaps a hold that nobody knows the id of; it lapses by itself.
    Lapsing(Failure),
    /// It has something that could not be given back.
    Left {
        /// Reservations that are still there.
        ids: Vec<ReservationId>,
        /// When it lapses by itself; `None` when it does not, or may be booked for good.
        lapses: Option<Time>,
        /// Why it could not be given back.
        why: Failure,
    },
    /// Perhaps booked: nobody knows.
    Unclear(Failure),
}

/// A cluster and what it has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The cluster that was asked.
    pub cluster: Cluster,
    /// What became of the booking there.
    pub outcome: ClusterOutcome,
}

impl Part {
    /// True when something is there that was not asked for, or may be.
    pub(super) const fn is_loose(&self) -> bool {
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

/// Whether the user got what was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All of it.
    Done,
    /// Nothing, and nothing is left anywhere.
    Nothing,
    /// Nothing, and something is left somewhere: the parts say what to do about it.
    Loose,
}

/// A slot that was tried in vain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RejectedSlot {
    /// Name of the cluster.
    pub cluster: String,
    /// Start, where one was asked for.
    pub start: Option<Time>,
    /// Why the slot could not be had, in one line.
    pub why: String,
}

/// What became of a booking.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// In one word.
    pub verdict: Verdict,
    /// Each cluster that has or had something to do with it.
    pub parts: Vec<Part>,
    /// What was tried before, in order.
    pub tried: Vec<RejectedSlot>,
    /// Starts of a repeating reservation that were not possible, and other words of the
    /// controllers.
    pub notes: Vec<String>,
}

impl Outcome {
    /// An outcome whose verdict follows from its parts.
    pub(super) fn of(parts: Vec<Part>, tried: Vec<RejectedSlot>, notes: Vec<String>) -> Self {
        let got =
            |p: &Part| matches!(p.outcome, ClusterOutcome::Booked(_) | ClusterOutcome::Held(_));
        let verdict = if !parts.is_empty() && parts.iter().all(got) {
            Verdict::Done
        } else if parts.iter().any(Part::is_loose) {
            Verdict::Loose
        } else {
            Verdict::Nothing
        };
        Self {
            verdict,
            parts,
            tried,
            notes,
        }
    }

    /// The exit code: 0 done, 3 when not one cluster was reached, else 1.
    pub fn exit_code(&self) -> u8 {
        let gone = |p: &Part| matches!(p.outcome, ClusterOutcome::Nothing(Failure::Unreachable(_)));
        match self.verdict {
            Verdict::Done => crate::exit::OK,
            Verdict::Nothing if !self.parts.is_empty() && self.parts.iter().all(gone) => {
                crate::exit::UNREACHABLE
            }
            Verdict::Nothing | Verdict::Loose => crate::exit::FAILED,
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
