//! Which messages a program knows, by name, and frames whose message it does not know.
//!
//! Programs of neighbouring releases talk to each other while a cluster is upgraded. The two
//! ends of a link tell each other in their first words what they know
//! ([`crate::link::Hello`]); what the other end does not know is not sent to it, and what
//! comes all the same is told and passed over.

use crate::frame::{self, Decoder, FrameError};
use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;
use std::collections::BTreeSet;

/// Most names of messages that one end of a link tells the other, and most that are told
/// apart on a link when they are not known.
pub const NAMES: usize = 256;
/// Most bytes of the name of a message.
const NAME_BYTES: usize = 64;

/// Names of the messages of an enum of messages, as they travel, in the order of the
/// declaration. Empty for any other type.
pub fn names<T: DeserializeOwned>() -> &'static [&'static str] {
    match T::deserialize(Variants) {
        Err(Recorded(names)) => names,
        Ok(_) => &[],
    }
}

/// The name of the message in a frame's body, where it has one.
///
/// An enum of messages travels as the name alone, or as a map from it to what it holds.
pub fn name_of(body: &[u8]) -> Option<&str> {
    let mut rest = body;
    if rest.first() == Some(&0x81) {
        rest = &rest[1..];
    }
    let (head, length) = match *rest.first()? {
        marker @ 0xa0..=0xbf => (1, usize::from(marker & 0x1f)),
        0xd9 => (2, usize::from(*rest.get(1)?)),
        _ => return None,
    };
    let name = rest.get(head..head + length)?;
    let alone = head + length == body.len();
    let holds = rest.len() < body.len() && head + length < rest.len();
    let name = std::str::from_utf8(name).ok()?;
    (length <= NAME_BYTES && (alone || holds)).then_some(name)
}

/// The message of a frame, or what is known of one that is not understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Received<T> {
    /// A message that this release knows.
    Message(T),
    /// One that is not understood here, of another release.
    Foreign {
        /// First key of the message, its kind.
        name: String,
        /// What is not understood about it.
        why: String,
    },
}

/// The message in a frame's body; one of another release is told apart from bytes that are no
/// message at all.
///
/// # Errors
/// [`FrameError::Malformed`] for the latter.
pub fn hear<T: DeserializeOwned>(body: &[u8]) -> Result<Received<T>, FrameError> {
    let error = match frame::decode(body) {
        Ok(message) => return Ok(Received::Message(message)),
        Err(e) => e,
    };
    match name_of(body) {
        Some(name) if frame::is_whole(body) => Ok(Received::Foreign {
            name: name.to_owned(),
            why: error.to_string(),
        }),
        _ => Err(error),
    }
}

/// Names of our messages that the other end of a link does not know, which has said that it
/// knows those in `known`. Programs of version 1 say none: they know all of that version.
pub fn lacked<T: DeserializeOwned>(known: &[String]) -> Vec<&'static str> {
    if known.is_empty() {
        return Vec::new();
    }
    let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    let ours = names::<T>().iter().copied();
    ours.filter(|name| !known.contains(name)).collect()
}

