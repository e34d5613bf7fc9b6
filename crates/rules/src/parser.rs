//! Reads expressions: precedence climbing, with the kind of each part known at once.
//!
//! Grammar, loosest first: `or`; `and`; `not`; one comparison (`==`, `!=`, `<`, `<=`, `>`,
//! `>=`, `in`, `any`, `like`, `is set`, `is unset`); `+` and `-`; `*` and `/`; fields,
//! amounts, texts, lists, functions, parentheses.

use crate::EXPRESSION_BYTES;
use crate::expression::{Expression, Node, Operator};
use crate::field::Field;
use crate::function::Function;
use crate::lexer::{Placed, Token, tokens};
use crate::value::{Kind, Value};
use cosy_model::near::nearest;

/// Most parts that stand inside each other.
const DEPTH: u32 = 40;
/// Most words, amounts and signs.
const TOKENS: usize = 1000;

const WORDS: [&str; 10] = [
    "and", "or", "not", "in", "any", "like", "is", "set", "unset", "true",
];

/// A part and its kind.
type Typed = (Node, Kind);

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Placed>,
    at: usize,
    depth: u32,
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// One line: what is wrong, where in the text, and what may have been meant.
    pub fn read(text: &str) -> Result<Self, String> {
        read(text)
    }

    /// Reads an expression that has to be of a kind.
    ///
    /// # Errors
    /// As [`Self::read`], or what kind it is instead.
    pub fn read_as(text: &str, kind: Kind) -> Result<Self, String> {
        let read = Self::read(text)?;
        match read.kind() == kind {
            true => Ok(read),
            false => Err(format!("'{text}' is {}, where {kind} is needed", read.kind())),
        }
    }
}

