//! The source keeps to the design: who may import whom, and how large a file or a function may grow.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What the modules of a row may import of the crate; a row covers its submodules.
///
/// A longer path wins over a shorter one. Modules without a row (`gateway`, `cli`, `main`) put the
/// parts together and may import everything.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("clock", &[]),
    ("limit", &["limit", "clock"]),
    ("store", &["store", "limit", "clock"]),
    ("fault", &[]),
    (
        "metrics",
        &[
            "metrics",
            "clock",
            "fault",
            "store::BreakerState",
            "store::ROUND_TRIP_BOUNDS_US",
            "store::RedisUsage",
            "store::Usage",
        ],
    ),
    ("logging", &["logging", "snapshot"]),
    (
        "access_log",
        &[
            "access_log",
            "snapshot",
            "clock",
            "metrics",
            "fault",
            "logging",
        ],
    ),
    (
        "snapshot",
        &[
            "limit",
            "request",
            "clock",
            "store::settings",
            "store::Settings",
        ],
    ),
    (
        "config",
        &[
            "config",
            "limit",
            "snapshot",
            "clock",
            "request",
            "store::Series",
            "store::Shape",
            "store::Settings",
            "store::settings",
            "store::Tls",
        ],
    ),
    (
        "proxy",
        &[
            "proxy",
            "request",
            "snapshot",
            "store",
            "limit",
            "metrics",
            "clock",
            "access_log",
            "logging",
            "fault",
        ],
    ),
    ("request", &["request", "limit"]),
    ("admin", &["admin", "metrics", "proxy::via"]),
];
const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;
const JOURNEY_LINES_MAX: usize = 60;

#[test]
fn modules_import_only_what_the_design_allows() {
    let mut offences = Vec::new();
    for (module, text) in sources() {
        let row = MAY_IMPORT
            .iter()
            .filter(|(of, _)| is_within(&module, of))
            .max_by_key(|(of, _)| of.len());
        let Some((_, allowed)) = row else { continue };
        for import in imports(&text) {
            let is_own_file = is_within(&import, &module);
            if !is_own_file && !allowed.iter().any(|of| is_within(&import, of)) {
                offences.push(format!("{module} imports {import}"));
            }
        }
    }
    assert_eq!(offences, Vec::<String>::new());
}

#[test]
fn files_and_functions_stay_small() {
    let mut offences = Vec::new();
    for (module, text) in sources() {
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            offences.push(format!("{module} has {lines} lines"));
        }
        for (name, lines) in functions(&text) {
            let is_journey = module == "proxy::journey" && name == "run";
            let most = if is_journey {
                JOURNEY_LINES_MAX
            } else {
                FUNCTION_LINES_MAX
            };
            if lines > most {
                offences.push(format!("{module}::{name} has {lines} lines"));
            }
        }
    }
    assert_eq!(offences, Vec::<String>::new());
}

#[test]
fn only_the_clock_asks_for_the_time() {
    let asking: Vec<String> = sources()
        .into_iter()
        .filter(|(module, text)| {
            module != "clock" && (text.contains("Instant::now") || text.contains("SystemTime::now"))
        })
        .map(|(module, _)| module)
        .collect();
    assert_eq!(asking, Vec::<String>::new());
}

#[test]
fn offences_are_found() {
    let text = "use crate::config::file::At;\nuse crate::{limit::PartitionId, store};\nfn f() {\n    g();\n}\n";
    assert_eq!(
        imports(text),
        ["config::file::At", "limit::PartitionId", "store"]
    );
    assert_eq!(functions(text), [("f".to_owned(), 3)]);
}

/// Every source file's module path and text.
fn sources() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root.clone()];
    let mut sources = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                sources.insert(module(&root, &path), text);
            }
        }
    }
    assert!(sources.len() > 20, "the sources are found");
    sources
}

fn module(root: &Path, path: &Path) -> String {
    let path = path.with_extension("");
    let parts = path.strip_prefix(root).expect("a path under src").iter();
    let parts: Vec<_> = parts
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    parts.join("::").trim_end_matches("::mod").to_owned()
}

fn is_within(module: &str, of: &str) -> bool {
    module
        .strip_prefix(of)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The `crate::` paths that a text names, in `use` items and elsewhere; its tests are not looked at.
fn imports(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    for part in text.split("crate::").skip(1) {
        if let Some(group) = part.strip_prefix('{') {
            let group = &group[..group.find("};").unwrap_or(group.len())];
            found.extend(
                group
                    .split(',')
                    .map(|item| path_of(item.trim()))
                    .filter(|path| !path.is_empty()),
            );
        } else {
            found.push(path_of(part));
        }
    }
    found
}

fn path_of(text: &str) -> String {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    text[..end.unwrap_or(text.len())]
        .trim_end_matches(':')
        .to_owned()
}

/// The functions of a formatted text and how many lines each has.
fn functions(text: &str) -> Vec<(String, usize)> {
    let mut functions = Vec::new();
    let mut open: Vec<(String, usize, usize)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        if let Some(&(_, start, at)) = open.last()
            && line.trim() == "}"
            && indent == at
            && let Some((name, ..)) = open.pop()
        {
            functions.push((name, number - start + 1));
        }
        let words: Vec<_> = line.split_whitespace().collect();
        if let Some(position) = words.iter().position(|word| *word == "fn")
            && words[..position]
                .iter()
                .all(|word| QUALIFIERS.contains(word))
            && !line.trim_end().ends_with([';', '}'])
        {
            let name = words.get(position + 1).copied().unwrap_or_default();
            let end = name.find(['(', '<']).unwrap_or(name.len());
            open.push((name[..end].to_owned(), number, indent));
        }
    }
    functions
}

const QUALIFIERS: &[&str] = &["pub", "pub(crate)", "pub(super)", "async", "const"];
