//! What goes wrong, with Slurm's numbers and the status of HTTP that each comes with. Sources:
//! slurm_errno.h; the answers of slurmrestd 24.11 to 25.11.

use cosy_model::{About, Refusal, RefusalCode};
use cosy_slurm::error_numbers::{ERRORS, sentence};
use cosy_slurm::json_yaml::{Data, map};
use cosy_slurm::sentences;

/// Number of a query that cannot be answered.
pub const INVALID_QUERY: u32 = 9000;
/// Number of a body or parameter that cannot be read.
pub const FAIL_PARSING: u32 = 9001;
/// Number of a body without a job.
pub const INVALID_JOBS_DESC: u32 = 9002;
/// Number of a path that there is not.
pub const UNKNOWN_URL: u32 = 9006;
/// Number of a method that the path has not.
pub const UNKNOWN_URL_METHOD: u32 = 9007;
/// Number of a request of nobody who is known.
pub const AUTH_FAIL: u32 = 9008;
/// Number of something that Cosy does not do.
const NOT_SUPPORTED: u32 = 2036;
const INVALID_JOB_ID: u32 = 2017;
const CONNECTION: u32 = 1800;

const OWN: [(u32, &str); 7] = [
    (INVALID_QUERY, "Query empty or not RFC7320 compliant"),
    (FAIL_PARSING, "Failure during parsing"),
    (INVALID_JOBS_DESC, "Jobs description entry not found, empty or not dictionary or list"),
    (UNKNOWN_URL, "Unable to find requested URL endpoint"),
    (UNKNOWN_URL_METHOD, "HTTP method is not allowed for requested URL endpoint"),
    (AUTH_FAIL, "Authentication failure"),
    (CONNECTION, "Unable to contact slurm controller (connect failure)"),
];

/// One entry of `errors`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Slurm's number for it.
    pub number: u32,
    /// What is wrong, in words.
    pub description: String,
    /// What it is about: a field, a parameter, or a step of the answer.
    pub source: String,
}

impl Fault {
    /// A fault of that number.
    pub fn new(number: u32, description: impl Into<String>, source: impl Into<String>) -> Self {
        Self {
            number,
            description: description.into(),
            source: source.into(),
        }
    }

    /// A value that cannot be read, or is not taken.
    pub fn value(source: impl Into<String>, description: impl Into<String>) -> Self {
        Self::new(FAIL_PARSING, description, source)
    }

    /// A parameter or a body that asks for nothing that there is.
    pub fn query(source: impl Into<String>, description: impl Into<String>) -> Self {
        Self::new(INVALID_QUERY, description, source)
    }

    /// A field that Slurm has and Cosy does not.
    pub fn unsupported(source: impl Into<String>) -> Self {
        let source = source.into();
        let description = format!("Cosy has nothing for {source}: leave it out");
        Self::new(NOT_SUPPORTED, description, source)
    }

    /// Nobody who is known asks.
    pub fn authentication(why: impl Into<String>) -> Self {
        Self::new(AUTH_FAIL, why, "authentication")
    }

    /// The controller does not answer.
    pub fn connection(why: impl Into<String>) -> Self {
        Self::new(CONNECTION, why, "controller")
    }

    /// What the controller refused.
    pub fn refused(refusal: &Refusal, source: &str) -> Self {
        let number = refusal.slurm_number.unwrap_or_else(|| number_of(refusal));
        Self::new(number, refusal.message.clone(), source)
    }

