//! What a PMIx helper, which runs as the user, says to its supervisor, and what it is told
//! itself. The first byte of a piece says which.

use noded::pmix::facts;
use noded::pmix::words::{FromHelper, ToHelper};

/// Feeds one input of the fuzzer to what PMIx helpers and supervisors tell each other.
pub fn run(bytes: &[u8]) {
    crate::stream(bytes, noded::pmix::words::FRAME);
    for piece in crate::pieces(bytes) {
        let Some((kind, body)) = piece.split_first() else {
            continue;
        };
        if kind % 2 == 0 {
            drop(crate::message::<FromHelper>(body));
            continue;
        }
        let Some(ToHelper::Setup(setup)) = crate::message::<ToHelper>(body) else {
            continue;
        };
        let _ = facts::of_server(&setup);
        // A supervisor makes it of an order that was checked.
        let runs = setup.layout.ranks.iter().flatten();
        let tasks: u64 = runs.map(|run| u64::from(run.count)).sum();
        if tasks <= 10_000 && tasks == u64::from(setup.layout.tasks) {
            let _ = facts::of_job(&setup);
        }
    }
}
