//! What a name in parentheses is asked of.

use crate::value::Kind;

/// Something that a name in parentheses is asked of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Function {
    License,
    Resource,
    GpusOf,
    Variable,
}

impl Function {
    pub(crate) const ALL: [(&'static str, Self, Kind); 4] = [
        ("license", Self::License, Kind::Number),
        ("resource", Self::Resource, Kind::Number),
        ("gpus_of", Self::GpusOf, Kind::Number),
        ("variable", Self::Variable, Kind::Text),
    ];
}
