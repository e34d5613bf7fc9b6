//! `[controller]`, or a `[[controller]]` for each host that may lead.

use cosy_config::{Check, Size};
use cosy_model::limits;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::path::PathBuf;
use toml::Spanned;

/// One of the controllers of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControllerEntry {
    /// Its name: that of its host.
    pub name: String,
    /// Where nodes reach it, as `HOST:PORT`.
    pub address: String,
}

/// One table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Controller {
    pub(super) name: Option<Spanned<String>>,
    pub(super) address: Option<Spanned<String>>,
    pub(super) state_dir: PathBuf,
    pub(super) socket: PathBuf,
    pub(super) listen: Option<Spanned<String>>,
    pub(super) key: Option<PathBuf>,
    pub(super) log: Option<String>,
    pub(super) connections_per_user: Option<Spanned<u64>>,
    pub(super) memory_limit: Option<Spanned<Size>>,
}

/// What stands in the file.
pub(super) enum Controllers {
    One(Box<Controller>),
    Several(Vec<Controller>),
}

impl<'de> Deserialize<'de> for Controllers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Controllers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("[controller], or a [[controller]] for each host")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Controllers, A::Error> {
                let one = Controller::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Controllers::One(Box::new(one)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Controllers, A::Error> {
                let all = Vec::deserialize(SeqAccessDeserializer::new(seq))?;
                Ok(Controllers::Several(all))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// The table of this host's controller, and all there are. `name` is what the command line calls this
/// one; without, it is the one with the host's name.
pub(super) fn own(
    check: &mut Check<'_>,
    tables: Controllers,
    name: Option<&str>,
) -> Option<(Controller, Option<usize>, Vec<ControllerEntry>)> {
    let several = match tables {
        Controllers::One(one) => return Some((*one, None, Vec::new())),
        Controllers::Several(several) => several,
    };
    if several.is_empty() || several.len() > limits::CONTROLLERS {
        let most = limits::CONTROLLERS;
        check.fault(0, format!("there are between 1 and {most} [[controller]]"));
        return None;
    }
    let mut entries: Vec<ControllerEntry> = Vec::new();
    for table in &several {
        let (Some(name), Some(address)) = (&table.name, &table.address) else {
            check.fault(0, "each [[controller]] has a name (that of its host) and an address (HOST:PORT, where nodes reach it)");
            return None;
        };
        if entries.iter().any(|other| other.name == *name.get_ref()) {
            check.fault(name.span().start, format!("controller {} is there twice", name.get_ref()));
        }
        let port = address.get_ref().rsplit_once(':');
        if port.is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
            check.fault(address.span().start, "address must be HOST:PORT");
        }
        entries.push(ControllerEntry {
            name: name.get_ref().clone(),
            address: address.get_ref().clone(),
        });
    }
    let host = host_name();
    let short = host.split('.').next().unwrap_or_default();
    let is_own = |table: &Controller| {
        let its = table.name.as_ref().map(|its| its.get_ref().as_str());
        its.is_some_and(|its| name.map_or(its == host || its == short, |name| its == name))
    };
    let known: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    let Some(at) = several.iter().position(is_own) else {
        let who = name.unwrap_or(&host);
        check.fault(
            0,
            format!(
                "no [[controller]] has the name {who} ({} have): say which one this is with --name",
                known.join(", ")
            ),
        );
        return None;
    };
    several
        .into_iter()
        .nth(at)
        .map(|own| (own, Some(at), entries))
}

/// The name of this host; empty where it has none.
pub(super) fn host_name() -> String {
    let name = nix::unistd::gethostname();
    name.map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}
