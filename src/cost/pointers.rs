//! JSON Pointers (RFC 6901), and the tree of keys that several of them make together.

use std::collections::BTreeSet;
use std::fmt;

use memchr::memmem::Finder;
use thiserror::Error;

/// Most pointers of a route; a node has a bit for each.
pub const POINTERS_MAX: usize = 32;

/// Most keys of a pointer.
pub const KEYS_MAX: usize = 32;

/// Longest key of a pointer, unescaped.
pub const KEY_BYTES_MAX: usize = 256;

/// A pointer by itself: the keys from the top of a document to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPointer(Vec<PointerKey>);

/// Why a text is no pointer that can be looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadPointer {
    /// It is neither empty nor begins with a slash.
    #[error("a JSON Pointer begins with `/`")]
    NoSlash,
    /// A `~` stands before something else than 0 or 1.
    #[error("`~` must be written `~0`, and `/` in a key `~1`")]
    BadEscape,
    /// A key has more than [`KEY_BYTES_MAX`] bytes.
    #[error("a key has more than {KEY_BYTES_MAX} bytes")]
    KeyTooLong,
    /// It has more than [`KEYS_MAX`] keys.
    #[error("it has more than {KEYS_MAX} keys")]
    TooManyKeys,
}

/// More than [`POINTERS_MAX`] pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("more than {POINTERS_MAX} JSON Pointers")]
pub struct TooManyPointers;

/// The pointers of a route, compiled for one pass over a document.
///
/// A pointer counts from the top of a document, and if that is an array, also from the top of each
/// element. So in `[{"usage": 3}]` both `/usage` and `/0/usage` lead to the 3; the first would also
/// count the `usage` of a second element, the other would not. As everywhere, the largest counts.
#[derive(Debug, PartialEq, Eq)]
pub struct Pointers {
    nodes: Vec<Node>,
    /// A key of each pointer, without which a text does not tell its number; none if a pointer has none.
    needed: Option<Vec<Needle>>,
    /// What else a key may be written with.
    escape: Needle,
    /// The tops of those elements of a top-level array to which a pointer leads by their position.
    elements: Vec<(u32, NodeId)>,
    count: usize,
    levels: usize,
}

/// A node of the tree: where some path of keys leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId(u32);

/// A key that leads from a node to another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) key: PointerKey,
    pub(super) node: NodeId,
}

/// A key of a pointer, unescaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PointerKey {
    pub(super) text: Box<str>,
    /// How most texts write it, to behind its colon; none if it has to be escaped.
    pub(super) member: Option<Box<[u8]>>,
    /// The position in an array that it also names.
    position: Option<u32>,
}

/// A text that is looked for.
#[derive(Debug)]
struct Needle(Finder<'static>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Node {
    /// The pointers that end here, a bit each.
    ends: u32,
    children: Vec<Child>,
}

impl JsonPointer {
    /// Reads a pointer. The empty one is the whole document.
    pub fn parse(text: &str) -> Result<Self, BadPointer> {
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let keys = text.strip_prefix('/').ok_or(BadPointer::NoSlash)?;
        let keys: Vec<_> = keys
            .split('/')
            .map(PointerKey::parse)
            .collect::<Result<_, _>>()?;
        if keys.len() > KEYS_MAX {
            return Err(BadPointer::TooManyKeys);
        }
        Ok(Self(keys))
    }
}

impl fmt::Display for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0.iter()).try_for_each(|key| {
            let text = key.text.replace('~', "~0").replace('/', "~1");
            write!(f, "/{text}")
        })
    }
}

