//! The words behind the entity: which are conditions, which settings.

use super::super::conditions::Conditions;
use super::super::settings::{Settings, Target};
use super::super::view::PolicyView;
use super::super::words::Word;

/// Conditions and settings of a command line, where `where` and `set` change what words are.
pub(super) fn read(
    target: Target,
    view: &PolicyView,
    words: &[String],
    mut setting: bool,
) -> Result<(Conditions, Settings), Vec<String>> {
    let (mut conditions, mut settings) = (Conditions::default(), Settings::default());
    for word in words {
        match word.to_ascii_lowercase().as_str() {
            "where" => setting = false,
            "set" => setting = true,
            _ if setting => settings.read(target, view, word)?,
            _ => conditions.read(word)?,
        }
    }
    Ok((conditions, settings))
}

/// Words of `add`: names and where they go are conditions, everything else settings.
pub(super) fn read_add(
    target: Target,
    view: &PolicyView,
    words: &[String],
) -> Result<(Conditions, Settings), Vec<String>> {
    let (mut conditions, mut settings) = (Conditions::default(), Settings::default());
    for text in words {
        let word = Word::of(text);
        let name = word.name.to_ascii_lowercase();
        let among = |all: &[&str]| name.len() >= 2 && all.iter().any(|n| n.starts_with(&name));
        let goes = match target {
            Target::User => {
                among(&["accounts", "clusters", "names", "partitions", "users"]) || name == "acct"
            }
            Target::Account => among(&["clusters", "names", "accounts"]),
            Target::Qos => among(&["names"]),
        };
        match (name.as_str(), word.value) {
            ("where" | "set", None) => {}
            (_, None) => conditions.read(&format!("names={text}"))?,
            (_, Some(_)) if goes => conditions.read(text)?,
            (_, Some(_)) => settings.read(target, view, text)?,
        }
    }
    Ok((conditions, settings))
}