/// The message in a frame's body where it is one of those that the other end `lacks`.
pub fn lacking(lacks: &[&'static str], body: &[u8]) -> Option<&'static str> {
    if lacks.is_empty() {
        return None;
    }
    let name = name_of(body)?;
    lacks.iter().copied().find(|lacked| *lacked == name)
}

/// Names of unknown messages that a link has brought already: each is logged once.
#[derive(Debug, Default)]
pub struct ReportedNames(BTreeSet<String>);

impl ReportedNames {
    /// The next message among the whole frames of `decoder`. One that is not known here is
    /// passed over; `report` is called with its name and the reason when it is the first of that name.
    ///
    /// # Errors
    /// Bytes that are no message; too many different names.
    pub fn next<T: DeserializeOwned>(
        &mut self,
        decoder: &mut Decoder,
        report: impl Fn(&str, &str),
    ) -> Result<Option<T>, FrameError> {
        let next = self.next_measured(decoder, |_| Ok(()), report)?;
        Ok(next.map(|(message, ())| message))
    }

    /// The same, with what `measure` says of its bytes before they are decoded.
    ///
    /// # Errors
    /// Those of `measure`; bytes that are no message; too many different names.
    pub fn next_measured<T: DeserializeOwned, M>(
        &mut self,
        decoder: &mut Decoder,
        measure: impl Fn(&[u8]) -> Result<M, FrameError>,
        report: impl Fn(&str, &str),
    ) -> Result<Option<(T, M)>, FrameError> {
        while let Some(body) = decoder.next_frame()? {
            let measured = measure(body)?;
            match hear(body)? {
                Received::Message(message) => return Ok(Some((message, measured))),
                Received::Foreign { name, why } if self.is_new(&name)? => report(&name, &why),
                Received::Foreign { .. } => {}
            }
        }
        Ok(None)
    }

    /// Whether that name is new; an error when there were too many different ones.
    ///
    /// # Errors
    /// [`FrameError::Malformed`].
    pub fn is_new(&mut self, name: &str) -> Result<bool, FrameError> {
        if self.0.contains(name) {
            return Ok(false);
        }
        if self.0.len() >= NAMES {
            let why = format!("more than {NAMES} kinds of messages that are not known here");
            return Err(FrameError::Malformed(why));
        }
        Ok(self.0.insert(name.to_owned()))
    }
}

/// Asks a type how it wants to be read, and reads nothing.
struct Variants;

/// The names of an enum, carried out as an error.
#[derive(Debug, Default)]
struct Recorded(&'static [&'static str]);

impl std::fmt::Display for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Recorded {}

impl Error for Recorded {
    fn custom<T: std::fmt::Display>(_: T) -> Self {
        Self::default()
    }
}

impl<'de> Deserializer<'de> for Variants {
    type Error = Recorded;

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Recorded> {
        Err(Recorded(variants))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Recorded> {
        Err(Recorded::default())
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        option unit unit_struct newtype_struct seq tuple tuple_struct map struct identifier
        ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::node::{NodeOrder, NodeReport};
    use serde::Serialize;

    /// An order of a later release.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Later {
        Dance { key: u32, partner: Vec<String> },
        Rest,
    }

    fn body(message: &impl Serialize) -> Vec<u8> {
        frame::encode(message, 1 << 20).unwrap()[frame::HEADER..].to_vec()
    }

    fn foreign(body: &[u8]) -> Option<String> {
        match hear::<NodeOrder>(body) {
            Ok(Received::Foreign { name, .. }) => Some(name),
            Ok(Received::Message(_)) | Err(_) => None,
        }
    }

    #[test]
    fn messages_of_later_releases_are_told_apart_from_noise() {
        let dance = Later::Dance {
            key: 1,
            partner: vec!["n1".into()],
        };
        assert_eq!(foreign(&body(&dance)).as_deref(), Some("dance"));
        assert_eq!(foreign(&body(&Later::Rest)).as_deref(), Some("rest"));
        // Known by name, with something in it that is not.
        let kill = body(&std::collections::BTreeMap::from([("kill", ["now"])]));
        assert_eq!(foreign(&kill).as_deref(), Some("kill"));
        let mut cut = body(&dance);
        cut.pop();
        for noise in [
            &cut[..],
            b"",
            b"\x81",
            b"\xff\xff",
            &[0xa1, b'x', 0xc0],
            &[0x81, 0xa1, b'x'],
        ] {
            assert!(hear::<NodeOrder>(noise).is_err(), "{noise:?}");
        }
        assert_eq!(
            hear::<NodeReport>(&body(&NodeReport::Heartbeat)).unwrap(),
            Received::Message(NodeReport::Heartbeat)
        );
    }

    #[test]
    fn messages_that_are_not_known_are_passed_over_and_told_once() {
        let frame = |message: &Later| frame::encode(message, 1 << 20).unwrap();
        let mut decoder = Decoder::new(1 << 20);
        for _ in 0..3 {
            decoder.push(&frame(&Later::Rest));
        }
        decoder.push(&frame::encode(&NodeOrder::Leaving, 1 << 20).unwrap());
        decoder.push(&frame(&Later::Rest));
        let names = std::cell::RefCell::new(Vec::new());
        let report = |name: &str, _: &str| names.borrow_mut().push(name.to_owned());
        let mut reported = ReportedNames::default();
        let mut next = || reported.next::<NodeOrder>(&mut decoder, report).unwrap();
        assert_eq!(next(), Some(NodeOrder::Leaving));
        assert_eq!(next(), None);
        assert_eq!(names.into_inner(), ["rest"]);
    }

    #[test]
    fn what_the_other_end_lacks_is_told_by_its_body() {
        assert_eq!(lacking(&["leaving"], &body(&NodeOrder::Leaving)), Some("leaving"));
        assert_eq!(lacking(&["suspend"], &body(&NodeOrder::Leaving)), None);
        assert_eq!(lacking(&["leaving"], b""), None);
    }

    #[test]
    fn every_message_has_its_name() {
        assert_eq!(name_of(&body(&NodeOrder::Leaving)), Some("leaving"));
        let heard = NodeOrder::Heard {
            number: 1,
            mark: cosy_model::OsText::default(),
        };
        assert_eq!(name_of(&body(&heard)), Some("heard"));
        let names = names::<NodeOrder>();
        assert!(names.contains(&"leaving") && names.contains(&"launch"), "{names:?}");
        assert!(super::names::<u32>().is_empty());
    }

    #[test]
    fn what_the_other_end_lacks() {
        let some = ["launch".to_owned(), "kill".to_owned(), "dance".to_owned()];
        let lacked_here = lacked::<NodeOrder>(&some);
        assert!(lacked_here.contains(&"suspend") && !lacked_here.contains(&"kill"));
        assert_eq!(lacked_here.len(), names::<NodeOrder>().len() - 2);
        assert!(lacked::<NodeOrder>(&[]).is_empty());
    }

    #[test]
    fn names_that_are_not_known_are_bounded() {
        let mut reported = ReportedNames::default();
        for n in 0..NAMES {
            assert!(reported.is_new(&n.to_string()).unwrap());
            assert!(!reported.is_new(&n.to_string()).unwrap());
        }
        assert!(reported.is_new("one more").is_err());
        assert!(!reported.is_new("0").unwrap());
    }
}
