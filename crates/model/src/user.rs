//! Who a user is, as the directory service says.

use crate::{Gid, Uid};
use serde::{Deserialize, Serialize};

/// A group that a user is in.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Group {
    /// Group id on the hosts of the cluster.
    pub gid: Gid,
    /// Its name; the id in digits when it has none.
    pub name: String,
}

/// A user with all groups, as a job runs with them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct User {
    /// User id on the hosts of the cluster.
    pub uid: Uid,
    /// Login name; the id in digits when it has none.
    pub name: String,
    /// Primary group, which new files get.
    pub gid: Gid,
    /// All groups, the primary one included.
    pub groups: Vec<Group>,
    /// Path of the home directory.
    pub home: String,
    /// Path of the login shell.
    pub shell: String,
}

impl User {
    /// True when the user is in a group of that name.
    pub fn in_group(&self, name: &str) -> bool {
        self.groups.iter().any(|g| g.name == name)
    }

    /// True when the directory gives the user that group, as the primary one or another.
    pub fn has_group(&self, gid: Gid) -> bool {
        self.gid == gid || self.groups.iter().any(|g| g.gid == gid)
    }

    /// The primary group of something that was asked for with the group `wanted`: that one
    /// if the directory gives it to the user, else the user's own. Nothing else is ever
    /// signed into a ticket.
    pub fn granted(&self, wanted: Gid) -> Gid {
        match self.has_group(wanted) {
            true => wanted,
            false => self.gid,
        }
    }

    /// The ids of all groups as a program runs with them: never none.
    pub fn gids(&self) -> Vec<Gid> {
        let mut gids: Vec<Gid> = self.groups.iter().map(|g| g.gid).collect();
        if gids.is_empty() {
            gids.push(self.gid);
        }
        gids
    }
}
