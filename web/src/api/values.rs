//! Values as they come: points in time, lengths, names of jobs.

use crate::problem::{Problem, Result};
use crate::who::Who;
use cosy_model::api::{JobFilter, JobRef, Reply};
use cosy_model::{Refusal, Span, Time};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Value as Json, json};

/// A point in time: RFC 3339, or milliseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct When(pub Time);

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = When;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a point in time as 2026-11-28T14:00:00Z, or milliseconds since 1970")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<When, E> {
                let wrong = || E::invalid_value(serde::de::Unexpected::Str(text), &self);
                if let Ok(number) = text.parse::<i64>() {
                    return moment(number).ok_or_else(wrong);
                }
                let stamp: Timestamp = text.parse().map_err(|_| wrong())?;
                Ok(When(Time(stamp.as_millisecond())))
            }
            fn visit_i64<E: serde::de::Error>(self, n: i64) -> std::result::Result<When, E> {
                let wrong = || E::invalid_value(serde::de::Unexpected::Signed(n), &self);
                moment(n).ok_or_else(wrong)
            }
            fn visit_u64<E: serde::de::Error>(self, n: u64) -> std::result::Result<When, E> {
                let wrong = || E::invalid_value(serde::de::Unexpected::Unsigned(n), &self);
                i64::try_from(n).ok().and_then(moment).ok_or_else(wrong)
            }
        }
        from.deserialize_any(Visitor)
    }
}

/// From 1970 to the end of the calendar.
fn moment(ms: i64) -> Option<When> {
    (ms >= 0 && Timestamp::from_millisecond(ms).is_ok()).then_some(When(Time(ms)))
}

/// A length in seconds, at least one and at most a hundred years.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seconds(pub Span);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let seconds = u64::deserialize(from)?;
        match i64::try_from(seconds) {
            Ok(n @ 1..=3_155_760_000) => Ok(Self(Span::from_secs(n))),
            Ok(_) | Err(_) => {
                let unexpected = serde::de::Unexpected::Unsigned(seconds);
                Err(serde::de::Error::invalid_value(unexpected, &"a length in seconds"))
            }
        }
    }
}

/// A job as users name it.
///
/// # Errors
/// It is none.
pub fn job_ref(text: &str) -> Result<JobRef> {
    text.parse().map_err(Problem::invalid)
}

/// That job alone.
///
/// # Errors
/// It is none.
pub fn only(text: &str) -> Result<JobFilter> {
    Ok(JobFilter {
        ids: vec![job_ref(text)?],
        ..JobFilter::default()
    })
}

/// A number in a path.
///
/// # Errors
/// It is none.
pub fn number(text: &str) -> Result<u64> {
    let is_number =
        !text.is_empty() && text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(number) if is_number && number > 0 => Ok(number),
        Ok(_) | Err(_) => Err(Problem::invalid("an id is a number")),
    }
}

/// What was done; what could not be is an error where it was all.
///
/// # Errors
/// Nothing was done.
pub fn done(reply: Reply) -> Result<Json> {
    let Reply::Done { changed, refused } = reply else {
        return Err(Problem::unexpected());
    };
    match refused.first() {
        Some((_, refusal)) if changed == 0 => Err(refusal.clone().into()),
        Some(_) | None => Ok(json!({ "changed": changed, "refused": refusals(&refused) })),
    }
}

fn refusals(all: &[(String, Refusal)]) -> Json {
    let each = all.iter().map(|(object, refusal)| {
        json!({ "object": object, "code": refusal.code, "message": refusal.message })
    });
    each.collect()
}

/// Which of the things that somebody may see.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnAsk {
    /// Only the user's own.
    #[serde(default)]
    pub own: bool,
    /// Ended ones too.
    #[serde(default)]
    pub ended: bool,
}

impl OwnAsk {
    /// Whose are meant; everybody's where that is nobody.
    pub fn users(&self, who: &Who) -> Vec<String> {
        self.own.then(|| who.name.clone()).into_iter().collect()
    }
}

/// Words with commas between them, without empty ones.
pub fn list(text: Option<&String>) -> Vec<String> {
    let words = text.map_or("", String::as_str).split(',');
    let words = words.map(str::trim).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time_and_lengths() {
        let when = |text: &str| serde_json::from_str::<When>(text).ok().map(|w| w.0.0);
        assert_eq!(when("\"1970-01-01T00:00:01Z\""), Some(1000));
        assert_eq!(when("\"1970-01-01T01:00:00+01:00\""), Some(0));
        assert_eq!(when("1000"), Some(1000));
        assert_eq!(when("\"1000\""), Some(1000));
        for bad in [
            "-1",
            "1e3",
            "\"\"",
            "\"now\"",
            "18446744073709551615",
            "\"9999999999999999999\"",
            "null",
        ] {
            assert_eq!(when(bad), None, "{bad}");
        }
        let seconds = |text: &str| serde_json::from_str::<Seconds>(text).is_ok();
        assert!(seconds("1") && seconds("86400"));
        assert!(!seconds("0") && !seconds("-1") && !seconds("99999999999999") && !seconds("1.5"));
    }

    #[test]
    fn ids() {
        assert_eq!(number("12").unwrap(), 12);
        for bad in ["", "0", "+1", "-1", "x", "99999999999999999999"] {
            assert!(number(bad).is_err(), "{bad}");
        }
    }
}
