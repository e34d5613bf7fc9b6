//! SVG as text: a page, boxes, lines, words.

use std::fmt::Display;

/// A picture that is being drawn. Lengths are in pixels.
pub struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// Where words stand beside their point.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// They begin there.
    Start,
    /// Their middle is there.
    Middle,
    /// They end there.
    End,
}

const STYLE: &str = "\
text{font-family:sans-serif;font-size:11px;fill:#333}\
.t{font-size:15px;font-weight:bold}\
.g{stroke:#ddd;stroke-width:1}\
.f{fill:none;stroke:#888;stroke-width:1}\
.j{stroke:#fff;stroke-width:.5}\
.b{stroke:#000;stroke-width:1;stroke-dasharray:3 2}\
.u{fill:#4878a8;fill-opacity:.35;stroke:#2f5d8a;stroke-width:1}\
.l{fill:none;stroke-width:1.5}\
.n{font-size:9px;text-anchor:middle;pointer-events:none}";

impl Svg {
    /// An empty page with a title.
    pub fn new(width: f64, height: f64, title: &str) -> Self {
        let mut svg = Self {
            body: String::new(),
            width,
            height,
        };
        let size = format!("width=\"{}\" height=\"{}\"", px(width), px(height));
        svg.push(format_args!("<rect {size} fill=\"#fff\"/>\n"));
        let title = escape(title);
        svg.push(format_args!(
            "<text class=\"t\" x=\"16\" y=\"24\">{title}</text>\n"
        ));
        svg
    }

    /// What is put there must be well-formed.
    fn push(&mut self, what: impl Display) {
        self.body.push_str(&what.to_string());
    }

    /// A box, with words that are shown when the pointer is on it.
    pub fn bar(&mut self, class: &str, fill: &str, at: [f64; 4], tip: &str) {
        let [x, y, width, height] = at.map(px);
        let tip = escape(tip);
        self.push(format_args!(
            "<rect class=\"{class}\" fill=\"{fill}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" \
             height=\"{height}\"><title>{tip}</title></rect>\n"
        ));
    }

    /// An empty box.
    pub fn frame(&mut self, at: [f64; 4]) {
        let [x, y, width, height] = at.map(px);
        self.push(format_args!(
            "<rect class=\"f\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>\n"
        ));
    }

    /// A thin line behind things.
    pub fn grid(&mut self, from: (f64, f64), to: (f64, f64)) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(px);
        self.push(format_args!(
            "<line class=\"g\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>\n"
        ));
    }

    /// An outline as the commands of a `path`.
    pub fn path(&mut self, class: &str, commands: &str) {
        self.push(format_args!("<path class=\"{class}\" d=\"{commands}\"/>\n"));
    }

    /// A line of a colour, with words that are shown when the pointer is on it.
    pub fn line(&mut self, colour: &str, commands: &str, tip: &str) {
        let tip = escape(tip);
        self.push(format_args!(
            "<path class=\"l\" stroke=\"{colour}\" d=\"{commands}\"><title>{tip}</title></path>\n"
        ));
    }

    /// Words.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, words: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, words) = (px(x), px(y), escape(words));
        self.push(format_args!(
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{words}</text>\n"
        ));
    }

    /// Words moved and turned by an SVG transformation.
    pub fn aside(&mut self, transform: &str, words: &str) {
        let words = escape(words);
        self.push(format_args!(
            "<text transform=\"{transform}\" text-anchor=\"middle\">{words}</text>\n"
        ));
    }

    /// A small name on a bar.
    pub fn name(&mut self, x: f64, y: f64, words: &str) {
        let (x, y, words) = (px(x), px(y), escape(words));
        self.push(format_args!(
            "<text class=\"n\" x=\"{x}\" y=\"{y}\">{words}</text>\n"
        ));
    }

    /// The whole text of the file.
    pub fn finish(self) -> String {
        let (width, height) = (px(self.width), px(self.height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\">\n<style>{STYLE}</style>\n{}</svg>\n",
            self.body
        )
    }
}

/// A length with at most one digit behind the point.
pub fn px(length: f64) -> String {
    let text = format!("{length:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
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
            '\n' | '\t' => escaped.push(c),
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
        check("\u{0}\u{1b}\u{ffff}é\n", "???é\n");
    }

    #[test]
    fn lengths() {
        let check = |length: f64, want: &str| assert_eq!(px(length), want);
        check(3.0, "3");
        check(0.26, "0.3");
        check(-0.01, "0");
        check(1e9, "1000000000");
    }
}
