//! Parameters of a request's address.

use crate::fault::{Fault, Warning};

/// Most parameters of one address, and most bytes of all of them.
pub const PARAMETERS: usize = 64;
/// See [`PARAMETERS`].
pub const BYTES: usize = 64 << 10;

/// The parameters, each with its value, in their order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads what stands behind `?`.
    ///
    /// # Errors
    /// More than the limits, or signs that stand for nothing.
    pub fn read(text: &str) -> Result<Self, Fault> {
        if text.len() > BYTES {
            let why =
                format!("the parameters have {} bytes; at most {BYTES} are taken", text.len());
            return Err(Fault::query("query", why));
        }
        let parts = || text.split('&').filter(|part| !part.is_empty());
        if parts().count() > PARAMETERS {
            let why =
                format!("there are {} parameters; at most {PARAMETERS} are taken", parts().count());
            return Err(Fault::query("query", why));
        }
        let one = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Ok((decoded(name)?, decoded(value)?))
        };
        parts().map(one).collect::<Result<_, Fault>>().map(Self)
    }

    /// Adds a parameter, which counts more than those before it.
    pub(crate) fn add(&mut self, name: &str, value: String) {
        self.0.push((name.to_owned(), value));
    }

    /// Parameters that are not among `known`: Slurm passes them over and says so.
    pub fn unknown(&self, known: &[&str]) -> Vec<Warning> {
        let strange = self
            .0
            .iter()
            .filter(|(name, _)| !known.contains(&name.as_str()));
        let say = |name: &str| Warning::new(name, format!("Ignoring unknown field \"{name}\""));
        strange.map(|(name, _)| say(name)).collect()
    }

    /// The value of a parameter; the last where it is there twice, nothing where it is empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        let own = self.0.iter().rev().find(|(own, _)| own == name);
        own.map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Its values with commas between them.
    pub fn list(&self, name: &str) -> Vec<String> {
        let words = self.get(name).unwrap_or_default().split(',');
        words
            .map(str::trim)
            .filter(|w| !w.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Whether it is there and says yes.
    ///
    /// # Errors
    /// A value that is neither.
    pub fn flag(&self, name: &str) -> Result<bool, Fault> {
        let Some(value) = self.get(name) else {
            return Ok(false);
        };
        match value.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" => Ok(true),
            "false" | "0" | "no" => Ok(false),
            _ => Err(Fault::value(name, format!("\"{}\" is neither true nor false", short(value)))),
        }
    }
}

/// As much of a text as goes into a sentence.
pub(crate) fn short(text: &str) -> String {
    text.chars()
        .take(60)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// A text out of an address: `%2C` is a comma and `+` a blank.
///
/// # Errors
/// A sign that stands for nothing.
pub fn decoded(text: &str) -> Result<String, Fault> {
    let bad = || Fault::query("query", format!("\"{}\" is no part of an address", short(text)));
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let (high, low) = (digit(bytes.next()), digit(bytes.next()));
                let value = high.zip(low).map(|(high, low)| high * 16 + low);
                out.push(value.and_then(|v| u8::try_from(v).ok()).ok_or_else(bad)?);
            }
            other => out.push(other),
        }
    }
    String::from_utf8(out).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parameters() {
        let read = Parameters::read("a=1&b=x%2Cy+z&c&a=2&d=true").unwrap();
        assert_eq!(read.get("a"), Some("2"));
        assert_eq!(read.list("b"), ["x", "y z"]);
        assert_eq!(read.get("c"), None);
        assert_eq!(read.flag("d"), Ok(true));
        assert_eq!(read.flag("c"), Ok(false));
        assert!(read.flag("a").is_err());
        let strange = read.unknown(&["a", "b", "d"]);
        assert_eq!(strange[0].description, "Ignoring unknown field \"c\"");
    }

    #[test]
    fn bounds() {
        assert!(Parameters::read(&"a&".repeat(PARAMETERS)).is_ok());
        assert!(Parameters::read(&"a&".repeat(PARAMETERS + 1)).is_err());
        assert!(Parameters::read(&"a".repeat(BYTES + 1)).is_err());
        for bad in ["%", "%4", "%zz", "%ff", "a=%+1"] {
            assert_eq!(Parameters::read(bad).unwrap_err().status(), 422, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "\\PC{0,200}") {
            let _ = Parameters::read(&text);
        }
    }
}
