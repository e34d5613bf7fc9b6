//! What is looked for among jobs: words of the line behind `/`.
//!
//! `user=ann`, `queue=day`, `state=running`, `name=train` and `node=n1` are asked of the controller, which
//! knows all jobs; any other word is looked for in the rows that came.

use cosy_model::JobState;
use cosy_model::api::{JobField, JobFilter, Table};

/// Columns in which words are looked for.
const LOOKED_AT: [JobField; 7] = [
    JobField::Ref,
    JobField::Name,
    JobField::User,
    JobField::Queue,
    JobField::State,
    JobField::Reason,
    JobField::Nodes,
];

/// What is looked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query {
    /// What the controller is asked.
    pub filter: JobFilter,
    /// Words in small letters, all of which a row must have.
    pub words: Vec<String>,
}

impl Query {
    /// Reads the line; jobs of everybody, or of the user of that number where the line names none.
    pub fn read(line: &str, own: Option<u32>) -> Self {
        let mut query = Self::default();
        for word in line.split_whitespace() {
            let known = word
                .split_once('=')
                .filter(|(_, value)| !value.is_empty())
                .is_some_and(|(key, value)| query.filter_by(key, value));
            if !known {
                query.words.push(word.to_lowercase());
            }
        }
        let filter = &mut query.filter;
        if let Some(own) = own.filter(|_| filter.users.is_empty()) {
            filter.users = vec![own.to_string()];
        }
        if filter.states.is_empty() {
            filter.states = JobState::ALL.into_iter().filter(|s| !s.is_end()).collect();
        }
        query
    }

    /// Whether the controller knows such a condition.
    fn filter_by(&mut self, key: &str, value: &str) -> bool {
        let values = value.split(',').filter(|value| !value.is_empty());
        let texts = || values.clone().map(str::to_owned);
        match key {
            "user" => self.filter.users.extend(texts()),
            "queue" => self.filter.queues.extend(texts()),
            "name" => self.filter.names.extend(texts()),
            "node" => match cosy_model::expand(value) {
                Ok(nodes) => self.filter.nodes.extend(nodes),
                Err(_) => return false,
            },
            "state" => {
                let states: Result<Vec<JobState>, _> = values.map(str::parse).collect();
                match states {
                    Ok(states) => self.filter.states.extend(states),
                    Err(_) => return false,
                }
            }
            _ => return false,
        }
        true
    }

    /// Whether a row has all words.
    pub fn finds(&self, table: &Table, row: usize) -> bool {
        let has = |word: &String| {
            let found = |field: &JobField| table.text(row, *field).to_lowercase().contains(word);
            LOOKED_AT.iter().any(found)
        };
        self.words.iter().all(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_and_words() {
        let check = |line: &str, own, users: &[&str], nodes: &[&str], words: &[&str]| {
            let query = Query::read(line, own);
            assert_eq!(query.filter.users, users, "{line}");
            assert_eq!(query.filter.nodes, nodes, "{line}");
            assert_eq!(query.words, words, "{line}");
        };
        check("", Some(7), &["7"], &[], &[]);
        check("", None, &[], &[], &[]);
        check("user=ann,bob Train", Some(7), &["ann", "bob"], &[], &["train"]);
        check("node=n[1-2] x=1", None, &[], &["n1", "n2"], &["x=1"]);
        check("node=n[1- user=", Some(7), &["7"], &[], &["node=n[1-", "user="]);
    }

    #[test]
    fn states() {
        let states = |line: &str| Query::read(line, None).filter.states;
        assert_eq!(states("state=failed,running"), [JobState::Failed, JobState::Running]);
        let live = states("");
        assert!(live.contains(&JobState::Waiting) && !live.contains(&JobState::Failed));
        assert_eq!(states("state=nonsense"), live);
    }
}
