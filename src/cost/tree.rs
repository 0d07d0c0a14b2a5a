//! The tree of keys that several pointers make together, so that a document is walked along all of them at once.
//!
//! A node is a set of pointers with how far each has come. Where a `*` and a key stand beside each other, what
//! follows the key is a node of both.

use std::collections::BTreeMap;

use super::json_pointer::{JsonPointer, PointerKey, PointerSegment, PointerUse, Take};

/// The nodes; the tops of documents and of elements are among them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    parts: usize,
}

/// Where some path of keys leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId(u32);

/// What happens where some path of keys leads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// The pointers without `*` whose number stands here, a bit each.
    pub(super) numbers: u32,
    /// The pointers whose member stands here, a bit each.
    pub(super) members: u32,
    /// The pointers whose text stands here, a bit each.
    pub(super) texts: u32,
    /// Where a number counts that stands here.
    pub(super) gathers: Vec<Gather>,
    /// What a container that ends here hands on.
    pub(super) folds: Vec<Fold>,
    pub(super) children: Vec<Child>,
    /// Where any other key leads.
    pub(super) every: Option<NodeId>,
    /// Whether a number that stands here counts.
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

/// What the part of a sum is handed on to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fold {
    pub(super) from: usize,
    pub(super) to: FoldTarget,
}

/// What takes the part of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoldTarget {
    Part(Gather),
    /// This pointer, for which the document has told its sum.
    Pointer(usize),
}

/// How numbers make one: those of duplicate keys do not add up, those of a `*` do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joining {
    Larger,
    Later,
    Added,
}

/// How far a pointer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PointerWalk {
    pub(super) pointer: usize,
    pub(super) depth: usize,
    /// Whether it began at an element of a top-level array. Only sums are told apart by that.
    pub(super) from_element: bool,
}

/// The pointers make more than [`NODES_MAX`] nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooManyNodes;

/// Adds nodes to a tree.
pub(super) struct TreeBuilder<'p> {
    pointers: &'p [(JsonPointer, PointerUse)],
    /// The first part of each pointer's sum.
    first_parts: Vec<usize>,
    tree: Tree,
    known: BTreeMap<Vec<PointerWalk>, NodeId>,
}

impl Tree {
    pub(super) fn node(&self, NodeId(number): NodeId) -> &Node {
        &self.nodes[number as usize]
    }

    /// How many parts all sums have.
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

    /// Returns the node of these walks, which may be there already.
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

    /// Returns the walks that go on with a key, or with one that no pointer names.
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

    /// Notes what a walk does at a node.
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
        // The part in which the values of this segment meet.
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

/// Whether a pointer tells a sum.
pub(super) fn is_sum(pointer: &JsonPointer, wanted: PointerUse) -> bool {
    pointer.is_sum() && matches!(wanted, PointerUse::Number(_))
}

/// How many parts a sum has: one for the keys that follow each other, one for the `*`s that do.
fn parts_of(segments: &[PointerSegment]) -> usize {
    let is_every = |segment: &PointerSegment| segment.key().is_none();
    let alike = segments.chunk_by(|one, next| is_every(one) == is_every(next));
    alike.count()
}

/// Most nodes of a tree. Pointers that anybody needs make a few dozen.
const NODES_MAX: usize = 1 << 12;

/// The numbers of the bits that are set.
pub(super) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        lowest
    })
}
