//! The keys of a table: what is known about each, and the field that it fills.

use super::about::{Effect, Key, KeyDefault, TableDoc, ValueShape};
use super::kind::ValueSpec;
use crate::config::read::Scalar;

/// The keys of a table that fills a `T`.
pub struct TableSpec<T> {
    /// What is known about the table, without its type `T`.
    pub about: TableDoc,
    fields: Vec<Box<dyn Field<T>>>,
    /// Tables within this one, by name, whose keys fill the same `T`.
    pub(in crate::config) inner: Vec<(&'static str, Self)>,
}

/// A key whose value a reload changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Name of the key, as seen from the outermost table.
    pub key: &'static str,
    /// `old → new`, or `set`, `removed` or `changed` if the values are not shown.
    pub text: String,
    /// Effect of the change.
    pub effect: Effect,
}

/// Access to the value of one key in a `T`.
pub(in crate::config) trait Field<T>: Send + Sync {
    /// Sets the value to its default, if it has one.
    fn reset(&self, table: &mut T);
    /// Reads the value; returns whether it was right.
    fn read(&self, value: Scalar<'_, '_>, table: &mut T) -> bool;
    /// Says how the values of `old` and `new` differ, if they do.
    fn change(&self, old: &mut T, new: &mut T) -> Option<String>;
    /// Copies the value of `old` to `new`.
    fn keep(&self, old: &mut T, new: &mut T);
    /// Returns the value in the file's words; of a secret only that there is one.
    fn spell(&self, table: &mut T) -> String;
}

/// A key that is being added: the table, the key's name, and the values that it takes.
pub(super) struct KeyOf<T, V>(TableSpec<T>, &'static str, ValueSpec<V>);

impl<T: 'static, V: Clone + PartialEq + Send + Sync + 'static> KeyOf<T, V> {
    /// Adds the key to the table, with the field that it fills.
    pub(super) fn sets(self, value: fn(&mut T) -> &mut V) -> TableSpec<T> {
        let Self(mut keys, name, kind) = self;
        let known = (&*kind.example, &kind.shape, kind.bounds.as_ref());
        keys.about.keys.push(key(name, known, kind.stands_for()));
        keys.fields.push(Box::new(FieldOf { kind, value }));
        keys
    }
}

/// Returns what is known about a key whose value has this example, shape and bounds.
fn key(
    name: &'static str,
    (example, shape, bounds): (&str, &ValueShape, Option<&[String; 2]>),
    default: Option<KeyDefault>,
) -> Key {
    Key {
        name,
        path: name.to_owned(),
        doc: "",
        example: example.to_owned(),
        default,
        shape: shape.clone(),
        bounds: bounds.cloned(),
        effect: Effect::Applies,
    }
}

struct FieldOf<T, V> {
    kind: ValueSpec<V>,
    value: fn(&mut T) -> &mut V,
}

impl<T, V: Clone + PartialEq + Send + Sync + 'static> Field<T> for FieldOf<T, V> {
    fn reset(&self, table: &mut T) {
        if let Some(default) = &self.kind.default {
            (self.value)(table).clone_from(default);
        }
    }

    fn read(&self, value: Scalar<'_, '_>, table: &mut T) -> bool {
        let read = self.kind.read(value);
        read.map(|value| *(self.value)(table) = value).is_some()
    }

    fn change(&self, old: &mut T, new: &mut T) -> Option<String> {
        let (old, new) = ((self.value)(old), (self.value)(new));
        (old != new).then(|| self.kind.change(old, new))
    }

    fn keep(&self, old: &mut T, new: &mut T) {
        (self.value)(new).clone_from((self.value)(old));
    }

    fn spell(&self, table: &mut T) -> String {
        self.kind.spell((self.value)(table))
    }
}