impl Pointers {
    /// Compiles pointers; what is read of a body has their order.
    pub fn new(pointers: &[JsonPointer]) -> Result<Self, TooManyPointers> {
        if pointers.len() > POINTERS_MAX {
            return Err(TooManyPointers);
        }
        let longest = pointers.iter().map(|pointer| pointer.0.len()).max();
        let mut this = Self {
            nodes: vec![Node::default()],
            needed: needed(pointers),
            escape: Needle::new("\\u"),
            elements: Vec::new(),
            count: pointers.len(),
            // A top-level array is one more.
            levels: longest.unwrap_or(0) + 1,
        };
        for (number, JsonPointer(keys)) in pointers.iter().enumerate() {
            this.insert(Self::TOP, keys, number);
        }
        let first = |JsonPointer(keys): &JsonPointer| keys.first()?.position;
        for position in pointers.iter().filter_map(first).collect::<BTreeSet<_>>() {
            let top = this.add();
            for (number, pointer) in pointers.iter().enumerate() {
                this.insert(top, &pointer.0, number);
                if first(pointer) == Some(position) {
                    this.insert(top, &pointer.0[1..], number);
                }
            }
            this.elements.push((position, top));
        }
        Ok(this)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The top of a document.
    pub(super) const TOP: NodeId = NodeId(0);

    /// How many containers can be open at once on the way to a number.
    pub(super) fn levels(&self) -> usize {
        self.levels
    }

    /// The top of an element of a top-level array.
    pub(super) fn element_top(&self, position: u32) -> NodeId {
        let mut elements = self.elements.iter();
        let element = elements.find(|(at, _)| *at == position);
        element.map_or(Self::TOP, |(_, node)| *node)
    }

    /// Where an element of another array leads.
    pub(super) fn element(&self, array: NodeId, position: u32) -> Option<NodeId> {
        let mut children = self.children(array).iter();
        let child = children.find(|child| child.key.position == Some(position))?;
        Some(child.node)
    }

    /// Whether no element from a position on leads anywhere.
    pub(super) fn is_past(&self, array: NodeId, position: u32) -> bool {
        let mut children = self.children(array).iter();
        children.all(|child| child.key.position.is_none_or(|value| value < position))
    }

    /// Whether a document may have a number at a pointer, by the words in its text.
    pub(super) fn may_report(&self, document: &[u8]) -> bool {
        let has = |word: &Needle| word.0.find(document).is_some();
        let Some(needed) = &self.needed else {
            return true;
        };
        needed.iter().any(has) || has(&self.escape)
    }

    pub(super) fn children(&self, node: NodeId) -> &[Child] {
        &self.node(node).children
    }

    /// The numbers of the pointers that end at a node.
    pub(super) fn ending_at(&self, node: NodeId) -> impl Iterator<Item = usize> + use<> {
        bits(self.node(node).ends.into())
    }

    pub(super) fn has_children(&self, node: NodeId) -> bool {
        !self.node(node).children.is_empty()
    }

    /// Whether a pointer ends at a node.
    pub(super) fn is_end(&self, node: Option<NodeId>) -> bool {
        node.is_some_and(|node| self.node(node).ends != 0)
    }

    fn node(&self, NodeId(number): NodeId) -> &Node {
        &self.nodes[number as usize]
    }

    fn insert(&mut self, from: NodeId, keys: &[PointerKey], number: usize) {
        let mut node = from;
        for key in keys {
            let mut children = self.children(node).iter();
            if let Some(child) = children.find(|child| child.key == *key) {
                node = child.node;
                continue;
            }
            let added = self.add();
            self.nodes[node.0 as usize].children.push(Child {
                key: key.clone(),
                node: added,
            });
            node = added;
        }
        self.nodes[node.0 as usize].ends |= 1 << number;
    }

    fn add(&mut self) -> NodeId {
        let number = u32::try_from(self.nodes.len()).expect("pointers are few and short");
        self.nodes.push(Node::default());
        NodeId(number)
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

impl PointerKey {
    fn parse(escaped: &str) -> Result<Self, BadPointer> {
        let mut parts = escaped.split('~');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (character, rest) = match part.as_bytes().first() {
                Some(b'0') => ('~', &part[1..]),
                Some(b'1') => ('/', &part[1..]),
                _ => return Err(BadPointer::BadEscape),
            };
            text.push(character);
            text.push_str(rest);
        }
        if text.len() > KEY_BYTES_MAX {
            return Err(BadPointer::KeyTooLong);
        }
        // RFC 6901, section 4: no leading zeros, and no sign.
        let is_position = text == "0" || text.starts_with(|first: char| matches!(first, '1'..='9'));
        Ok(Self {
            member: (!text.contains(['"', '\\'])).then(|| format!("{text}\":").into_bytes().into()),
            position: text.parse().ok().filter(|_| is_position),
            text: text.into(),
        })
    }
}

/// Chooses a key of each pointer that is written in one way only, but for `\u` escapes.
fn needed(pointers: &[JsonPointer]) -> Option<Vec<Needle>> {
    let is_plain = |key: &&PointerKey| {
        let is_escaped = |byte: u8| byte < b' ' || matches!(byte, b'"' | b'\\' | b'/');
        key.position.is_none() && !key.text.is_empty() && !key.text.bytes().any(is_escaped)
    };
    let keys: Option<BTreeSet<_>> = (pointers.iter())
        .map(|pointer| Some(&*pointer.0.iter().rfind(is_plain)?.text))
        .collect();
    Some(keys?.into_iter().map(Needle::new).collect())
}

/// The numbers of the bits that are set.
pub(super) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        lowest
    })
}
