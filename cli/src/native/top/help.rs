//! What the keys do, in words.

use crate::native::table::broken;

/// Columns of the keys.
const KEYS: usize = 15;

/// Keys with what they do; a title where there is no key.
const ALL: [(&str, &str); 31] = [
    ("", "Everywhere"),
    ("1 2 3 4", "jobs, nodes, the plan, one job"),
    ("arrows, j k", "up and down; PgUp, PgDn, Home, End too"),
    ("/", "look for something; Esc shows all again"),
    ("?", "this help"),
    ("Esc", "a step back"),
    ("q, Ctrl-C", "end; jobs stay as they are"),
    ("Ctrl-Z", "stop for now; 'fg' goes on"),
    ("Ctrl-L", "draw the screen anew"),
    ("", "Jobs"),
    ("Enter", "open the job"),
    ("u", "your jobs, or everyone's"),
    ("s", "order by id, state, start, user, queue, name, cores"),
    ("c", "cancel the job; asks before it does"),
    ("h", "hold the job, or let it go; asks before it does"),
    ("Q", "what a reservation of its shape would cost; books nothing"),
    (
        "/",
        "words of a line; user=ann queue=day state=running name=x node=n1 are asked of the controller, which knows all jobs",
    ),
    ("", "Nodes"),
    ("Enter", "the jobs on the node"),
    ("", "Plan"),
    ("left, right", "earlier, later"),
    ("+ -", "a shorter time, a longer one"),
    ("0", "back to the present"),
    ("/", "nodes with this in their name"),
    ("", "One job"),
    ("o, Tab", "its output in the whole window, and back"),
    ("e", "its error output, where that is a file of its own"),
    ("c h Q", "as among jobs"),
    ("", "What is not seen"),
    (
        "",
        "The output is read on this host with your rights: what you may not read, or what is on another host, is not shown.",
    ),
    (
        "",
        "Of a very long list the first lines are fetched. A list that takes the controller long is asked for seldom.",
    ),
];

/// The lines, in so many columns.
pub fn lines(width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (keys, text) in ALL {
        let is_title = keys.is_empty() && !text.ends_with('.');
        let indent = match (keys.is_empty(), is_title) {
            (_, true) => 0,
            (true, false) => 2,
            (false, false) => KEYS + 2,
        };
        if is_title && !lines.is_empty() {
            lines.push(String::new());
        }
        for (at, piece) in broken(text, width.saturating_sub(indent).max(10))
            .iter()
            .enumerate()
        {
            let keys = if at == 0 { keys } else { "" };
            lines.push(match indent {
                0 | 2 => format!("{:indent$}{piece}", ""),
                _ => format!("  {keys:<KEYS$}{piece}"),
            });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fits() {
        for width in [40, 80, 120] {
            for line in lines(width) {
                assert!(line.len() <= width, "{width}: {line}");
            }
        }
        assert!(
            lines(80).iter().any(|line| line
                == "  s              order by id, state, start, user, queue, name, cores")
        );
    }
}
