//! The page of nodes: a line for each.

use crate::native::record::{self, TimeStyle};
use crate::native::table::TableStyle;
use crate::native::top::scroll::{Scroll, Step};
use cosy_model::api::NodeInfo;
use cosy_view::node;
use jiff::Zoned;

/// The page of nodes.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    all: Vec<NodeInfo>,
    /// The line behind `/`.
    line: String,
    scroll: Scroll,
}

impl Nodes {
    /// They stand otherwise; the chosen one stays chosen.
    pub fn take(&mut self, all: Vec<NodeInfo>, height: usize) {
        let chosen = self.chosen().to_owned();
        self.all = all;
        self.stay(&chosen, height);
    }

    /// Looks for some of them.
    pub fn look_for(&mut self, line: &str, height: usize) {
        let chosen = self.chosen().to_owned();
        line.clone_into(&mut self.line);
        self.stay(&chosen, height);
    }

    fn stay(&mut self, chosen: &str, height: usize) {
        let found = self.found();
        let (at, count) = (found.iter().position(|node| node.name == chosen), found.len());
        let at = at.unwrap_or(self.scroll.at());
        self.scroll.choose(at, count, height);
    }

    /// What is looked for.
    pub fn line(&self) -> &str {
        &self.line
    }

    fn found(&self) -> Vec<&NodeInfo> {
        let words: Vec<String> = self
            .line
            .split_whitespace()
            .map(str::to_lowercase)
            .collect();
        let has = |node: &&NodeInfo| {
            let lists = [node.queues.join(" "), node.features.join(" ")];
            let texts = [&node.name, &node.state, &node.reason, &lists[0], &lists[1]];
            let has = |word: &String| texts.iter().any(|text| text.to_lowercase().contains(word));
            words.iter().all(has)
        };
        self.all.iter().filter(has).collect()
    }

    /// The chosen line moves.
    pub fn step(&mut self, step: Step, height: usize) {
        self.scroll.step(step, self.found().len(), height);
    }

    /// The screen has another height.
    pub fn fit(&mut self, height: usize) {
        self.scroll.fit(self.found().len(), height);
    }

    /// Name of the chosen node; empty where there is none.
    pub fn chosen(&self) -> &str {
        let found = self.found();
        found
            .get(self.scroll.at())
            .map_or("", |node| node.name.as_str())
    }

    /// Which line is chosen, and which is seen first.
    pub const fn scroll(&self) -> Scroll {
        self.scroll
    }

    /// The line of titles, and the rows.
    pub fn lines(&self, width: usize, colour: bool, now: &Zoned) -> (String, Vec<String>) {
        let style = TableStyle {
            width: Some(width),
            colour,
            ..TableStyle::default()
        };
        let found: Vec<NodeInfo> = self.found().into_iter().cloned().collect();
        let text = record::rendered(node::LIST, &found, TimeStyle::in_lists(now), style).text;
        let mut lines = text.lines().map(str::to_owned);
        let head = lines.next().unwrap_or_default();
        (head, lines.collect())
    }

    /// What is told where there are no rows.
    pub fn none(&self) -> String {
        match self.line.as_str() {
            "" => "there are no nodes".to_owned(),
            line => format!("no node here for '{line}': Esc shows the others again"),
        }
    }

    /// How many there are, and how they stand.
    pub fn summary(&self) -> String {
        let total = node::total(&self.all);
        match self.line.as_str() {
            "" => total,
            line => format!("{total} | /{line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::top::sample;

    #[test]
    fn the_chosen_node_stays_chosen() {
        let mut nodes = Nodes::default();
        nodes.take(sample::nodes(20), 5);
        nodes.step(Step::Lines(6), 5);
        assert_eq!((nodes.chosen(), nodes.scroll().top()), ("n7", 2));
        nodes.look_for("n1", 5);
        assert_eq!(nodes.chosen(), "n15");
        nodes.look_for("N7", 5);
        assert_eq!(nodes.chosen(), "n7");
        nodes.look_for("nothing", 5);
        assert_eq!(nodes.chosen(), "");
        nodes.look_for("", 5);
        nodes.take(sample::nodes(3), 5);
        assert_eq!(nodes.chosen(), "n1");
    }
}
