//! What is known of tables and their keys, whatever they fill.

/// What is known of a table's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDoc {
    /// What one such table is called in messages.
    pub noun: &'static str,
    /// How the table is written.
    pub title: &'static str,
    /// What it is for, as `gateway.toml` says above it.
    pub doc: &'static str,
    /// The keys that work.
    pub keys: Vec<Key>,
    /// The tables that stand in it.
    pub tables: Vec<&'static str>,
}

/// What is known of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its name as seen from the outermost table: `tls.ca`.
    pub path: String,
    /// What it is for, as `gateway.toml` says above it.
    pub doc: &'static str,
    /// An example of its value, in TOML.
    pub example: String,
    /// What stands for it; none: the file must give it a value.
    pub default: Option<KeyDefault>,
    /// What it may be.
    pub shape: ValueShape,
    /// What it may be at least and at most.
    pub bounds: Option<[String; 2]>,
    /// What a change of it brings with it.
    pub effect: Effect,
}

/// What stands for a key that the file leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyDefault {
    /// This value, as the file would spell it.
    Value(String),
    /// No value: what that means.
    Nothing(&'static str),
}

/// What of TOML a value may be, as far as that can be said without reading it. Any string but the free ones of
/// tables may have variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueShape {
    /// A string that fits a regular expression, if there is one (ECMA-262, as JSON Schema has them).
    Text(Option<String>),
    /// The same, or a whole number that stands for the string of its digits.
    NumberOrText(Option<String>),
    /// One of these words.
    Word(Vec<&'static str>),
    /// A whole number.
    Integer,
    /// A number with or without decimals.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list of such values.
    List(Box<Self>),
    /// A string that is one variable and stands for a list.
    ListVariable,
    /// A table of these keys.
    Table(TableDoc),
    /// A table whose keys are of the operator's choice, and whose values are such ones.
    FreeTable(Box<Self>),
    /// Any of these.
    OneOf(Vec<Self>),
}

/// What a change of a key brings with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It applies to the next request.
    Applies,
    /// It applies, and whoever has spent something has still spent it.
    CountersKept,
    /// It applies, and nobody has spent anything.
    CountersAfresh,
    /// The old value stays until the gateway is started again.
    NeedsRestart,
}

impl Key {
    /// Whether the file must give it a value.
    pub fn is_required(&self) -> bool {
        self.default.is_none()
    }
}

impl TableDoc {
    /// Returns the title of that one of `tables` that this one stands in, if it stands in one.
    pub fn outer(&self, tables: &[&Self]) -> Option<&'static str> {
        let (outer, _) = self.title.rsplit_once('.')?;
        let name = |title: &'static str| title.trim_matches(['[', ']']);
        let outer = tables
            .iter()
            .find(|table| name(table.title) == name(outer))?;
        Some(outer.title)
    }

    /// Returns every name that is known in the table.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let keys = self.keys.iter().map(|key| key.name);
        keys.chain(self.tables.iter().copied())
    }
}