impl<T: Clone + Default + PartialEq> TableSpec<T> {
    /// Makes a table without keys, which is written as `title`; messages call one such table `noun`.
    pub(super) fn of(noun: &'static str, title: &'static str) -> Self {
        let about = TableDoc {
            noun,
            title,
            doc: "",
            keys: Vec::new(),
            tables: Vec::new(),
        };
        Self {
            about,
            fields: Vec::new(),
            inner: Vec::new(),
        }
    }

    /// Sets the documentation of the table.
    pub(super) fn about(mut self, doc: &'static str) -> Self {
        self.about.doc = doc;
        self
    }

    /// Begins a key, which is added once it [`sets`](KeyOf::sets) a field.
    pub(super) fn key<V>(self, name: &'static str, kind: ValueSpec<V>) -> KeyOf<T, V> {
        KeyOf(self, name, kind)
    }

    /// Sets the documentation of the key that was added last.
    pub(super) fn doc(mut self, doc: &'static str) -> Self {
        self.last().doc = doc;
        self
    }

    /// Sets the effect of a change of the key that was added last.
    pub(super) fn effect(mut self, effect: Effect) -> Self {
        self.last().effect = effect;
        self
    }

    fn last(&mut self) -> &mut Key {
        self.about.keys.last_mut().expect("a key is added first")
    }

    /// Adds a table within this one whose keys fill the same `T`.
    pub(super) fn table(mut self, name: &'static str, mut keys: Self) -> Self {
        for key in &mut keys.about.keys {
            key.path = format!("{name}.{}", key.name);
        }
        self.about.tables.push(name);
        self.inner.push((name, keys));
        self
    }

    /// Adds the names of tables within this one that fill other types; spaces separate the names.
    pub(super) fn tables(mut self, names: &'static str) -> Self {
        self.about.tables.extend(names.split(' '));
        self
    }

    /// Returns what is known about this table and those within it.
    pub(super) fn abouts(&self) -> Vec<&TableDoc> {
        let inner = self.inner.iter().flat_map(|(_, keys)| keys.abouts());
        [&self.about].into_iter().chain(inner).collect()
    }

    /// Returns the value of a table without any keys, in which each key has its default.
    pub fn unset(&self) -> T {
        let mut table = T::default();
        for (_, field) in self.all_keys() {
            field.reset(&mut table);
        }
        table
    }

    /// Says what changes when `new` takes the place of `old`.
    pub fn changes(&'static self, old: &T, new: &T) -> Vec<Change> {
        if old == new {
            return Vec::new();
        }
        let (mut old, mut new) = (old.clone(), new.clone());
        let changes = self.all_keys().filter_map(|(key, field)| {
            let (key, effect) = (&*key.path, key.effect);
            let text = field.change(&mut old, &mut new)?;
            Some(Change { key, text, effect })
        });
        changes.collect()
    }

    /// Returns the keys of a table and their values as text; keys of tables within it are named as in `tls.ca`. Keys
    /// that have their defaults are left out.
    pub fn described(&self, table: &T) -> Vec<(&str, String)> {
        let (mut unset, mut table) = (self.unset(), table.clone());
        let keys = self.all_keys().filter_map(|(key, field)| {
            field.change(&mut unset, &mut table)?;
            Some((&*key.path, field.spell(&mut table)))
        });
        keys.collect()
    }

    /// Gives `new` the old values of the keys that need a restart.
    pub fn keep(&'static self, old: &T, new: &mut T) {
        let mut old = old.clone();
        for (key, field) in self.all_keys() {
            if key.effect == Effect::NeedsRestart {
                field.keep(&mut old, new);
            }
        }
    }

    /// Returns each key of this table, but not of those within it, with the field that it fills.
    pub(in crate::config) fn keys(&self) -> impl Iterator<Item = (&Key, &dyn Field<T>)> {
        let fields = self.fields.iter().map(AsRef::as_ref);
        self.about.keys.iter().zip(fields)
    }

    fn all_keys(&self) -> impl Iterator<Item = (&Key, &dyn Field<T>)> {
        let inner = self.inner.iter().flat_map(|(_, keys)| keys.keys());
        self.keys().chain(inner)
    }
}
