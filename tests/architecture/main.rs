//! The source keeps to the design: which room may import which, no circles, and how large a file or a
//! function may grow.

mod circles;
mod crate_map;
mod planted;
mod type_names;
mod uses;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use proc_macro2::{TokenStream, TokenTree};

use crate_map::{is_within, join};
use uses::{is_separator, path_at};

/// The rooms (modules, one per area), lower floors first, and which other rooms each may import; a row covers its
/// submodules, and a longer path wins over a shorter one.
///
/// `gateway`, `cli` and `main` put the parts together and may import everything. A row's own
/// submodules need no mention; code under `#[cfg(test)]` keeps to the table too.
const ROOMS: &[(&str, &[&str])] = &[
    ("build_info", &[]),
    ("chance", &[]),
    ("clock", &[]),
    ("cost", &[]),
    ("fault", &[]),
    ("index", &[]),
    ("logging", &[]),
    (
        "metrics",
        &["build_info", "clock", "cost", "fault", "index"],
    ),
    (
        "access_log",
        &["clock", "cost", "fault", "logging", "metrics"],
    ),
    ("tls", &["fault"]),
    ("limit", &["clock"]),
    ("store::password", &[]),
    ("store::settings", &["store::password", "tls"]),
    ("store::holder", &["chance"]),
    ("store::series", &["clock", "limit"]),
    ("store::charge", &["clock", "limit"]),
    ("store::directives", &["clock"]),
    ("store::resets", &["clock", "limit", "store::charge"]),
    (
        "store::outcome",
        &["clock", "limit", "store::charge", "store::holder"],
    ),
    (
        "store::memory",
        &[
            "clock",
            "limit",
            "metrics",
            "store::charge",
            "store::directives",
            "store::outcome",
            "store::resets",
            "store::series",
        ],
    ),
    (
        "store::redis",
        &[
            "chance",
            "clock",
            "limit",
            "store::directives",
            "store::holder",
            "store::series",
            "store::settings",
            "tls",
        ],
    ),
    (
        "store::guarded",
        &[
            "clock",
            "limit",
            "metrics",
            "store::charge",
            "store::directives",
            "store::holder",
            "store::memory",
            "store::outcome",
            "store::redis",
            "store::resets",
            "store::series",
            "store::settings",
        ],
    ),
    (
        "store",
        &[
            "clock",
            "limit",
            "metrics",
            "store::charge",
            "store::directives",
            "store::holder",
            "store::guarded",
            "store::memory",
            "store::outcome",
            "store::redis",
            "store::series",
            "store::settings",
            "tls",
        ],
    ),
    ("request", &["clock", "index", "limit"]),
    (
        "snapshot",
        &[
            "access_log",
            "clock",
            "cost",
            "index",
            "limit",
            "logging",
            "request",
            "store",
            "tls",
        ],
    ),
    (
        "config",
        &[
            "access_log",
            "clock",
            "cost",
            "index",
            "limit",
            "logging",
            "request",
            "snapshot",
            "store",
            "store::settings",
            "tls",
        ],
    ),
    (
        "limiter",
        &[
            "clock", "cost", "index", "limit", "metrics", "request", "snapshot", "store",
        ],
    ),
    ("proxy::differential", &[]),
    ("proxy::wire", &["clock", "request"]),
    (
        "proxy::upstream",
        &[
            "chance",
            "clock",
            "fault",
            "index",
            "metrics",
            "proxy::differential",
            "proxy::wire",
            "request",
            "snapshot",
            "tls",
        ],
    ),
    (
        "proxy::downstream",
        &[
            "chance",
            "clock",
            "fault",
            "index",
            "metrics",
            "proxy::differential",
            "proxy::wire",
            "request",
            "snapshot",
            "tls",
        ],
    ),
    (
        "proxy",
        &[
            "access_log",
            "chance",
            "clock",
            "cost",
            "fault",
            "index",
            "limit",
            "limiter",
            "logging",
            "metrics",
            "proxy::downstream",
            "proxy::wire",
            "proxy::upstream",
            "request",
            "snapshot",
            "store",
            "store::settings",
            "tls",
        ],
    ),
    (
        "keys",
        &[
            "access_log",
            "clock",
            "config",
            "index",
            "limit",
            "request",
            "snapshot",
            "store",
            "store::directives",
        ],
    ),
    (
        "explain",
        &[
            "clock", "config", "fault", "limit", "limiter", "metrics", "proxy", "request",
            "snapshot", "store",
        ],
    ),
    (
        "admin",
        &[
            "access_log",
            "build_info",
            "clock",
            "config",
            "explain",
            "keys",
            "limit",
            "limiter",
            "logging",
            "metrics",
            "proxy",
            "proxy::upstream",
            "proxy::wire",
            "request",
            "snapshot",
            "store",
            "store::directives",
        ],
    ),
];
const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;
/// For the journey itself and its wrapper.
const JOURNEY_LINES_MAX: usize = 60;

