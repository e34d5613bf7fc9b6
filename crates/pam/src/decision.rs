//! What becomes of a login.

use crate::answer::Answer;
use crate::options::{Failure, LogLevel, NoJobs, OfSeveral, Options};

/// What PAM is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Allow,
    Deny,
    /// Others decide, as if this module was not there.
    Ignore,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    pub verdict: Verdict,
    /// For the user.
    pub told: Option<String>,
    /// For the system's log.
    pub logged: (LogLevel, String),
    /// For the session's environment, `NAME=value`.
    pub variables: Vec<Vec<u8>>,
}

impl Decision {
    fn new(verdict: Verdict, level: LogLevel, logged: String) -> Self {
        Self {
            verdict,
            told: None,
            logged: (level, logged),
            variables: Vec::new(),
        }
    }

    fn deny(told: &str, level: LogLevel, logged: String) -> Self {
        Self {
            told: Some(format!("access denied: {told}")),
            ..Self::new(Verdict::Deny, level, logged)
        }
    }

    /// The options are wrong.
    pub fn on_wrong_options(why: &str) -> Self {
        Self::deny(
            "how users are let in on this node is not configured well",
            LogLevel::Error,
            format!("refused: {why}"),
        )
    }

    /// For that user, who is not root.
    pub fn on(answer: Result<Answer, String>, user: &str, options: &Options) -> Self {
        let failed = |why: String| match options.failure {
            Failure::Deny => Self::deny(
                "the batch system on this node cannot tell to which job you belong; try again",
                LogLevel::Error,
                format!("refused {user}: {why}"),
            ),
            Failure::Allow => {
                Self::new(Verdict::Ignore, LogLevel::Error, format!("let {user} pass: {why}"))
            }
        };
        match answer {
            Err(why) | Ok(Answer::Failed(why)) => failed(why),
            Ok(Answer::NoJobs(node)) => match options.no_jobs {
                NoJobs::Deny => Self::deny(
                    &format!("you have no job on node {node}"),
                    LogLevel::Info,
                    format!("refused {user}, who has no job on node {node}"),
                ),
                NoJobs::Ignore => Self::new(
                    Verdict::Ignore,
                    LogLevel::Debug,
                    format!("{user} has no job on node {node}"),
                ),
            },
            Ok(Answer::Unknown(jobs)) => match options.of_several {
                OfSeveral::Allow => Self::new(
                    Verdict::Allow,
                    LogLevel::Info,
                    format!("let {user} in, to none of {jobs} jobs"),
                ),
                // The daemon was to choose the newest, and did not.
                OfSeveral::Deny | OfSeveral::Newest => Self::deny(
                    &format!("nobody knows to which of your {jobs} jobs here you want"),
                    LogLevel::Info,
                    format!("refused {user}, to none of {jobs} jobs"),
                ),
            },
            Ok(Answer::Adopted { job, variables }) => Self {
                variables,
                ..Self::new(Verdict::Allow, LogLevel::Info, format!("let {user} in, to job {job}"))
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_of_a_login() {
        let check = |answer: Result<Answer, &str>, words: &str, want: (Verdict, Option<&str>)| {
            let options = Options::read(words.split_whitespace()).unwrap();
            let got = Decision::on(answer.map_err(str::to_owned), "ann", &options);
            assert_eq!((got.verdict, got.told.as_deref()), want, "{words}");
        };
        let none = || Ok(Answer::NoJobs("n3".into()));
        let no_job = "access denied: you have no job on node n3";
        check(none(), "", (Verdict::Deny, Some(no_job)));
        check(none(), "action_failure=allow", (Verdict::Deny, Some(no_job)));
        check(none(), "action_no_jobs=ignore", (Verdict::Ignore, None));
        let failed = "access denied: the batch system on this node cannot tell to which job you \
                      belong; try again";
        for answer in [Err("silent"), Ok(Answer::Failed("no".into()))] {
            check(answer.clone(), "action_no_jobs=ignore", (Verdict::Deny, Some(failed)));
            check(answer, "action_failure=allow", (Verdict::Ignore, None));
        }
        let unknown = || Ok(Answer::Unknown(2));
        let which = "access denied: nobody knows to which of your 2 jobs here you want";
        check(unknown(), "", (Verdict::Deny, Some(which)));
        check(unknown(), "action_unknown=deny", (Verdict::Deny, Some(which)));
        check(unknown(), "action_unknown=allow", (Verdict::Allow, None));
        let adopted = Ok(Answer::Adopted {
            job: "7".into(),
            variables: vec![b"SLURM_JOB_ID=7".to_vec()],
        });
        check(adopted, "", (Verdict::Allow, None));
        let wrong = Decision::on_wrong_options("service cannot be ''");
        assert_eq!((wrong.verdict, wrong.logged.0), (Verdict::Deny, LogLevel::Error));
    }
}
