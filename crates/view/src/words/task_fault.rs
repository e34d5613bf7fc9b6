//! What the controller has against one task of a workflow: `task 'name': why`. Commands tell it
//! with the line of the file on which the task stands.

const BEFORE: &str = "task '";
const BEHIND: &str = "': ";

/// The sentence about a task.
pub fn write(task: &str, why: &str) -> String {
    format!("{BEFORE}{task}{BEHIND}{why}")
}

/// The task that a sentence is about; `None` when it is about none.
pub fn task(text: &str) -> Option<&str> {
    let (task, _) = text.strip_prefix(BEFORE)?.split_once(BEHIND)?;
    Some(task)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_found_again() {
        for name in ["a", "it's", "a b", "'"] {
            assert_eq!(task(&write(name, "its queue 'x': no")), Some(name));
        }
        assert_eq!(task("the deadline is in the past"), None);
        assert_eq!(task("task 'a"), None);
    }
}
