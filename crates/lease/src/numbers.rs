//! The numbers of the row, each a type of its own.

use std::fmt;

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// The one after it; stays at the last that there is.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

numbers! {
    /// Counts the times that the lead was taken, from 1; 0 is before anybody led. Never falls,
    /// and has one holder.
    Epoch;
    /// Counts the updates of the row: while it stays, nobody has renewed.
    Renewals;
    /// Counts the connections over which leaders have written. Updates name theirs, so that
    /// nothing comes late from an older one.
    Session;
    /// Number of a batch, from 1 and without gaps, over all epochs.
    BatchNumber;
}
