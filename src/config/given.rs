//! Tables that depend on values that were assumed to exist: warnings about them could be wrong, so none is given.

use super::file::{File, RawRoute, Table};
use super::options::ROUTE;

/// The tables that lack a value because something in it was assumed to exist.
#[derive(Debug, Default)]
pub(super) struct Incomplete {
    /// Phrases by which warnings name these tables.
    mentions: Vec<String>,
}

impl Incomplete {
    /// Finds the incomplete tables of a file that has no mistakes.
    pub(super) fn of(file: &File) -> Self {
        let mut mentions = Vec::new();
        named("listener", file.listeners.as_ref(), &mut mentions);
        named("upstream", file.upstreams.as_ref(), &mut mentions);
        named("policy", file.policies.as_ref(), &mut mentions);
        let routes = file.routes.iter().filter(|table| is_unknown(table));
        mentions.extend(routes.map(|table| format!("route `{}`", table.name)));
        single("store: ", &file.store, &mut mentions);
        single("jwt: ", &file.jwt, &mut mentions);
        single("log: ", &file.log, &mut mentions);
        single("the admin port", &file.admin, &mut mentions);
        // Keys before the first table apply to all routes, and some warnings depend on the routes that are left out.
        if lacks(&file.top) {
            mentions.extend(["route `".to_owned(), "no route".to_owned()]);
        }
        if file.routes.iter().any(is_unknown) {
            mentions.extend(["no route".to_owned(), "policy `".to_owned()]);
        }
        Self { mentions }
    }

    /// Returns the file without the routes and listeners that lack a value: they cannot be compiled.
    pub(super) fn taken_out(&self, mut file: File) -> File {
        if self.mentions.is_empty() {
            return file;
        }
        if file.routes.iter().any(is_unknown) {
            file.routes.raw.retain(|table| !is_unknown(table));
            file.lost.headers.insert("routes");
        }
        if file.listeners.iter().any(lacks) {
            file.listeners.raw.retain(|table| !lacks(table));
            file.lost.headers.insert("listeners");
        }
        file
    }

    /// Returns the warnings that mention none of these tables.
    pub(super) fn without(&self, mut warnings: Vec<String>) -> Vec<String> {
        let hangs = |warning: &String| {
            let mut mentions = self.mentions.iter();
            mentions.any(|mention| warning.contains(&**mention))
        };
        warnings.retain(|warning| !hangs(warning));
        warnings
    }
}

fn lacks<T>(table: &Table<T>) -> bool {
    !table.incomplete.is_empty()
}

/// Whether it is unknown which requests a route takes, where they go, or what limits them.
fn is_unknown(route: &Table<RawRoute>) -> bool {
    route.is_incomplete(ROUTE.about.title)
}

fn named<T>(noun: &str, tables: &[Table<T>], mentions: &mut Vec<String>) {
    let incomplete = tables.iter().filter(|table| lacks(table));
    mentions.extend(incomplete.map(|table| format!("{noun} `{}`", table.name)));
}

fn single<T>(mention: &str, table: &Table<T>, mentions: &mut Vec<String>) {
    if lacks(table) {
        mentions.push(mention.to_owned());
    }
}
