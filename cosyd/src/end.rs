//! How the daemon's work ends.

/// How the daemon's work ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// It was told to stop.
    Stop,
    /// The lead is laid down, for that controller first if one is named; then it begins anew.
    HandOver(String),
    /// Another controller leads: it begins anew, at once, and says nothing more to anybody.
    Deposed,
}
