//! The description of what is served, as OpenAPI 3.0: made of the same list of fields that answers are made
//! of, so that it describes them.

use crate::call::{Endpoint, Method};
use crate::shape::{Field, Kind, Shape, Shapes};
use crate::version::ApiVersion;
use serde_json::{Map, Value, json};

/// A path with its method: what it is called, and what is in its answer and body.
struct Entry {
    method: Method,
    path: &'static str,
    endpoint: fn(String) -> Endpoint,
    /// Name of a list or object, the record of it, and whether it is a list.
    lists: &'static [(&'static str, &'static str, bool)],
    /// Times beside them.
    times: &'static [&'static str],
    body: Option<&'static str>,
}

const fn get(
    path: &'static str,
    endpoint: fn(String) -> Endpoint,
    lists: &'static [(&'static str, &'static str, bool)],
) -> Entry {
    Entry {
        method: Method::Get,
        path,
        endpoint,
        lists,
        times: &[],
        body: None,
    }
}

const fn load(
    path: &'static str,
    endpoint: fn(String) -> Endpoint,
    lists: &'static [(&'static str, &'static str, bool)],
) -> Entry {
    Entry {
        times: &["last_update"],
        ..get(path, endpoint, lists)
    }
}

const JOBS: &[(&str, &str, bool)] = &[("jobs", "job", true)];
const NODES: &[(&str, &str, bool)] = &[("nodes", "node", true)];
const PARTITIONS: &[(&str, &str, bool)] = &[("partitions", "partition", true)];
const RESERVATIONS: &[(&str, &str, bool)] = &[("reservations", "reservation", true)];
const DB_JOBS: &[(&str, &str, bool)] = &[("jobs", "db_job", true)];
const USERS: &[(&str, &str, bool)] = &[("users", "user", true)];
const ACCOUNTS: &[(&str, &str, bool)] = &[("accounts", "account", true)];
const ASSOCIATIONS: &[(&str, &str, bool)] = &[("associations", "association", true)];
const QOS: &[(&str, &str, bool)] = &[("qos", "qos", true)];
const CLUSTERS: &[(&str, &str, bool)] = &[("clusters", "cluster", true)];
const STATUS: &[(&str, &str, bool)] = &[("status", "killed", true)];

const OF_CONTROLLER: &[Entry] = &[
    get("ping", |_| Endpoint::Ping, &[("pings", "ping", true)]),
    get("diag", |_| Endpoint::Diag, &[("statistics", "stats", false)]),
    Entry {
        times: &["last_backfill", "last_update"],
        ..get("jobs", |_| Endpoint::Jobs, JOBS)
    },
    Entry {
        times: &["last_backfill", "last_update"],
        ..get("jobs/state", |_| Endpoint::JobStates, JOBS)
    },
    Entry {
        times: &["last_backfill", "last_update"],
        ..get("job/{job_id}", Endpoint::Job, JOBS)
    },
    load("nodes", |_| Endpoint::Nodes, NODES),
    load("node/{node_name}", Endpoint::Node, NODES),
    load("partitions", |_| Endpoint::Partitions, PARTITIONS),
    load("partition/{partition_name}", Endpoint::Partition, PARTITIONS),
    load("reservations", |_| Endpoint::Reservations, RESERVATIONS),
    load("reservation/{reservation_name}", Endpoint::Reservation, RESERVATIONS),
    load("licenses", |_| Endpoint::Licenses, &[("licenses", "license", true)]),
    get("shares", |_| Endpoint::Shares, &[("shares", "shares", false)]),
    Entry {
        method: Method::Post,
        body: Some("submission"),
        ..get("job/submit", |_| Endpoint::Submit, &[("", "submitted", false)])
    },
    Entry {
        method: Method::Post,
        body: Some("job_request"),
        ..get("job/{job_id}", Endpoint::Change, &[("results", "changed", true)])
    },
    Entry {
        method: Method::Delete,
        ..get("job/{job_id}", Endpoint::Cancel, STATUS)
    },
    Entry {
        method: Method::Delete,
        body: Some("kill_request"),
        ..get("jobs", |_| Endpoint::CancelSeveral, STATUS)
    },
];

