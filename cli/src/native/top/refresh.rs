//! When the controller is asked again for what is shown, and since when it has not answered.
//!
//! One question is on its way at a time. The next comes no sooner than five times what the last
//! answer took: a list that is dear is asked for seldom.

use crate::native::top::event::Failure;
use std::time::Duration;

/// A pause is so many times what the answer took, at least.
const TIMES: u32 = 5;
/// A question may be on its way so long before that is told.
const QUIET: Duration = Duration::from_secs(3);

/// When the controller was asked, answers, and is asked again.
#[derive(Clone, Debug)]
pub struct Refresh {
    every: Duration,
    /// Since when a question is on its way.
    asked: Option<Duration>,
    /// When the next is due.
    due: Duration,
    /// The next is due as soon as none is on its way.
    hurried: bool,
    /// When the last answer came.
    answered: Option<Duration>,
    /// Why the last question had none.
    trouble: Option<String>,
}

impl Refresh {
    /// Asks so often.
    pub const fn new(every: Duration) -> Self {
        Self {
            every,
            asked: None,
            due: Duration::ZERO,
            hurried: false,
            answered: None,
            trouble: None,
        }
    }

    /// Whether it is time to ask.
    pub fn is_due(&self, passed: Duration) -> bool {
        self.asked.is_none() && (self.hurried || self.due <= passed)
    }

    /// A question is on its way.
    pub const fn ask(&mut self, passed: Duration) {
        self.asked = Some(passed);
        self.hurried = false;
    }

    /// Something else is shown: it is asked for as soon as no question is on its way.
    pub const fn hurry(&mut self) {
        self.hurried = true;
    }

    /// The question has come back, after so long.
    pub fn answer(&mut self, passed: Duration, took: Duration, failure: Option<&Failure>) {
        self.asked = None;
        match failure.filter(|failure| failure.unreachable) {
            Some(failure) => self.trouble = Some(failure.text.clone()),
            None => {
                self.answered = Some(passed);
                self.trouble = None;
            }
        }
        let pause = self.every.max(took.saturating_mul(TIMES));
        self.due = passed.saturating_add(pause);
    }

    /// There is an answer already.
    pub const fn has_answer(&self) -> bool {
        self.answered.is_some()
    }

    /// That there is no answer, and since when.
    pub fn trouble(&self, passed: Duration) -> Option<String> {
        let silent = |asked: &Duration| passed.saturating_sub(*asked) >= QUIET;
        if self.trouble.is_none() && !self.asked.as_ref().is_some_and(silent) {
            return None;
        }
        let since = passed.saturating_sub(self.answered.unwrap_or_default());
        let why = self.trouble.as_ref().map(|why| format!(": {why}"));
        Some(format!("no answer since {} s{}", since.as_secs(), why.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn one_question_at_a_time() {
        let mut refresh = Refresh::new(s(2));
        assert!(refresh.is_due(s(0)));
        refresh.ask(s(0));
        assert!(!refresh.is_due(s(100)));
        refresh.answer(s(1), Duration::from_millis(10), None);
        assert!(!refresh.is_due(s(2)) && refresh.is_due(s(3)));
    }

    #[test]
    fn dear_answers_are_asked_for_seldom() {
        let mut refresh = Refresh::new(s(2));
        refresh.ask(s(0));
        refresh.answer(s(3), s(3), None);
        assert!(!refresh.is_due(s(17)) && refresh.is_due(s(18)));
        refresh.hurry();
        assert!(refresh.is_due(s(4)));
    }

    #[test]
    fn what_is_wanted_now_is_asked_for_when_the_question_is_back() {
        let mut refresh = Refresh::new(s(2));
        refresh.ask(s(0));
        refresh.answer(s(0), s(0), None);
        refresh.ask(s(2));
        refresh.hurry();
        refresh.answer(s(3), s(1), None);
        assert!(refresh.is_due(s(3)));
    }

    #[test]
    fn silence_is_told() {
        let mut refresh = Refresh::new(s(2));
        refresh.ask(s(0));
        refresh.answer(s(1), s(0), None);
        refresh.ask(s(3));
        assert_eq!(refresh.trouble(s(5)), None);
        assert_eq!(refresh.trouble(s(6)).as_deref(), Some("no answer since 5 s"));
        let failure = Failure {
            text: "nobody is there".into(),
            unreachable: true,
        };
        refresh.answer(s(7), s(4), Some(&failure));
        let told = "no answer since 6 s: nobody is there";
        assert_eq!(refresh.trouble(s(7)).as_deref(), Some(told));
        refresh.ask(s(27));
        assert!(refresh.trouble(s(27)).is_some());
        refresh.answer(s(28), s(0), None);
        assert_eq!(refresh.trouble(s(28)), None);
    }

    /// A refusal is an answer.
    #[test]
    fn refusals_are_answers() {
        let mut refresh = Refresh::new(s(2));
        refresh.ask(s(0));
        let refusal = Failure {
            text: "no".into(),
            unreachable: false,
        };
        refresh.answer(s(1), s(0), Some(&refusal));
        assert!(refresh.has_answer() && refresh.trouble(s(1)).is_none());
    }
}
