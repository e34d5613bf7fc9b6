//! Whom a job belongs to, as far as limits go, and over which of those jobs are counted together.

use cosy_model::Uid;

/// What a job is put down as: two jobs that are alike in this are under the same limits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Party {
    pub uid: Uid,
    /// Login name.
    pub user: String,
    /// The account that it is charged to.
    pub account: Option<String>,
    /// Its quality of service.
    pub qos: Option<String>,
    /// Its queue.
    pub queue: String,
    /// The quality of service of its queue.
    pub queue_qos: Option<String>,
}

/// Jobs that are counted together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Meter {
    /// Those of an association, by its number: of an account all below it.
    Association(u32),
    /// Those in a quality of service, by its number.
    Qos(u32),
    /// Those of one user in a quality of service.
    UserInQos(u32, Uid),
    /// Those charged to one account, by the number of its association, in a quality of service.
    AccountInQos(u32, u32),
}
