//! What an interrupt (^C) means: the first shows what runs, a second within a second ends
//! the step, a third ends it by force, a fourth leaves it to the supervisors.
//!
//! Pure. As in Slurm's srun, where one interrupt alone ends nothing either.

use std::time::{Duration, Instant};

/// Two interrupts within this time belong together.
pub const TOGETHER: Duration = Duration::from_secs(1);

/// What an interrupt means to the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rule {
    /// As described above.
    #[default]
    Tell,
    /// The first already ends the step (`srun --quit-on-interrupt`).
    End,
    /// The first is passed on to the tasks instead of that (`srun --disable-status`).
    PassOn,
}

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Say what runs, and how to end it.
    Tell,
    /// End the step: SIGTERM, grace, SIGKILL.
    End,
    /// SIGKILL at once.
    Force,
    /// Leave; the supervisors end everything when the command is gone.
    Leave,
}

/// What came before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interrupts {
    last: Option<Instant>,
    ended: u32,
}

impl Interrupts {
    /// An interrupt at that time.
    pub fn pressed(&mut self, now: Instant) -> Act {
        let together = self
            .last
            .replace(now)
            .is_some_and(|last| now.saturating_duration_since(last) <= TOGETHER);
        match (self.ended, together) {
            (0, false) => Act::Tell,
            (0, true) => self.step(Act::End),
            (1, _) => self.step(Act::Force),
            (_, _) => Act::Leave,
        }
    }

    /// Another signal asks for the end (SIGTERM, SIGHUP).
    pub fn asked(&mut self, now: Instant) -> Act {
        self.last = Some(now);
        match self.ended {
            0 => self.step(Act::End),
            1 => self.step(Act::Force),
            _ => Act::Leave,
        }
    }

    fn step(&mut self, act: Act) -> Act {
        self.ended += 1;
        act
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules() {
        let start = Instant::now();
        let check = |presses: &[(u64, bool)], want: &[Act]| {
            let mut interrupts = Interrupts::default();
            let got: Vec<Act> = presses
                .iter()
                .map(|(ms, interrupt)| {
                    let at = start + Duration::from_millis(*ms);
                    if *interrupt {
                        interrupts.pressed(at)
                    } else {
                        interrupts.asked(at)
                    }
                })
                .collect();
            assert_eq!(got, want, "{presses:?}");
        };
        use Act::{End, Force, Leave, Tell};
        check(&[(0, true)], &[Tell]);
        check(&[(0, true), (1500, true)], &[Tell, Tell]);
        check(&[(0, true), (900, true)], &[Tell, End]);
        check(&[(0, true), (1500, true), (2000, true)], &[Tell, Tell, End]);
        check(&[(0, true), (1, true), (9000, true)], &[Tell, End, Force]);
        check(&[(0, true), (1, true), (2, true), (3, true)], &[Tell, End, Force, Leave]);
        check(&[(0, false), (1, true), (2, false)], &[End, Force, Leave]);
    }
}
