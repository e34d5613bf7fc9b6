//! Trackable resources.

use crate::device;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A resource that is counted and limited (Slurm: TRES), in the order in which lists show them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Tres {
    /// Processor cores.
    Cpu,
    /// Memory, in MiB.
    Memory,
    /// Nodes, each counted once however many jobs of a group are on it.
    Node,
    /// What a job costs by the billing weights of its queue.
    Billing,
    /// Devices: `gres/gpu` are all GPUs, `gres/gpu:a100` those of a type.
    Gres {
        /// Name of the device, `gpu` for GPUs.
        name: Box<str>,
        /// Type of it; `None` counts all types together.
        kind: Option<Box<str>>,
    },
    /// A licence of the cluster.
    License(Box<str>),
}

impl Tres {
    /// All GPUs, whatever their type.
    pub fn gpus() -> Self {
        Self::Gres {
            name: "gpu".into(),
            kind: None,
        }
    }
}

impl fmt::Display for Tres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Memory => f.write_str("mem"),
            Self::Node => f.write_str("node"),
            Self::Billing => f.write_str("billing"),
            Self::Gres { name, kind: None } => write!(f, "gres/{name}"),
            Self::Gres {
                name,
                kind: Some(kind),
            } => write!(f, "gres/{name}:{kind}"),
            Self::License(name) => write!(f, "license/{name}"),
        }
    }
}

impl From<Tres> for String {
    fn from(tres: Tres) -> Self {
        tres.to_string()
    }
}

impl TryFrom<String> for Tres {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Tres {
    type Err = String;

    /// Reads the name of a resource, without regard to case where it is a fixed word.
    fn from_str(text: &str) -> Result<Self, String> {
        let word = text.to_ascii_lowercase();
        match word.as_str() {
            "cpu" => return Ok(Self::Cpu),
            "mem" => return Ok(Self::Memory),
            "node" => return Ok(Self::Node),
            "billing" => return Ok(Self::Billing),
            _ => {}
        }
        if let Some(name) = text.strip_prefix("license/") {
            let good = !name.is_empty() && name.len() <= crate::limits::LICENSE_NAME_BYTES;
            return match good {
                true => Ok(Self::License(name.into())),
                false => Err(unknown(text)),
            };
        }
        let Some(device) = text.strip_prefix("gres/") else {
            return Err(unknown(text));
        };
        let (name, kind) = match device.split_once(':') {
            Some((name, kind)) => (name, Some(kind)),
            None => (device, None),
        };
        if name != "gpu" {
            device::check_name(name)?;
        }
        kind.map_or(Ok(()), device::check_name)?;
        Ok(Self::Gres {
            name: name.into(),
            kind: kind.map(Into::into),
        })
    }
}

fn unknown(text: &str) -> String {
    let shown: String = text.chars().take(70).collect();
    format!(
        "'{}' is no resource that can be limited: cpu, mem, node, billing, gres/NAME[:TYPE] and license/NAME can",
        shown.escape_debug()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_again() {
        for name in [
            "cpu",
            "mem",
            "node",
            "billing",
            "gres/gpu",
            "gres/gpu:a100",
            "gres/fpga",
            "license/matlab",
        ] {
            assert_eq!(name.parse::<Tres>().map(|t| t.to_string()), Ok(name.to_owned()));
        }
        assert_eq!("CPU".parse(), Ok(Tres::Cpu));
        for name in [
            "",
            "cores",
            "gres/",
            "gres/a b",
            "gres/gpu:",
            "license/",
            "energy",
            "bb/x",
        ] {
            assert!(name.parse::<Tres>().is_err(), "{name}");
        }
    }
}
