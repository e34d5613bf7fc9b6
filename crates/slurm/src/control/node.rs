//! `scontrol update NodeName=...`. Source: scontrol(1), captures of 22.05.

use super::job::Mistake;
use super::pairs::Pair;

/// What becomes of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeChange {
    /// Start nothing new there.
    Drain,
    /// Give them up.
    Down,
    /// Take them into service again.
    Resume,
}

/// An update of nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeUpdate {
    /// Names as given.
    pub names: String,
    /// What becomes of them; without, only their reason changes.
    pub change: Option<NodeChange>,
    /// Why.
    pub reason: Option<String>,
}

/// Reads the words of an update of nodes.
///
/// # Errors
/// The first word that makes no sense; a reason that is missing.
pub fn nodes(words: &[String]) -> Result<NodeUpdate, Mistake> {
    let mut update = NodeUpdate::default();
    for word in words {
        let pair = Pair::of(word);
        match pair.key(&["NodeName", "State", "Reason"]) {
            Some("NodeName") => update.names = pair.text().to_owned(),
            Some("State") => update.change = Some(state(pair.text())?),
            Some("Reason") => update.reason = Some(pair.text().to_owned()),
            Some(_) | None => return Err(Mistake::unsupported(word)),
        }
    }
    let needs_reason = matches!(update.change, Some(NodeChange::Drain | NodeChange::Down));
    if needs_reason && update.reason.as_deref().is_none_or(str::is_empty) {
        return Err(Mistake(vec![
            "You must specify a reason when DOWNING or DRAINING a node. Request denied".to_owned(),
        ]));
    }
    Ok(update)
}

fn state(text: &str) -> Result<NodeChange, Mistake> {
    match text.to_ascii_uppercase().as_str() {
        "DRAIN" | "DRAINED" | "DRAINING" | "FAIL" | "FAILING" => Ok(NodeChange::Drain),
        "DOWN" => Ok(NodeChange::Down),
        "RESUME" | "UNDRAIN" | "IDLE" => Ok(NodeChange::Resume),
        _ => Err(Mistake(vec![
            format!(
                "Invalid input: state={}",
                text.chars().take(200).collect::<String>()
            ),
            "Request aborted".to_owned(),
            "Valid states are: NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN POWER_UP UNDRAIN"
                .to_owned(),
            "Not all states are valid given a node's prior state".to_owned(),
        ])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        super::super::words_of(line)
    }

    #[test]
    fn node_updates() {
        let check = |line: &str, want: Result<(Option<NodeChange>, &str), &str>| {
            let got = nodes(&words(line));
            let got = got
                .as_ref()
                .map(|u| (u.change, u.reason.as_deref().unwrap_or_default()))
                .map_err(|m| m.0[0].as_str());
            assert_eq!(got, want, "{line}");
        };
        check(
            "nodename=n3 state=drain reason=\"bad disk\"",
            Ok((Some(NodeChange::Drain), "bad disk")),
        );
        check(
            "nodename=n3 state=resume",
            Ok((Some(NodeChange::Resume), "")),
        );
        check("nodename=n3 reason=x", Ok((None, "x")));
        check(
            "nodename=n3 state=drain",
            Err("You must specify a reason when DOWNING or DRAINING a node. Request denied"),
        );
        check("nodename=n3 state=foo", Err("Invalid input: state=foo"));
        check(
            "nodename=n3 weight=5",
            Err("Update of this parameter is not supported: weight=5"),
        );
    }
}
