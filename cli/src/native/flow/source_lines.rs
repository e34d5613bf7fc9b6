//! Lines of tasks and of the deadline in a workflow file, so that refusals of the controller can
//! name file and line.

use crate::native::flow::tree::{Node, ParseError};
use cosy_client::CallError;
use cosy_model::{About, Refusal};
use cosy_view::words::task_fault;
use std::collections::BTreeMap;

/// The lines of a workflow file that refusals can be about; all count from 1.
#[derive(Clone, Debug, Default)]
pub struct SourceLines {
    /// Name of the file in messages.
    pub file: String,
    /// Line of each task, by name.
    pub tasks: BTreeMap<String, u32>,
    /// Line of the deadline; `None` when the command line has set it.
    pub deadline: Option<u32>,
}

impl SourceLines {
    /// The line of `deadline` or `slack` in `[workflow]`.
    pub fn deadline_in(header: Option<&Node>) -> Option<u32> {
        let header = header?;
        let node = header.get("deadline").or_else(|| header.get("slack"))?;
        Some(node.line)
    }

    /// The same error, whose message begins with file and line where these are known.
    pub fn with_line(&self, error: CallError) -> CallError {
        match error {
            CallError::Refused(mut refusal) => {
                if let Some(line) = self.line_of(&refusal) {
                    refusal.message = ParseError::new(line, refusal.message).in_file(&self.file);
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
        let mut lines = SourceLines {
            file: "f.toml".into(),
            tasks: [("it's".to_owned(), 7)].into(),
            deadline: Some(3),
        };
        let check = |lines: &SourceLines, message: &str, about: Option<About>, want: &str| {
            let refusal = Refusal {
                about,
                ..Refusal::invalid(message)
            };
            let error = lines.with_line(CallError::Refused(refusal));
            assert_eq!(error.to_string(), want);
        };
        let deadline = Some(About::Deadline);
        let task = "task 'it's': no";
        check(&lines, task, None, "f.toml:7: task 'it's': no");
        check(&lines, task, deadline, "f.toml:7: task 'it's': no");
        check(&lines, "task 'other': no", deadline, "task 'other': no");
        check(&lines, "too early", deadline, "f.toml:3: too early");
        check(&lines, "the deadline", None, "the deadline");
        check(&lines, "no", Some(About::Tasks), "no");
        lines.deadline = None;
        check(&lines, "too early", deadline, "too early");
    }
}
