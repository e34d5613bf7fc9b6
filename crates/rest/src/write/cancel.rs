//! `DELETE job/ID` and `DELETE jobs`: which jobs end, or get a signal, as `scancel` says it.

use crate::fault::{Fault, INVALID_QUERY, Warning};
use crate::query::{Parameters, short};
use crate::shape::Shapes;
use crate::value::{self, Given};
use crate::version::ApiVersion;
use cosy_model::api::{JobFilter, Request};
use cosy_model::limits::IDS_IN_REQUEST;
use cosy_model::signal;
use cosy_slurm::{SlurmState, targets};

/// What is to be cancelled.
#[derive(Clone, Debug, Default)]
pub struct Cancelling {
    /// Which jobs.
    pub filter: JobFilter,
    /// The jobs that were named, as they were named.
    pub named: Vec<String>,
    /// What has no effect.
    pub warnings: Vec<Warning>,
    signal: Option<i32>,
    script: bool,
    whole: bool,
}

impl Cancelling {
    /// One job, with the parameters `signal` and `flags`.
    ///
    /// # Errors
    /// No id, no signal, or a flag that there is not.
    pub fn one(id: &str, parameters: &Parameters) -> Result<Self, Fault> {
        let mut cancelling = Self::default();
        cancelling.job(id)?;
        if let Some(signal) = parameters.get("signal") {
            cancelling.signal(signal)?;
        }
        for word in parameters.list("flags") {
            cancelling.flag(&word)?;
        }
        Ok(cancelling)
    }

    /// Those that a body describes.
    ///
    /// # Errors
    /// A field that cannot be read or is not there, and a body that names nothing.
    pub fn several(body: &[u8], version: ApiVersion) -> Result<Self, Fault> {
        let known = Shapes::of(version).record("kill_request");
        let mut cancelling = Self::default();
        for (name, value) in &value::object(body)? {
            if !known.iter().any(|field| field.name == name) {
                let why = format!("Ignoring unknown field \"{}\"", short(name));
                cancelling.warnings.push(Warning::new(short(name), why));
                continue;
            }
            if let Some(given) = Given::read(name, value)? {
                cancelling.take(name, &given)?;
            }
        }
        if cancelling.filter.is_empty() {
            return Err(Fault::new(
                INVALID_QUERY,
                "nothing is said of which jobs are meant",
                "body",
            ));
        }
        Ok(cancelling)
    }

    fn take(&mut self, name: &str, given: &Given) -> Result<(), Fault> {
        let one = || vec![given.text()];
        match name {
            "jobs" => given.words().iter().try_for_each(|id| self.job(id))?,
            "account" => self.filter.accounts = one(),
            "job_name" => self.filter.names = one(),
            "partition" => self.filter.queues = one(),
            "user_name" | "user_id" => self.filter.users = one(),
            "nodes" => {
                let list = given.text();
                let nodes = cosy_model::expand(&list);
                self.filter.nodes = nodes.map_err(|e| Fault::value(name, e.to_string()))?;
            }
            "job_state" => {
                for word in given.words() {
                    let state: SlurmState = word.parse().map_err(|_| {
                        Fault::value(name, format!("\"{}\" is no state", short(&word)))
                    })?;
                    self.filter.states.extend(state.job_states());
                }
                if self.filter.states.is_empty() {
                    return Err(Fault::unsupported("job_state"));
                }
            }
            "signal" => self.signal(&given.text())?,
            "flags" => given.words().iter().try_for_each(|word| self.flag(word))?,
            _ => return Err(Fault::unsupported(name)),
        }
        Ok(())
    }

    fn job(&mut self, text: &str) -> Result<(), Fault> {
        let bad = || Fault::new(2017, format!("\"{}\" is no job id", short(text)), "job_id");
        let target = targets::parse(text).filter(|t| t.step.is_none() && t.component.is_none());
        self.filter.ids.extend(target.ok_or_else(bad)?.jobs);
        if self.filter.ids.len() > IDS_IN_REQUEST {
            let why = format!("more than {IDS_IN_REQUEST} jobs are named");
            return Err(Fault::new(INVALID_QUERY, why, "jobs"));
        }
        self.named.push(text.to_owned());
        Ok(())
    }

    fn signal(&mut self, text: &str) -> Result<(), Fault> {
        let number = signal::number(text);
        let bad = || Fault::value("signal", format!("\"{}\" is no signal", short(text)));
        self.signal = Some(number.ok_or_else(bad)?);
        Ok(())
    }

    fn flag(&mut self, word: &str) -> Result<(), Fault> {
        match word.to_ascii_uppercase().as_str() {
            "BATCH_JOB" => self.script = true,
            "FULL_JOB" => self.whole = true,
            "FULL_STEPS_ONLY" => {}
            "ARRAY_TASK" | "VERBOSE" | "HURRY" | "NO_SIBLING_JOBS" | "CRON_JOBS" => {
                self.warnings
                    .push(Warning::new("flags", format!("{} has no effect", short(word))));
            }
            _ => return Err(Fault::unsupported(format!("flags {}", short(word)))),
        }
        Ok(())
    }

    /// The request.
    pub fn request(&self) -> Request {
        let ends = self.signal.is_none_or(|signal| signal == signal::KILL) && !self.script;
        Request::Cancel {
            filter: self.filter.clone(),
            signal: self
                .signal
                .filter(|_| !ends)
                .or(self.script.then_some(self.signal.unwrap_or(signal::KILL))),
            script_only: !ends && self.script && !self.whole,
            steps_only: !ends && !self.script && !self.whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(id: &str, query: &str) -> Result<(Option<i32>, bool, bool), Fault> {
        let parameters = Parameters::read(query).unwrap();
        match Cancelling::one(id, &parameters)?.request() {
            Request::Cancel {
                signal,
                script_only,
                steps_only,
                ..
            } => Ok((signal, script_only, steps_only)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ends_and_signals() {
        assert_eq!(one("7", ""), Ok((None, false, false)));
        assert_eq!(one("7", "signal=SIGKILL"), Ok((None, false, false)));
        assert_eq!(one("7", "signal=USR1"), Ok((Some(10), false, true)));
        assert_eq!(one("7", "signal=10&flags=BATCH_JOB"), Ok((Some(10), true, false)));
        assert_eq!(one("7", "signal=10&flags=FULL_JOB"), Ok((Some(10), false, false)));
        assert_eq!(one("x", "").unwrap_err().number, 2017);
        assert_eq!(one("7.0", "").unwrap_err().number, 2017);
        assert_eq!(one("7", "signal=foo").unwrap_err().status(), 400);
        assert_eq!(one("7", "flags=RESERVATION_JOB").unwrap_err().number, 2036);
    }

    #[test]
    fn bodies() {
        let read = |body: &str| Cancelling::several(body.as_bytes(), ApiVersion::V44);
        let some =
            read(r#"{"jobs": ["5", "6_1"], "user_name": "ann", "job_state": ["PENDING"], "x": 1}"#);
        let some = some.unwrap();
        assert_eq!(some.filter.ids.len(), 2);
        assert_eq!((some.named.len(), some.warnings.len()), (2, 1));
        assert_eq!(some.filter.states.len(), 1);
        for bad in [
            "{}",
            r#"{"signal": "TERM"}"#,
            r#"{"qos": "x"}"#,
            r#"{"jobs": ["a"]}"#,
            r#"{"job_state": ["X"]}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
