//! Who a user is, as the directory service says.

use crate::{Gid, Uid};
use serde::{Deserialize, Serialize};

/// A group that a user is in.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Group {
    /// Its id.
    pub gid: Gid,
    /// Its name; the id in digits when it has none.
    pub name: String,
}

/// A user with all groups, as a job runs with them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct User {
    /// User id.
    pub uid: Uid,
    /// Login name; the id in digits when it has none.
    pub name: String,
    /// Primary group.
    pub gid: Gid,
    /// All groups, the primary one included.
    pub groups: Vec<Group>,
    /// Home directory.
    pub home: String,
    /// Login shell.
    pub shell: String,
}

impl User {
    /// True when the user is in a group of that name.
    pub fn in_group(&self, name: &str) -> bool {
        self.groups.iter().any(|g| g.name == name)
    }
}