const OF_ACCOUNTING: &[Entry] = &[
    get("jobs", |_| Endpoint::DbJobs, DB_JOBS),
    get("job/{job_id}", Endpoint::DbJob, DB_JOBS),
    get("users", |_| Endpoint::DbUsers, USERS),
    get("user/{name}", Endpoint::DbUser, USERS),
    get("accounts", |_| Endpoint::DbAccounts, ACCOUNTS),
    get("account/{account_name}", Endpoint::DbAccount, ACCOUNTS),
    get("associations", |_| Endpoint::DbAssociations, ASSOCIATIONS),
    get("association", |_| Endpoint::DbAssociation, ASSOCIATIONS),
    get("qos", |_| Endpoint::DbQos, QOS),
    get("qos/{qos}", Endpoint::DbOneQos, QOS),
    get("clusters", |_| Endpoint::DbClusters, CLUSTERS),
    get("cluster/{cluster_name}", Endpoint::DbCluster, CLUSTERS),
    get("tres", |_| Endpoint::DbTres, &[("TRES", "tres", true)]),
    get("wckeys", |_| Endpoint::DbWckeys, &[("wckeys", "wckey", true)]),
    get("instances", |_| Endpoint::DbInstances, &[("instances", "instance", true)]),
    get(
        "config",
        |_| Endpoint::DbConfig,
        &[
            ("clusters", "cluster", true),
            ("TRES", "tres", true),
            ("accounts", "account", true),
            ("users", "user", true),
            ("qos", "qos", true),
            ("wckeys", "wckey", true),
            ("associations", "association", true),
            ("instances", "instance", true),
        ],
    ),
    get("diag", |_| Endpoint::DbDiag, &[("statistics", "db_stats", false)]),
    get("ping", |_| Endpoint::DbPing, &[("pings", "db_ping", true)]),
];

/// The whole description.
pub fn document() -> Value {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for version in ApiVersion::ALL {
        let shapes = Shapes::of(version);
        for name in shapes.names() {
            schemas.insert(named(version, name), record(shapes.record(name)));
        }
        own_records(version, &mut schemas);
        for (family, entries) in [("slurm", OF_CONTROLLER), ("slurmdb", OF_ACCOUNTING)] {
            for entry in entries {
                let path = format!("/{family}/{}/{}", version.word(), entry.path);
                let at = paths
                    .entry(path)
                    .or_insert_with(|| Value::Object(Map::new()));
                if let Some(methods) = at.as_object_mut() {
                    methods
                        .insert(word(entry.method).to_owned(), operation(family, entry, version));
                }
            }
        }
    }
    let [major, minor, micro] = ApiVersion::V44.release();
    json!({
        "openapi": "3.0.3",
        "info": {
            "title": "Slurm REST API",
            "description": "What Cosy serves of it: the guide says what differs.",
            "version": format!("Slurm-{major}.{minor}.{micro}"),
        },
        "security": [{"user": [], "token": []}, {"bearerAuth": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "user": {"type": "apiKey", "in": "header", "name": "X-SLURM-USER-NAME"},
                "token": {"type": "apiKey", "in": "header", "name": "X-SLURM-USER-TOKEN"},
                "bearerAuth": {"type": "http", "scheme": "bearer"},
            },
            "schemas": schemas,
        },
    })
}

const fn word(method: Method) -> &'static str {
    match method {
        Method::Get => "get",
        Method::Post => "post",
        Method::Delete => "delete",
    }
}

fn named(version: ApiVersion, record: &str) -> String {
    format!("{}_{record}", version.word())
}

fn reference(version: ApiVersion, record: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{}", named(version, record))})
}

/// Objects that are made of records.
fn own_records(version: ApiVersion, schemas: &mut Map<String, Value>) {
    let list = |record: &str| json!({"type": "array", "items": reference(version, record)});
    for (name, properties) in [
        ("shares", json!({"shares": list("share"), "total_shares": {"type": "integer"}})),
        (
            "submission",
            json!({
                "script": {"type": "string"},
                "job": reference(version, "job_request"),
                "jobs": list("job_request"),
            }),
        ),
        (
            "submitted",
            json!({
                "job_id": {"type": "integer"},
                "step_id": {"type": "string"},
                "job_submit_user_msg": {"type": "string"},
            }),
        ),
    ] {
        schemas.insert(named(version, name), json!({"type": "object", "properties": properties}));
    }
}

fn operation(family: &str, entry: &Entry, version: ApiVersion) -> Value {
    let path = entry.path.replace(['{', '}'], "").replace('/', "_");
    let in_path = entry.path.split(['{', '}']).nth(1);
    let query = (entry.endpoint)(String::new());
    let text = json!({"type": "string"});
    let parameters: Vec<Value> = in_path
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": text}))
        .into_iter()
        .chain(
            query
                .parameters()
                .iter()
                .map(|name| json!({"name": name, "in": "query", "schema": text})),
        )
        .collect();
    let answer = json!({"application/json": {"schema": answer(entry, version)}});
    let mut operation = json!({
        "operationId": format!("{family}_v00{}_{}_{path}", version.number(), word(entry.method)),
        "tags": [family],
        "parameters": parameters,
        "responses": {
            "200": {"description": "done", "content": answer},
            "default": {"description": "not done: errors says why", "content": answer},
        },
    });
    if let (Some(body), Some(fields)) = (entry.body, operation.as_object_mut()) {
        let body = json!({"content": {"application/json": {"schema": reference(version, body)}}});
        fields.insert("requestBody".to_owned(), body);
    }
    operation
}

