//! The content of a file in one form for all files that mean the same: every value as messages spell it, without
//! secrets and defaults.

use serde_json::{Map, Value};

use super::file::{File, Table};
use super::options::{ADMIN, JWT, LISTENER, LOG, POLICY, ROUTE, STORE, TOP, TableSpec, UPSTREAM};

/// Describes a file in JSON: each table as an object of texts, named tables by their names, and routes in the file's
/// order.
pub fn describe(file: &File) -> Value {
    let mut all = Map::new();
    let mut add = |name: &str, value: Value| {
        if !is_empty(&value) {
            all.insert(name.to_owned(), value);
        }
    };
    add("top", table(&TOP, &file.top));
    add("admin", table(&ADMIN, &file.admin));
    add("log", table(&LOG, &file.log));
    add("store", table(&STORE, &file.store));
    add("jwt", table(&JWT, &file.jwt));
    add("listeners", named(&LISTENER, &file.listeners.raw));
    add("upstreams", named(&UPSTREAM, &file.upstreams.raw));
    add("policies", named(&POLICY, &file.policies.raw));
    let routes = file.routes.iter().map(|route| {
        let mut keys = table(&ROUTE, route);
        keys["name"] = (*route.name).into();
        keys
    });
    add("routes", routes.collect());
    Value::Object(all)
}

fn named<T: Clone + Default + PartialEq>(spec: &TableSpec<T>, tables: &[Table<T>]) -> Value {
    let tables = tables.iter();
    let described = tables.map(|one| (one.name.to_string(), table(spec, one)));
    Value::Object(described.collect())
}

fn table<T: Clone + Default + PartialEq>(spec: &TableSpec<T>, table: &Table<T>) -> Value {
    let keys = spec.described(&table.value).into_iter();
    Value::Object(
        keys.map(|(key, text)| (key.to_owned(), text.into()))
            .collect(),
    )
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
