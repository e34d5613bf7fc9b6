//! Versions of Slurm's REST interface that are served.

/// A version of the interface; each is that of the data parser of one release of Slurm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ApiVersion {
    /// `v0.0.42`, of Slurm 24.11.
    V42,
    /// `v0.0.43`, of Slurm 25.05.
    V43,
    /// `v0.0.44`, of Slurm 25.11.
    V44,
}

impl ApiVersion {
    /// All of them, the oldest first.
    pub const ALL: [Self; 3] = [Self::V42, Self::V43, Self::V44];

    /// Its last number.
    pub const fn number(self) -> u8 {
        match self {
            Self::V42 => 42,
            Self::V43 => 43,
            Self::V44 => 44,
        }
    }

    /// As it stands in paths.
    pub const fn word(self) -> &'static str {
        match self {
            Self::V42 => "v0.0.42",
            Self::V43 => "v0.0.43",
            Self::V44 => "v0.0.44",
        }
    }

    /// The release of Slurm that has brought it: major, minor, micro.
    pub const fn release(self) -> [&'static str; 3] {
        match self {
            Self::V42 => ["24", "11", "0"],
            Self::V43 => ["25", "05", "0"],
            Self::V44 => ["25", "11", "0"],
        }
    }

    /// The version with that word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.word() == word)
    }
}
