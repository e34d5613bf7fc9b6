//! Fields, values and tables as JSON, the same from every program: points in time after RFC 3339 in
//! UTC, lengths in seconds, sums in service units, `null` for what there is not or has no limit.

use crate::column::Fields;
use crate::value::FieldValue;
use cosy_model::api::{FieldKind, JobField, Table, Value};
use cosy_model::{Span, Su, Time};
use jiff::Timestamp;
use serde_json::{Map, Value as Json, json};

/// In UTC after RFC 3339, to the millisecond; `None` beyond the calendar.
pub fn rfc3339(time: Time) -> Option<String> {
    let stamp = Timestamp::from_millisecond(time.0).ok()?;
    Some(format!("{stamp:.3}"))
}

/// A point in time, `null` where there is none.
pub fn time(time: Option<Time>) -> Json {
    time.and_then(rfc3339).map_or(Json::Null, Json::from)
}

/// A length in seconds, `null` when it is unlimited.
pub fn span(span: Span) -> Json {
    if span.is_unlimited() {
        Json::Null
    } else if span.0 % 1000 == 0 {
        json!(span.0 / 1000)
    } else {
        json!(span.0 as f64 / 1000.0)
    }
}

/// A sum of service units as a number.
pub fn su(sum: Su) -> Json {
    if sum.0 % Su::ONE == 0 {
        json!(sum.0 / Su::ONE)
    } else {
        json!(sum.0 as f64 / Su::ONE as f64)
    }
}

/// All fields of one thing.
pub fn object(fields: &Fields<'_>) -> Json {
    members(fields).into()
}

fn members(fields: &Fields<'_>) -> Map<String, Json> {
    let each = fields.iter();
    each.map(|(name, one)| ((*name).to_owned(), value(one)))
        .collect()
}

/// The same, where each point in time `x` is there as `x_ms` too, in milliseconds since 1970.
pub fn object_with_ms(fields: &Fields<'_>) -> Json {
    let mut all = members(fields);
    for (name, value) in fields {
        if let FieldValue::Time(time) = value {
            all.insert(format!("{name}_ms"), json!(time.map(|t| t.0)));
        }
    }
    all.into()
}

/// One value.
pub fn value(one: &FieldValue<'_>) -> Json {
    match one {
        FieldValue::Nothing => Json::Null,
        FieldValue::Text(text) | FieldValue::State(text, _) => text.as_ref().into(),
        FieldValue::Sentence(text) | FieldValue::Verdict(text, _) => text.as_ref().into(),
        FieldValue::Number(n) | FieldValue::CpuTime(n) | FieldValue::Bytes(n) => (*n).into(),
        FieldValue::Signed(n) => (*n).into(),
        FieldValue::Real(n) => (*n).into(),
        FieldValue::Flag(flag) => (*flag).into(),
        FieldValue::Time(at) => time(*at),
        FieldValue::Period(start, end) => json!([time(Some(*start)), time(Some(*end))]),
        FieldValue::Span(length) => span(*length),
        FieldValue::Su(sum) | FieldValue::Price(sum) => su(*sum),
        FieldValue::Texts(all) => json!(all),
        FieldValue::List(all) => all.iter().map(value).collect(),
        FieldValue::Record(fields) => {
            let each = fields.iter();
            let object: Map<String, Json> = each
                .map(|(name, one)| (name.to_string(), value(one)))
                .collect();
            Json::Object(object)
        }
    }
}

/// The rows of a table of jobs, each with all its fields.
pub fn rows(table: &Table) -> Vec<Json> {
    (0..table.rows).map(|row| self::row(table, row)).collect()
}

/// One row of a table of jobs.
pub fn row(table: &Table, row: usize) -> Json {
    let each = table.fields.iter();
    let object: Map<String, Json> = each
        .map(|f| (f.word().to_owned(), cell(table, row, *f)))
        .collect();
    Json::Object(object)
}

fn cell(table: &Table, row: usize, field: JobField) -> Json {
    match (table.get(row, field), field.kind()) {
        (Value::Nothing, _) => Json::Null,
        (Value::Text(t), _) => t.into(),
        (Value::Number(n), FieldKind::Time) => time(Some(Time(n))),
        (Value::Number(n), FieldKind::Span) => span(Span(n)),
        (Value::Number(n), FieldKind::Flag) => (n != 0).into(),
        (Value::Number(n), FieldKind::Number | FieldKind::Text) => n.into(),
        (Value::Number(n), FieldKind::Bytes | FieldKind::Mebibytes | FieldKind::CpuTime) => {
            n.into()
        }
    }
}
