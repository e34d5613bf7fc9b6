//! Whose a workflow file is, and what may come into it from this process.

/// Whose file it is.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    /// Of whoever has started this process: scripts are read, and tasks get its environment and limits.
    Own,
    /// Sent from elsewhere; its tasks run in `folder`. No file of this machine is read for it, and nothing
    /// of this process goes into what is made of it.
    Sent {
        /// Folder of tasks that name none: a path from `/` on.
        folder: &'a str,
    },
}
