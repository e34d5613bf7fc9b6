//! `scontrol update NodeName=...`. Source: scontrol(1), captures of 22.05.

use super::job::UpdateError;
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
    /// Switch them.
    Power(PowerChange),
}

/// Where nodes are switched to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PowerChange {
    /// They come up.
    Up,
    /// They go off.
    Down {
        /// At once, and their jobs are given up; else when those have ended.
        force: bool,
    },
}

impl PowerChange {
    /// What `scontrol power` is to do: `up`, `down`, `down asap`, `down force`, in letters of any case.
    /// Here `down` is `asap`: a node that is to go off takes nothing new.
    ///
    /// Returns it with the words behind it, which name nodes.
    pub fn of(words: &[String]) -> Option<(Self, &[String])> {
        let (direction, rest) = words.split_first()?;
        let (change, rest) = match direction.to_ascii_lowercase().as_str() {
            "up" => (Self::Up, rest),
            "down" => match rest.split_first() {
                Some((how, rest)) if how.eq_ignore_ascii_case("asap") => (ASAP, rest),
                Some((how, rest)) if how.eq_ignore_ascii_case("force") => (FORCE, rest),
                _ => (ASAP, rest),
            },
            _ => return None,
        };
        (!rest.is_empty()).then_some((change, rest))
    }
}

const ASAP: PowerChange = PowerChange::Down { force: false };
const FORCE: PowerChange = PowerChange::Down { force: true };

/// An update of nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeUpdate {
    /// Names as given.
    pub names: String,
    /// What becomes of them; without, only their reason changes.
    pub change: Option<NodeChange>,
    /// The reason in words, as it is shown.
    pub reason: Option<String>,
    /// New features that the node has (`AvailableFeatures`).
    pub features: Option<Vec<String>>,
    /// `ActiveFeatures`: here a node has no others.
    pub active: Option<Vec<String>>,
}

/// Features that are to be active have to be there.
pub const NOT_AVAILABLE: &str = "Active features not subset of available features";

impl NodeUpdate {
    /// The features that a node has from now on; `None` where nothing is said of them.
    ///
    /// # Errors
    /// Slurm's sentence, when others are to be active than those that it `has` or gets.
    pub fn features(&self, has: &[String]) -> Result<Option<Vec<String>>, &'static str> {
        let Some(active) = &self.active else {
            return Ok(self.features.clone());
        };
        let available = self.features.as_deref().unwrap_or(has);
        match active.iter().all(|f| available.contains(f)) {
            true => Ok(Some(active.clone())),
            false => Err(NOT_AVAILABLE),
        }
    }
}

/// Reads the words of an update of nodes.
///
/// # Errors
/// The first word that makes no sense; a reason that is missing.
pub fn nodes(words: &[String]) -> Result<NodeUpdate, UpdateError> {
    let mut update = NodeUpdate::default();
    for word in words {
        let pair = Pair::of(word);
        let keys = [
            "NodeName",
            "State",
            "Reason",
            "AvailableFeatures",
            "ActiveFeatures",
            "Features",
        ];
        match pair.key(&keys) {
            Some("NodeName") => update.names = pair.text().to_owned(),
            Some("State") => update.change = Some(state(pair.text())?),
            Some("Reason") => update.reason = Some(pair.text().to_owned()),
            Some("AvailableFeatures" | "Features") => update.features = Some(list(pair.text())),
            Some("ActiveFeatures") => update.active = Some(list(pair.text())),
            Some(_) | None => return Err(UpdateError::unsupported(word)),
        }
    }
    let needs_reason = matches!(update.change, Some(NodeChange::Drain | NodeChange::Down));
    if needs_reason && update.reason.as_deref().is_none_or(str::is_empty) {
        return Err(UpdateError(vec![
            "You must specify a reason when DOWNING or DRAINING a node. Request denied".to_owned(),
        ]));
    }
    Ok(update)
}

fn list(text: &str) -> Vec<String> {
    let words = text.split(',').filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

fn state(text: &str) -> Result<NodeChange, UpdateError> {
    match text.to_ascii_uppercase().as_str() {
        "DRAIN" | "DRAINED" | "DRAINING" | "FAIL" | "FAILING" => Ok(NodeChange::Drain),
        "DOWN" => Ok(NodeChange::Down),
        "RESUME" | "UNDRAIN" | "IDLE" => Ok(NodeChange::Resume),
        "POWER_UP" => Ok(NodeChange::Power(PowerChange::Up)),
        "POWER_DOWN" | "POWER_DOWN_ASAP" => Ok(NodeChange::Power(ASAP)),
        "POWER_DOWN_FORCE" => Ok(NodeChange::Power(FORCE)),
        _ => Err(UpdateError(vec![
            format!("Invalid input: state={}", text.chars().take(200).collect::<String>()),
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
    fn features() {
        let check = |line: &str, want: Result<Option<&str>, &str>| {
            let update = nodes(&words(line)).unwrap();
            let got = update.features(&["a".to_owned(), "b".to_owned()]);
            let got = got.map(|f| f.map(|f| f.join(",")));
            assert_eq!(got, want.map(|f| f.map(str::to_owned)), "{line}");
        };
        check("nodename=n3 reason=x", Ok(None));
        check("node=n3 AvailableFeatures=x,y ActiveFeatures=x", Ok(Some("x")));
        check("node=n3 AvailableFeatures=x", Ok(Some("x")));
        check("node=n3 AvailableFeatures= ActiveFeatures=", Ok(Some("")));
        check("node=n3 ActiveFeatures=b", Ok(Some("b")));
        check("node=n3 ActiveFeatures=z", Err(NOT_AVAILABLE));
    }

    #[test]
    fn power_words() {
        let check = |line: &str, want: Option<(PowerChange, &[&str])>| {
            let words = words(line);
            let got = PowerChange::of(&words);
            let got = got.map(|(c, rest)| (c, rest.iter().map(String::as_str).collect::<Vec<_>>()));
            assert_eq!(got, want.map(|(c, rest)| (c, rest.to_vec())), "{line}");
        };
        check("up n[1-3]", Some((PowerChange::Up, &["n[1-3]"])));
        check("DOWN n1", Some((ASAP, &["n1"])));
        check("down asap n1 n2", Some((ASAP, &["n1", "n2"])));
        check("down force n1", Some((FORCE, &["n1"])));
        check("down force", None);
        check("up", None);
        check("sideways n1", None);
        check("", None);
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
        check("nodename=n3 state=resume", Ok((Some(NodeChange::Resume), "")));
        check("nodename=n3 state=power_up", Ok((Some(NodeChange::Power(PowerChange::Up)), "")));
        check("nodename=n3 state=POWER_DOWN", Ok((Some(NodeChange::Power(ASAP)), "")));
        check("nodename=n3 state=power_down_force", Ok((Some(NodeChange::Power(FORCE)), "")));
        check("nodename=n3 reason=x", Ok((None, "x")));
        check(
            "nodename=n3 state=drain",
            Err("You must specify a reason when DOWNING or DRAINING a node. Request denied"),
        );
        check("nodename=n3 state=foo", Err("Invalid input: state=foo"));
        check("nodename=n3 weight=5", Err("Update of this parameter is not supported: weight=5"));
    }
}
