//! Names of accounts: the original keeps them in small letters, here capitals may matter.

use crate::Context;
use cosy_model::api::{Reply, Request};

/// The name that a job is charged to: as it was given where there is such an account, else
/// in small letters.
pub fn account_name(context: &Context, name: &str) -> String {
    let small = name.to_lowercase();
    if small == name {
        return small;
    }
    let names = vec![name.to_owned()];
    match context.ask(Request::Accounts { names }) {
        Ok(Reply::Accounts(_)) => name.to_owned(),
        Ok(_) | Err(_) => small,
    }
}

/// The names that jobs may have been charged to that are looked for by these.
pub fn spellings(names: &[String]) -> Vec<String> {
    let mut all = names.to_vec();
    for name in names {
        let small = name.to_lowercase();
        if !all.contains(&small) {
            all.push(small);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings() {
        let check = |names: &[&str], want: &[&str]| {
            let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
            assert_eq!(spellings(&names), want);
        };
        check(&[], &[]);
        check(&["a", "B"], &["a", "B", "b"]);
        check(&["A", "a"], &["A", "a"]);
    }
}
