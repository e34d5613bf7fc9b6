//! Windows of a step on the display of this command (`--x11`).
//!
//! X clients on the nodes show a cookie that is made for the step; the real one never leaves this
//! host. [`address`] reads `DISPLAY`, [`real`] knows the display and its cookie, and [`clients`]
//! carries what X clients on the nodes and the display say to each other.
//!
//! Always holds: nothing but the display that `DISPLAY` names is ever connected to, and only for a
//! client that has shown the step's cookie.

pub mod address;
pub mod clients;
pub mod real;

use cosy_model::step::DisplayNodes;
use cosy_model::{JobId, variables};

/// What tells commands inside of an allocation that its steps show windows, `NAME=value`.
pub fn variable(nodes: DisplayNodes, job: JobId) -> String {
    format!("{}={job}:{}", variables::X11, nodes.word())
}

/// The nodes on which programs of a step find a display: as asked for, else as asked for with the
/// allocation `job` around this command. What was asked for with another job counts for nothing.
pub fn nodes(asked: Option<DisplayNodes>, job: Option<JobId>) -> Option<DisplayNodes> {
    asked.or_else(|| of_allocation(&std::env::var(variables::X11).ok()?, job?))
}

fn of_allocation(variable: &str, job: JobId) -> Option<DisplayNodes> {
    let (of, nodes) = variable.split_once(':')?;
    nodes.parse().ok().filter(|_| of == job.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_allocation_asked_for_is_for_its_steps() {
        let text = variable(DisplayNodes::Last, JobId(12));
        let (name, value) = text.split_once('=').unwrap();
        assert_eq!(name, variables::X11);
        assert_eq!(of_allocation(value, JobId(12)), Some(DisplayNodes::Last));
        assert_eq!(of_allocation(value, JobId(13)), None);
        assert_eq!(of_allocation("12:nowhere", JobId(12)), None);
        assert_eq!(of_allocation("12", JobId(12)), None);
        assert_eq!(nodes(Some(DisplayNodes::First), None), Some(DisplayNodes::First));
    }
}
