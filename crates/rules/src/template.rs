//! Texts with values in them: `{gpus} GPUs of {user}`.

use crate::EXPRESSION_BYTES;
use crate::expression::Expression;
use crate::subject::Subject;
use cosy_model::text;

/// Most bytes of a text once its values are in it.
const WHOLE_BYTES: usize = 4000;

/// A text with expressions in braces; `{{` is a brace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(String),
    Value(Expression),
}

impl Template {
    /// Reads a text.
    ///
    /// # Errors
    /// One line: what is wrong with a value in it.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.len() > EXPRESSION_BYTES {
            return Err(format!(
                "a text of {} bytes is longer than the {EXPRESSION_BYTES} allowed",
                text.len()
            ));
        }
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at(at);
            plain.push_str(before);
            if let Some(behind) = brace.strip_prefix("{{") {
                plain.push('{');
                rest = behind;
            } else if let Some(behind) = brace.strip_prefix("}}") {
                plain.push('}');
                rest = behind;
            } else if let Some((inside, behind)) =
                brace.strip_prefix('{').and_then(|b| b.split_once('}'))
            {
                parts.push(Part::Text(std::mem::take(&mut plain)));
                parts.push(Part::Value(Expression::read(inside)?));
                rest = behind;
            } else {
                return Err("a brace has no other: write '{{' or '}}' for the sign itself".into());
            }
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        Ok(Self { parts })
    }

    /// The text for a request, with no more than 4,000 bytes.
    pub fn text(&self, subject: &Subject<'_>) -> String {
        let mut whole = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => whole.push_str(text),
                Part::Value(expression) => {
                    whole.push_str(&expression.value(subject).to_string());
                }
            }
            if whole.len() > WHOLE_BYTES {
                whole.truncate(text::cut(&whole, WHOLE_BYTES).len());
                break;
            }
        }
        whole
    }
}
