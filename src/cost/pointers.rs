//! The JSON Pointers of a route, for one pass over a document.

use std::collections::BTreeSet;

use memchr::memmem::Finder;
use thiserror::Error;

use super::json_pointer::{JsonPointer, PointerKey, PointerSegment, PointerUse, Take};
use super::tree::{Child, Node, NodeId, PointerWalk, TooManyNodes, Tree, TreeBuilder};

/// Most pointers of a route; a node has one bit for each.
pub const POINTERS_MAX: usize = 32;

/// Why pointers cannot be looked for together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadPointers {
    /// There are more than [`POINTERS_MAX`] pointers.
    #[error("more than {POINTERS_MAX} JSON Pointers")]
    TooMany,
    /// Keys and `*` are side by side in too many ways.
    #[error("JSON Pointers with too many `*`")]
    TooManyPaths,
}

/// The pointers of a route, compiled for one pass over a document.
///
/// A pointer is followed from the top of a document, and, if that is an array, also from the top of each element. So in
/// `[{"usage": 3}]` both `/usage` and `/0/usage` lead to the 3; the first would also find the `usage` of a second
/// element, the other would not. Of several numbers the largest counts, or the last if the pointer says so.
#[derive(Debug, PartialEq, Eq)]
pub struct Pointers {
    tree: Tree,
    top: NodeId,
    /// The node of the top of an element of a top-level array.
    element: NodeId,
    /// The nodes of the tops of those elements to which a pointer leads by their position.
    elements: Vec<(u32, NodeId)>,
    /// A key of each pointer; a document with none of these reports nothing. `None` if a pointer has no such key.
    needed: Option<Vec<Needle>>,
    /// The beginning of an escape, with which a key may also be written.
    escape: Needle,
    count: usize,
    levels: usize,
    /// Pointers whose last number counts, one bit each.
    last: u32,
    /// Whether a pointer looks for a member or a text.
    has_members_or_texts: bool,
    /// Whether a pointer looks for a text.
    has_texts: bool,
}

