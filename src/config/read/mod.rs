//! Reads `gateway.toml` into its mirror: collects every mistake, and keeps everything that can be read.
//!
//! A file is judged one value at a time here: `options` knows which keys there are and what they take, and `compile`
//! checks what they mean together. A key that is absent or wrong gets its default; a wrong one is also reported.

mod form;
mod free_keys;
mod include;
mod list;
mod merge;
mod messages;
mod other_languages;
mod other_names;
mod other_variables;
mod route_names;
mod say;
mod scalar;
mod source;
mod syntax;
mod table;
#[cfg(test)]
mod tests;
mod variables;

use toml::de::{DeTable, DeValue};

pub use form::Form;
pub use free_keys::FreeKeys;
pub use include::matching;
pub(super) use say::say;
pub use scalar::{OneItem, Scalar};
pub use variables::{Env, Template};

use super::file::{File, RawStore, Spanned, Table, UnreadParts};
use super::options::{ADMIN, JWT, LISTENER, LOG, POLICY, ROUTE, STORE, TABLES, TOP, UPSTREAM};
use super::report::{IncludedFile, Report};
use super::text::{ConfigText, MissingValues};
use super::value::{StoreUrl, nearest};
use source::FileSource;
use syntax::NAMED;
use table::Reader;

/// Reads a file and those that it includes; `env` looks up its variables.
///
/// If the report is not empty, the mirror lacks what was wrong, and is good only for finding further mistakes. Places
/// in an included file are counted on from the end of the file before it.
pub fn read(config: &ConfigText<'_>, env: &Env<'_>) -> (File, Report, Vec<IncludedFile>) {
    let (mut report, main) = (Report::default(), config.text);
    let (sound, mut lost) = syntax::sound_part(main, &mut report);
    let (tree, _) = DeTable::parse_recoverable(&sound);
    report.paths_mut().add_file(config.path);
    let source = FileSource {
        text: main,
        env,
        tables: &TABLES,
        missing: MissingValues::AreMistakes,
    };
    let before = report.count();
    let patterns = patterns(tree.get_ref(), source, &mut report);
    let included = include::files(config, &patterns, &mut report);
    if report.count() > before {
        // A table that is not found may be in a file that was not read.
        lost.headers.extend(NAMED);
    }
    let parts = merge::parts(&included, &mut report, &mut lost);
    let tree = merge::merged(tree.into_inner(), &parts, &mut report);
    lose_unnamed(&tree, &mut lost);
    let mut top = Reader {
        entries: &tree,
        source: FileSource {
            text: &merge::text(main, &included),
            missing: config.missing,
            ..source
        },
        lost: &lost,
        report: &mut report,
    };
    let file = File {
        top: top.read(&TOP, "", 0..0),
        listeners: top.named("listeners", &LISTENER).into(),
        admin: top.single("admin", &ADMIN),
        log: top.single("log", &LOG),
        store: credentials(top.single("store", &STORE)),
        jwt: top.single("jwt", &JWT),
        upstreams: top.named("upstreams", &UPSTREAM).into(),
        policies: top.named("policies", &POLICY).into(),
        routes: route_names::named(top.each("routes", &ROUTE)).into(),
        lost: UnreadParts::default(),
    };
    (File { lost, ..file }, report, included)
}

/// Reads `include`, which must be known before all other keys. It is read again with those; its mistakes are the same
/// then, so each is shown once.
fn patterns(
    top: &DeTable<'_>,
    source: FileSource<'_>,
    report: &mut Report,
) -> Vec<Spanned<String>> {
    let Some(node) = top.get("include") else {
        return Vec::new();
    };
    let scalar = Scalar {
        subject: "`include`".to_owned(),
        node,
        source,
        report,
        of_list: None,
    };
    let list = scalar.items("[\"conf.d/*.toml\"]", OneItem::InList, |item| {
        item.free_text("conf.d/*.toml")
    });
    list.unwrap_or_default()
}

/// Notes the kinds of tables that are misspelled or have a value that is not a table, and the names under them.
fn lose_unnamed(top: &DeTable<'_>, lost: &mut UnreadParts) {
    for (key, node) in top {
        let (key, value) = (key.get_ref().as_ref(), node.get_ref());
        let is_known = TOP.about.names().any(|known| known == key);
        let meant = nearest(key, NAMED).filter(|kind| !is_known || *kind == key);
        let Some(kind) = meant else { continue };
        if kind == "jwt" {
            if !is_known {
                lost.misspelled.insert(kind);
            }
            continue;
        }
        let DeValue::Table(tables) = value else {
            if !(is_known && kind == "routes" && value.is_array()) {
                lost.misspelled.insert(kind);
            }
            continue;
        };
        for (name, table) in tables {
            if !is_known || !table.get_ref().is_table() {
                lost.misspelled.insert(kind);
                lost.names.insert(name.get_ref().to_string());
            }
        }
    }
}

/// Takes the store's username and password from its URL, unless keys of their own set them.
fn credentials(mut table: Table<RawStore>) -> Table<RawStore> {
    let store = &mut table.value;
    if let StoreUrl::Redis(url) = &store.url {
        store.username = store.username.take().or_else(|| url.username.clone());
        store.password = store.password.take().or_else(|| url.password.clone());
    }
    table
}
