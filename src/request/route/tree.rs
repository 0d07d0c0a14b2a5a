//! The rules of one host as a tree of segments, tried in the order of their rank.
//!
//! At each node the literal child is tried first, then the `{param}` child, then the rest; if a branch has no match,
//! the next one is tried. Only one path leads to a node, so a lookup visits each node at most once and goes no deeper
//! than the longest pattern. Expressions come after all patterns that begin with a literal or a parameter, and before
//! `/*`.
//!
//! If a rule ignores case, the whole tree is keyed by lower case. Rules that do not ignore case are compared again, in
//! their case, when they are found, so ranks hold across both kinds.

use std::mem;
use std::ops::Range;

use hashbrown::HashMap;
use http::{HeaderMap, HeaderName, Method};
use smallvec::SmallVec;

use super::expressions::Expressions;
use super::header_match::HeaderMatch;
use super::leaf::{Leaf, has_header};
use super::pattern::{Element, PathShape};
use super::rule::{Found, Lookup, Rule, Tie};
use crate::request::path;

/// The rules of one host.
#[derive(Debug)]
pub(super) struct RouteTree {
    case: KeyCase,
    /// The length of the longest literal: longer segments need not be looked up.
    literal_bytes_max: usize,
    /// The nodes; the first is the root.
    nodes: Vec<TreeNode>,
    expressions: Expressions,
    /// Rules for `/*`.
    rest: Leaf,
}

#[derive(Debug, Default)]
struct TreeNode {
    /// Children by their segment, as [`KeyCase::key`] spells it. A hash table, because with thousands of children a
    /// binary search would wait for memory at each step.
    literals: HashMap<SegmentKey, usize>,
    param: Option<usize>,
    end: Leaf,
    rest: Leaf,
}

/// A segment of a path as it is looked up; most are short enough to be stored in the table itself.
type SegmentKey = SmallVec<[u8; 16]>;

/// How literals are keyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyCase {
    Exact,
    Lower,
}

/// The parts of a request that are matched.
pub(super) struct RouteQuery<'r> {
    /// The path in its comparable spelling.
    path: &'r str,
    /// The path without a last slash.
    trimmed: &'r str,
    method: &'r Method,
    headers: &'r HeaderMap,
}

impl<'r> RouteQuery<'r> {
    /// Makes a query; `path` begins with a slash and is in its comparable spelling.
    pub(super) fn new(path: &'r str, method: &'r Method, headers: &'r HeaderMap) -> Self {
        Self {
            path,
            trimmed: path::without_last_slash(path),
            method,
            headers,
        }
    }
}

impl RouteTree {
    /// Builds the tree of one host's rules, whose indices are `members`, in file order; adds its ties to `ties`.
    pub(super) fn new(rules: &[Rule], members: &[usize], ties: &mut Vec<Tie>) -> Self {
        let mut tree = Self::default();
        if members.iter().any(|&member| rules[member].case_insensitive) {
            tree.case = KeyCase::Lower;
        }
        for &index in members {
            tree.insert(&rules[index], index);
        }
        let leaves = (tree.nodes.iter_mut()).flat_map(|node| [&mut node.end, &mut node.rest]);
        let case = tree.case;
        for leaf in leaves.chain([&mut tree.rest]) {
            leaf.settle(rules, ties, |rule| case.takes_every_request(rule));
        }
        for node in &mut tree.nodes {
            node.literals.shrink_to_fit();
        }
        tree.expressions.settle(rules);
        tree
    }

    fn insert(&mut self, rule: &Rule, index: usize) {
        let elements = match &rule.path.shape {
            PathShape::Regex(_) => return self.expressions.push(index),
            PathShape::Elements(elements) => elements,
        };
        let mut node = 0;
        for element in elements {
            node = match element {
                Element::Literal(text) => self.literal_child(node, text),
                Element::Param => self.param_child(node),
                Element::Rest if node == 0 => return self.rest.push(index),
                Element::Rest => return self.nodes[node].rest.push(index),
            };
        }
        self.nodes[node].end.push(index);
    }

