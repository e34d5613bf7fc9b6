//! What every command is handed: its name, its arguments, and its connection to the controller.

use crate::output;
use cosy_client::{CallError, Caller, RetryPolicy, cluster, pages};
use cosy_model::api::{Reply, Request, Table};
use cosy_model::reservation::{ReservationFilter, ReservationInfo};
use std::cell::RefCell;
use std::ffi::OsString;

/// What every command is handed when it runs.
pub struct Context {
    program: String,
    args: Vec<OsString>,
    retry: RetryPolicy,
    caller: RefCell<Option<Caller>>,
}

impl Context {
    /// For a command that is called by that name with those arguments.
    pub fn new(program: &str, args: Vec<OsString>) -> Self {
        Self {
            program: program.to_owned(),
            args,
            retry: RetryPolicy::default(),
            caller: RefCell::new(None),
        }
    }

    /// The same with another way to wait for the controller.
    #[must_use]
    pub fn with_retry(self, retry: RetryPolicy) -> Self {
        Self { retry, ..self }
    }

    /// How long to wait for the controller.
    pub const fn retry(&self) -> RetryPolicy {
        self.retry
    }

    /// The name that the command was called by: `csub`, `cosy submit`.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// The arguments as they were given.
    pub fn args(&self) -> &[OsString] {
        &self.args
    }

    /// Asks the controller of the cluster that the command belongs to.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn ask(&self, request: Request) -> Result<Reply, CallError> {
        self.with_caller(|caller| caller.ask(request))
    }

    /// While no controller leads, one that stands by may answer what changes nothing.
    pub fn accept_stale(&self) {
        self.with_caller(Caller::accept_stale);
    }

    fn with_caller<T>(&self, work: impl FnOnce(&mut Caller) -> T) -> T {
        let mut caller = self.caller.borrow_mut();
        work(caller.get_or_insert_with(|| {
            let program = self.program.clone();
            Caller::of_sockets(cluster::find(), self.retry, move |text| {
                output::complain(&program, text);
            })
        }))
    }

    /// A whole list of jobs ([`Request::Jobs`], [`Request::History`]), page by page.
    ///
    /// # Errors
    /// No answer, a refusal, or an answer that is no table.
    pub fn fetch_jobs(&self, request: Request) -> Result<Table, CallError> {
        pages::jobs(|request| self.ask(request), request)
    }

    /// The reservations that pass `filter`, by start.
    ///
    /// # Errors
    /// A refusal, or no controller.
    pub fn fetch_reservations(
        &self,
        filter: ReservationFilter,
    ) -> Result<Vec<ReservationInfo>, CallError> {
        match self.ask(Request::Reservations { filter })? {
            Reply::Reservations(mut all) => {
                all.sort_by_key(|r| (r.start, r.id));
                Ok(all)
            }
            _ => Err(CallError::Unexpected),
        }
    }
}
