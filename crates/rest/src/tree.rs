//! Trees of what is told, made and changed by name.

use cosy_model::policy::Tres;
use cosy_model::{Span, Time};
use cosy_slurm::json_yaml::{Data, Key, map};

/// An object under way.
#[derive(Clone, Debug, Default)]
pub struct Tree(Vec<(Key, Data)>);

impl Tree {
    /// The entries of an object; none of anything else.
    pub fn of(data: Data) -> Self {
        match data {
            Data::Map(entries) => Self(entries),
            _ => Self::default(),
        }
    }

    /// Puts a value at a name, in place of the one that stands there.
    pub fn set(&mut self, name: &'static str, value: impl Into<Data>) -> &mut Self {
        let value = value.into();
        match self.0.iter_mut().find(|(key, _)| *key == name) {
            Some(entry) => entry.1 = value,
            None => self.0.push((Key::Borrowed(name), value)),
        }
        self
    }

    /// Puts a value at a path of names with dots between them; objects on the way are made.
    pub fn at(&mut self, path: &'static str, value: impl Into<Data>) -> &mut Self {
        let Some((first, rest)) = path.split_once('.') else {
            return self.set(path, value);
        };
        let mut below = Self::of(self.take(first));
        below.at(rest, value);
        self.set(first, below.done())
    }

    /// Takes a value out; nothing where there is none.
    pub fn take(&mut self, name: &str) -> Data {
        match self.0.iter().position(|(key, _)| *key == name) {
            Some(at) => self.0.remove(at).1,
            None => Data::Null,
        }
    }

    /// Gives a value another name.
    pub fn rename(&mut self, from: &str, to: &'static str) -> &mut Self {
        let value = self.take(from);
        self.set(to, value)
    }

    /// The object.
    pub fn done(self) -> Data {
        Data::Map(self.0)
    }
}

/// A number of any type; the greatest there is where it is greater.
pub fn number(n: impl TryInto<i64>) -> Data {
    Data::Number(n.try_into().unwrap_or(i64::MAX))
}

/// Seconds since 1970; 0 where there is no time.
pub fn seconds(at: Option<Time>) -> Data {
    Data::Number(at.map_or(0, Time::secs))
}

/// Minutes; without bound where it is unlimited, not set without.
pub fn minutes(span: Option<Span>) -> Data {
    match span {
        Some(span) if span.is_unlimited() => crate::json::INFINITE,
        Some(span) => Data::Number(span.secs() / 60),
        None => Data::Null,
    }
}

/// A list of texts.
pub fn texts<T: AsRef<str>>(all: impl IntoIterator<Item = T>) -> Data {
    Data::List(all.into_iter().map(|one| one.as_ref().into()).collect())
}

/// Exit code and signal as Slurm tells them; not set while nothing has ended.
pub fn exit((code, signal): (i64, i64), ended: bool) -> Data {
    let status = match (ended, code, signal) {
        (false, _, _) => "PENDING",
        (true, _, signal) if signal != 0 => "SIGNALED",
        (true, 0, _) => "SUCCESS",
        (true, _, _) => "ERROR",
    };
    let name = if signal == 0 {
        String::new()
    } else {
        cosy_model::signal::name(signal)
    };
    map([
        ("status", status.into()),
        ("return_code", if ended { code.into() } else { Data::Null }),
        (
            "signal",
            map([
                (
                    "id",
                    if signal == 0 {
                        Data::Null
                    } else {
                        signal.into()
                    },
                ),
                ("name", name.into()),
            ]),
        ),
    ])
}

/// Numbers of trackable resources that are the same everywhere.
pub const TRES_IDS: [(&str, &str, i64); 9] = [
    ("cpu", "", 1),
    ("mem", "", 2),
    ("energy", "", 3),
    ("node", "", 4),
    ("billing", "", 5),
    ("fs", "disk", 6),
    ("vmem", "", 7),
    ("pages", "", 8),
    ("gres", "gpu", 1001),
];

/// One amount of a trackable resource.
pub fn tres_of(kind: &str, name: &str, count: i64) -> Data {
    let id = TRES_IDS.iter().find(|(k, n, _)| (*k, *n) == (kind, name));
    map([
        ("type", kind.into()),
        ("name", name.into()),
        ("id", id.map_or(0, |(_, _, id)| *id).into()),
        ("count", count.into()),
    ])
}

/// One amount of a resource of the policy.
pub fn tres(tres: &Tres, count: u64) -> Data {
    let whole = tres.to_string();
    let (kind, name) = whole.split_once('/').unwrap_or((&whole, ""));
    tres_of(kind, name, i64::try_from(count).unwrap_or(i64::MAX))
}

/// Billionths as a number.
pub fn billionths(n: u64) -> Data {
    match n {
        u64::MAX => crate::json::INFINITE,
        n => Data::Real(n as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_make_objects() {
        let mut tree = Tree::default();
        tree.at("a.b.c", 1)
            .at("a.b.d", 2)
            .at("e", 3)
            .at("e", 4)
            .rename("e", "f");
        let below = map([("c", 1.into()), ("d", 2.into())]);
        assert_eq!(tree.done(), map([("a", map([("b", below)])), ("f", 4.into())]));
    }
}
