//! Where tasks and the deadline stand in a file, so that what the controller has against
//! them is told with file and line too.

use crate::native::flow::tree::{Mistake, Node};
use cosy_client::CallError;
use cosy_model::{About, Refusal};
use cosy_view::words::task_fault;
use std::collections::BTreeMap;

/// Lines by what stands there.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The file's name.
    pub file: String,
    /// Each task's line.
    pub tasks: BTreeMap<String, u32>,
    /// The line of the deadline; `None` when it is not the file's.
    pub deadline: Option<u32>,
}

impl Places {
    /// The line on which `[workflow]` says by when.
    pub fn deadline_in(head: Option<&Node>) -> Option<u32> {
        let head = head?;
        let node = head.get("deadline").or_else(|| head.get("slack"))?;
        Some(node.line)
    }

    /// The error, with the line that it is about where that is known.
    pub fn of_error(&self, error: CallError) -> CallError {
        match error {
            CallError::Refused(mut refusal) => {
                if let Some(line) = self.line_of(&refusal) {
                    refusal.message = Mistake::new(line, refusal.message).in_file(&self.file);
                }
                CallError::Refused(refusal)
            }
            other => other,
        }
    }

    fn line_of(&self, refusal: &Refusal) -> Option<u32> {
        if let Some(name) = task_fault::task(&refusal.message) {
            return self.tasks.get(name).copied();
        }
        self.deadline
            .filter(|_| refusal.about == Some(About::Deadline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_refusals() {
        let mut places = Places {
            file: "f.toml".into(),
            tasks: [("it's".to_owned(), 7)].into(),
            deadline: Some(3),
        };
        let check = |places: &Places, message: &str, about: Option<About>, want: &str| {
            let refusal = Refusal {
                about,
                ..Refusal::invalid(message)
            };
            let error = places.of_error(CallError::Refused(refusal));
            assert_eq!(error.to_string(), want);
        };
        let deadline = Some(About::Deadline);
        let task = "task 'it's': no";
        check(&places, task, None, "f.toml:7: task 'it's': no");
        check(&places, task, deadline, "f.toml:7: task 'it's': no");
        check(&places, "task 'other': no", deadline, "task 'other': no");
        check(&places, "too early", deadline, "f.toml:3: too early");
        check(&places, "the deadline", None, "the deadline");
        check(&places, "no", Some(About::Tasks), "no");
        places.deadline = None;
        check(&places, "too early", deadline, "too early");
    }
}
