//! Everything that somebody else chooses the size, number or time of, and how much of it there may be.

use std::time::Duration;

/// Bytes of a request's body, where a script may be in it.
pub const BODY_BYTES: usize = 4 << 20;
/// Bytes of all other bodies.
pub const SMALL_BODY_BYTES: usize = 64 << 10;
/// Bytes of a workflow file that is sent.
pub const FLOW_FILE_BYTES: usize = 1 << 20;
/// Workflow files of one user that are read at once.
pub const FLOW_FILES_OF_USER: usize = 2;
/// Bytes of a request's line and headers.
pub const HEADER_BYTES: usize = 32 << 10;
/// Time in which a request's headers have to be there.
pub const HEADER_TIME: Duration = Duration::from_secs(15);
/// Time in which a request's body has to be there.
pub const BODY_TIME: Duration = Duration::from_secs(30);
/// Connections at once, of everybody together.
pub const CONNECTIONS: usize = 1024;
/// Connections to the controller.
pub const WORKERS: usize = 8;
/// Questions to the controller at once for one user.
pub const QUESTIONS_OF_USER: usize = 3;
/// Questions of one user that wait for their turn.
pub const WAITING_OF_USER: usize = 24;
/// How long a question waits for its turn before it is refused.
pub const TURN: Duration = Duration::from_secs(10);
/// How long the controller is given for an answer.
pub const ANSWER: Duration = Duration::from_secs(30);
/// Requests of one user in a row, and how many more come each second.
pub const BURST: u32 = 120;
/// See [`BURST`].
pub const PER_SECOND: u32 = 30;
/// The same for everybody together who has not said who he is.
pub const UNKNOWN_BURST: u32 = 200;
/// See [`UNKNOWN_BURST`].
pub const UNKNOWN_PER_SECOND: u32 = 50;
/// Users whose requests are counted; of those who asked longest ago nothing is remembered.
pub const COUNTED_USERS: usize = 10_000;
/// Names of users that are remembered, and for how long.
pub const KNOWN_USERS: usize = 10_000;
/// See [`KNOWN_USERS`].
pub const KNOWN_FOR: Duration = Duration::from_secs(60);
/// Links into the page that nobody has used yet.
pub const LINKS: usize = 1000;
/// How long a link into the page is good.
pub const LINK_FOR: Duration = Duration::from_secs(120);
/// How long somebody stays logged in.
pub const SESSION_FOR: Duration = Duration::from_secs(12 * 3600);
/// Longest life of a token.
pub const TOKEN_MOST: Duration = Duration::from_secs(366 * 86_400);
/// Life of a token that says nothing of it. Source: scontrol(1), `token`.
pub const TOKEN_USUAL: Duration = Duration::from_secs(1800);
/// Bytes of a token.
pub const TOKEN_BYTES: usize = 4096;
/// Revoked tokens and users that are kept.
pub const REVOCATIONS: usize = 100_000;
/// Streams of events at once of one user.
pub const STREAMS_OF_USER: usize = 12;
/// Rows of one page of a list.
pub const ROWS: u32 = 200;
/// Rows of one page of a list, at most.
pub const MOST_ROWS: u32 = 1000;
/// Rows of a chart of the plan that are drawn one by one; more are put together.
pub const CHART_ROWS: usize = 100;
/// Bars of a chart of the plan.
pub const CHART_BARS: usize = 3000;
/// Waiting jobs in a chart of the plan.
pub const CHART_JOBS: u32 = 2000;
/// Columns of time of a chart whose rows are put together.
pub const CHART_COLUMNS: usize = 168;
/// How old what everybody is told may be.
pub const FRESH: Duration = Duration::from_secs(2);
/// Documents of Slurm's REST interface that are written at once: each holds a thread while it is read.
pub const DOCUMENTS: usize = 16;
/// The same of one user; more wait for their turn.
pub const DOCUMENTS_OF_USER: usize = 4;
/// How long whoever reads such a document may take for a piece of it.
pub const PIECE_TIME: Duration = Duration::from_secs(30);
/// How long a node daemon is given for an answer.
pub const NODE_ANSWER: Duration = Duration::from_secs(20);
/// How long a pass of the controller is used; it is good for a minute.
pub const PASS_FRESH: Duration = Duration::from_secs(20);
/// Passes that are remembered.
pub const PASSES: usize = 1000;
/// Programs of jobs that are open in browsers.
pub const APPS: usize = 10_000;
/// The same of one user; with more the one that was opened first is closed.
pub const APPS_OF_USER: usize = 32;
/// How long a link into a program of a job is good.
pub const APP_LINK_FOR: Duration = Duration::from_secs(60);
/// Requests to programs of jobs at once of one user; further ones wait for their turn.
pub const APP_REQUESTS_OF_USER: usize = 32;
/// The same of everybody together.
pub const APP_REQUESTS: usize = 400;
/// How long a program of a job may take to begin its answer.
pub const APP_ANSWER: Duration = Duration::from_secs(120);
/// Shells in jobs of one user.
pub const SHELLS_OF_USER: usize = 6;
/// Shells in jobs of everybody together.
pub const SHELLS: usize = 100;
/// How long a shell lives that nobody looks at.
pub const SHELL_UNSEEN: Duration = Duration::from_secs(15 * 60);
/// Lines of a terminal, and characters in one.
pub const MOST_LINES: u16 = 200;
/// See [`MOST_LINES`].
pub const MOST_COLUMNS: u16 = 300;
/// Lines that are kept of what has left a terminal's screen.
pub const SCROLLED_LINES: usize = 500;
/// Bytes that are typed or pasted in one request.
pub const TYPED_BYTES: usize = 32 << 10;
