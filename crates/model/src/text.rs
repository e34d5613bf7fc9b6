//! Text of the operating system: paths, arguments and variables need not be UTF-8.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// The beginning of a text, of at most so many bytes, which ends between two characters.
pub fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Whether a text is one word of letters, digits, `-` and `_`.
pub fn is_word(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !text.is_empty() && text.chars().all(fine)
}

/// Bytes that the operating system takes as they are: a path, an argument, or a block
/// of `NAME=value` variables separated by NUL. Encoded as a byte string.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OsText(pub Vec<u8>);

impl OsText {
    /// The bytes as text, with what is not UTF-8 replaced.
    pub fn lossy(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// True without any byte.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for OsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl From<&str> for OsText {
    fn from(value: &str) -> Self {
        Self(value.as_bytes().to_vec())
    }
}

impl From<String> for OsText {
    fn from(value: String) -> Self {
        Self(value.into_bytes())
    }
}

impl From<Vec<u8>> for OsText {
    fn from(value: Vec<u8>) -> Self {
        Self(value)
    }
}

impl Serialize for OsText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for OsText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl<'de> de::Visitor<'de> for Bytes {
            type Value = OsText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a byte string")
            }
            fn visit_bytes<E: de::Error>(self, v: &[u8]) -> Result<OsText, E> {
                Ok(OsText(v.to_vec()))
            }
            fn visit_byte_buf<E: de::Error>(self, v: Vec<u8>) -> Result<OsText, E> {
                Ok(OsText(v))
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<OsText, E> {
                Ok(OsText::from(v))
            }
        }
        deserializer.deserialize_byte_buf(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        let check =
            |text: &str, most, want: &str| assert_eq!(cut(text, most), want, "{text} {most}");
        check("", 0, "");
        check("abc", 3, "abc");
        check("abc", 2, "ab");
        check("aäb", 2, "a");
        check("aäb", 3, "aä");
        check("☃", 2, "");
    }
}
