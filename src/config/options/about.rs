//! What is known of tables and their keys, whatever they fill.

/// What is known of a table's keys.
#[derive(Clone, Debug)]
pub struct TableDoc {
    /// What one such table is called in messages.
    pub noun: &'static str,
    /// How the table is written.
    pub title: &'static str,
    /// The keys that work.
    pub keys: Vec<Key>,
    /// The tables that stand in it.
    pub tables: Vec<&'static str>,
    /// The keys whose feature does not exist yet.
    pub to_come: Vec<&'static str>,
}

/// What is known of one key.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its name as seen from the outermost table: `tls.ca`.
    pub path: String,
    /// What it is for, as `gateway.toml` says above it.
    pub doc: &'static str,
    /// An example of its value, in TOML.
    pub example: String,
    /// Whether the file must say it, as there is no default.
    pub is_required: bool,
    /// What it may be at least and at most.
    pub bounds: Option<[String; 2]>,
    /// What a change of it brings with it.
    pub effect: Effect,
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

    /// Returns every name that is known in the table, whether it works or not.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let keys = self.keys.iter().map(|key| key.name);
        keys.chain(self.tables.iter().copied())
            .chain(self.to_come.iter().copied())
    }
}