    /// What Slurm's commands say to the number.
    pub fn sentence(&self) -> &'static str {
        let own = OWN.iter().find(|(number, _)| *number == self.number);
        let own = own.map(|(_, sentence)| *sentence);
        own.or_else(|| sentence(self.number))
            .unwrap_or("Unspecified error")
    }

    /// The status that an answer with this fault has.
    pub const fn status(&self) -> u16 {
        match self.number {
            INVALID_QUERY => 422,
            FAIL_PARSING | INVALID_JOBS_DESC => 400,
            INVALID_JOB_ID | UNKNOWN_URL => 404,
            UNKNOWN_URL_METHOD => 405,
            AUTH_FAIL => 401,
            CONNECTION => 502,
            _ => 500,
        }
    }

    pub(crate) fn data(&self) -> Data {
        map([
            ("description", self.description.as_str().into()),
            ("error_number", i64::from(self.number).into()),
            ("error", self.sentence().into()),
            ("source", self.source.as_str().into()),
        ])
    }
}

/// One entry of `warnings`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// What has no effect, in words.
    pub description: String,
    /// The field or parameter that it is about.
    pub source: String,
}

impl Warning {
    /// A warning about a field or parameter.
    pub fn new(source: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            description: description.into(),
            source: source.into(),
        }
    }

    pub(crate) fn data(&self) -> Data {
        map([
            ("description", self.description.as_str().into()),
            ("source", self.source.as_str().into()),
        ])
    }
}

/// Number of the sentence that Slurm's commands say to a refusal.
fn number_of(refusal: &Refusal) -> u32 {
    let about = refusal.about.and_then(about_number);
    about.unwrap_or_else(|| {
        let sentence = match refusal.code {
            RefusalCode::Unavailable | RefusalCode::Standby => return CONNECTION,
            RefusalCode::Invalid => return INVALID_QUERY,
            code => sentences::about_job(code),
        };
        number_with(sentence).unwrap_or(INVALID_QUERY)
    })
}

fn number_with(sentence: &str) -> Option<u32> {
    let known = ERRORS.iter().find(|(_, _, own)| *own == sentence);
    known.map(|(number, _, _)| *number)
}

/// The number that the subject of a refusal alone decides.
const fn about_number(about: About) -> Option<u32> {
    Some(match about {
        About::License => 2048,
        About::Account => 2045,
        About::Qos => 2066,
        About::Feature | About::Preference => 2029,
        About::Node => 2018,
        About::NodeCount => 2006,
        About::Tasks => 2025,
        About::Cores | About::Memory | About::Disk => 2014,
        About::Gres => 2072,
        About::Queue => 2000,
        About::Dependency => 2038,
        About::Reservation => 2053,
        About::TimeLimit | About::Deadline => 2051,
        About::Array => 2081,
        About::Waiting => 2024,
        About::Running => 2073,
        About::Held => 2042,
        About::Requeue => 2037,
        About::Ended => 2084,
        About::Priority | About::Suspended | About::Trigger => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_sentences_and_statuses() {
        let check = |fault: Fault, sentence: &str, status: u16| {
            assert_eq!((fault.sentence(), fault.status()), (sentence, status));
        };
        check(Fault::value("flags", ""), "Failure during parsing", 400);
        check(Fault::query("x", ""), "Query empty or not RFC7320 compliant", 422);
        check(Fault::new(2017, "", ""), "Invalid job id specified", 404);
        check(Fault::new(2000, "", ""), "Invalid partition name specified", 500);
        check(Fault::authentication(""), "Authentication failure", 401);
        check(Fault::new(1, "", ""), "Unspecified error", 500);
    }

    #[test]
    fn refusals_keep_their_number() {
        let check = |code, about, want| {
            let mut refusal = Refusal::new(code, "why");
            refusal.about = about;
            assert_eq!(Fault::refused(&refusal, "submit").number, want);
        };
        check(RefusalCode::NotFound, None, 2017);
        check(RefusalCode::NotFound, Some(About::Queue), 2000);
        check(RefusalCode::Forbidden, None, 2002);
        check(RefusalCode::Unavailable, None, CONNECTION);
        check(RefusalCode::Invalid, Some(About::TimeLimit), 2051);
        let mut named = Refusal::new(RefusalCode::Admission, "site");
        named.slurm_number = Some(2100);
        assert_eq!(Fault::refused(&named, "submit").number, 2100);
    }
}