    fn literal_child(&mut self, node: usize, text: &str) -> usize {
        let new = self.nodes.len();
        self.literal_bytes_max = self.literal_bytes_max.max(text.len());
        let key = self.case.key(text, &mut SegmentKey::new()).into();
        let child = *self.nodes[node].literals.entry(key).or_insert(new);
        if child == new {
            self.nodes.push(TreeNode::default());
        }
        child
    }

    fn param_child(&mut self, node: usize) -> usize {
        let new = self.nodes.len();
        let child = *self.nodes[node].param.get_or_insert(new);
        if child == new {
            self.nodes.push(TreeNode::default());
        }
        child
    }

    /// Lists, in order of rank, the rules that match every path of the rule at `own` and ask no more of headers;
    /// `asked` are the headers with the values that this rule asks for. Expressions are listed only if the rule's path
    /// is literal and they match it.
    pub(super) fn including(&self, rules: &[Rule], own: usize, asked: &HeaderMap) -> Vec<usize> {
        let (rule, mut found) = (&rules[own], Vec::new());
        let mut push = |index: usize| {
            let other = &rules[index];
            let is_asked = |(name, asked): &(HeaderName, HeaderMatch)| {
                let mut own = rule.headers.iter();
                own.any(|(own, value)| own == name && asked.includes(value))
            };
            let asks_no_more = other.headers.iter().all(is_asked);
            if asks_no_more && (self.case == KeyCase::Exact || includes_literals(other, rule)) {
                found.push(index);
            }
            None::<()>
        };
        if let PathShape::Elements(elements) = &rule.path.shape {
            self.above(0, elements, &mut |leaf| {
                leaf.find(asked, |rule| push(rule.index));
            });
            if let Some(path) = literal_path(elements) {
                self.expressions.find(rules, &path, &mut push);
            }
        }
        self.rest.find(asked, |rule| push(rule.index));
        found
    }

    /// Visits the leaves below `node` whose paths include all paths of `elements`, most specific first.
    fn above(&self, node: usize, elements: &[Element], visit: &mut impl FnMut(&Leaf)) {
        let node = &self.nodes[node];
        let child = match elements.first() {
            None => {
                visit(&node.end);
                None
            }
            Some(Element::Rest) => None,
            Some(Element::Param) => node.param,
            Some(Element::Literal(text)) => {
                if let Some(child) = self.find_literal(node, text) {
                    self.above(child, &elements[1..], visit);
                }
                node.param
            }
        };
        if let Some(child) = child {
            self.above(child, &elements[1..], visit);
        }
        visit(&node.rest);
    }

    /// Finds the child of a node by a literal segment.
    fn find_literal(&self, node: &TreeNode, segment: &str) -> Option<usize> {
        // A hash lookup reads the whole segment, and may copy it, so it is avoided where it cannot succeed.
        if node.literals.is_empty() || segment.len() > self.literal_bytes_max {
            return None;
        }
        let mut room = SegmentKey::new();
        let key = self.case.key(segment, &mut room);
        node.literals.get(key).copied()
    }

    /// Finds the first rule, in order of rank, that matches, or that would match if the method were in its right case.
    pub(super) fn find(&self, rules: &[Rule], request: &RouteQuery<'_>) -> Option<Lookup> {
        let mut walk = Walk {
            tree: self,
            rules,
            request,
            params: SmallVec::new(),
        };
        (walk.descend(0, 1))
            .or_else(|| walk.try_expressions())
            .or_else(|| walk.try_leaf(&self.rest))
    }
}

impl Default for RouteTree {
    fn default() -> Self {
        Self {
            case: KeyCase::Exact,
            literal_bytes_max: 0,
            nodes: vec![TreeNode::default()],
            expressions: Expressions::default(),
            rest: Leaf::default(),
        }
    }
}

impl KeyCase {
    /// Returns the key of a segment, which may be written to `room`.
    fn key<'k>(self, segment: &'k str, room: &'k mut SegmentKey) -> &'k [u8] {
        match self {
            Self::Exact => segment.as_bytes(),
            Self::Lower => {
                room.extend(segment.bytes().map(|byte| byte.to_ascii_lowercase()));
                room
            }
        }
    }

    /// Whether a rule takes every request that the tree finds by its path.
    fn takes_every_request(self, rule: &Rule) -> bool {
        let is_found_in_its_case = self == Self::Exact || rule.case_insensitive;
        is_found_in_its_case && rule.headers.is_empty() && rule.methods.is_empty()
    }
}