/// A text to search for.
#[derive(Debug)]
struct Needle(Finder<'static>);

impl Pointers {
    /// Compiles pointers; what is read from a body has the same order.
    pub fn new(pointers: &[(JsonPointer, PointerUse)]) -> Result<Self, BadPointers> {
        if pointers.len() > POINTERS_MAX {
            return Err(BadPointers::TooMany);
        }
        let mut builder = TreeBuilder::new(pointers);
        let at_top = |from_element| {
            (0..pointers.len()).map(move |pointer| PointerWalk {
                pointer,
                depth: 0,
                from_element,
            })
        };
        let first = |walk: &PointerWalk| pointers[walk.pointer].0.segments().first();
        let position = |walk: &PointerWalk| first(walk)?.key()?.position;
        // The walks at the top of an element: those that begin there, and those that come from the array's top.
        let at_element = |at: Option<u32>| {
            let came = at_top(false).filter(|walk| match first(walk) {
                Some(PointerSegment::Every) => true,
                Some(PointerSegment::Key(_)) => at.is_some() && position(walk) == at,
                None => false,
            });
            let came = came.map(|walk| PointerWalk { depth: 1, ..walk });
            at_top(true).chain(came).collect()
        };
        let top = builder.node(at_top(false).collect())?;
        let element = builder.node(at_element(None))?;
        let positions: BTreeSet<_> = at_top(false).filter_map(|walk| position(&walk)).collect();
        let elements: Result<_, _> = positions
            .into_iter()
            .map(|at| Ok((at, builder.node(at_element(Some(at)))?)))
            .collect();
        let longest = pointers.iter().map(|(pointer, _)| pointer.segments().len());
        let is_last = |at: &usize| pointers[*at].1 == PointerUse::Number(Take::Last);
        Ok(Self {
            top,
            element,
            elements: elements.map_err(|TooManyNodes| BadPointers::TooManyPaths)?,
            tree: builder.finish(),
            needed: needed(pointers),
            escape: Needle::new("\\u"),
            count: pointers.len(),
            has_members_or_texts: pointers
                .iter()
                .any(|(_, wanted)| !matches!(wanted, PointerUse::Number(_))),
            has_texts: pointers
                .iter()
                .any(|(_, wanted)| *wanted == PointerUse::Text),
            // A top-level array takes one more level.
            levels: longest.max().unwrap_or(0) + 1,
            last: (0..pointers.len())
                .filter(is_last)
                .fold(0, |last, at| last | 1 << at),
        })
    }

    /// Returns how many pointers there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the node of a document's top.
    pub(super) fn top(&self) -> NodeId {
        self.top
    }

    /// Returns how many containers can be open at once on the way to a number.
    pub(super) fn levels(&self) -> usize {
        self.levels
    }

    /// Returns how many parts all sums have together.
    pub(super) fn parts(&self) -> usize {
        self.tree.parts()
    }

    /// Returns the pointers whose last number counts, one bit each.
    pub(super) fn last(&self) -> u32 {
        self.last
    }

    /// Returns the pointers whose member is at a node, and those whose text is, one bit each.
    #[inline]
    pub(super) fn members_and_texts(&self, node: Option<NodeId>) -> (u32, u32) {
        match node {
            Some(node) if self.has_members_or_texts => {
                let node = self.node(node);
                (node.members, node.texts)
            }
            _ => (0, 0),
        }
    }

    /// Whether a pointer looks for a text.
    pub(super) fn has_texts(&self) -> bool {
        self.has_texts
    }

    /// Returns the node of the top of an element of a top-level array.
    pub(super) fn element_top(&self, position: u32) -> NodeId {
        let mut elements = self.elements.iter();
        let element = elements.find(|(at, _)| *at == position);
        element.map_or(self.element, |(_, node)| *node)
    }

    /// Returns the node of an element of another array, if a pointer leads there.
    pub(super) fn element(&self, array: NodeId, position: u32) -> Option<NodeId> {
        let node = self.node(array);
        let mut children = node.children.iter();
        let child = children.find(|child| child.key.position == Some(position));
        child.map_or(node.every, |child| Some(child.node))
    }

    /// Whether no pointer leads to the element at a position, or to a later one.
    pub(super) fn is_past(&self, array: NodeId, position: u32) -> bool {
        let node = self.node(array);
        let is_before = |child: &Child| child.key.position.is_none_or(|value| value < position);
        node.every.is_none() && node.children.iter().all(is_before)
    }

    /// Whether a document may have a value at a pointer, judging by the keys that occur in its text.
    pub(super) fn may_report(&self, document: &[u8]) -> bool {
        let has = |word: &Needle| word.0.find(document).is_some();
        let Some(needed) = &self.needed else {
            return true;
        };
        needed.iter().any(has) || has(&self.escape)
    }

    pub(super) fn node(&self, node: NodeId) -> &Node {
        self.tree.node(node)
    }

    pub(super) fn has_children(&self, node: NodeId) -> bool {
        self.node(node).leads_on
    }

    /// Whether a number at a node counts.
    pub(super) fn takes_number(&self, node: Option<NodeId>) -> bool {
        node.is_some_and(|node| self.node(node).takes_number)
    }
}

impl From<TooManyNodes> for BadPointers {
    fn from(TooManyNodes: TooManyNodes) -> Self {
        Self::TooManyPaths
    }
}

impl Needle {
    fn new(text: &str) -> Self {
        Self(Finder::new(text).into_owned())
    }
}

impl PartialEq for Needle {
    fn eq(&self, other: &Self) -> bool {
        self.0.needle() == other.0.needle()
    }
}

impl Eq for Needle {}

/// Chooses from each pointer a key that can be written in only one way, except for `\u` escapes.
fn needed(pointers: &[(JsonPointer, PointerUse)]) -> Option<Vec<Needle>> {
    let is_plain = |key: &&PointerKey| {
        let is_escaped = |byte: u8| byte < b' ' || matches!(byte, b'"' | b'\\' | b'/');
        key.position.is_none() && !key.text.is_empty() && !key.text.bytes().any(is_escaped)
    };
    let keys: Option<BTreeSet<_>> = (pointers.iter())
        .map(|(pointer, _)| {
            let mut keys = pointer.segments().iter().filter_map(PointerSegment::key);
            Some(&*keys.rfind(is_plain)?.text)
        })
        .collect();
    Some(keys?.into_iter().map(Needle::new).collect())
}