/// The source files by module path: `proxy::upstream::pool`.
struct Sources(BTreeMap<String, String>);

#[test]
fn rooms_import_only_what_the_design_allows() {
    let sources = Sources::read();
    let mut offences = Vec::new();
    for (module, import) in sources.imports() {
        let (Some((room, allowed)), Some((other, _))) = (row(&module), row(&import)) else {
            continue;
        };
        if room != other && !allowed.contains(&other) {
            offences.push(format!("{module} imports {import}"));
        }
    }
    assert_eq!(offences, Vec::<String>::new());
}

#[test]
fn rooms_do_not_import_each_other_in_a_circle() {
    for (at, (room, allowed)) in ROOMS.iter().enumerate() {
        let below: Vec<_> = ROOMS[..at].iter().map(|(name, _)| *name).collect();
        for other in *allowed {
            assert!(
                below.contains(other),
                "{room} may import {other}, which does not stand below it"
            );
        }
    }
}

#[test]
fn files_do_not_use_each_other_in_a_circle() {
    let circles = circles::find(&Sources::read().0);
    let shown: String = circles.iter().map(ToString::to_string).collect();
    assert!(circles.is_empty(), "\n{shown}");
}

#[test]
fn no_two_types_have_one_name() {
    assert_eq!(
        type_names::given_twice(&Sources::read().0),
        Vec::<String>::new()
    );
}

#[test]
fn a_name_that_two_types_have_is_found() {
    let texts = [
        ("lib", "mod a; mod b; struct One; type Two = One;"),
        (
            "a",
            "pub enum Two {} impl Owner for X { type One = X; } #[cfg(test)] mod tests { struct One; }",
        ),
        (
            "b",
            "trait Three {} union Four { x: u8 } fn f() { struct Three; }",
        ),
    ];
    let texts = texts.map(|(file, text)| (file.to_owned(), text.to_owned()));
    let found = type_names::given_twice(&texts.into());
    assert_eq!(found, ["Three in b, b", "Two in , a"]);
}

