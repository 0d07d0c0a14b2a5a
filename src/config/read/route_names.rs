//! Names of routes in the log, in metrics and in the report of a reload.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use crate::config::display;
use crate::config::file::{RawRoute, Table};

/// Names each route that has no name of its own by what it matches, and makes all names different.
pub(super) fn named(mut routes: Vec<Table<RawRoute>>) -> Vec<Table<RawRoute>> {
    for route in &mut routes {
        let own = route.value.name.as_ref().map(|name| name.value.clone());
        route.name = own.unwrap_or_else(|| name(&route.value)).into();
    }
    number_equal_names(&mut routes);
    routes
}

/// Returns the name of a route that has none of its own: its methods, host and path as written in the file, and the
/// names of its headers. Control characters, which a regular expression may contain, are escaped.
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
    // The value of a header can be a secret, so it stays out of labels.
    if !route.headers.is_empty() {
        let names = route.headers.iter().map(|(name, _)| name.to_string());
        let _ = write!(name, " {}", display::list(names));
    }
    name
}

/// Numbers routes that differ only in what their names leave out: `/a [x-version] #2`.
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

/// Labels of metrics for requests without a route, and for the routes that share a histogram.
const RESERVED: [&str; 2] = ["none", "other"];
