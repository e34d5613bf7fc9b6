//! Pictures as SVG text: a page with a title, boxes, lines, words.
//!
//! Ours because it is so little: a library for drawing brings a renderer or a tree of nodes,
//! and this puts down eight kinds of lines. Texts may be anything; they come out escaped.

use std::fmt::Display;

/// A length or a place in pixels: whole (`i64`), or with one digit behind the point (`f64`).
pub trait Length: Copy {
    /// As it stands in an attribute.
    fn px(self) -> String;
}

impl Length for i64 {
    fn px(self) -> String {
        self.to_string()
    }
}

impl Length for f64 {
    fn px(self) -> String {
        let text = format!("{self:.1}");
        let text = text.strip_suffix(".0").unwrap_or(&text);
        if text == "-0" {
            "0".to_owned()
        } else {
            text.to_owned()
        }
    }
}

/// Where words stand beside their point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    /// They begin at the point.
    Start,
    /// Their middle is at the point.
    Middle,
    /// They end at the point.
    End,
}

impl Anchor {
    fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// A box: left, top, width, height.
pub type Rectangle<L> = [L; 4];

/// A picture that is being drawn. What is drawn later lies above what was drawn before.
pub struct Svg {
    body: String,
    width: String,
    height: String,
}

impl Svg {
    /// A white page with the rules of its classes (CSS) and a title, which has the class `t`.
    pub fn new<L: Length>(width: L, height: L, style: &str, title: &str) -> Self {
        let (width, height) = (width.px(), height.px());
        let mut svg = Self {
            body: String::new(),
            width,
            height,
        };
        svg.push(format_args!("<style>{style}</style>\n"));
        let size = format!("width=\"{}\" height=\"{}\"", svg.width, svg.height);
        svg.push(format_args!("<rect {size} fill=\"#fff\"/>\n"));
        svg.words(16, 24, Anchor::Start, "t", title);
        svg
    }

    /// Appends what is well-formed already.
    fn push(&mut self, what: impl Display) {
        self.body.push_str(&what.to_string());
    }

    /// A box, with words that are shown when the pointer is on it.
    pub fn bar<L: Length>(&mut self, class: &str, at: Rectangle<L>, tip: &str) {
        self.rectangle(class, "", at, tip);
    }

    /// The same filled with a colour, as CSS writes colours.
    pub fn filled_bar<L: Length>(
        &mut self,
        class: &str,
        colour: &str,
        at: Rectangle<L>,
        tip: &str,
    ) {
        self.rectangle(class, &format!(" fill=\"{}\"", escape(colour)), at, tip);
    }

    fn rectangle<L: Length>(&mut self, class: &str, fill: &str, at: Rectangle<L>, tip: &str) {
        let [x, y, width, height] = at.map(L::px);
        let tip = match tip {
            "" => String::new(),
            tip => format!("<title>{}</title>", escape(tip)),
        };
        self.push(format_args!(
            "<rect class=\"{class}\"{fill} x=\"{x}\" y=\"{y}\" width=\"{width}\" \
             height=\"{height}\">{tip}</rect>\n"
        ));
    }

    /// A straight line.
    pub fn line<L: Length>(&mut self, class: &str, from: (L, L), to: (L, L)) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(L::px);
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>\n"
        ));
    }

    /// An outline, as the commands of an SVG `path`.
    pub fn path(&mut self, class: &str, commands: &str) {
        self.push(format_args!("<path class=\"{class}\" d=\"{commands}\"/>\n"));
    }

    /// The same in a colour, with words that are shown when the pointer is on it.
    pub fn coloured_path(&mut self, class: &str, colour: &str, commands: &str, tip: &str) {
        let (colour, tip) = (escape(colour), escape(tip));
        self.push(format_args!(
            "<path class=\"{class}\" stroke=\"{colour}\" d=\"{commands}\"><title>{tip}</title></path>\n"
        ));
    }

    /// Words; without a class where that is empty.
    pub fn words<L: Length>(&mut self, x: L, y: L, anchor: Anchor, class: &str, words: &str) {
        let (x, y, words) = (x.px(), y.px(), escape(words));
        let class = match class {
            "" => String::new(),
            class => format!(" class=\"{class}\""),
        };
        self.push(format_args!(
            "<text{class} x=\"{x}\" y=\"{y}\" text-anchor=\"{}\">{words}</text>\n",
            anchor.word()
        ));
    }

    /// Words moved and turned by an SVG transformation, their middle at its origin.
    pub fn turned_words(&mut self, transform: &str, words: &str) {
        let words = escape(words);
        self.push(format_args!(
            "<text transform=\"{transform}\" text-anchor=\"middle\">{words}</text>\n"
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
        check("\u{0}\u{1b}\u{ffff}\u{e9}\n", "???\u{e9}\n");
    }

    #[test]
    fn lengths() {
        let check = |length: f64, want: &str| assert_eq!(length.px(), want);
        check(3.0, "3");
        check(0.26, "0.3");
        check(-0.01, "0");
        check(1e9, "1000000000");
        assert_eq!((-7i64).px(), "-7");
    }

    #[test]
    fn a_page() {
        let mut svg = Svg::new(40, 30, ".a{fill:red}", "<1>");
        svg.bar("a", [1, 2, 3, 4], "");
        svg.filled_bar("a", "#123", [0.5, 2.0, 3.0, 4.0], "a & b");
        svg.line("g", (0, 1), (2, 3));
        svg.path("p", "M0 0");
        svg.coloured_path("p", "#123", "M0 0", "tip");
        svg.words(1, 2, Anchor::End, "n", "w");
        svg.words(1, 2, Anchor::Middle, "", "v");
        svg.turned_words("rotate(-90)", "up");
        let want = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"40\" height=\"30\" viewBox=\"0 0 40 30\">\n\
            <style>.a{fill:red}</style>\n\
            <rect width=\"40\" height=\"30\" fill=\"#fff\"/>\n\
            <text class=\"t\" x=\"16\" y=\"24\" text-anchor=\"start\">&lt;1&gt;</text>\n\
            <rect class=\"a\" x=\"1\" y=\"2\" width=\"3\" height=\"4\"></rect>\n\
            <rect class=\"a\" fill=\"#123\" x=\"0.5\" y=\"2\" width=\"3\" height=\"4\"><title>a &amp; b</title></rect>\n\
            <line class=\"g\" x1=\"0\" y1=\"1\" x2=\"2\" y2=\"3\"/>\n\
            <path class=\"p\" d=\"M0 0\"/>\n\
            <path class=\"p\" stroke=\"#123\" d=\"M0 0\"><title>tip</title></path>\n\
            <text class=\"n\" x=\"1\" y=\"2\" text-anchor=\"end\">w</text>\n\
            <text x=\"1\" y=\"2\" text-anchor=\"middle\">v</text>\n\
            <text transform=\"rotate(-90)\" text-anchor=\"middle\">up</text>\n\
            </svg>\n";
        assert_eq!(svg.finish(), want);
    }
}
