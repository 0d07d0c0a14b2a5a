//! What is known about tables and their keys, independent of the types that they fill.

/// What is known about a table and its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDoc {
    /// Noun for one such table in messages.
    pub noun: &'static str,
    /// Header of the table, such as `[upstreams.NAME]`; a description if it has none.
    pub title: &'static str,
    /// Purpose of the table, as `gateway.toml` states it above its header.
    pub doc: &'static str,
    /// Keys of the table.
    pub keys: Vec<Key>,
    /// Names of the tables within this one.
    pub tables: Vec<&'static str>,
}

/// What is known about one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Name of the key in its table.
    pub name: &'static str,
    /// Name of the key as seen from the outermost table: `tls.ca`.
    pub path: String,
    /// Purpose of the key, as `gateway.toml` states it above the key.
    pub doc: &'static str,
    /// Example of a value, in TOML.
    pub example: String,
    /// Default of the key; `None` if the file must give it a value.
    pub default: Option<KeyDefault>,
    /// Shape of the values that the key takes.
    pub shape: ValueShape,
    /// Smallest and largest value that the key takes, as text, if it has bounds.
    pub bounds: Option<[String; 2]>,
    /// Effect of a change of the key.
    pub effect: Effect,
}

/// What applies if the file leaves a key out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyDefault {
    /// This value, as the file would spell it.
    Value(String),
    /// No value; the text says what that means.
    Nothing(&'static str),
}

/// Shape of a value in TOML, as far as it can be told without reading the value. Any string may contain variables,
/// except the free keys of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueShape {
    /// A string that matches a regular expression, if there is one (ECMA-262, as in JSON Schema).
    Text(Option<String>),
    /// A string as in `Text`, or a whole number that stands for the string of its digits.
    NumberOrText(Option<String>),
    /// One of these words.
    Word(Vec<&'static str>),
    /// A whole number.
    Integer,
    /// A number with or without decimals.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list of values of this shape.
    List(Box<Self>),
    /// A string that consists of one variable, which stands for a list.
    ListVariable,
    /// A table of these keys.
    Table(TableDoc),
    /// A table whose keys the operator chooses, and whose values have this shape.
    FreeTable(Box<Self>),
    /// A value of any of these shapes.
    OneOf(Vec<Self>),
}

/// Effect of a change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The new value applies to the next request.
    Applies,
    /// The new value applies, and clients keep what they have spent.
    CountersKept,
    /// The new value applies, and clients' counters start afresh.
    CountersAfresh,
    /// The old value stays until the gateway is started again.
    NeedsRestart,
}

impl Key {
    /// Whether the file must give the key a value.
    pub fn is_required(&self) -> bool {
        self.default.is_none()
    }
}

impl TableDoc {
    /// Returns the title of the table among `tables` that contains this one, if there is one.
    pub fn outer(&self, tables: &[&Self]) -> Option<&'static str> {
        let (outer, _) = self.title.rsplit_once('.')?;
        let name = |title: &'static str| title.trim_matches(['[', ']']);
        let outer = tables
            .iter()
            .find(|table| name(table.title) == name(outer))?;
        Some(outer.title)
    }

    /// Returns the names of all keys and tables in this table.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let keys = self.keys.iter().map(|key| key.name);
        keys.chain(self.tables.iter().copied())
    }
}
