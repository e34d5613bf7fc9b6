//! Cores or GPUs of a job by number, node by node: `n1:0-3;n2:0,2`. Nodes with none are left out.

use cosy_model::hostlist;

/// The text of such numbers.
pub fn write<'a>(nodes: impl Iterator<Item = (&'a str, &'a [u32])>) -> String {
    let one = |(node, ids): (&str, &[u32])| {
        let numbers: Vec<u64> = ids.iter().map(|n| u64::from(*n)).collect();
        let some = !numbers.is_empty();
        some.then(|| format!("{node}:{}", hostlist::ranges(&numbers, 1)))
    };
    nodes.filter_map(one).collect::<Vec<_>>().join(";")
}

/// Each node with its numbers.
pub fn read(text: &str) -> impl Iterator<Item = (&str, Ids<'_>)> {
    let parts = text.split(';').filter_map(|part| part.split_once(':'));
    parts.map(|(node, ids)| (node, Ids(ids)))
}

/// Numbers as ranges: `0-3,5`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ids<'a>(&'a str);

impl<'a> Ids<'a> {
    /// The numbers as they are written: `0-3,5`.
    pub const fn ranges(self) -> &'a str {
        self.0
    }

    /// Each of them.
    pub fn numbers(self) -> Vec<u32> {
        // `0-3,7` is a host list without names.
        let all = hostlist::expand(&format!("[{}]", self.0)).unwrap_or_default();
        all.iter()
            .filter_map(|number| number.parse().ok())
            .collect()
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        let one = |part: &str| -> Option<u32> {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
            last.checked_sub(first)?.checked_add(1)
        };
        let counts = self.0.split(',').filter_map(one);
        counts.fold(0, u32::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts() {
        let check = |ids: &str, want: u32| assert_eq!(Ids(ids).count(), want, "{ids}");
        check("", 0);
        check("0", 1);
        check("0-3,5", 5);
        check("3-1,x", 0);
        check("0-4294967295", 0);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            nodes in prop::collection::vec(
                ("[a-z][a-z0-9-]{0,6}", prop::collection::btree_set(0u32..64, 0..9)),
                0..6,
            ),
        ) {
            let ids = |(node, ids): (String, std::collections::BTreeSet<u32>)| {
                (node, ids.into_iter().collect::<Vec<u32>>())
            };
            let nodes: Vec<(String, Vec<u32>)> = nodes.into_iter().map(ids).collect();
            let text = write(nodes.iter().map(|(node, ids)| (&**node, &**ids)));
            let some = nodes.iter().filter(|(_, ids)| !ids.is_empty());
            let want = some.map(|(node, ids)| {
                let numbers: Vec<u64> = ids.iter().map(|n| u64::from(*n)).collect();
                (node.clone(), hostlist::ranges(&numbers, 1), ids.len() as u32, ids.clone())
            });
            let got = read(&text).map(|(n, ids)| {
                (n.to_owned(), ids.ranges().to_owned(), ids.count(), ids.numbers())
            });
            prop_assert_eq!(got.collect::<Vec<_>>(), want.collect::<Vec<_>>());
        }
    }
}
