//! JSON Pointers (RFC 6901), with `*` for every element or member.

use std::fmt;

use thiserror::Error;

/// Most keys of a pointer.
pub const KEYS_MAX: usize = 32;

/// Longest key of a pointer, unescaped.
pub const KEY_BYTES_MAX: usize = 256;

/// A JSON Pointer: the segments from the top of a document to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPointer(Vec<PointerSegment>);

/// What is looked for at a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointerUse {
    /// A number.
    Number(Take),
    /// Whether the value is anything but null, false or empty.
    Member,
    /// A text.
    Text,
}

/// Which number counts if several are reported at one pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Take {
    /// The largest number.
    #[default]
    Largest,
    /// The last number.
    Last,
}

/// A segment of a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PointerSegment {
    /// The member with this name, or the element at this position.
    Key(PointerKey),
    /// `*`: every element of an array, every member of an object.
    Every,
}

/// A key of a pointer, unescaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PointerKey {
    pub(super) text: Box<str>,
    /// The key as most documents write it, from its first byte to its colon; `None` if it needs escapes.
    pub(super) member: Option<Box<[u8]>>,
    /// Position in an array that the key names, if it is one.
    pub(super) position: Option<u32>,
}

/// Why a text is not a pointer that can be looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadPointer {
    /// The text is not empty, but does not begin with a slash.
    #[error("a JSON Pointer begins with `/`")]
    NoSlash,
    /// A `~` is followed by something other than 0 or 1.
    #[error("`~` must be written `~0`, and `/` in a key `~1`")]
    BadEscape,
    /// A key has more than [`KEY_BYTES_MAX`] bytes.
    #[error("a key has more than {KEY_BYTES_MAX} bytes")]
    KeyTooLong,
    /// The pointer has more than [`KEYS_MAX`] keys.
    #[error("it has more than {KEYS_MAX} keys")]
    TooManyKeys,
}

impl JsonPointer {
    /// Reads a pointer. The empty one leads to the whole document.
    pub fn parse(text: &str) -> Result<Self, BadPointer> {
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let segments = text.strip_prefix('/').ok_or(BadPointer::NoSlash)?;
        let segments: Vec<_> = segments
            .split('/')
            .map(PointerSegment::parse)
            .collect::<Result<_, _>>()?;
        if segments.len() > KEYS_MAX {
            return Err(BadPointer::TooManyKeys);
        }
        Ok(Self(segments))
    }

    pub(super) fn segments(&self) -> &[PointerSegment] {
        &self.0
    }

    /// Whether the pointer has a `*`, so that it may lead to several values of one document.
    pub(super) fn is_sum(&self) -> bool {
        self.0.contains(&PointerSegment::Every)
    }
}

impl fmt::Display for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|segment| match segment {
            PointerSegment::Every => f.write_str("/*"),
            PointerSegment::Key(key) => {
                let text = key.text.replace('~', "~0").replace('/', "~1");
                write!(f, "/{text}")
            }
        })
    }
}

impl PointerSegment {
    fn parse(escaped: &str) -> Result<Self, BadPointer> {
        if escaped == "*" {
            return Ok(Self::Every);
        }
        PointerKey::parse(escaped).map(Self::Key)
    }

    pub(super) fn key(&self) -> Option<&PointerKey> {
        match self {
            Self::Key(key) => Some(key),
            Self::Every => None,
        }
    }
}

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
