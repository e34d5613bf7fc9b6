//! Which of several controllers leads: election and lease on one row of a PostgreSQL database,
//! and the fence that keeps orders of a former leader from the nodes.
//!
//! It knows no clock, no SQL client, no threads and no network: moments and what the database
//! said are handed in, decisions come out. `tests/simulation` plays it with clocks that drift,
//! pauses, crashes, failovers and messages that are lost or late, and says what holds.
//!
//! # The row
//!
//! One row `leader` with `epoch`, `holder` and `run` ([`Identity`]), `next`, `released`, `until`,
//! `lease`, `renewals`, `session`, `seq`. Whoever takes the lead raises `epoch`; every update raises
//! `renewals`. These are all statements there are. *over* stands for
//! `released OR until <= clock_timestamp() OR until > clock_timestamp() + lease`: an end farther away
//! than a whole lease shows that the database's clock was set back, and says nothing.
//!
//! | statement | sets | where | gives |
//! |---|---|---|---|
//! | look | | | [`LeaderRow`] |
//! | take | `epoch + 1`, `session + 1`, `holder`, `run`, not `released`, `lease`, `until` | `epoch` and `renewals` as seen, and *over* | `epoch`, [`Claimed`] |
//! | claim | `session + 1`, `until` | own `epoch`, `holder`, `run`; not `released` | [`Claimed`] |
//! | renew | `until` | own `epoch` and `session`; not `released` | whether it matched |
//! | batch: the first statement of its transaction | `seq`, `until` | as renew | whether it matched |
//! | release | `released`, `next` | as renew | whether it matched |
//!
//! They count on READ COMMITTED: an update that waited for the row judges it as it is then.
//!
//! # Why it is safe
//!
//! *In the database* a batch commits only while the row holds its epoch. The row's lock puts takes
//! and batches in an order, so of a late batch and a take exactly one comes to be.
//!
//! *An unknown outcome* (the connection broke) is not resolved by a look, and not by a locking
//! read either: the batch may still lie in a socket that the server has not read, and be carried out
//! afterwards. It is resolved by a claim on a new connection ([`outcome_of`]): that waits for the old
//! transaction if it has begun, and has it match nothing if it has not, as it names the old session.
//! A claim whose own outcome is unknown is followed by another one. It may still come late and
//! overtake the session that counts; so a renewal or batch that matches nothing only says that the row
//! is to be claimed again, and a claim that matches nothing that the lead is lost. The outcome of a
//! take is found by looking on: the row is the contender's own ([`Decision::Mine`]).
//!
//! *What is told from memory* is told only while [`Leadership::may_act`]. The holder counts its lease
//! from when it sent what was confirmed, a contender from when it received a row that has not changed
//! since, each on its own clock, and the margin covers what these may drift apart. The database's
//! clock, which may jump, can put off a take but never bring one about too early.
//!
//! ```text
//! holder     sent ├──────────── may act ───────────┤ margin ┊
//! database        └─▶ renewed                               ┊
//! contender              └─▶ received ├─────────── lease ───────────┤ take
//! ```
//!
//! *At the nodes* a [`NodeFence`] refuses orders of epochs below the highest one it has seen, so a
//! leader that slept between its look at the clock and its order does no harm.
//!
//! *Not covered*: a virtual machine that its host stops and whose clocks stand still meanwhile may,
//! for the rest of what it takes to be its lease, answer questions from old memory. Batches and
//! orders are fenced also then.

mod contender;
mod fence;
mod leadership;
mod numbers;
mod row;
mod times;

pub use contender::{Contender, Decision};
pub use fence::{Admission, NodeFence};
pub use leadership::{Claimed, Leadership, Outcome, outcome_of};
pub use numbers::{BatchNumber, Epoch, Renewals, Session};
pub use row::{Identity, Lead, LeaderRow, Version};
pub use times::{LeaseTimes, Moment};
