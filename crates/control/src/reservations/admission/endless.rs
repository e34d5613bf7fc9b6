//! Running jobs without a time limit in the way of a slot: nobody knows when their nodes come
//! free, so that no later start helps, and who asks has to be told.

/// Jobs that are named.
const NAMED: usize = 5;

/// Running jobs without a time limit on nodes that a request could have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct EndlessJobs {
    /// Ids of those that the user may see.
    pub seen: Vec<String>,
    /// How many others there are.
    pub unseen: usize,
}

impl EndlessJobs {
    /// What stands behind the reason that a slot is not free; nothing where there are none.
    pub fn behind_reason(&self) -> String {
        let named: Vec<&str> = self.seen.iter().take(NAMED).map(String::as_str).collect();
        let others = self.seen.len() - named.len() + self.unseen;
        let why = "no time limit, so that nobody knows when their nodes come free";
        match (named.as_slice(), others) {
            ([], 0) => String::new(),
            ([], n) => format!("; {} there have {why}", jobs(n)),
            ([one], 0) => format!(
                "; job {one} has no time limit, so that nobody knows when its nodes come free"
            ),
            ([all @ .., last], 0) => format!("; jobs {} and {last} have {why}", all.join(", ")),
            (all, n) => format!("; jobs {} and {n} more have {why}", all.join(", ")),
        }
    }
}

fn jobs(n: usize) -> String {
    cosy_view::phrase::count(n as u64, "running job", "running jobs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let check = |seen: &[&str], unseen, want: &str| {
            let seen = seen.iter().map(|s| (*s).to_owned()).collect();
            let told = EndlessJobs { seen, unseen }.behind_reason();
            assert!(told.starts_with(want), "{told}");
            assert_eq!(told.is_empty(), want.is_empty(), "{told}");
        };
        check(&[], 0, "");
        check(&[], 2, "; 2 running jobs there have no time limit, so that nobody knows");
        check(&["7"], 0, "; job 7 has no time limit, so that nobody knows when its nodes");
        check(&["7", "9_2"], 0, "; jobs 7 and 9_2 have no time limit");
        check(&["7"], 1, "; jobs 7 and 1 more have no time limit");
        check(&["1", "2", "3", "4", "5", "6"], 1, "; jobs 1, 2, 3, 4, 5 and 2 more have no");
    }
}
