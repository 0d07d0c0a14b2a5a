//! Circles of files: those that use each other, directly or through others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::crate_map::CrateMap;
use crate::uses::{self, Uses};

/// Files that all use each other, directly or not.
#[derive(Debug)]
pub struct Circle {
    /// Modules of the files.
    pub files: BTreeSet<String>,
    /// The items that they use of each other.
    uses: Uses,
}

/// Finds the circles among the files of a crate, the largest first; `texts` maps modules to the text of their files.
pub fn find(texts: &BTreeMap<String, String>) -> Vec<Circle> {
    let uses = uses::read(&CrateMap::read(texts));
    let mut next = BTreeMap::<_, Vec<_>>::new();
    for (user, of) in uses.keys() {
        next.entry(&**user).or_default().push(&**of);
    }
    let below: BTreeMap<_, _> = next
        .keys()
        .map(|file| (*file, below(file, &next)))
        .collect();
    let mut sets = BTreeSet::new();
    for (file, others) in &below {
        let is_above = |other: &&str| below.get(other).is_some_and(|below| below.contains(file));
        let circle: BTreeSet<_> = { others.iter().copied() }.filter(is_above).collect();
        if !circle.is_empty() {
            sets.insert(circle);
        }
    }
    let mut circles: Vec<_> = sets.iter().map(|files| Circle::of(files, &uses)).collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.files.len()));
    circles
}

/// Returns the files that a file uses, directly or not.
fn below<'u>(file: &str, next: &BTreeMap<&'u str, Vec<&'u str>>) -> BTreeSet<&'u str> {
    let (mut found, mut unread) = (BTreeSet::new(), vec![file]);
    while let Some(file) = unread.pop() {
        for other in next.get(file).into_iter().flatten() {
            if found.insert(*other) {
                unread.push(other);
            }
        }
    }
    found
}

impl Circle {
    fn of(files: &BTreeSet<&str>, uses: &Uses) -> Self {
        let is_inside = |user: &str, of: &str| files.contains(user) && files.contains(of);
        let uses = { uses.iter() }.filter(|((user, of), _)| is_inside(user, of));
        Self {
            files: files.iter().map(|&file| file.to_owned()).collect(),
            uses: uses
                .map(|(edge, items)| (edge.clone(), items.clone()))
                .collect(),
        }
    }
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "a circle of {} files:", self.files.len())?;
        for ((user, of), items) in &self.uses {
            let items: Vec<_> = items.iter().map(String::as_str).collect();
            writeln!(f, "  {user} uses {of}: {}", items.join(", "))?;
        }
        Ok(())
    }
}
