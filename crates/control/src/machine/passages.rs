//! Where nodes are reached by each other, and ways to a job's first node for commands on
//! other hosts.

pub(crate) mod procedures;

use crate::event::{Effect, LinkId};
use cosy_model::node::NodeOrder;
use cosy_model::{JobId, Refusal, RefusalCode, Uid, limits};
use std::net::{IpAddr, SocketAddr};

/// Longest address of a node, in bytes.
const ADDRESS_BYTES: usize = limits::NAME_BYTES + 6;

/// What a node's daemon asks for a command on its host.
#[derive(Debug)]
pub(crate) struct PassageRequest {
    pub link: LinkId,
    /// The daemon's own number of the question.
    pub number: u64,
    pub uid: Uid,
    pub job: JobId,
}

/// Passages that wait for the look-up of a user.
#[derive(Debug, Default)]
pub(crate) struct Passages {
    waiting: Vec<(Uid, PassageRequest)>,
}

/// Why there is no passage, or none yet.
enum NoPassage {
    Refused(Refusal),
    /// Who that is has to be looked up first.
    Unknown(Uid),
}

impl From<Refusal> for NoPassage {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

fn no_passage(asked: &PassageRequest, refusal: Refusal) -> Effect {
    Effect::Order {
        link: asked.link,
        order: NodeOrder::Passage {
            number: asked.number,
            passage: Err(refusal),
        },
    }
}

fn directory_silent() -> Refusal {
    Refusal::new(RefusalCode::Unavailable, "the directory of users does not answer now: try again")
}

/// What other nodes connect to: as the node says, with its link's address where it names no
/// host of its own. Empty when it does not listen or says something else.
pub(crate) fn address(listen: &str, link: Option<IpAddr>) -> String {
    let Some((host, port)) = listen.rsplit_once(':') else {
        return String::new();
    };
    let Ok(port) = port.parse::<u16>() else {
        return String::new();
    };
    let plain = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let ip = plain.unwrap_or(host).parse::<IpAddr>().ok();
    let everywhere = host.is_empty() || ip.is_some_and(|ip| ip.is_unspecified());
    let sound = |c: char| c.is_ascii_alphanumeric() || "-_.:[]%".contains(c);
    match (everywhere, link) {
        (true, Some(link)) => SocketAddr::new(link.to_canonical(), port).to_string(),
        (true, None) => String::new(),
        (false, _) if port == 0 || listen.len() > ADDRESS_BYTES => String::new(),
        (false, _) if !host.chars().all(sound) => String::new(),
        (false, _) => listen.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |listen: &str, link: Option<&str>, want: &str| {
            let link = link.map(|ip| ip.parse().unwrap());
            assert_eq!(address(listen, link), want, "{listen}");
        };
        check("", Some("10.0.0.1"), "");
        check(":7818", Some("10.0.0.1"), "10.0.0.1:7818");
        check(":7818", Some("::ffff:10.0.0.1"), "10.0.0.1:7818");
        check(":7818", Some("fd00::2"), "[fd00::2]:7818");
        check("0.0.0.0:7818", Some("10.0.0.1"), "10.0.0.1:7818");
        check("[::]:7818", Some("10.0.0.1"), "10.0.0.1:7818");
        check(":7818", None, "");
        check("n1.site:7818", Some("10.0.0.1"), "n1.site:7818");
        check("127.0.0.1:4000", None, "127.0.0.1:4000");
        check("[fd00::1]:4000", None, "[fd00::1]:4000");
        check("n1", Some("10.0.0.1"), "");
        check("n1:port", Some("10.0.0.1"), "");
        check("n1:99999", Some("10.0.0.1"), "");
        check("n 1:7818", None, "");
        check("n1:0", None, "");
    }
}
