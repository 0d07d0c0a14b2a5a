//! The JSON Schema of `gateway.toml`, for editors, made from the tables of [`options`](super::options).
//!
//! It checks one value at a time and one file at a time. Only `tollgate check` knows what keys mean together, and what
//! a value means beyond its spelling.

use serde_json::{Map, Value, json};

use super::options::{
    ADMIN, JWT, Key, KeyDefault, LISTENER, LOG, POLICY, ROUTE, STORE, TOP, TableDoc, TableSpec,
    UPSTREAM, ValueShape,
};
use super::value::NAME_PATTERN;

/// Returns the schema, in draft 2020-12.
pub fn schema() -> Value {
    let mut top = spec(&TOP);
    let tables = [
        ("admin", spec(&ADMIN)),
        ("jwt", spec(&JWT)),
        ("listeners", named(&spec(&LISTENER))),
        ("log", spec(&LOG)),
        ("policies", named(&spec(&POLICY))),
        ("routes", json!({ "type": "array", "items": spec(&ROUTE) })),
        ("store", spec(&STORE)),
        ("upstreams", named(&spec(&UPSTREAM))),
    ];
    for (name, table) in tables {
        top["properties"][name] = table;
    }
    top["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    top["title"] = json!("gateway.toml");
    top["$defs"] = json!({
        "variable": {
            "description": "A string with variables.",
            "type": "string",
            "pattern": VARIABLE,
        },
        "list-variable": {
            "description": "A variable that stands for a list, in which commas separate the items.",
            "type": "string",
            "pattern": LIST_VARIABLE,
        },
    });
    top
}

/// Returns the schema of tables whose names the operator chooses.
fn named(table: &Value) -> Value {
    json!({
        "description": table["description"],
        "type": "object",
        "propertyNames": { "pattern": NAME_PATTERN },
        "additionalProperties": table,
    })
}

/// Returns the schema of a table of the file, and of those within it that fill the same value.
fn spec<T: Clone + Default + PartialEq>(spec: &TableSpec<T>) -> Value {
    let mut schema = table(&spec.about);
    for (name, inner) in &spec.inner {
        schema["properties"][name] = self::spec(inner);
    }
    schema
}

/// Returns the schema of a table that has these keys and no others.
fn table(doc: &TableDoc) -> Value {
    let keys = doc.keys.iter().map(|key| (key.name.to_owned(), value(key)));
    let required = doc.keys.iter().filter(|key| key.is_required());
    let mut schema = json!({
        "type": "object",
        "properties": keys.collect::<Map<_, _>>(),
        "additionalProperties": false,
    });
    let required: Vec<&str> = required.map(|key| key.name).collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if !doc.doc.is_empty() {
        schema["description"] = json!(doc.doc);
    }
    schema
}

/// Returns the schema of a key's value, with what is known about the key.
fn value(key: &Key) -> Value {
    let mut schema = shape(&key.shape, key.bounds.as_ref());
    let mut sentences = vec![sentence(key)];
    if let Some([least, most]) = &key.bounds
        && !key.doc.contains(&format!("{least} to {most}"))
    {
        sentences.push(format!("From {least} to {most}."));
    }
    match &key.default {
        None => {}
        Some(KeyDefault::Nothing(nothing)) => sentences.push(format!("Default: {nothing}.")),
        Some(KeyDefault::Value(spelled)) => match default(&key.shape, spelled) {
            Some(default) => schema["default"] = default,
            None => sentences.push(format!("Default: {spelled}.")),
        },
    }
    schema["description"] = json!(sentences.join(" "));
    schema
}

/// Returns the sentence that says what a key is for; if it ends with a colon, the words of the key follow.
fn sentence(key: &Key) -> String {
    let Some(start) = key.doc.strip_suffix(':') else {
        return key.doc.to_owned();
    };
    match &key.shape {
        ValueShape::Word(words) => format!("{start}: \"{}\".", words.join("\", \"")),
        _ => format!("{start}."),
    }
}

/// Returns the default of a key as JSON; `None` if it can only be described in words.
fn default(shape: &ValueShape, spelled: &str) -> Option<Value> {
    match shape {
        ValueShape::Text(_) | ValueShape::Word(_) => Some(json!(spelled)),
        ValueShape::NumberOrText(_) => match spelled.parse::<u64>() {
            Ok(number) => Some(json!(number)),
            Err(_) => Some(json!(spelled)),
        },
        ValueShape::Integer | ValueShape::Number | ValueShape::Boolean => {
            serde_json::from_str(spelled).ok()
        }
        ValueShape::List(_) => {
            let items = spelled.strip_prefix('[')?.strip_suffix(']')?;
            let items = items.split(", ").filter(|item| !item.is_empty());
            let items = items.map(|item| item.trim_matches('"'));
            Some(json!(items.collect::<Vec<_>>()))
        }
        ValueShape::FreeTable(_) => Some(json!({})),
        ValueShape::ListVariable | ValueShape::Table(_) => None,
        ValueShape::OneOf(shapes) => {
            let lists = shapes.iter().filter(|_| spelled.starts_with('['));
            let mut lists = lists.filter(|shape| matches!(shape, ValueShape::List(_)));
            default(lists.next().or(shapes.first())?, spelled)
        }
    }
}

/// Returns the schema of a shape; `bounds` are those of the numbers in it.
fn shape(shape: &ValueShape, bounds: Option<&[String; 2]>) -> Value {
    match shape {
        ValueShape::Text(pattern) => text(json!({ "type": "string" }), pattern.as_deref()),
        ValueShape::NumberOrText(pattern) => text(
            json!({ "type": ["string", "integer"], "minimum": 0 }),
            pattern.as_deref(),
        ),
        ValueShape::Word(words) => any_of(vec![json!({ "enum": words }), variable()]),
        ValueShape::Integer => any_of(vec![number("integer", bounds), variable()]),
        ValueShape::Number => any_of(vec![number("number", bounds), variable()]),
        ValueShape::Boolean => any_of(vec![json!({ "type": "boolean" }), variable()]),
        ValueShape::List(item) => json!({ "type": "array", "items": self::shape(item, bounds) }),
        ValueShape::ListVariable => json!({ "$ref": "#/$defs/list-variable" }),
        ValueShape::Table(doc) => table(doc),
        ValueShape::FreeTable(value) => {
            json!({ "type": "object", "additionalProperties": self::shape(value, bounds) })
        }
        ValueShape::OneOf(shapes) => {
            any_of(shapes.iter().map(|one| self::shape(one, bounds)).collect())
        }
    }
}

/// Returns the schema of a string, with the pattern that it matches unless it has variables.
fn text(mut schema: Value, pattern: Option<&str>) -> Value {
    if let Some(pattern) = pattern {
        schema["pattern"] = json!(format!("{pattern}|{VARIABLE}"));
    }
    schema
}

fn number(kind: &str, bounds: Option<&[String; 2]>) -> Value {
    let mut schema = json!({ "type": kind });
    let Some([least, most]) = bounds else {
        return schema;
    };
    let (bound, least) = match least.strip_prefix("above ") {
        Some(least) => ("exclusiveMinimum", least),
        None => ("minimum", least.as_str()),
    };
    for (bound, number) in [(bound, least), ("maximum", most)] {
        if let Ok(number) = serde_json::from_str::<Value>(number) {
            schema[bound] = number;
        }
    }
    schema
}

/// Returns the schema of a value that fits any of these; merges those that are such a schema themselves.
fn any_of(schemas: Vec<Value>) -> Value {
    let mut flat = Vec::new();
    for schema in schemas {
        match schema.get("anyOf").and_then(Value::as_array) {
            Some(inner) => flat.extend(inner.clone()),
            None => flat.push(schema),
        }
    }
    json!({ "anyOf": flat })
}

fn variable() -> Value {
    json!({ "$ref": "#/$defs/variable" })
}

/// Pattern of a string with variables.
const VARIABLE: &str = r"\$\{";
/// Pattern of a string that is a variable and nothing else.
const LIST_VARIABLE: &str = r"^\$\{.*\}$";
