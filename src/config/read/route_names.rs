//! What routes are called in log, metrics and the report of a reload.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use crate::config::display;
use crate::config::file::{RawRoute, Table};

/// Names each route that has no name of its own by what it matches, no two the same.
pub(super) fn named(mut routes: Vec<Table<RawRoute>>) -> Vec<Table<RawRoute>> {
    for route in &mut routes {
        let own = route.value.name.as_ref().map(|name| name.value.clone());
        route.name = own.unwrap_or_else(|| name(&route.value)).into();
    }
    number_equal_names(&mut routes);
    routes
}

/// Names a route in log and metrics: methods, host and path as the file has them, but for control
/// characters, which an expression may have.
fn name(route: &RawRoute) -> String {
    let mut name = String::new();
    let methods: Vec<&str> = route.methods.iter().map(|at| at.value.as_str()).collect();
    if !methods.is_empty() {
        let _ = write!(name, "{} ", methods.join(","));
    }
    let texts = [&route.host, &route.path, &route.path_regex];
    for text in texts.into_iter().flatten() {
        for character in text.value.chars() {
            if character.is_control() {
                name.extend(character.escape_default());
            } else {
                name.push(character);
            }
        }
    }
    // A header's value can be a secret and stays out of labels.
    if !route.headers.is_empty() {
        let names = route.headers.iter().map(|(name, _)| name.to_string());
        let _ = write!(name, " {}", display::list(names));
    }
    name
}

/// Tells routes apart that differ only in what a name leaves out: `/a [x-version] #2`.
fn number_equal_names(routes: &mut [Table<RawRoute>]) {
    let mut taken: HashSet<Arc<str>> = HashSet::with_capacity(routes.len() + RESERVED.len());
    taken.extend(RESERVED.map(Arc::from));
    let mut numbers: HashMap<Arc<str>, usize> = HashMap::new();
    for route in routes {
        if !taken.insert(Arc::clone(&route.name)) {
            let base = Arc::clone(&route.name);
            let number = numbers.entry(Arc::clone(&base)).or_insert(1);
            while !taken.insert(Arc::clone(&route.name)) {
                *number += 1;
                route.name = format!("{base} #{number}").into();
            }
        }
    }
}

/// What metrics call requests without a route, and the routes that share a histogram.
const RESERVED: [&str; 2] = ["none", "other"];
