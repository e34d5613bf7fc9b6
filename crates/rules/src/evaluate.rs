//! Values of expressions for a request.
//!
//! What was not asked for is `Unset`: sums with it are unset, comparisons with it do not hold,
//! but `!=`, which holds when only one side is unset. Nothing ever fails while it is evaluated.

use crate::expression::{Expression, Node, Operator};
use crate::subject::Subject;
use crate::value::{Kind, Value};

impl Expression {
    /// The value of the expression for a request.
    pub fn value(&self, subject: &Subject<'_>) -> Value {
        self.root().value(subject)
    }
}

impl Node {
    fn value(&self, subject: &Subject<'_>) -> Value {
        match self {
            Self::Constant(value) => value.clone(),
            Self::Field(field) => subject.get(*field),
            Self::Call(function, name) => subject.call(*function, name),
            Self::Not(inner) => Value::Flag(!inner.value(subject).is_true()),
            Self::IsUnset(inner) => Value::Flag(inner.value(subject) == Value::Unset),
            Self::Binary(Operator::And, left, right) => {
                Value::Flag(left.value(subject).is_true() && right.value(subject).is_true())
            }
            Self::Binary(Operator::Or, left, right) => {
                Value::Flag(left.value(subject).is_true() || right.value(subject).is_true())
            }
            Self::Binary(operator, left, right) => {
                binary(*operator, &left.value(subject), &right.value(subject))
            }
        }
    }
}

fn binary(operator: Operator, left: &Value, right: &Value) -> Value {
    match operator {
        Operator::Plus | Operator::Minus | Operator::Times | Operator::Over => {
            arithmetic(operator, left, right)
        }
        Operator::Equal => Value::Flag(*left != Value::Unset && left == right),
        Operator::Unequal => Value::Flag(left != right),
        Operator::Less => ordered(left, right, |a, b| a < b),
        Operator::LessOrEqual => ordered(left, right, |a, b| a <= b),
        Operator::More => ordered(left, right, |a, b| a > b),
        Operator::MoreOrEqual => ordered(left, right, |a, b| a >= b),
        Operator::In => Value::Flag(match (left, right) {
            (Value::Text(one), Value::List(all)) => all.contains(one),
            _ => false,
        }),
        Operator::Any => Value::Flag(match (left, right) {
            (Value::List(some), Value::List(all)) => some.iter().any(|one| all.contains(one)),
            _ => false,
        }),
        Operator::Like => Value::Flag(match (left, right) {
            (Value::Text(text), Value::Text(pattern)) => matches(pattern, text),
            (Value::List(all), Value::Text(pattern)) => {
                all.iter().any(|text| matches(pattern, text))
            }
            _ => false,
        }),
        // Judged before both sides are worked out.
        Operator::And | Operator::Or => Value::Unset,
    }
}

/// A number of any kind: numbers, MiB or seconds.
fn plain(value: &Value) -> Option<i64> {
    match value {
        Value::Number(n) | Value::Size(n) | Value::Time(n) => Some(*n),
        Value::Unset | Value::Flag(_) | Value::Text(_) | Value::List(_) => None,
    }
}

fn ordered(left: &Value, right: &Value, holds: fn(i64, i64) -> bool) -> Value {
    Value::Flag(match (plain(left), plain(right)) {
        (Some(left), Some(right)) => holds(left, right),
        _ => false,
    })
}

/// Saturates; what is divided by 0 is unset. Kinds were judged when it was read.
fn arithmetic(operator: Operator, left: &Value, right: &Value) -> Value {
    let (Some(a), Some(b)) = (plain(left), plain(right)) else {
        return Value::Unset;
    };
    let same = left.kind() == right.kind();
    let result = match operator {
        Operator::Plus => a.saturating_add(b),
        Operator::Minus => a.saturating_sub(b),
        Operator::Times => a.saturating_mul(b),
        _ => match a.checked_div(b) {
            Some(result) => result,
            None => return Value::Unset,
        },
    };
    let kind = match operator {
        Operator::Over if same => Kind::Number,
        Operator::Times if left.kind() == Some(Kind::Number) => {
            right.kind().unwrap_or(Kind::Number)
        }
        _ => left.kind().unwrap_or(Kind::Number),
    };
    match kind {
        Kind::Size => Value::Size(result),
        Kind::Time => Value::Time(result),
        Kind::Number | Kind::Flag | Kind::Text | Kind::List => Value::Number(result),
    }
}

/// Whether a pattern with `*` (any text) and `?` (any letter) covers the whole text. Takes at
/// most the product of both lengths.
fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Behind the last star, and how much of the text that star covers up to.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(c) if *c == '?' || text.get(t) == Some(c) => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((behind, covered)) = star else {
                    return false;
                };
                star = Some((behind, covered + 1));
                (p, t) = (behind, covered + 1);
            }
        }
    }
    pattern.iter().skip(p).all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let check = |pattern: &str, text: &str, want: bool| {
            assert_eq!(matches(pattern, text), want, "{pattern} {text}");
        };
        check("gpu*", "gpu-long", true);
        check("gpu*", "cpu", false);
        check("*a*b", "xaxxab", true);
        check("?", "é", true);
        check("a?", "a", false);
        check("", "", true);
        check("*", "", true);
        check(&"*a".repeat(500), &"a".repeat(400), false);
    }
}