#[test]
fn files_and_functions_stay_small() {
    let mut offences = Vec::new();
    for (module, text) in &Sources::read().0 {
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            offences.push(format!("{module} has {lines} lines"));
        }
        for (name, lines) in functions(text) {
            let is_journey = module == "proxy::journey";
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
fn offences_are_found() {
    let text = "\
use crate::a::{self, b::Thing, c};
use super::{sibling::f, Type};

pub(in crate::a) fn f() {
    super::super::b::g();
}

#[cfg(test)]
mod tests {
    use super::*;
    use super::super::sibling;
}
";
    let modules = ["a", "a::b", "a::c", "a::here", "a::sibling", "b"];
    let sources = Sources(
        modules
            .map(|module| (module.to_owned(), String::new()))
            .into(),
    );
    let found: Vec<_> = sources.imports_of("a::here", text).into_iter().collect();
    assert_eq!(found, ["a", "a::b", "a::c", "a::here", "a::sibling", "b"]);
    let lines: Vec<_> = functions(text);
    assert_eq!(lines, [("f".to_owned(), 3)]);
}

#[test]
fn h2_is_what_was_published_and_the_patch_beside_it() {
    let carried = Path::new(env!("CARGO_MANIFEST_DIR")).join("third_party/h2");
    let copy = tempfile::tempdir().expect("a folder");
    let run = |program: &str, arguments: &[&OsStr]| {
        let mut command = Command::new(program);
        let output = command.args(arguments).current_dir(copy.path()).output();
        let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(output.status.success(), "{command:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    run(
        "cp",
        &[
            "-r".as_ref(),
            carried.join("h2-0.4.20/.").as_ref(),
            ".".as_ref(),
        ],
    );
    let patch = carried.join("h2-0.4.20.patch");
    run(
        "git",
        &["apply".as_ref(), "--reverse".as_ref(), patch.as_ref()],
    );
    let sums = carried.join("SHA256SUMS");
    run(
        "sha256sum",
        &["--check".as_ref(), "--strict".as_ref(), sums.as_ref()],
    );
    let files = run("find", &[".".as_ref(), "-type".as_ref(), "f".as_ref()]);
    let sums = fs::read_to_string(sums).expect("text");
    assert_eq!(files.lines().count(), sums.lines().count(), "{files}");
}

#[test]
fn uplot_is_what_was_published() {
    let carried = Path::new(env!("CARGO_MANIFEST_DIR")).join("third_party/uplot");
    let mut command = Command::new("sha256sum");
    command
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(carried);
    let output = command.output().expect("sha256sum runs");
    assert!(output.status.success(), "{output:?}");
}

impl Sources {
    fn read() -> Self {
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
        Self(sources)
    }

    /// Returns every import of one module by another, in `use` items and elsewhere, tests included.
    fn imports(&self) -> BTreeSet<(String, String)> {
        let mut found = BTreeSet::new();
        for (module, text) in &self.0 {
            let imports = self.imports_of(module, text);
            found.extend(imports.into_iter().map(|import| (module.clone(), import)));
        }
        found
    }

    fn imports_of(&self, module: &str, text: &str) -> BTreeSet<String> {
        let tokens = text.parse::<TokenStream>();
        let tokens = tokens.unwrap_or_else(|error| panic!("{module}: {error}"));
        let mut found = BTreeSet::new();
        self.gather(tokens, module, &[], &mut found);
        found
    }

    /// Collects what modules tokens name: from a root, or after `head` if they are the group of an import.
    fn gather(
        &self,
        tokens: TokenStream,
        module: &str,
        head: &[String],
        found: &mut BTreeSet<String>,
    ) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            let (path, end) = path_at(&tokens, at);
            let goes_on = is_separator(&tokens[end.saturating_sub(2)..]);
            let first = path.first().map(String::as_str);
            let is_root = matches!(first, Some("crate" | "super" | "self"));
            let is_import = !head.is_empty() || is_root && (goes_on || path.len() > 1);
            let path = [head, &path[..]].concat();
            at = match (first, tokens.get(end), tokens.get(end + 1)) {
                (None, ..) => {
                    if let TokenTree::Group(group) = &tokens[at] {
                        self.gather(group.stream(), module, &[], found);
                    }
                    end
                }
                (Some("mod"), Some(TokenTree::Ident(name)), Some(TokenTree::Group(group))) => {
                    let inner = join(module, &name.to_string());
                    self.gather(group.stream(), &inner, &[], found);
                    end + 2
                }
                // What follows is a new name, not a path.
                (Some("as"), ..) if !head.is_empty() => end + 1,
                (_, Some(TokenTree::Group(group)), _) if is_import && goes_on => {
                    self.gather(group.stream(), module, &path, found);
                    end + 1
                }
                _ => {
                    found.extend(self.resolve(module, &path).filter(|_| is_import));
                    end
                }
            };
        }
    }

    /// Returns the module that a path names or leads into.
    fn resolve(&self, module: &str, path: &[String]) -> Option<String> {
        let mut at: Vec<&str> = module.split("::").collect();
        for segment in path {
            match &**segment {
                "crate" => at.clear(),
                "super" => drop(at.pop()),
                "self" => {}
                segment => at.push(segment),
            }
        }
        while !at.is_empty() {
            let name = at.join("::");
            if self.0.contains_key(&name) {
                return Some(name);
            }
            at.pop();
        }
        None
    }
}

/// Returns the row of the room that a module belongs to.
fn row(module: &str) -> Option<(&'static str, &'static [&'static str])> {
    let of = ROOMS.iter().filter(|(room, _)| is_within(module, room));
    of.max_by_key(|(room, _)| room.len()).copied()
}

fn module(root: &Path, path: &Path) -> String {
    let path = path.with_extension("");
    let parts = path.strip_prefix(root).expect("a path under src").iter();
    let parts: Vec<_> = parts
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    parts.join("::").trim_end_matches("::mod").to_owned()
}

/// Returns the functions of a formatted text, and how many lines each has.
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
                .all(|word| QUALIFIERS.contains(word) || is_visibility(word))
            && !line.trim_end().ends_with([';', '}'])
        {
            let name = words.get(position + 1).copied().unwrap_or_default();
            let end = name.find(['(', '<']).unwrap_or(name.len());
            open.push((name[..end].to_owned(), number, indent));
        }
    }
    functions
}

/// Whether a word is `pub(crate)`, or one of the two words of `pub(in path)`.
fn is_visibility(word: &str) -> bool {
    word.starts_with("pub(") || (word.starts_with("crate::") && word.ends_with(')'))
}

const QUALIFIERS: &[&str] = &["pub", "async", "const"];