fn read(text: &str) -> Result<Expression, String> {
    if text.len() > EXPRESSION_BYTES {
        return Err(format!(
            "an expression of {} bytes is longer than the {EXPRESSION_BYTES} allowed",
            text.len()
        ));
    }
    let mut parser = Parser {
        text,
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
    };
    if parser.tokens.len() > TOKENS {
        return Err(format!("an expression has more than {TOKENS} words, amounts and signs"));
    }
    if parser.tokens.is_empty() {
        return Err("an expression is empty".to_owned());
    }
    let (root, kind) = parser.or()?;
    match parser.tokens.get(parser.at) {
        None => Ok(Expression::new(text.to_owned(), root, kind)),
        Some(_) => Err(parser.unexpected()),
    }
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is = matches!(self.peek(), Some(Token::Word(found)) if found == word);
        self.at += usize::from(is);
        is
    }

    fn takes_sign(&mut self, sign: &str) -> bool {
        let is = matches!(self.peek(), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(is);
        is
    }

    /// What stands where it cannot.
    fn unexpected(&self) -> String {
        match self.tokens.get(self.at) {
            None => format!("'{}' ends too early", self.text),
            Some((at, Token::Word(word))) => {
                let near = nearest(word, WORDS.into_iter());
                let hint =
                    near.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
                format!("'{word}' cannot stand at letter {}{hint}", at + 1)
            }
            Some((at, _)) => {
                let rest = self.text.get(*at..).unwrap_or_default();
                let rest: String = rest.chars().take(20).collect();
                format!("'{rest}' cannot stand at letter {}", at + 1)
            }
        }
    }

    fn or(&mut self) -> Result<Typed, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("more than {DEPTH} parts stand inside each other"));
        }
        let mut left = self.and()?;
        while self.takes_word("or") {
            let right = self.and()?;
            left = logical(Operator::Or, "or", left, right)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn and(&mut self) -> Result<Typed, String> {
        let mut left = self.not()?;
        while self.takes_word("and") {
            let right = self.not()?;
            left = logical(Operator::And, "and", left, right)?;
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Typed, String> {
        let mut negated = false;
        let mut any = false;
        while self.takes_word("not") {
            negated = !negated;
            any = true;
        }
        let (node, kind) = self.comparison()?;
        if any && kind != Kind::Flag {
            return Err(format!("'not' needs yes or no behind it, not {kind}"));
        }
        match negated {
            true => Ok((Node::Not(Box::new(node)), Kind::Flag)),
            false => Ok((node, kind)),
        }
    }

    fn comparison(&mut self) -> Result<Typed, String> {
        let left = self.sum()?;
        if self.takes_word("is") {
            return self.is_set(left);
        }
        let negated = self.takes_word("not");
        let Some((operator, word)) = self.comparator() else {
            return match negated {
                true => Err(self.unexpected()),
                false => Ok(left),
            };
        };
        if negated && !matches!(operator, Operator::In | Operator::Any | Operator::Like) {
            return Err(format!("'not' cannot stand before '{word}'"));
        }
        let right = self.sum()?;
        check_comparison(operator, word, left.1, right.1)?;
        let node = Node::Binary(operator, Box::new(left.0), Box::new(right.0));
        match negated {
            true => Ok((Node::Not(Box::new(node)), Kind::Flag)),
            false => Ok((node, Kind::Flag)),
        }
    }

    fn is_set(&mut self, (node, _): Typed) -> Result<Typed, String> {
        let unset = Node::IsUnset(Box::new(node));
        if self.takes_word("unset") {
            Ok((unset, Kind::Flag))
        } else if self.takes_word("set") {
            Ok((Node::Not(Box::new(unset)), Kind::Flag))
        } else {
            Err("behind 'is' stands 'set' or 'unset'".to_owned())
        }
    }

    fn comparator(&mut self) -> Option<(Operator, &'static str)> {
        const SIGNS: [(&str, Operator); 6] = [
            ("==", Operator::Equal),
            ("!=", Operator::Unequal),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::MoreOrEqual),
            ("<", Operator::Less),
            (">", Operator::More),
        ];
        const NAMED: [(&str, Operator); 3] = [
            ("in", Operator::In),
            ("any", Operator::Any),
            ("like", Operator::Like),
        ];
        let sign = SIGNS.into_iter().find(|(sign, _)| self.takes_sign(sign));
        let found = sign.or_else(|| NAMED.into_iter().find(|(word, _)| self.takes_word(word)));
        found.map(|(word, operator)| (operator, word))
    }

    fn sum(&mut self) -> Result<Typed, String> {
        let mut left = self.product()?;
        loop {
            let (operator, sign) = if self.takes_sign("+") {
                (Operator::Plus, '+')
            } else if self.takes_sign("-") {
                (Operator::Minus, '-')
            } else {
                return Ok(left);
            };
            let right = self.product()?;
            if left.1 != right.1 || !is_amount(left.1) {
                return Err(format!("'{sign}' cannot join {} and {}", left.1, right.1));
            }
            let kind = left.1;
            left = (Node::Binary(operator, Box::new(left.0), Box::new(right.0)), kind);
        }
    }

    fn product(&mut self) -> Result<Typed, String> {
        let mut left = self.single()?;
        loop {
            let (operator, sign) = if self.takes_sign("*") {
                (Operator::Times, '*')
            } else if self.takes_sign("/") {
                (Operator::Over, '/')
            } else {
                return Ok(left);
            };
            let right = self.single()?;
            let kind = match (operator, left.1, right.1) {
                (_, left, Kind::Number) if is_amount(left) => left,
                (Operator::Times, Kind::Number, right) if is_amount(right) => right,
                (Operator::Over, left, right) if is_amount(left) && left == right => Kind::Number,
                (_, left, right) => {
                    return Err(format!("'{sign}' cannot join {left} and {right}"));
                }
            };
            left = (Node::Binary(operator, Box::new(left.0), Box::new(right.0)), kind);
        }
    }

    fn single(&mut self) -> Result<Typed, String> {
        if self.takes_sign("(") {
            let inner = self.or()?;
            return match self.takes_sign(")") {
                true => Ok(inner),
                false => Err(self.unexpected()),
            };
        }
        if self.takes_sign("[") {
            return self.list();
        }
        let token = self.peek().cloned().ok_or_else(|| self.unexpected())?;
        let constant = |value, kind| (Node::Constant(value), kind);
        let found = match token {
            Token::Number(n) => constant(Value::Number(n), Kind::Number),
            Token::Size(n) => constant(Value::Size(n), Kind::Size),
            Token::Time(n) => constant(Value::Time(n), Kind::Time),
            Token::Text(text) => constant(Value::Text(text), Kind::Text),
            Token::Word(word) if word == "true" || word == "false" => {
                constant(Value::Flag(word == "true"), Kind::Flag)
            }
            Token::Word(word) => return self.name(&word),
            Token::Sign(_) => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(found)
    }

    fn list(&mut self) -> Result<Typed, String> {
        let mut all = Vec::new();
        while let Some(Token::Text(text)) = self.peek() {
            all.push(text.clone());
            self.at += 1;
            if !self.takes_sign(",") {
                break;
            }
        }
        match self.takes_sign("]") {
            true => Ok((Node::Constant(Value::List(all)), Kind::List)),
            false if self.peek().is_some() => {
                Err(format!("{}: a list has texts, like [\"a\", \"b\"]", self.unexpected()))
            }
            false => Err(self.unexpected()),
        }
    }

    /// A field, or a function with its argument.
    fn name(&mut self, word: &str) -> Result<Typed, String> {
        if WORDS.contains(&word) {
            return Err(self.unexpected());
        }
        self.at += 1;
        if let Some(field) = Field::named(word) {
            return Ok((Node::Field(field), field.kind()));
        }
        let function = Function::ALL.into_iter().find(|(name, ..)| *name == word);
        let Some((name, function, kind)) = function else {
            return Err(unknown(word));
        };
        let needs = || format!("'{name}' needs a text in parentheses, like {name}(\"x\")");
        if !self.takes_sign("(") {
            return Err(needs());
        }
        let Some(Token::Text(argument)) = self.peek().cloned() else {
            return Err(needs());
        };
        self.at += 1;
        match self.takes_sign(")") {
            true => Ok((Node::Call(function, argument), kind)),
            false => Err(needs()),
        }
    }
}

/// What a name is told that no field has.
pub(crate) fn unknown(word: &str) -> String {
    let functions = Function::ALL.into_iter().map(|(name, ..)| name);
    let names = Field::ALL.iter().map(|field| field.name()).chain(functions);
    let short: String = word.chars().take(60).collect();
    match nearest(word, names) {
        Some(near) => format!("there is no field '{short}'; did you mean '{near}'?"),
        None => format!("there is no field '{short}' ('cadm rule fields' lists them)"),
    }
}

const fn is_amount(kind: Kind) -> bool {
    matches!(kind, Kind::Number | Kind::Size | Kind::Time)
}

fn logical(operator: Operator, word: &str, left: Typed, right: Typed) -> Result<Typed, String> {
    for kind in [left.1, right.1] {
        if kind != Kind::Flag {
            return Err(format!("'{word}' needs yes or no on both sides, not {kind}"));
        }
    }
    Ok((Node::Binary(operator, Box::new(left.0), Box::new(right.0)), Kind::Flag))
}

fn check_comparison(operator: Operator, word: &str, left: Kind, right: Kind) -> Result<(), String> {
    let fits = match operator {
        Operator::In => left == Kind::Text && right == Kind::List,
        Operator::Any => left == Kind::List && right == Kind::List,
        Operator::Like => matches!(left, Kind::Text | Kind::List) && right == Kind::Text,
        Operator::Equal | Operator::Unequal => left == right,
        _ => left == right && is_amount(left),
    };
    match fits {
        true => Ok(()),
        false => Err(format!("'{word}' cannot compare {left} with {right}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_mistakes() {
        let check = |text: &str, want: Result<Kind, &str>| match (read(text), want) {
            (Ok(read), Ok(kind)) => assert_eq!(read.kind(), kind, "{text}"),
            (Err(why), Err(want)) => assert!(why.contains(want), "{text}: {why}"),
            (read, _) => panic!("{text}: {read:?}"),
        };
        check("gpus > 0 and cores / gpus <= 16", Ok(Kind::Flag));
        check("memory_per_node / gpus_per_node", Ok(Kind::Size));
        check("memory_per_node / 4G", Ok(Kind::Number));
        check("2 * time_limit", Ok(Kind::Time));
        check("user in [\"ann\", 'bob'] or not (queue is set)", Ok(Kind::Flag));
        check("groups any ['a'] and name not like 'x*'", Ok(Kind::Flag));
        check("license(\"matlab\") > 2", Ok(Kind::Flag));
        check("variable('X') is unset", Ok(Kind::Flag));
        check("quueue == 'a'", Err("did you mean 'queue'?"));
        check("queue == a", Err("there is no field 'a'"));
        check("licence('x') > 1", Err("did you mean 'license'?"));
        check("time_limit > 4G", Err("'>' cannot compare a time like 2h with a size like 4G"));
        check("queue > 'a'", Err("'>' cannot compare a text with a text"));
        check("queue = 'a'", Err("'=' is written '=='"));
        check("gpus && exclusive", Err("'&&' is written 'and'"));
        check("gpus and exclusive", Err("'and' needs yes or no on both sides, not a number"));
        check("gpus >", Err("ends too early"));
        check("(gpus > 1", Err("ends too early"));
        check("gpus > 1 nad exclusive", Err("'nad' cannot stand at letter 10; did you mean 'and'"));
        check("'x", Err("has no ' at its end"));
        check("4X > 1", Err("'4X' is no amount"));
        check("user in 'ann'", Err("'in' cannot compare a text with a text"));
        check("user in [1]", Err("a list has texts"));
        check("license > 1", Err("needs a text in parentheses"));
        check("not gpus", Err("'not' needs yes or no"));
        check("tasks + time_limit", Err("'+' cannot join"));
        check("", Err("is empty"));
        check("é", Err("means nothing here"));
        check("99999999999999999999 > 1", Err("is no amount"));
        check(&"(".repeat(1000), Err("inside each other"));
        check(&"x".repeat(5000), Err("longer than the 4000"));
    }

    proptest::proptest! {
        #[test]
        fn nothing_breaks_it(text in "[a-z\"'()\\[\\]<>=!&|+*/0-9 ,.-]{0,80}") {
            let _ = read(&text);
        }
    }
}
