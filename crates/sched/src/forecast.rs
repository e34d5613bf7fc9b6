//! What-if plans: a plan that is asked again and again what a reservation would change.
//!
//! A reservation changes nothing before the first decision that looks as far ahead as its
//! start. So the plan is kept in stages, each with how far its decisions have looked, and
//! played again only from the last stage that the reservation is beyond the reach of.
//!
//! What always holds: the answer is the plan that would be made from the begin with the
//! reservations in it.
//!
//! Source: what-if method of Röblitz and Rzadca, "On the Placement of Reservations into Job
//! Schedules" (2006), section 4.

use crate::Block;
use crate::plan::{Plan, Replay};
use crate::scheduler::Scheduler;
use cosy_model::Time;

/// How many stages are kept at most: each costs a snapshot, and saves part of the play for
/// questions about later starts.
const STAGES: usize = 32;

/// A plan, ready for questions.
#[derive(Clone, Debug)]
pub struct Forecast {
    plan: Plan,
    /// As the first instant has not been decided yet.
    origin: Replay,
    stages: Vec<Replay>,
}

impl Scheduler {
    /// The plan as [`Scheduler::plan`] makes it, ready for questions.
    pub fn forecast(&self, now: Time, most: Option<usize>) -> Forecast {
        self.forecast_for(now, most, STAGES)
    }

    /// The same for so many questions.
    pub(crate) fn forecast_for(
        &self,
        now: Time,
        most: Option<usize>,
        questions: usize,
    ) -> Forecast {
        let mut play = Replay::new(self, now, self.first_jobs(most));
        let origin = play.clone();
        let step = play.missing.div_ceil(questions.clamp(1, STAGES)).max(1);
        let mut next = play.missing.saturating_sub(step);
        play.watch();
        play.begin();
        let mut stages = vec![play.clone()];
        while play.step() {
            if play.missing <= next {
                stages.push(play.clone());
                next = play.missing.saturating_sub(step);
            }
        }
        Forecast {
            plan: play.plan(),
            origin,
            stages,
        }
    }
}

impl Forecast {
    /// The plan as it is.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The plan with these reservations accepted.
    pub fn with(&self, placed: &[Block]) -> Plan {
        let first = placed.iter().map(|block| block.start).min();
        let untouched = |play: &&Replay| first.is_none_or(|first| play.reach() <= first);
        // Stages reach farther and farther.
        let known = self.stages.iter().take_while(untouched).last();
        let mut play = match known {
            Some(stage) => {
                let mut play = stage.clone();
                play.accept(placed);
                play
            }
            None => {
                let mut play = self.origin.clone();
                play.insert(placed);
                play.begin();
                play
            }
        };
        play.run();
        play.plan()
    }
}
