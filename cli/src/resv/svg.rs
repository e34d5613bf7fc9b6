//! SVG as text: a page, boxes, lines, words. Lengths are in whole pixels.

use std::fmt::Display;

/// A picture that is being drawn.
pub struct Svg {
    body: String,
    width: i64,
    height: i64,
}

/// Where words stand beside their point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    /// They begin there.
    Start,
    /// Their middle is there.
    Middle,
    /// They end there.
    End,
}

/// A box: left, top, width, height.
pub type Box4 = [i64; 4];

impl Svg {
    /// An empty page with a title and the rules of its classes.
    pub fn new(width: i64, height: i64, style: &str, title: &str) -> Self {
        let mut svg = Self {
            body: String::new(),
            width,
            height,
        };
        svg.push(format_args!("<style>{style}</style>\n"));
        svg.push(format_args!(
            "<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
        ));
        svg.words(16, 24, Anchor::Start, "t", title);
        svg
    }

    fn push(&mut self, what: impl Display) {
        self.body.push_str(&what.to_string());
    }

    /// A box, with words that are shown when the pointer is on it.
    pub fn bar(&mut self, class: &str, at: Box4, tip: &str) {
        let [x, y, width, height] = at;
        let tip = escape(tip);
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" \
             height=\"{height}\"><title>{tip}</title></rect>\n"
        ));
    }

    /// A line.
    pub fn line(&mut self, class: &str, from: (i64, i64), to: (i64, i64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>\n"
        ));
    }

    /// Words.
    pub fn words(&mut self, x: i64, y: i64, anchor: Anchor, class: &str, words: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let words = escape(words);
        self.push(format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{words}</text>\n"
        ));
    }

    /// The whole text of the file.
    pub fn finish(self) -> String {
        let (width, height) = (self.width, self.height);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\">\n{}</svg>\n",
            self.body
        )
    }
}

/// Text as XML takes it: markup is escaped, characters that XML does not know become `?`.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('?'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        let check = |text: &str, want: &str| assert_eq!(escape(text), want);
        check("a&b <c> \"d\"", "a&amp;b &lt;c&gt; &quot;d&quot;");
        check("\u{0}\u{1b}\u{ffff}\u{e9}", "???\u{e9}");
    }
}
