//! What `add`, `modify` and `delete` do: the command's words become a list of changes of the
//! policy and the lines that are printed about it. Nothing is sent before all of it is known to
//! make sense. Sources: sacctmgr(1); recordings of 22.05.8.

mod add;
mod delete;
mod lines;
mod modify;
mod outcome;
mod words;

pub use outcome::Plan;

use super::entity::{Entity, no_entity};
use super::view::PolicyView;

/// The three commands that change something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// `add` or `create`: something new.
    Add,
    /// `modify` or `update`: other settings.
    Modify,
    /// `delete` or `remove`: it goes.
    Delete,
}

impl Verb {
    /// The command that a word means, shortened as far as Slurm takes it.
    pub fn of(word: &str) -> Option<Self> {
        let words = [
            ("add", 2, Self::Add),
            ("create", 2, Self::Add),
            ("delete", 3, Self::Delete),
            ("remove", 3, Self::Delete),
            ("modify", 1, Self::Modify),
            ("update", 1, Self::Modify),
        ];
        let word = word.to_ascii_lowercase();
        let fits = |(full, least, _): &&(&str, usize, Self)| {
            word.len() >= *least && full.starts_with(&word)
        };
        words.iter().find(fits).map(|(.., verb)| *verb)
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Modify => "modify",
            Self::Delete => "delete",
        }
    }
}

/// Plans a command of which the first word is the entity.
pub fn of_words(verb: Verb, view: &PolicyView, words: &[String]) -> Plan {
    let entity = words
        .split_first()
        .and_then(|(first, rest)| Some((Entity::of(first)?, rest)));
    match entity {
        Some((entity, rest)) => plan(verb, entity, view, rest),
        None => Plan::failed(no_entity(verb.word())),
    }
}

/// Plans a command: `words` follow the entity.
pub fn plan(verb: Verb, entity: Entity, view: &PolicyView, words: &[String]) -> Plan {
    match verb {
        Verb::Add => add::plan(entity, view, words),
        Verb::Modify => modify::plan(entity, view, words),
        Verb::Delete => delete::plan(entity, view, words),
    }
}

#[cfg(test)]
mod recorded;
