//! The keys of a table: what is known of each, and the field that it fills.

use super::about::{Effect, Key, KeyDefault, TableDoc, ValueShape};
use super::kind::ValueSpec;
use crate::config::read::Scalar;

/// The keys of a table that fills a `T`.
pub struct TableSpec<T> {
    /// What can be said of it without a `T`.
    pub about: TableDoc,
    fields: Vec<Box<dyn Field<T>>>,
    /// The tables in this one, with their names, whose keys fill the same `T`.
    pub(in crate::config) inner: Vec<(&'static str, Self)>,
}

/// A key of which a reload changes the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key, as seen from the outermost table.
    pub key: &'static str,
    /// `old → new`, or `changed` where neither is told.
    pub text: String,
    /// What that brings with it.
    pub effect: Effect,
}

/// The value of one key in a `T`.
pub(in crate::config) trait Field<T>: Send + Sync {
    /// Sets it to its default, if it has one.
    fn reset(&self, table: &mut T);
    /// Reads it; says whether that went well.
    fn read(&self, value: Scalar<'_, '_>, table: &mut T) -> bool;
    /// Says how it differs.
    fn change(&self, old: &mut T, new: &mut T) -> Option<String>;
    /// Gives the new one the value of the old one.
    fn keep(&self, old: &mut T, new: &mut T);
    /// Says what it is, in the file's words; of secrets only that there is one.
    fn spell(&self, table: &mut T) -> String;
}

/// A key that is being added: to which ones, its name, and what it takes.
pub(super) struct KeyOf<T, V>(TableSpec<T>, &'static str, ValueSpec<V>);

impl<T: 'static, V: Clone + PartialEq + Send + Sync + 'static> KeyOf<T, V> {
    /// Says which field the key fills.
    pub(super) fn sets(self, value: fn(&mut T) -> &mut V) -> TableSpec<T> {
        let Self(mut keys, name, kind) = self;
        let known = (&*kind.example, &kind.shape, kind.bounds.as_ref());
        keys.about.keys.push(key(name, known, kind.stands_for()));
        keys.fields.push(Box::new(FieldOf { kind, value }));
        keys
    }
}

/// Returns what is known of a key whose value has this example, shape and bounds.
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
    /// Begins the keys of the table that is written as `title`; messages call one such table `noun`.
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

    /// Says what the table is for.
    pub(super) fn about(mut self, doc: &'static str) -> Self {
        self.about.doc = doc;
        self
    }

    /// Adds a key, which [`sets`](KeyOf::sets) a field.
    pub(super) fn key<V>(self, name: &'static str, kind: ValueSpec<V>) -> KeyOf<T, V> {
        KeyOf(self, name, kind)
    }

    /// Says what the last key is for.
    pub(super) fn doc(mut self, doc: &'static str) -> Self {
        self.last().doc = doc;
        self
    }

    /// Says what a change of the last key brings with it.
    pub(super) fn effect(mut self, effect: Effect) -> Self {
        self.last().effect = effect;
        self
    }

    fn last(&mut self) -> &mut Key {
        self.about.keys.last_mut().expect("a key is added first")
    }

    /// Adds a table that stands in this one.
    pub(super) fn table(mut self, name: &'static str, mut keys: Self) -> Self {
        for key in &mut keys.about.keys {
            key.path = format!("{name}.{}", key.name);
        }
        self.about.tables.push(name);
        self.inner.push((name, keys));
        self
    }

    /// Adds the tables that stand in this one and fill something else; spaces separate the names.
    pub(super) fn tables(mut self, names: &'static str) -> Self {
        self.about.tables.extend(names.split(' '));
        self
    }

    /// Returns what is known of this table and of those in it.
    pub(super) fn abouts(&self) -> Vec<&TableDoc> {
        let inner = self.inner.iter().flat_map(|(_, keys)| keys.abouts());
        [&self.about].into_iter().chain(inner).collect()
    }

    /// Returns what a table says that has no key.
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

    /// Says what a table's keys are, those of tables in it as `tls.ca`; keys that have their defaults are left out.
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

    /// Returns each key with the field that it fills, those of tables in this one left out.
    pub(in crate::config) fn keys(&self) -> impl Iterator<Item = (&Key, &dyn Field<T>)> {
        let fields = self.fields.iter().map(AsRef::as_ref);
        self.about.keys.iter().zip(fields)
    }

    fn all_keys(&self) -> impl Iterator<Item = (&Key, &dyn Field<T>)> {
        let inner = self.inner.iter().flat_map(|(_, keys)| keys.keys());
        self.keys().chain(inner)
    }
}
