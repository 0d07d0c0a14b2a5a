//! What hangs on values that were assumed to be there, so that nothing is said of it that may not be so.

use super::file::{File, RawRoute, Table};
use super::options::ROUTE;

/// The tables that lack a value which was assumed to be there.
#[derive(Debug, Default)]
pub(super) struct Incomplete {
    /// How warnings name them.
    mentions: Vec<String>,
}

impl Incomplete {
    /// Finds those of a file in which nothing is wrong.
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
        // What applies to all routes, or is said of routes that are left out.
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

    /// Returns the warnings that hang on no such value.
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

/// Whether it is not known which requests a route takes, where they go, or what limits them.
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
