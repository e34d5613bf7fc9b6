//! What an interrupt (^C) means: the first shows what runs, a second within a second ends
//! the step, a third ends it by force, a fourth leaves it to the supervisors.
//!
//! Pure. As in Slurm's srun, where one interrupt alone ends nothing either.

use std::time::{Duration, Instant};

/// A second interrupt within this time ends the step.
pub const REPEAT_WINDOW: Duration = Duration::from_secs(1);

/// What the first interrupt does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InterruptMode {
    /// Shows which tasks run, as described above.
    #[default]
    Report,
    /// Ends the step (`srun --quit-on-interrupt`).
    End,
    /// Goes to the tasks instead (`srun --disable-status`).
    PassOn,
}

/// What the command does for a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InterruptAction {
    /// Say what runs, and how to end it.
    Report,
    /// End the step: SIGTERM, grace, SIGKILL.
    End,
    /// SIGKILL at once.
    Force,
    /// Leave; the supervisors end everything when the command is gone.
    Leave,
}

/// The signals so far that asked for the end of the step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interrupts {
    last_signal: Option<Instant>,
    /// How often the end was asked for: 1 ended the step, 2 ended it by force.
    escalations: u32,
}

impl Interrupts {
    /// What an interrupt at the time `now` does.
    pub fn on_interrupt(&mut self, now: Instant) -> InterruptAction {
        let together = self
            .last_signal
            .replace(now)
            .is_some_and(|last| now.saturating_duration_since(last) <= REPEAT_WINDOW);
        match (self.escalations, together) {
            (0, false) => InterruptAction::Report,
            (0, true) => self.escalate(InterruptAction::End),
            (1, _) => self.escalate(InterruptAction::Force),
            (_, _) => InterruptAction::Leave,
        }
    }

    /// What SIGTERM or SIGHUP at the time `now` does: it asks for the end at once.
    pub fn on_termination(&mut self, now: Instant) -> InterruptAction {
        self.last_signal = Some(now);
        match self.escalations {
            0 => self.escalate(InterruptAction::End),
            1 => self.escalate(InterruptAction::Force),
            _ => InterruptAction::Leave,
        }
    }

    fn escalate(&mut self, action: InterruptAction) -> InterruptAction {
        self.escalations += 1;
        action
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules() {
        let start = Instant::now();
        let check = |presses: &[(u64, bool)], want: &[InterruptAction]| {
            let mut interrupts = Interrupts::default();
            let got: Vec<InterruptAction> = presses
                .iter()
                .map(|(ms, interrupt)| {
                    let at = start + Duration::from_millis(*ms);
                    if *interrupt {
                        interrupts.on_interrupt(at)
                    } else {
                        interrupts.on_termination(at)
                    }
                })
                .collect();
            assert_eq!(got, want, "{presses:?}");
        };
        use InterruptAction::{End, Force, Leave, Report};
        check(&[(0, true)], &[Report]);
        check(&[(0, true), (1500, true)], &[Report, Report]);
        check(&[(0, true), (900, true)], &[Report, End]);
        check(&[(0, true), (1500, true), (2000, true)], &[Report, Report, End]);
        check(&[(0, true), (1, true), (9000, true)], &[Report, End, Force]);
        check(&[(0, true), (1, true), (2, true), (3, true)], &[Report, End, Force, Leave]);
        check(&[(0, false), (1, true), (2, false)], &[End, Force, Leave]);
    }
}
