//! The tree of keys that a route's pointers form together, so that a document is walked along all of them at once.
//!
//! A node is a set of pointers, each with how far it has been followed. Where one pointer goes on with a key and
//! another with `*`, the key leads to a node of both.

use std::collections::BTreeMap;

use super::json_pointer::{JsonPointer, PointerKey, PointerSegment, PointerUse, Take};

/// The nodes, among them the tops of documents and of elements.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    parts: usize,
}

/// Identifies the node to which some path of keys leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId(u32);

/// What happens to a value to which some path of keys leads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// Pointers without `*` whose number is here, one bit each.
    pub(super) numbers: u32,
    /// Pointers whose member is here, one bit each.
    pub(super) members: u32,
    /// Pointers whose text is here, one bit each.
    pub(super) texts: u32,
    /// Parts of sums that a number here joins.
    pub(super) gathers: Vec<Gather>,
    /// Parts of sums that are handed on when a container here ends.
    pub(super) folds: Vec<Fold>,
    pub(super) children: Vec<Child>,
    /// The node to which any other key leads.
    pub(super) every: Option<NodeId>,
    /// Whether a number here counts.
    pub(super) takes_number: bool,
    /// Whether any key leads on from here.
    pub(super) leads_on: bool,
}

/// A key that leads from a node to another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) key: PointerKey,
    pub(super) node: NodeId,
}

/// A part of a sum, and how a number joins it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gather {
    pub(super) part: usize,
    pub(super) how: Joining,
}

/// A part of a sum that is handed on, and where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fold {
    pub(super) from: usize,
    pub(super) to: FoldTarget,
}

/// Where a part of a sum is handed on to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoldTarget {
    Part(Gather),
    /// This pointer, because the document has reported the whole sum.
    Pointer(usize),
}

/// How several numbers become one: those of duplicate keys are not added up, those of a `*` are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joining {
    Larger,
    Later,
    Added,
}

/// A pointer, and how far it has been followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PointerWalk {
    pub(super) pointer: usize,
    pub(super) depth: usize,
    /// Whether the walk began at an element of a top-level array. It matters only for sums.
    pub(super) from_element: bool,
}

/// The pointers make more than [`NODES_MAX`] nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooManyNodes;

/// Builds a tree.
pub(super) struct TreeBuilder<'p> {
    pointers: &'p [(JsonPointer, PointerUse)],
    /// Index of the first part of each pointer's sum.
    first_parts: Vec<usize>,
    tree: Tree,
    known: BTreeMap<Vec<PointerWalk>, NodeId>,
}

impl Tree {
    pub(super) fn node(&self, NodeId(number): NodeId) -> &Node {
        &self.nodes[number as usize]
    }

    /// Returns how many parts all sums have together.
    pub(super) fn parts(&self) -> usize {
        self.parts
    }
}

impl<'p> TreeBuilder<'p> {
    pub(super) fn new(pointers: &'p [(JsonPointer, PointerUse)]) -> Self {
        let mut first_parts = Vec::new();
        let mut parts = 0;
        for (pointer, wanted) in pointers {
            first_parts.push(parts);
            if is_sum(pointer, *wanted) {
                parts += 2 * parts_of(pointer.segments());
            }
        }
        Self {
            pointers,
            first_parts,
            tree: Tree {
                nodes: Vec::new(),
                parts,
            },
            known: BTreeMap::new(),
        }
    }

