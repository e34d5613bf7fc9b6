//! `docs/openapi.json` says what this API takes: held against the code.

use super::{admin, books, flow_file, interactive, jobs, session};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

fn described() -> Json {
    serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap()
}

/// The methods of each path, as `router` has them.
fn routes() -> BTreeMap<String, BTreeSet<String>> {
    let source = include_str!("mod.rs");
    let plain: String = source.split_whitespace().collect();
    let mut all = BTreeMap::new();
    for route in plain.split(".route(\"").skip(1) {
        let (path, rest) = route.split_once("\",").unwrap();
        let methods = ["get", "post", "patch", "delete"];
        let until = rest.find(")).").map_or(rest.len(), |at| at + 1);
        let has = |method: &str| {
            let word = format!("{method}(");
            rest[..until].starts_with(&word) || rest[..until].contains(&format!(".{word}"))
        };
        let found = methods
            .into_iter()
            .filter(|method| has(method))
            .map(str::to_owned);
        all.insert(path.to_owned(), found.collect());
    }
    all.retain(|path, _| path != "/enter" && path != "/healthz");
    all
}

#[test]
fn all_paths_are_described() {
    let described = described();
    let paths = described["paths"].as_object().unwrap();
    let told = paths.iter().map(|(path, methods)| {
        let methods = methods.as_object().unwrap().keys().cloned();
        (path.clone(), methods.collect::<BTreeSet<_>>())
    });
    assert_eq!(told.collect::<BTreeMap<_, _>>(), routes());
}

/// A value that fits a schema.
fn example(schema: &Json) -> Json {
    if let Some(first) = schema["oneOf"].as_array().and_then(|all| all.first()) {
        return example(first);
    }
    if let Some(word) = schema["enum"].as_array().and_then(|all| all.first()) {
        return word.clone();
    }
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("string"), Some("date-time")) => json!("2026-11-28T14:00:00Z"),
        (Some("string"), _) => json!("1"),
        (Some("integer"), _) => json!(schema["minimum"].as_i64().unwrap_or(1).max(1)),
        (Some("boolean"), _) => json!(false),
        (Some("array"), _) => json!([example(&schema["items"])]),
        other => panic!("{other:?}: {schema}"),
    }
}

fn object(schema: &Json) -> Map<String, Json> {
    let properties = schema["properties"].as_object().unwrap();
    let each = properties.iter();
    each.map(|(name, schema)| (name.clone(), example(schema)))
        .collect()
}

/// Each field is taken and what is required is: none else is.
fn check<T: DeserializeOwned>(name: &str, schema: &Json) {
    let read = |object: &Map<String, Json>| serde_json::from_value::<T>(object.clone().into());
    let all = object(schema);
    if let Err(e) = read(&all) {
        panic!("{name}: {e}: {all:?}");
    }
    let mut more = all.clone();
    more.insert("colour".into(), json!("red"));
    assert!(read(&more).is_err(), "{name} takes what is not described");
    let required: BTreeSet<&str> = schema["required"]
        .as_array()
        .map(|all| all.iter().filter_map(Json::as_str).collect())
        .unwrap_or_default();
    for field in all.keys() {
        let mut less = all.clone();
        less.remove(field);
        let is_required = required.contains(field.as_str());
        assert_eq!(read(&less).is_err(), is_required, "{name} without {field}");
    }
}

#[test]
fn all_bodies_are_described() {
    let described = described();
    let schema = |name: &str| &described["components"]["schemas"][name];
    check::<session::LinkAsk>("LinkAsk", schema("LinkAsk"));
    check::<session::TokenAsk>("TokenAsk", schema("TokenAsk"));
    check::<session::RevokeAsk>("RevokeAsk", schema("RevokeAsk"));
    check::<session::Login>("Login", schema("Login"));
    check::<jobs::ChangeAsk>("JobChange", schema("JobChange"));
    check::<books::Ask>("Booking", schema("Booking"));
    check::<interactive::NewShell>("ShellAsk", schema("ShellAsk"));
    check::<interactive::Typed>("Typed", schema("Typed"));
    check::<flow_file::FlowAsk>("FlowAsk", schema("FlowAsk"));
    let both = schema("NodeAsk")["oneOf"].as_array().unwrap();
    both.iter()
        .for_each(|one| check::<admin::NodeAsk>("NodeAsk", one));
}

#[test]
fn all_parameters_are_described() {
    use super::{chart, now, output, values};
    use axum::extract::Query;
    let described = described();
    let check = |path: &str, method: &str, reads: &dyn Fn(&str) -> Result<(), String>| {
        let all = described["paths"][path][method]["parameters"]
            .as_array()
            .unwrap();
        let all = all.iter().filter(|one| one["in"] == "query");
        let pairs: Vec<String> = all
            .map(|one| {
                let value = match example(&one["schema"]) {
                    Json::String(text) => text.replace(':', "%3A"),
                    other => other.to_string(),
                };
                format!("{}={value}", one["name"].as_str().unwrap())
            })
            .collect();
        let query = pairs.join("&");
        assert_eq!(reads(&query), Ok(()), "{path}?{query}");
        assert!(
            reads(&format!("{query}&colour=red")).is_err(),
            "{path} takes what is not described"
        );
    };
    fn reads<T: DeserializeOwned>(query: &str) -> Result<(), String> {
        let uri = format!("/?{query}").parse().unwrap();
        let read = Query::<T>::try_from_uri(&uri);
        read.map(|_| ()).map_err(|e| e.body_text())
    }
    check("/use", "get", &reads::<now::Back>);
    check("/nodes", "get", &reads::<admin::NodesAsk>);
    check("/events", "get", &reads::<admin::EventsAsk>);
    check("/ledger", "get", &reads::<admin::LedgerAsk>);
    check("/jobs", "get", &reads::<jobs::ListAsk>);
    check("/history", "get", &reads::<jobs::ListAsk>);
    check("/jobs/{job}/output", "get", &reads::<output::OutputAsk>);
    check("/shells/{id}/screen", "get", &reads::<interactive::ScreenAsk>);
    check("/plan", "get", &reads::<chart::PlanAsk>);
    check("/reservations", "get", &reads::<values::OwnAsk>);
    check("/reservations/{id}", "delete", &reads::<books::CancelAsk>);
    check("/workflows", "get", &reads::<values::OwnAsk>);
}
