//! The schema for editors: it accepts what `check` accepts, and refuses what `check` refuses as far as it can see.
//!
//! `GOLDEN=write cargo test --test config` writes the schema anew; read the difference.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tollgate::config::schema::schema;

use crate::support::{Validator, toml_files};

#[test]
fn the_schema_is_what_it_was() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config/gateway.schema.json");
    let is = format!("{:#}\n", schema());
    if std::env::var("GOLDEN").is_ok_and(|how| how == "write") {
        fs::write(&path, &is).expect("a writable folder");
    }
    let should_be = fs::read_to_string(&path).unwrap_or_default();
    assert!(is == should_be, "{} differs", path.display());
}

/// A validator first checks that its document is a schema.
#[test]
fn the_schema_itself_is_one() {
    assert_eq!(
        Validator::new(&schema()).mistakes(&json!({}), &json!({})),
        Vec::<String>::new()
    );
}

#[test]
fn every_key_is_described() {
    let mut nameless = Vec::new();
    undescribed(&schema(), "", &mut nameless);
    assert_eq!(nameless, Vec::<String>::new());
}

#[test]
fn every_default_is_what_its_key_may_be() {
    let whole = schema();
    let mut keys = vec![(&whole, String::new())];
    let mut count = 0;
    let mut validator = Validator::new(&json!({ "$defs": whole["$defs"] }));
    while let Some((schema, path)) = keys.pop() {
        if let Some(default) = schema.get("default") {
            let wrong = validator.mistakes(schema, default);
            assert_eq!(wrong, Vec::<String>::new(), "{path}: {default}");
            count += 1;
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.into_iter().flatten();
        keys.extend(properties.map(|(key, value)| (value, format!("{path}/{key}"))));
        let tables = ["items", "additionalProperties"].map(|key| schema.get(key));
        keys.extend(
            tables
                .into_iter()
                .flatten()
                .map(|table| (table, path.clone())),
        );
    }
    assert!(count > 80, "only {count} defaults");
}

/// Finds the keys below a schema that have no description.
fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (key, value) in properties.into_iter().flatten() {
        let path = format!("{path}/{key}");
        let tables = [&value["items"], &value["additionalProperties"]];
        let is_described = |schema: &Value| schema["description"].is_string();
        if !is_described(value) && !tables.into_iter().any(is_described) {
            found.push(path.clone());
        }
        undescribed(value, &path, found);
        for table in tables {
            undescribed(table, &path, found);
        }
        for one in value["anyOf"].as_array().into_iter().flatten() {
            undescribed(one, &path, found);
            undescribed(&one["items"], &path, found);
        }
    }
}

#[test]
fn what_check_accepts_fits_the_schema() {
    let mut validator = Validator::new(&schema());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = toml_files("tests/config/good");
    let part = |name: &str| root.join("tests/config/good/parts/good.d").join(name);
    files.extend(["10-login.toml", "20-web.toml"].map(part));
    files.extend(toml_files("docs/cookbook"));
    files.push(root.join("gateway.toml"));
    assert!(files.len() > 60, "only {} files", files.len());
    for file in files {
        let wrong = mistakes(&mut validator, &file)
            .unwrap_or_else(|| panic!("{} is no TOML", file.display()));
        assert_eq!(wrong, Vec::<String>::new(), "{}", file.display());
    }
}

#[test]
fn what_check_refuses_does_not_fit_the_schema_but_for_what_no_schema_sees() {
    let mut validator = Validator::new(&schema());
    let mut unseen = BTreeSet::new();
    for file in toml_files("tests/config/bad") {
        // An editor reports invalid TOML without a schema.
        if let Some(wrong) = mistakes(&mut validator, &file)
            && wrong.is_empty()
        {
            let name = file.file_stem().expect("a file").to_string_lossy();
            unseen.insert(name.into_owned());
        }
    }
    let listed = UNSEEN
        .iter()
        .flat_map(|(_, files)| files.split_whitespace());
    let listed = listed.map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(
        unseen, listed,
        "left: what no mistake is found in; right: UNSEEN"
    );
}

/// Returns what the schema finds wrong with a file, or `None` if the file is not TOML.
fn mistakes(validator: &mut Validator, file: &Path) -> Option<Vec<String>> {
    let text = fs::read_to_string(file).expect("a readable file");
    let json: Value = toml::from_str(&text).ok()?;
    Some(validator.mistakes(&json!({}), &json))
}

/// Files of `tests/config/bad` whose mistakes no schema can see, by the reason.
const UNSEEN: [(&str, &str); 7] = [
    (
        "what two tables or two values mean together",
        "compile-addresses compile-builtins compile-client-cert compile-hash compile-rewrite \
         compile-store-in-memory compile-store-sentinel-user-alone compile-store-socket compile-store-tls-half \
         compile-store-twice compile-store-user-alone compile-strip-prefix compile-tokens-without-keys \
         compile-windows compile-algorithm-keys compile-balance compile-health compile-path-params \
         compile-token-algorithms",
    ),
    (
        "names of tables and routes",
        "compile-names compile-no-tables read-routes-of-one-name",
    ),
    (
        "tables that may stand in a file that this one includes, or that includes it",
        "compile-empty",
    ),
    (
        "the content of a file that is named",
        "compile-listener-tls compile-store-tls-ca compile-store-tls-files compile-store-tls-key compile-token-keys \
         include include-secret overrides-file",
    ),
    (
        "the value of a variable, and whether there is one",
        "read-list-with-brackets read-lists-of-variables read-variables read-variables-keep-their-secrets",
    ),
    ("regular expressions", "compile-header-expressions"),
    (
        "keys that the operator chooses, and what they stand for",
        "read-host-header",
    ),
];
