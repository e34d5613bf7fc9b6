//! Ends of tasks one after another on a machine, when one is put in or taken out.
//!
//! A task that can start at r and takes d makes of an end x the end max(x + d, r + d). Such
//! functions stay of this form one after another, so with those of all first and all last
//! tasks at hand a change costs the same however many tasks there are. Other work on the
//! machine, from its first free time on, is not looked at.

/// When a task can start, and how long it takes.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub ready: i64,
    pub length: i64,
}

impl Link {
    fn after(self, end: i64) -> i64 {
        end.max(self.ready).saturating_add(self.length)
    }
}

/// Tasks on a machine, one after another.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// The end before each task, and the last one.
    ends: Vec<i64>,
    /// The tasks from each on, as x → max(x + .0, .1); the last one changes nothing.
    rests: Vec<(i64, i64)>,
}

impl Chain {
    /// Tasks behind `begin`.
    pub fn new(begin: i64, links: &[Link]) -> Self {
        let mut ends = Vec::with_capacity(links.len() + 1);
        ends.push(begin);
        let mut end = begin;
        for link in links {
            end = link.after(end);
            ends.push(end);
        }
        let mut rest = (0i64, i64::MIN);
        let mut rests = vec![rest; links.len() + 1];
        for (at, link) in links.iter().enumerate().rev() {
            let own = link.ready.saturating_add(link.length);
            rest = (rest.0.saturating_add(link.length), own.saturating_add(rest.0).max(rest.1));
            rests[at] = rest;
        }
        Self { ends, rests }
    }

    /// The end of all.
    pub fn end(&self) -> i64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The end without a task.
    pub fn without(&self, at: usize) -> i64 {
        self.rest(at + 1, self.ends[at])
    }

    /// The end with one more before a task, or behind all.
    pub fn with(&self, at: usize, link: Link) -> i64 {
        self.rest(at, link.after(self.ends[at]))
    }

    fn rest(&self, from: usize, end: i64) -> i64 {
        let (add, least) = self.rests[from];
        end.saturating_add(add).max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn links() -> impl Strategy<Value = Vec<Link>> {
        let link = (0..100i64, 0..50i64).prop_map(|(ready, length)| Link { ready, length });
        prop::collection::vec(link, 1..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn as_one_after_another(begin in 0..60i64, links in links(), more in links()) {
            let end = |links: &[Link]| links.iter().fold(begin, |end, link| link.after(end));
            let chain = Chain::new(begin, &links);
            prop_assert_eq!(chain.end(), end(&links));
            for at in 0..links.len() {
                let mut fewer = links.clone();
                fewer.remove(at);
                prop_assert_eq!(chain.without(at), end(&fewer));
            }
            for at in 0..=links.len() {
                let mut longer = links.clone();
                longer.insert(at, more[0]);
                prop_assert_eq!(chain.with(at, more[0]), end(&longer));
            }
        }
    }
}