    /// Returns the node of these walks, and adds it unless it exists.
    pub(super) fn node(&mut self, mut walks: Vec<PointerWalk>) -> Result<NodeId, TooManyNodes> {
        for walk in &mut walks {
            let (pointer, wanted) = &self.pointers[walk.pointer];
            walk.from_element &= is_sum(pointer, *wanted);
        }
        walks.sort_unstable();
        walks.dedup();
        if let Some(known) = self.known.get(&walks) {
            return Ok(*known);
        }
        let number = self.tree.nodes.len();
        if number == NODES_MAX {
            return Err(TooManyNodes);
        }
        let added = NodeId(u32::try_from(number).expect("the bound is lower"));
        self.tree.nodes.push(Node::default());
        self.known.insert(walks.clone(), added);
        let mut node = Node::default();
        for walk in &walks {
            self.describe(*walk, &mut node);
        }
        for (at, walk) in walks.iter().enumerate() {
            let key = self.segment(walk).and_then(PointerSegment::key);
            let mut before = walks[..at].iter().map(|walk| self.segment(walk));
            if let Some(key) = key
                && !before.any(|segment| segment.and_then(PointerSegment::key) == Some(key))
            {
                let key = key.clone();
                let child = self.node(self.advanced(&walks, Some(&key)))?;
                node.children.push(Child { key, node: child });
            }
        }
        let every = self.advanced(&walks, None);
        if !every.is_empty() {
            node.every = Some(self.node(every)?);
        }
        node.takes_number = node.numbers != 0 || !node.gathers.is_empty();
        node.leads_on = !node.children.is_empty() || node.every.is_some();
        self.tree.nodes[number] = node;
        Ok(added)
    }

    pub(super) fn finish(self) -> Tree {
        self.tree
    }

    fn segment(&self, walk: &PointerWalk) -> Option<&'p PointerSegment> {
        self.pointers[walk.pointer].0.segments().get(walk.depth)
    }

    /// Returns the walks that go on with `key`, or, without one, with any key that no pointer names.
    fn advanced(&self, walks: &[PointerWalk], key: Option<&PointerKey>) -> Vec<PointerWalk> {
        let goes_on = |walk: &&PointerWalk| match self.segment(walk) {
            Some(PointerSegment::Every) => true,
            Some(PointerSegment::Key(known)) => key == Some(known),
            None => false,
        };
        let next = |walk: &PointerWalk| PointerWalk {
            depth: walk.depth + 1,
            ..*walk
        };
        walks.iter().filter(goes_on).map(next).collect()
    }

    /// Notes at a node what happens there for a walk.
    fn describe(&self, walk: PointerWalk, node: &mut Node) {
        let (pointer, wanted) = &self.pointers[walk.pointer];
        let (segments, depth) = (pointer.segments(), walk.depth);
        let is_end = depth == segments.len();
        let here = u32::from(is_end) << walk.pointer;
        let take = match wanted {
            PointerUse::Number(take) => take,
            PointerUse::Member => {
                node.members |= here;
                return;
            }
            PointerUse::Text => {
                node.texts |= here;
                return;
            }
        };
        if !pointer.is_sum() {
            node.numbers |= here;
            return;
        }
        let first =
            self.first_parts[walk.pointer] + usize::from(walk.from_element) * parts_of(segments);
        // The part in which the values of this segment are joined.
        let gather = |at: usize| Gather {
            part: first + parts_of(&segments[..=at]) - 1,
            how: match (&segments[at], take) {
                (PointerSegment::Every, _) => Joining::Added,
                (PointerSegment::Key(_), Take::Largest) => Joining::Larger,
                (PointerSegment::Key(_), Take::Last) => Joining::Later,
            },
        };
        match depth.checked_sub(1).map(gather) {
            Some(meeting) if is_end => node.gathers.push(meeting),
            Some(meeting) => {
                let from = gather(depth).part;
                if from != meeting.part {
                    let to = FoldTarget::Part(meeting);
                    node.folds.push(Fold { from, to });
                }
            }
            None => node.folds.push(Fold {
                from: first,
                to: FoldTarget::Pointer(walk.pointer),
            }),
        }
    }
}

/// Whether a pointer reports a sum.
pub(super) fn is_sum(pointer: &JsonPointer, wanted: PointerUse) -> bool {
    pointer.is_sum() && matches!(wanted, PointerUse::Number(_))
}

/// Returns how many parts a sum has: one for each run of keys, and one for each run of `*`.
fn parts_of(segments: &[PointerSegment]) -> usize {
    let is_every = |segment: &PointerSegment| segment.key().is_none();
    let alike = segments.chunk_by(|one, next| is_every(one) == is_every(next));
    alike.count()
}

/// Most nodes of a tree. Pointers that are useful in practice make a few dozen.
const NODES_MAX: usize = 1 << 12;

/// Yields the positions of the bits that are set.
pub(super) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        lowest
    })
}