fn answer(entry: &Entry, version: ApiVersion) -> Value {
    let mut properties = Map::new();
    for (name, record, several) in entry.lists {
        let one = reference(version, record);
        match (name.is_empty(), several) {
            (true, _) => {
                // Its fields stand beside the rest.
                return json!({"allOf": [one, common(version, Map::new())]});
            }
            (false, true) => {
                properties.insert((*name).to_owned(), json!({"type": "array", "items": one}))
            }
            (false, false) => properties.insert((*name).to_owned(), one),
        };
    }
    for name in entry.times {
        properties.insert((*name).to_owned(), one(Kind::Number(64)));
    }
    common(version, properties)
}

/// What stands in every answer.
fn common(version: ApiVersion, mut properties: Map<String, Value>) -> Value {
    let list = |record: &str| json!({"type": "array", "items": reference(version, record)});
    properties.insert("meta".to_owned(), reference(version, "meta"));
    properties.insert("errors".to_owned(), list("error"));
    properties.insert("warnings".to_owned(), list("warning"));
    json!({"type": "object", "properties": properties})
}

fn record(fields: &[Field]) -> Value {
    let property = |field: &Field| {
        let value = match &field.shape {
            Shape::One(kind) => one(*kind),
            Shape::Several(kind) => {
                let mut each = one(*kind);
                if let (false, Some(each)) = (field.words.is_empty(), each.as_object_mut()) {
                    each.insert("enum".to_owned(), json!(field.words));
                }
                json!({"type": "array", "items": each})
            }
            Shape::Record(fields) => record(fields),
            Shape::Records(fields) => json!({"type": "array", "items": record(fields)}),
        };
        (field.name.to_owned(), value)
    };
    let properties: Map<String, Value> = fields.iter().map(property).collect();
    json!({"type": "object", "properties": properties})
}

fn one(kind: Kind) -> Value {
    let wrapped = |number: Value| {
        let flag = json!({"type": "boolean"});
        json!({"type": "object", "properties": {"set": flag, "infinite": flag, "number": number}})
    };
    match kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Int => json!({"type": "integer", "format": "int64"}),
        Kind::Real => json!({"type": "number", "format": "double"}),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Number(bits) => {
            let format = if bits > 32 { "int64" } else { "int32" };
            wrapped(json!({"type": "integer", "format": format}))
        }
        Kind::Fraction => wrapped(json!({"type": "number", "format": "double"})),
        Kind::Map => json!({"type": "object"}),
        Kind::Any => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Call;
    use std::collections::BTreeSet;

    #[test]
    fn what_is_described_is_served() {
        let document = document();
        let mut ids = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let real = path.replace(['{', '}'], "");
                let call = Call::read(&method.to_uppercase(), &real, "");
                assert!(call.is_ok(), "{method} {path}");
                assert!(
                    ids.insert(operation["operationId"].as_str().unwrap().to_owned()),
                    "{path}"
                );
                let parameters = operation["parameters"].as_array().unwrap();
                let own = |p: &&Value| p["in"] == "query";
                let query: Vec<&str> = parameters
                    .iter()
                    .filter(own)
                    .map(|p| p["name"].as_str().unwrap())
                    .collect();
                let query = query.join("=1&").replace(' ', "+");
                assert!(
                    Call::read(&method.to_uppercase(), &real, &query)
                        .unwrap()
                        .warnings
                        .is_empty(),
                    "{path}"
                );
            }
        }
        assert_eq!(ids.len(), 3 * (OF_CONTROLLER.len() + OF_ACCOUNTING.len()));
        assert_eq!(ids.len(), 3 * 35);
    }

    #[test]
    fn references_lead_somewhere() {
        let document = document();
        let text = document.to_string();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let mut found = 0;
        for part in text.split("#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
            found += 1;
        }
        assert!(found > 300);
        let state = &schemas["v0.0.44_job"]["properties"]["job_state"]["items"]["enum"];
        assert!(state.as_array().unwrap().contains(&"EXPEDITING".into()));
    }
}
