//! What stands behind `pam_cosy.so` in a file of `/etc/pam.d`.

/// Where the node's daemon listens unless told otherwise.
const SOCKET: &str = "/run/noded/noded.login.sock";
/// The program whose logins are looked at unless told otherwise.
const SERVICE: &str = "sshd";
/// Bytes of the path of a local socket (unix(7)).
const SOCKET_BYTES: usize = 107;

/// What becomes of a user without a job on the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoJobs {
    Deny,
    Ignore,
}

/// What becomes of a user with several jobs where nobody knows which it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfSeveral {
    Newest,
    Allow,
    Deny,
}

/// What becomes of a user where the daemon gives no answer, or cannot do it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    Deny,
    Allow,
}

/// How much is told to the system's log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LogLevel {
    Error,
    Info,
    Debug,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    pub no_jobs: NoJobs,
    pub of_several: OfSeveral,
    pub failure: Failure,
    /// `*`: all of them.
    pub service: String,
    pub socket: String,
    pub log: LogLevel,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            no_jobs: NoJobs::Deny,
            of_several: OfSeveral::Newest,
            failure: Failure::Deny,
            service: SERVICE.to_owned(),
            socket: SOCKET.to_owned(),
            log: LogLevel::Info,
        }
    }
}

impl Options {
    /// # Errors
    /// In one line, which word is wrong.
    pub fn read<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut all = Self::default();
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let known = match name {
                "action_no_jobs" => set(
                    &mut all.no_jobs,
                    match value {
                        "deny" => Some(NoJobs::Deny),
                        "ignore" => Some(NoJobs::Ignore),
                        _ => None,
                    },
                ),
                "action_unknown" => set(
                    &mut all.of_several,
                    match value {
                        "newest" => Some(OfSeveral::Newest),
                        "allow" => Some(OfSeveral::Allow),
                        "deny" => Some(OfSeveral::Deny),
                        _ => None,
                    },
                ),
                "action_failure" => set(
                    &mut all.failure,
                    match value {
                        "deny" => Some(Failure::Deny),
                        "allow" => Some(Failure::Allow),
                        _ => None,
                    },
                ),
                "service" => {
                    set(&mut all.service, Some(value.to_owned()).filter(|v| !v.is_empty()))
                }
                "socket" => set(&mut all.socket, Some(value.to_owned()).filter(|v| is_path(v))),
                "log_level" => set(
                    &mut all.log,
                    match value {
                        "error" => Some(LogLevel::Error),
                        "info" => Some(LogLevel::Info),
                        "debug" => Some(LogLevel::Debug),
                        _ => None,
                    },
                ),
                _ => return Err(format!("'{}' is no option of it", name.escape_debug())),
            };
            if !known {
                return Err(format!("{name} cannot be '{}'", value.escape_debug()));
            }
        }
        Ok(all)
    }
}

/// False without a value.
fn set<T>(place: &mut T, value: Option<T>) -> bool {
    let known = value.is_some();
    if let Some(value) = value {
        *place = value;
    }
    known
}

fn is_path(value: &str) -> bool {
    value.starts_with('/') && value.len() <= SOCKET_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_administrator() {
        let check = |words: &str, want: Result<Options, &str>| {
            let got = Options::read(words.split_whitespace());
            assert_eq!(got, want.map_err(str::to_owned), "{words}");
        };
        check("", Ok(Options::default()));
        check(
            "action_no_jobs=ignore action_unknown=deny action_failure=allow service=* \
             socket=/a/b log_level=debug",
            Ok(Options {
                no_jobs: NoJobs::Ignore,
                of_several: OfSeveral::Deny,
                failure: Failure::Allow,
                service: "*".into(),
                socket: "/a/b".into(),
                log: LogLevel::Debug,
            }),
        );
        check("action_no_job=deny", Err("'action_no_job' is no option of it"));
        check("action_no_jobs=allow", Err("action_no_jobs cannot be 'allow'"));
        check("action_failure", Err("action_failure cannot be ''"));
        check("socket=run/x", Err("socket cannot be 'run/x'"));
        check("service=", Err("service cannot be ''"));
        assert!(Options::read([&*format!("socket=/{}", "x".repeat(107))].into_iter()).is_err());
    }
}
