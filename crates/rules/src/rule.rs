//! Rules, one after another: each sees what those before it have made of the request.

use crate::expression::Expression;
use crate::field::Field;
use crate::parser::unknown;
use crate::subject::Subject;
use crate::template::Template;
use crate::value::{Kind, Value};

/// Most remarks that a user is told of one request.
const REMARKS: usize = 20;

/// What a field is set to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    field: Field,
    source: Source,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Source {
    Expression(Expression),
    Text(Template),
    Texts(Vec<Template>),
}

impl Assignment {
    /// A field and what it is set to: of a text field a text with values in braces, of any other
    /// an expression of its kind.
    ///
    /// # Errors
    /// No such field, one that cannot be set, or a value that does not fit.
    pub fn read(field: &str, value: &str) -> Result<Self, String> {
        let field = settable(field)?;
        let source = match field.kind() {
            Kind::Text => Source::Text(Template::read(value)?),
            kind => Source::Expression(Expression::read_as(value, kind)?),
        };
        Ok(Self { field, source })
    }

    /// A field of several words, and the texts it is set to.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_list(field: &str, values: &[String]) -> Result<Self, String> {
        let field = settable(field)?;
        if field.kind() != Kind::List {
            return Err(format!("{} is {}, not a list", field.name(), field.kind()));
        }
        let read: Result<Vec<Template>, String> =
            values.iter().map(|text| Template::read(text)).collect();
        Ok(Self {
            field,
            source: Source::Texts(read?),
        })
    }

    /// The field.
    pub const fn field(&self) -> Field {
        self.field
    }

    fn value(&self, subject: &Subject<'_>) -> Value {
        match &self.source {
            Source::Expression(expression) => expression.value(subject),
            Source::Text(template) => Value::Text(template.text(subject)),
            Source::Texts(all) => Value::List(all.iter().map(|t| t.text(subject)).collect()),
        }
    }
}

fn settable(name: &str) -> Result<Field, String> {
    let field = Field::named(name).ok_or_else(|| unknown(name))?;
    match field.is_settable() {
        true => Ok(field),
        false => Err(format!("{name} cannot be set: it says what is asked for")),
    }
}

/// What is done where a condition holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rule {
    /// Name in messages.
    pub name: String,
    /// Where it applies; everywhere without.
    pub when: Option<Expression>,
    /// Fields that are set, whatever they are.
    pub set: Vec<Assignment>,
    /// Fields that are set where nothing was asked for.
    pub default: Vec<Assignment>,
    /// Lists that are added to.
    pub add: Vec<Assignment>,
    /// What the user is told, beside what else becomes of the request.
    pub warn: Option<Template>,
    /// What must hold.
    pub require: Option<Expression>,
    /// Why it is refused; with `require` only where that does not hold.
    pub refuse: Option<Template>,
}

/// Whether a request goes on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Verdict {
    /// It goes on, perhaps changed.
    #[default]
    Passed,
    /// It is refused.
    Refused {
        /// Name of the rule.
        rule: String,
        /// What the user is told.
        message: String,
    },
}

/// What rules have made of a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Whether it goes on.
    pub verdict: Verdict,
    /// What the user is told, each once.
    pub remarks: Vec<String>,
    /// Names of the rules that applied, in their order.
    pub applied: Vec<String>,
    /// Fields that were set, with their last value, in the order in which they were set first.
    pub changes: Vec<(Field, Value)>,
}

impl Outcome {
    /// Notes what the user is told, once, and no more than there is room for.
    pub fn remark(&mut self, text: String) {
        if !text.is_empty() && self.remarks.len() < REMARKS && !self.remarks.contains(&text) {
            self.remarks.push(text);
        }
    }

    /// Sets a field of the request and notes it.
    ///
    /// # Errors
    /// As [`Subject::set`].
    pub fn set(
        &mut self,
        subject: &mut Subject<'_>,
        field: Field,
        value: Value,
    ) -> Result<(), String> {
        if subject.get(field) == value {
            return Ok(());
        }
        subject.set(field, value.clone())?;
        match self.changes.iter_mut().find(|(there, _)| *there == field) {
            Some((_, last)) => *last = value,
            None => self.changes.push((field, value)),
        }
        Ok(())
    }

    /// The request is refused, unless it is already.
    pub fn refuse(&mut self, rule: &str, message: String) {
        if self.verdict == Verdict::Passed {
            self.verdict = Verdict::Refused {
                rule: rule.to_owned(),
                message,
            };
        }
    }

    /// True while nothing has refused it.
    pub fn has_passed(&self) -> bool {
        self.verdict == Verdict::Passed
    }
}

/// Applies rules to a request until one refuses it.
pub fn apply(rules: &[Rule], subject: &mut Subject<'_>, outcome: &mut Outcome) {
    for rule in rules {
        let holds = rule
            .when
            .as_ref()
            .is_none_or(|when| when.value(subject).is_true());
        if !holds {
            continue;
        }
        if !outcome.applied.contains(&rule.name) {
            outcome.applied.push(rule.name.clone());
        }
        if let Err(why) = assign(rule, subject, outcome) {
            return outcome.refuse(&rule.name, format!("rule '{}': {why}", rule.name));
        }
        if let Some(warn) = &rule.warn {
            outcome.remark(warn.text(subject));
        }
        let message = |refuse: &Template| refuse.text(subject);
        match (&rule.require, &rule.refuse) {
            (Some(require), _) if require.value(subject).is_true() => {}
            (Some(require), None) => {
                let text = require.text();
                let message = format!("rule '{}' asks for this: {text}", rule.name);
                return outcome.refuse(&rule.name, message);
            }
            (_, Some(refuse)) => {
                let message = message(refuse);
                return outcome.refuse(&rule.name, message);
            }
            (None, None) => {}
        }
    }
}

fn assign(rule: &Rule, subject: &mut Subject<'_>, outcome: &mut Outcome) -> Result<(), String> {
    for assignment in &rule.set {
        set(assignment, subject, outcome)?;
    }
    for assignment in &rule.default {
        if !subject.is_given(assignment.field) {
            set(assignment, subject, outcome)?;
        }
    }
    for assignment in &rule.add {
        if let Value::List(more) = assignment.value(subject) {
            let value = subject.with(assignment.field, more);
            outcome.set(subject, assignment.field, value)?;
        }
    }
    Ok(())
}

/// What cannot be worked out sets nothing.
fn set(
    assignment: &Assignment,
    subject: &mut Subject<'_>,
    outcome: &mut Outcome,
) -> Result<(), String> {
    match assignment.value(subject) {
        Value::Unset => Ok(()),
        value => outcome.set(subject, assignment.field, value),
    }
}

#[cfg(test)]
mod tests;
