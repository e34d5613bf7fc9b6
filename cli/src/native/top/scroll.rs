//! Which lines of a long list are seen, and which of them is chosen.

/// The chosen line and the first one that is seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scroll {
    at: usize,
    top: usize,
}

/// A step through a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// So many lines down, up where it is less than 0.
    Lines(isize),
    /// So many pages down, up where it is less than 0.
    Pages(isize),
    /// To the first line.
    First,
    /// To the last line.
    Last,
}

impl Step {
    /// So many lines down, where `height` of them are seen.
    fn lines(self, height: usize) -> isize {
        let page = isize::try_from(height.max(1)).unwrap_or(isize::MAX);
        match self {
            Self::Lines(by) => by,
            Self::Pages(pages) => pages.saturating_mul(page),
            Self::First => isize::MIN,
            Self::Last => isize::MAX,
        }
    }
}

impl Scroll {
    /// The chosen line.
    pub const fn at(&self) -> usize {
        self.at
    }

    /// The first line that is seen.
    pub const fn top(&self) -> usize {
        self.top
    }

    /// Goes a step in a list of so many lines, of which `height` are seen.
    pub fn step(&mut self, step: Step, lines: usize, height: usize) {
        self.at = self.at.saturating_add_signed(step.lines(height));
        self.fit(lines, height);
    }

    /// Chooses a line.
    pub fn choose(&mut self, at: usize, lines: usize, height: usize) {
        self.at = at;
        self.fit(lines, height);
    }

    /// Stays within so many lines, of which `height` are seen.
    pub fn fit(&mut self, lines: usize, height: usize) {
        self.at = self.at.min(lines.saturating_sub(1));
        self.top = self.top.min(lines.saturating_sub(height)).min(self.at);
        let least = (self.at + 1).saturating_sub(height.max(1));
        self.top = self.top.max(least);
    }

    /// Goes a step in a text, where no line is chosen.
    pub fn turn(&mut self, step: Step, lines: usize, height: usize) {
        let most = lines.saturating_sub(height);
        self.top = self.top.saturating_add_signed(step.lines(height)).min(most);
        self.at = self.top;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps() {
        let mut scroll = Scroll::default();
        let mut check = |step, want: (usize, usize)| {
            scroll.step(step, 100, 10);
            assert_eq!((scroll.at(), scroll.top()), want, "{step:?}");
        };
        check(Step::Lines(-1), (0, 0));
        check(Step::Lines(9), (9, 0));
        check(Step::Lines(1), (10, 1));
        check(Step::Pages(1), (20, 11));
        check(Step::Last, (99, 90));
        check(Step::Lines(1), (99, 90));
        check(Step::Lines(-9), (90, 90));
        check(Step::Lines(-1), (89, 89));
        check(Step::First, (0, 0));
    }

    #[test]
    fn lists_become_shorter() {
        let mut scroll = Scroll::default();
        scroll.choose(50, 100, 10);
        assert_eq!((scroll.at(), scroll.top()), (50, 41));
        scroll.fit(20, 10);
        assert_eq!((scroll.at(), scroll.top()), (19, 10));
        scroll.fit(0, 0);
        assert_eq!((scroll.at(), scroll.top()), (0, 0));
        scroll.step(Step::Last, 5, 10);
        assert_eq!((scroll.at(), scroll.top()), (4, 0));
    }

    #[test]
    fn texts() {
        let mut scroll = Scroll::default();
        let mut check = |step, want: usize| {
            scroll.turn(step, 25, 10);
            assert_eq!(scroll.top(), want, "{step:?}");
        };
        check(Step::Lines(2), 2);
        check(Step::Pages(1), 12);
        check(Step::Last, 15);
        check(Step::Lines(-1), 14);
        check(Step::First, 0);
    }
}
