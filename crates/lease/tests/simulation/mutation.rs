//! Ways to break the protocol on purpose, to see that the rules find it.

use crate::checks::Rule;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutation {
    /// Batches do not name epoch and session.
    BatchIsUnconditional,
    /// A take writes the epoch after the one seen, whatever is there.
    TakeIsUnconditional,
    /// A take names the epoch and not the renewals.
    TakeIgnoresRenewals,
    /// The contender takes as soon as the database says that the lease is over.
    TakeOnDatabaseClock,
    /// The contender counts from when it asked instead of when it was answered.
    CountsFromQuestion,
    /// A batch of unknown outcome is sent again as the next one.
    ResolveByRepeating,
    /// The outcome is looked up; sessions are not compared.
    ResolveByLook,
    /// The outcome is looked up by a read that waits for the row; sessions are not compared.
    ResolveByLockingRead,
    /// A batch of unknown outcome is taken for committed.
    ResolveByHoping,
    /// The number of a batch that is not committed is used up.
    NumbersSkip,
    /// A node obeys and keeps any epoch.
    NodeKeepsAny,
    /// The epoch is not kept over a restart of the node.
    NodeForgets,
    /// The epoch is kept after the order was carried out.
    NodeKeepsAfterwards,
    /// The leader answers from memory as long as it has not been told that it is deposed.
    ActsAfterLease,
    /// The leader counts from the answer instead of from the question.
    LeaseFromAnswer,
    /// No margin for clocks that drift.
    NoMargin,
    /// A handover gives the lead back and stops serving afterwards.
    ReleasesBeforeStopping,
    /// Answers go out with the batch instead of after it.
    AnswersBeforeCommit,
    /// Orders go out with the batch instead of after it.
    OrdersBeforeCommit,
    /// A leader whose update matches nothing takes that for the loss of its lead.
    MismatchDeposes,
    /// An end of the lease that lies too far ahead counts.
    TrustsFarEnd,
}

impl Mutation {
    /// Each with the rules of which one must find it.
    pub const ALL: [(Self, &'static [Rule]); 21] = [
        (Self::BatchIsUnconditional, &[Rule::BatchOfCurrentEpoch]),
        (Self::TakeIsUnconditional, &[Rule::OneHolderPerEpoch]),
        (Self::TakeIgnoresRenewals, &[Rule::OneActs, Rule::ReadsAreFresh]),
        (Self::TakeOnDatabaseClock, &[Rule::OneActs, Rule::ReadsAreFresh]),
        (Self::CountsFromQuestion, &[Rule::OneActs, Rule::ReadsAreFresh]),
        (Self::ResolveByRepeating, &[Rule::CommittedOnce]),
        (Self::ResolveByLook, &[Rule::NotCommittedIsSo]),
        (Self::ResolveByLockingRead, &[Rule::NotCommittedIsSo]),
        (Self::NodeForgets, &[Rule::NodeObeysNewest]),
        (Self::NodeKeepsAfterwards, &[Rule::NodeObeysNewest]),
        (Self::ActsAfterLease, &[Rule::ReadsAreFresh]),
        (Self::LeaseFromAnswer, &[Rule::OneActs, Rule::ReadsAreFresh]),
        (Self::NoMargin, &[Rule::OneActs, Rule::ReadsAreFresh]),
        (Self::ReleasesBeforeStopping, &[Rule::OneActs, Rule::ReadsAreFresh]),
        (Self::AnswersBeforeCommit, &[Rule::AcknowledgedIsThere]),
        (Self::OrdersBeforeCommit, &[Rule::OrdersAreCommitted]),
        (Self::ResolveByHoping, &[Rule::CommittedIsSo]),
        (Self::NumbersSkip, &[Rule::NumbersWithoutGaps]),
        (Self::NodeKeepsAny, &[Rule::NodeKeepsNewest]),
        (Self::MismatchDeposes, &[Rule::DeposedIsSo]),
        (Self::TrustsFarEnd, &[Rule::OneLeadsInTheEnd]),
    ];
}