/// One lookup under way.
struct Walk<'w> {
    tree: &'w RouteTree,
    rules: &'w [Rule],
    request: &'w RouteQuery<'w>,
    params: SmallVec<[Range<usize>; 4]>,
}

impl Walk<'_> {
    /// Tries the rules below `node`; `start` is where the next segment begins, or beyond the end if there is none.
    fn descend(&mut self, node: usize, start: usize) -> Option<Lookup> {
        let (tree, path) = (self.tree, self.request.trimmed);
        let node = &tree.nodes[node];
        if start > path.len() {
            return (self.try_leaf(&node.end)).or_else(|| self.try_leaf(&node.rest));
        }
        if node.literals.is_empty() && node.param.is_none() {
            return self.try_leaf(&node.rest);
        }
        let end = path[start..].find('/').map_or(path.len(), |at| start + at);
        let segment = &path[start..end];
        if let Some(child) = tree.find_literal(node, segment) {
            let found = self.descend(child, end + 1);
            if found.is_some() {
                return found;
            }
        }
        if let Some(param) = node.param {
            self.params.push(start..end);
            let found = self.descend(param, end + 1);
            if found.is_some() {
                return found;
            }
            self.params.pop();
        }
        self.try_leaf(&node.rest)
    }

    fn try_expressions(&mut self) -> Option<Lookup> {
        let (tree, rules) = (self.tree, self.rules);
        let path = self.request.path;
        (tree.expressions).find(rules, path, |rule| self.try_rule(rule))
    }

    fn try_leaf(&mut self, leaf: &Leaf) -> Option<Lookup> {
        leaf.find(self.request.headers, |rule| {
            if rule.takes_every_request {
                return Some(self.found(rule.index));
            }
            self.try_rule(rule.index)
        })
    }

    fn found(&mut self, index: usize) -> Lookup {
        Lookup::Found(Found {
            route: index.into(),
            params: mem::take(&mut self.params),
        })
    }

    /// Tries a rule whose path matches, except perhaps for its case.
    fn try_rule(&mut self, index: usize) -> Option<Lookup> {
        let rule = &self.rules[index];
        let recheck = self.tree.case == KeyCase::Lower && !rule.case_insensitive;
        if recheck && !literals_match(rule, self.request.trimmed) {
            return None;
        }
        let headers = &self.request.headers;
        if !(rule.headers.iter()).all(|(name, asked)| has_header(headers, name, asked)) {
            return None;
        }
        let method = self.request.method;
        if rule.takes_method(method) {
            Some(self.found(index))
        } else if rule.claims_method(method) {
            Some(Lookup::MethodCase)
        } else {
            None
        }
    }
}

/// Returns the only path that the elements match; none unless all are literals.
fn literal_path(elements: &[Element]) -> Option<String> {
    let literals = elements.iter().map(|element| match element {
        Element::Literal(text) => Some(format!("/{text}")),
        Element::Param | Element::Rest => None,
    });
    let path: String = literals.collect::<Option<_>>()?;
    Some(if path.is_empty() {
        "/".to_owned()
    } else {
        path
    })
}

/// Whether the literals of `other` match those of `rule` in case too; the caller knows that they match otherwise.
fn includes_literals(other: &Rule, rule: &Rule) -> bool {
    let (PathShape::Elements(others), PathShape::Elements(own)) =
        (&other.path.shape, &rule.path.shape)
    else {
        return true;
    };
    let is_any_case = other.case_insensitive || rule.case_insensitive;
    others
        .iter()
        .zip(own)
        .all(|(other, own)| match (other, own) {
            (Element::Literal(other), Element::Literal(own)) => {
                other == own || (is_any_case && other.eq_ignore_ascii_case(own))
            }
            _ => true,
        })
}

/// Whether the literals of a rule equal a path's segments, including their case.
fn literals_match(rule: &Rule, path: &str) -> bool {
    let PathShape::Elements(elements) = &rule.path.shape else {
        return true;
    };
    elements
        .iter()
        .zip(path.split('/').skip(1))
        .all(|(element, segment)| match element {
            Element::Literal(text) => **text == *segment,
            Element::Param | Element::Rest => true,
        })
}
