//! Reads YAML, as far as files of workflows need it: one document, keys that are words,
//! no references. Every word and number is text.

use super::{Entry, Node, ParseError, Value, add, clean};
use saphyr_parser::{Event, Parser, ScanError, Span, StrInput};
use std::collections::BTreeSet;

/// How deep values may lie in each other.
const DEEPEST: usize = 64;

/// The tree of a YAML file.
///
/// # Errors
/// The text is no YAML, or uses more of YAML than is understood here.
pub fn read(text: &str) -> Result<Node, ParseError> {
    let mut reader = EventReader {
        parser: Parser::new_from_str(text),
    };
    reader.document()
}

struct EventReader<'a> {
    parser: Parser<'a, StrInput<'a>>,
}

fn line_of(span: &Span) -> u32 {
    u32::try_from(span.start.line()).unwrap_or(u32::MAX)
}

fn no_yaml(error: &ScanError) -> ParseError {
    let line = u32::try_from(error.marker().line()).unwrap_or(u32::MAX);
    ParseError::new(line, format!("no YAML: {}", error.info()))
}

impl<'a> EventReader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, u32), ParseError> {
        match self.parser.next() {
            Some(Ok((event, span))) => Ok((event, line_of(&span))),
            Some(Err(e)) => Err(no_yaml(&e)),
            None => Err(ParseError::new(0, "the file ends too early")),
        }
    }

    fn document(&mut self) -> Result<Node, ParseError> {
        loop {
            let (event, line) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(_) => {}
                Event::StreamEnd => return Err(ParseError::new(0, "there is nothing in it")),
                event => return self.value(event, line, 0),
            }
        }
    }

    fn value(&mut self, event: Event<'a>, line: u32, depth: usize) -> Result<Node, ParseError> {
        if depth > DEEPEST {
            let message = format!("values lie more than {DEEPEST} deep in each other");
            return Err(ParseError::new(line, message));
        }
        let value = match event {
            Event::Scalar(text, ..) => clean(line, &text)?,
            Event::SequenceStart(..) => Value::List(self.sequence(depth)?),
            Event::MappingStart(..) => Value::Table(self.mapping(depth)?),
            Event::Alias(_) => {
                let message = "references (*name) are not read: write the value out";
                return Err(ParseError::new(line, message));
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => return Err(ParseError::new(line, "a value is missing")),
        };
        Ok(Node::new(line, value))
    }

    fn sequence(&mut self, depth: usize) -> Result<Vec<Node>, ParseError> {
        let mut list = Vec::new();
        loop {
            let (event, line) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(list);
            }
            list.push(self.value(event, line, depth + 1)?);
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Vec<Entry>, ParseError> {
        let mut entries = Vec::new();
        let mut seen = BTreeSet::new();
        loop {
            let (event, line) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(key, ..) => key.into_owned(),
                _ => return Err(ParseError::new(line, "a key must be a word")),
            };
            clean(line, &key)?;
            let (event, at) = self.next()?;
            let node = self.value(event, at, depth + 1)?;
            add(&mut entries, &mut seen, Entry { key, line, node })?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads() {
        let text = "---\na: 1\nb:\n- x: [p, 'q r']\n  y: \"z\"\n- last\n";
        let node = read(text).unwrap();
        assert_eq!(node.number_of("a"), Some(1.0));
        let b = node.items("b");
        assert_eq!((b[0].line, b[1].line), (4, 6));
        let words: Vec<_> = b[0].items("x").iter().filter_map(Node::word).collect();
        assert_eq!(words, ["p", "q r"]);
        assert_eq!(b[1].word().as_deref(), Some("last"));
    }

    #[test]
    fn nonsense() {
        let check = |text: &str, want: &str| {
            let error = read(text).unwrap_err();
            assert!(error.message.contains(want), "{text}: {error}");
        };
        check("", "nothing in it");
        check("a: [1", "no YAML");
        check("a: &x 1\nb: *x\n", "references");
        check("a: 1\na: 2\n", "'a' is there twice");
        check("[a]: 1\n", "a key must be a word");
        check(&"[".repeat(10_000), "recursion");
        check(&"- ".repeat(10_000), "deep");
    }
}
