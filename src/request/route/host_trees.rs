//! The rules of several hosts, by the host's name.

use std::collections::HashMap;

use super::tree::RouteTree;

/// The trees of several hosts, by name.
#[derive(Debug, Default)]
pub(super) struct HostTrees {
    by_name: HashMap<Box<str>, RouteTree>,
    /// The lengths of the names, each once, in descending order: names of other lengths need not be looked up.
    lengths: Vec<usize>,
}

impl HostTrees {
    pub(super) fn insert(&mut self, name: &str, tree: RouteTree) {
        self.by_name.insert(name.into(), tree);
        let longest_first = |length: &usize| name.len().cmp(length);
        if let Err(at) = self.lengths.binary_search_by(longest_first) {
            self.lengths.insert(at, name.len());
        }
    }

    /// Returns the tree of the host with this name, if it has one.
    pub(super) fn get(&self, name: &str) -> Option<&RouteTree> {
        let may_have = self.lengths.contains(&name.len());
        may_have.then(|| self.by_name.get(name)).flatten()
    }

    /// Yields the trees of the names that `name` is below, the longest first.
    pub(super) fn above(&self, name: &str) -> impl Iterator<Item = &RouteTree> {
        self.lengths.iter().filter_map(|length| {
            let (below, name) = name.split_at_checked(name.len().checked_sub(*length)?)?;
            below.ends_with('.').then(|| self.by_name.get(name))?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_below_others_the_longest_first() {
        let mut trees = HostTrees::default();
        for name in ["b.test", "example.com", "test", "c.test", "a.b.test"] {
            trees.insert(name, RouteTree::default());
        }
        assert_eq!(trees.lengths, [11, 8, 6, 4]);
        assert!(trees.get("b.test").is_some() && trees.get("d.test").is_none());
        let found = |name: &str| {
            let name_of = |tree: &RouteTree| {
                let mut all = trees.by_name.iter();
                let found = all.find(|(_, one)| std::ptr::eq(*one, tree));
                found.map(|(name, _)| &**name)
            };
            let above: Option<Vec<_>> = trees.above(name).map(name_of).collect();
            above.expect("they are its own")
        };
        assert_eq!(found("x.a.b.test"), ["a.b.test", "b.test", "test"]);
        assert_eq!(found("xb.test"), ["test"]);
        for other in ["test", "xtest", "b.test.", "ü.", ""] {
            assert_eq!(found(other), [""; 0], "{other}");
        }
    }
}
