//! Standard input of a step on one node: kept until every task that reads it and every
//! child has taken it.
//!
//! Pure. Always holds: no more than the window is kept; each task gets every byte once
//! and in order; a task that does not read holds back the window, nothing else.

use cosy_model::limits::STDIN_WINDOW;

/// How often at least is told what was taken, in bytes.
const TELL: u64 = STDIN_WINDOW / 8;

/// More input came than was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0} bytes of input are more than the {STDIN_WINDOW} that may be under way")]
pub struct WindowExceeded(u64);

/// How far one reader is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reader {
    /// The reader has taken this many bytes since the start.
    At(u64),
    /// The reader takes no more.
    Gone,
}

/// Input and its readers: the tasks here by their place, then the children by theirs.
#[derive(Debug)]
pub struct Input {
    kept: Vec<u8>,
    /// Offset of the first byte kept.
    base: u64,
    ended: bool,
    tasks: Vec<Reader>,
    children: Vec<Reader>,
    acknowledged: u64,
}

impl Input {
    /// For these tasks and children: true where one reads input.
    pub fn new(tasks: impl Iterator<Item = bool>, children: impl Iterator<Item = bool>) -> Self {
        let reader = |reads| if reads { Reader::At(0) } else { Reader::Gone };
        Self {
            kept: Vec::new(),
            base: 0,
            ended: false,
            tasks: tasks.map(reader).collect(),
            children: children.map(reader).collect(),
            acknowledged: 0,
        }
    }

    fn end(&self) -> u64 {
        self.base + self.kept.len() as u64
    }

    /// Input came.
    ///
    /// # Errors
    /// More than the window is under way.
    pub fn came(&mut self, bytes: &[u8]) -> Result<(), WindowExceeded> {
        let under_way = self.end() + bytes.len() as u64 - self.taken();
        if under_way > STDIN_WINDOW {
            return Err(WindowExceeded(under_way));
        }
        if !self.ended {
            self.kept.extend_from_slice(bytes);
        }
        self.forget();
        Ok(())
    }

    /// No more comes.
    pub fn end_came(&mut self) {
        self.ended = true;
    }

    /// What this task is to read next.
    pub fn next_of(&self, task: usize) -> &[u8] {
        match self.tasks.get(task) {
            Some(Reader::At(at)) => &self.kept[(at - self.base) as usize..],
            Some(Reader::Gone) | None => &[],
        }
    }

    /// This task has got everything, and no more comes.
    pub fn is_over_for(&self, task: usize) -> bool {
        self.ended && self.next_of(task).is_empty()
    }

    /// This child reads input.
    pub fn child_reads(&self, child: usize) -> bool {
        matches!(self.children.get(child), Some(Reader::At(_)))
    }

    /// This task took so many bytes more.
    pub fn task_took(&mut self, task: usize, bytes: usize) {
        let end = self.end();
        if let Some(Reader::At(at)) = self.tasks.get_mut(task) {
            *at = at.saturating_add(bytes as u64).min(end);
        }
        self.forget();
    }

    /// This task takes no more.
    pub fn task_gone(&mut self, task: usize) {
        if let Some(reader) = self.tasks.get_mut(task) {
            *reader = Reader::Gone;
        }
        self.forget();
    }

    /// All tasks below this child took so many bytes since the start.
    pub fn child_took(&mut self, child: usize, bytes: u64) {
        let end = self.end();
        if let Some(Reader::At(at)) = self.children.get_mut(child) {
            *at = bytes.clamp(*at, end);
        }
        self.forget();
    }

    /// Nothing below this child takes any more.
    pub fn child_gone(&mut self, child: usize) {
        if let Some(reader) = self.children.get_mut(child) {
            *reader = Reader::Gone;
        }
        self.forget();
    }

    /// What everybody took since the start, in bytes.
    fn taken(&self) -> u64 {
        let readers = self.tasks.iter().chain(&self.children);
        let least = readers.filter_map(|reader| match reader {
            Reader::At(at) => Some(*at),
            Reader::Gone => None,
        });
        least.min().unwrap_or_else(|| self.end())
    }

    fn forget(&mut self) {
        let taken = self.taken();
        // Little is moved at a time only when much of it was taken.
        let count = (taken - self.base) as usize;
        if count == self.kept.len() || count as u64 >= TELL {
            self.kept.drain(..count);
            self.base = taken;
        }
    }

    /// Bytes taken since the start, when enough of them are new to be acknowledged upwards.
    pub fn next_acknowledgement(&mut self) -> Option<u64> {
        let taken = self.taken();
        let worth =
            taken >= self.acknowledged + TELL || (taken > self.acknowledged && taken == self.end());
        worth.then(|| {
            self.acknowledged = taken;
            taken
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_window_is_a_window() {
        let mut input = Input::new([true, false].into_iter(), [true].into_iter());
        let full = vec![1; STDIN_WINDOW as usize];
        input.came(&full).unwrap();
        assert!(input.came(&[1]).is_err());
        input.task_took(0, full.len());
        assert!(input.came(&[1]).is_err() && input.next_acknowledgement().is_none());
        input.child_took(0, 10);
        input.came(&[2; 10]).unwrap();
        assert_eq!(input.next_of(0), [2; 10]);
        input.child_gone(0);
        input.task_gone(0);
        assert_eq!(input.next_acknowledgement(), Some(STDIN_WINDOW + 10));
        assert_eq!(input.next_acknowledgement(), None);
        input.end_came();
        assert!(input.is_over_for(0) && input.is_over_for(1));
    }

    #[test]
    fn a_child_that_boasts_is_not_believed() {
        let mut input = Input::new([].into_iter(), [true].into_iter());
        input.came(&[0; 100]).unwrap();
        input.child_took(0, u64::MAX);
        assert_eq!(input.next_acknowledgement(), Some(100));
        input.child_took(0, 1);
        assert_eq!(input.next_acknowledgement(), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn every_task_gets_everything(
            chunks in proptest::collection::vec(0usize..60_000, 1..40),
            takes in proptest::collection::vec((0usize..3, 1usize..90_000), 0..80),
        ) {
            let mut input = Input::new([true; 3].into_iter(), [].into_iter());
            let mut got = vec![Vec::new(); 3];
            let mut all = Vec::new();
            let mut take = |input: &mut Input, task: usize, most: usize| {
                let bytes = input.next_of(task);
                let count = bytes.len().min(most);
                got[task].extend_from_slice(&bytes[..count]);
                input.task_took(task, count);
            };
            let mut takes = takes.into_iter();
            for (number, size) in chunks.into_iter().enumerate() {
                let chunk = vec![number as u8; size];
                while input.came(&chunk).is_err() {
                    match takes.next() {
                        Some((task, most)) => take(&mut input, task, most),
                        None => (0..3).for_each(|task| take(&mut input, task, usize::MAX)),
                    }
                }
                all.extend(chunk);
            }
            input.end_came();
            (0..3).for_each(|task| take(&mut input, task, usize::MAX));
            prop_assert!((0..3).all(|task| input.is_over_for(task)));
            input.next_acknowledgement();
            prop_assert_eq!(input.acknowledged, all.len() as u64);
            prop_assert!(got.iter().all(|g| *g == all));
        }
    }
}
