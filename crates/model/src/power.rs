//! Whether a node is switched on. Source of the words: slurm.conf(5), `SuspendProgram`, `ResumeProgram`.

use crate::{Span, Time};
use serde::{Deserialize, Serialize};

/// How far a node is between on and off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PowerPhase {
    /// It is on, or nobody here switches it.
    #[default]
    On,
    /// It is on, takes nothing new, and is switched off when its jobs have ended.
    OffWhenIdle,
    /// It was told to go off.
    TurningOff {
        /// When it was told.
        since: Time,
    },
    /// It is off.
    Off {
        /// Since when.
        since: Time,
    },
    /// It was told to come up, and its daemon has not registered yet.
    Booting {
        /// When it was told.
        since: Time,
    },
}

impl PowerPhase {
    /// It is switched on, and not on its way off.
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On | Self::OffWhenIdle)
    }

    /// In one word or two.
    pub const fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::OffWhenIdle => "off-when-idle",
            Self::TurningOff { .. } => "turning-off",
            Self::Off { .. } => "off",
            Self::Booting { .. } => "booting",
        }
    }

    /// The same with another moment since when, where that is kept.
    #[must_use]
    pub fn map_since(self, other: impl FnOnce(Time) -> Time) -> Self {
        match self {
            Self::On | Self::OffWhenIdle => self,
            Self::TurningOff { since } => Self::TurningOff {
                since: other(since),
            },
            Self::Off { since } => Self::Off {
                since: other(since),
            },
            Self::Booting { since } => Self::Booting {
                since: other(since),
            },
        }
    }

    /// Since when it is so, where that is kept.
    pub const fn since(self) -> Option<Time> {
        match self {
            Self::On | Self::OffWhenIdle => None,
            Self::TurningOff { since } | Self::Off { since } | Self::Booting { since } => {
                Some(since)
            }
        }
    }
}

/// What is told of the power of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PowerInfo {
    /// How far it is.
    pub phase: PowerPhase,
    /// When a job could begin there: of a node that is off, if it were told to come up now.
    pub ready: Option<Time>,
    /// How long it takes to come up, as it was measured; `None` before the first time.
    pub boot: Option<Span>,
}
