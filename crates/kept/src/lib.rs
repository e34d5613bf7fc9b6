//! Whether what an earlier release wrote is read whole: a record is read as its type, written
//! again, and compared with what it was, field by field, without types. A field that was renamed,
//! or that reads as something else, is then not there any more. Only tests use it.

use serde::de::{DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A value of MessagePack.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MessagePackValue {
    /// Stands for a value that is absent.
    Nil,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// The bits of another number.
    Float(u64),
    /// Text in UTF-8.
    Text(String),
    /// Bytes that need not be text.
    Bytes(Vec<u8>),
    /// Values in order.
    List(Vec<Self>),
    /// Values under their keys, in no order.
    Map(BTreeMap<Self, Self>),
}

impl<'de> Deserialize<'de> for MessagePackValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

/// Takes whatever comes.
struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = MessagePackValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<MessagePackValue, E> {
        Ok(MessagePackValue::Nil)
    }

    fn visit_none<E>(self) -> Result<MessagePackValue, E> {
        Ok(MessagePackValue::Nil)
    }

    fn visit_some<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<MessagePackValue, D::Error> {
        MessagePackValue::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<MessagePackValue, E> {
        Ok(MessagePackValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<MessagePackValue, E> {
        Ok(MessagePackValue::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<MessagePackValue, E> {
        Ok(MessagePackValue::Int(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<MessagePackValue, E> {
        Ok(MessagePackValue::Float(value.to_bits()))
    }

    fn visit_str<E>(self, value: &str) -> Result<MessagePackValue, E> {
        Ok(MessagePackValue::Text(value.to_owned()))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<MessagePackValue, E> {
        Ok(MessagePackValue::Bytes(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<MessagePackValue, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            all.push(item);
        }
        Ok(MessagePackValue::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<MessagePackValue, A::Error> {
        let mut all = BTreeMap::new();
        while let Some((key, value)) = entries.next_entry()? {
            all.insert(key, value);
        }
        Ok(MessagePackValue::Map(all))
    }
}

/// What of a record in MessagePack does not come back when it is read as a `T` and written again:
/// the way to each value, what it was and what it is now. What is new is no matter.
pub fn lost_fields<T: DeserializeOwned + Serialize>(record: &[u8]) -> Vec<String> {
    let value: T = match rmp_serde::from_slice(record) {
        Ok(value) => value,
        Err(e) => return vec![format!("not read: {e}")],
    };
    let again = rmp_serde::to_vec_named(&value).map_err(|e| e.to_string());
    let plain =
        |bytes: &[u8]| rmp_serde::from_slice::<MessagePackValue>(bytes).map_err(|e| e.to_string());
    let (was, is) = match (plain(record), again.and_then(|bytes| plain(&bytes))) {
        (Ok(was), Ok(is)) => (was, is),
        (was, is) => return was.err().into_iter().chain(is.err()).collect(),
    };
    let mut all = Vec::new();
    compare("", &was, &is, &mut all);
    all
}

fn compare(path: &str, was: &MessagePackValue, is: &MessagePackValue, lost: &mut Vec<String>) {
    match (was, is) {
        (MessagePackValue::Map(was), MessagePackValue::Map(is)) => {
            for (key, old) in was {
                let path = format!("{path}/{}", name(key));
                match is.get(key) {
                    Some(new) => compare(&path, old, new, lost),
                    None => lost.push(format!("{path} was {old:?} and is gone")),
                }
            }
        }
        (MessagePackValue::List(was), MessagePackValue::List(is)) if was.len() == is.len() => {
            for (at, (old, new)) in was.iter().zip(is).enumerate() {
                compare(&format!("{path}/{at}"), old, new, lost);
            }
        }
        (was, is) if was == is => {}
        (was, is) => lost.push(format!("{path} was {was:?} and is {is:?}")),
    }
}

fn name(key: &MessagePackValue) -> String {
    match key {
        MessagePackValue::Text(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Before {
        name: String,
        #[serde(with = "bytes")]
        text: Vec<u8>,
        sizes: Vec<i64>,
        kind: Option<Kind>,
    }

    #[derive(Serialize, Deserialize)]
    enum Kind {
        Small(u8),
    }

    mod bytes {
        use serde::{Deserialize, Deserializer, Serializer};

        pub fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
            s.serialize_bytes(bytes)
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
            match super::MessagePackValue::deserialize(d)? {
                super::MessagePackValue::Bytes(bytes) => Ok(bytes),
                other => Err(serde::de::Error::custom(format!("{other:?}"))),
            }
        }
    }

    fn record() -> Vec<u8> {
        let value = Before {
            name: "ann".into(),
            text: vec![0, 0xff],
            sizes: vec![1, -2],
            kind: Some(Kind::Small(3)),
        };
        rmp_serde::to_vec_named(&value).expect("a record of plain fields")
    }

    #[test]
    fn the_same_type_loses_nothing() {
        assert_eq!(lost_fields::<Before>(&record()), [""; 0]);
    }

    #[test]
    fn what_another_type_does_not_give_back_is_told() {
        #[derive(Serialize, Deserialize)]
        struct After {
            #[serde(default)]
            full_name: String,
            sizes: (i64, i64),
            kind: BTreeMap<String, f64>,
            more: Option<u8>,
        }
        let three = MessagePackValue::Float(3f64.to_bits());
        let want = [
            "/kind/Small was Int(3) and is ".to_owned() + &format!("{three:?}"),
            "/name was Text(\"ann\") and is gone".into(),
            "/text was Bytes([0, 255]) and is gone".into(),
        ];
        assert_eq!(lost_fields::<After>(&record()), want);
        assert_eq!(lost_fields::<u8>(&record()).len(), 1);
    }
}
