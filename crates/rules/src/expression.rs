//! Expressions over the fields of a request, as they were read.

use crate::field::Field;
use crate::function::Function;
use crate::value::{Kind, Value};

/// Two operands and what is done with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operator {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
    In,
    Any,
    Like,
    Plus,
    Minus,
    Times,
    Over,
}

/// A part of an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Node {
    Constant(Value),
    Field(Field),
    Call(Function, String),
    Not(Box<Node>),
    IsUnset(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
}

/// An expression that was read and whose kinds fit together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expression {
    text: String,
    root: Node,
    kind: Kind,
}

impl Expression {
    pub(crate) const fn new(text: String, root: Node, kind: Kind) -> Self {
        Self { text, root, kind }
    }

    pub(crate) const fn root(&self) -> &Node {
        &self.root
    }

    /// The text that it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The kind of its value.
    pub const fn kind(&self) -> Kind {
        self.kind
    }
}
