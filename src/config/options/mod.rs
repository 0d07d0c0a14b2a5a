//! The options of the file: one table says of each key all that is known of it.
//!
//! A key has a name, a `Kind` (how it is read, its bounds and default, how it is spelled), the field
//! that it fills, what a change of it brings with it, and a line of documentation. `read` fills the
//! mirror by these tables, and finds what is unknown or missing; [`Keys::changes`] says what a reload
//! changes, and [`Keys::keep`] keeps what waits for a restart; `gateway.toml` and the documented bounds
//! are checked against them. What keys mean together is the business of `compile`.
//!
//! A new key is an entry here, a field of the snapshot, and what uses it.

mod costs;
mod general;
mod jwt;
mod kind;
mod listeners;
mod overrides;
mod policies;
mod routes;
mod store;
mod upstreams;

use std::ops::RangeInclusive;
use std::sync::LazyLock;
use std::time::Duration;

pub use general::{ADMIN, LOG, TOP};
pub use jwt::JWT;
use kind::Kind;
pub use listeners::LISTENER;
pub use policies::{BUCKETS_MAX, POLICY};
pub use routes::ROUTE;
pub use store::{STORE, STORE_TLS};
pub use upstreams::{UPSTREAM, UPSTREAM_HEALTH, UPSTREAM_TLS};

use super::read::Scalar;

/// Every table of the file, those in others after them.
pub static TABLES: LazyLock<Vec<&About>> = LazyLock::new(|| {
    let outer = [
        TOP.abouts(),
        LISTENER.abouts(),
        ADMIN.abouts(),
        LOG.abouts(),
        JWT.abouts(),
    ];
    let more = [
        STORE.abouts(),
        UPSTREAM.abouts(),
        POLICY.abouts(),
        ROUTE.abouts(),
    ];
    [outer.concat(), more.concat()].concat()
});

/// The keys of a table that fills a `T`.
pub struct Keys<T> {
    /// What can be said of it without a `T`.
    pub about: About,
    fields: Vec<Box<dyn Field<T>>>,
    /// The tables in this one, with their names, whose keys fill the same `T`.
    pub(super) inner: Vec<(&'static str, Self)>,
}

/// What is known of a table's keys.
#[derive(Clone, Debug)]
pub struct About {
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
pub(super) trait Field<T>: Send + Sync {
    /// Sets it to its default, if it has one.
    fn reset(&self, table: &mut T);
    /// Reads it; says whether that went well.
    fn read(&self, value: Scalar<'_, '_>, table: &mut T) -> bool;
    /// Says how it differs.
    fn change(&self, old: &mut T, new: &mut T) -> Option<String>;
    /// Gives the new one the value of the old one.
    fn keep(&self, old: &mut T, new: &mut T);
}

/// A key that is being added: to which ones, its name, and what it takes.
struct KeyOf<T, V>(Keys<T>, &'static str, Kind<V>);

impl<T: 'static, V: Clone + PartialEq + Send + Sync + 'static> KeyOf<T, V> {
    /// Says which field the key fills.
    fn sets(self, value: fn(&mut T) -> &mut V) -> Keys<T> {
        let Self(mut keys, name, kind) = self;
        keys.about.keys.push(Key {
            name,
            path: name.to_owned(),
            doc: "",
            example: kind.example.clone(),
            is_required: kind.default.is_none(),
            bounds: kind.bounds.clone(),
            effect: Effect::Applies,
        });
        keys.fields.push(Box::new(FieldOf { kind, value }));
        keys
    }
}

struct FieldOf<T, V> {
    kind: Kind<V>,
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
}

impl About {
    /// Returns the title of the table that this one stands in, if it stands in one.
    pub fn outer(&self) -> Option<&'static str> {
        let (outer, _) = self.title.rsplit_once('.')?;
        let name = |title: &'static str| title.trim_matches(['[', ']']);
        let mut tables = TABLES.iter();
        let outer = tables.find(|table| name(table.title) == name(outer))?;
        Some(outer.title)
    }

    /// Returns every name that is known in the table, whether it works or not.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let keys = self.keys.iter().map(|key| key.name);
        keys.chain(self.tables.iter().copied())
            .chain(self.to_come.iter().copied())
    }
}

impl<T: Clone + Default + PartialEq> Keys<T> {
    /// Begins the keys of the table that is written as `title`; messages call one such table `noun`.
    fn of(noun: &'static str, title: &'static str) -> Self {
        let about = About {
            noun,
            title,
            keys: Vec::new(),
            tables: Vec::new(),
            to_come: Vec::new(),
        };
        Self {
            about,
            fields: Vec::new(),
            inner: Vec::new(),
        }
    }

    /// Adds a key, which [`sets`](KeyOf::sets) a field.
    fn key<V>(self, name: &'static str, kind: Kind<V>) -> KeyOf<T, V> {
        KeyOf(self, name, kind)
    }

    /// Says what the last key is for.
    fn doc(mut self, doc: &'static str) -> Self {
        self.last().doc = doc;
        self
    }

    /// Says what a change of the last key brings with it.
    fn effect(mut self, effect: Effect) -> Self {
        self.last().effect = effect;
        self
    }

    fn last(&mut self) -> &mut Key {
        self.about.keys.last_mut().expect("a key is added first")
    }

    /// Adds a table that stands in this one.
    fn table(mut self, name: &'static str, mut keys: Self) -> Self {
        for key in &mut keys.about.keys {
            key.path = format!("{name}.{}", key.name);
        }
        self.about.tables.push(name);
        self.inner.push((name, keys));
        self
    }

    /// Adds the tables that stand in this one and fill something else; spaces separate the names.
    fn tables(mut self, names: &'static str) -> Self {
        self.about.tables.extend(names.split(' '));
        self
    }

    /// Adds the keys whose feature does not exist yet; spaces separate the names.
    fn not_yet(mut self, names: &'static str) -> Self {
        self.about.to_come.extend(names.split(' '));
        self
    }

    /// Returns what is known of this table and of those in it.
    fn abouts(&self) -> Vec<&About> {
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
    pub(super) fn keys(&self) -> impl Iterator<Item = (&Key, &dyn Field<T>)> {
        let fields = self.fields.iter().map(AsRef::as_ref);
        self.about.keys.iter().zip(fields)
    }

    fn all_keys(&self) -> impl Iterator<Item = (&Key, &dyn Field<T>)> {
        let inner = self.inner.iter().flat_map(|(_, keys)| keys.keys());
        self.keys().chain(inner)
    }
}

/// What a timeout may be: none would be a wait without end or a failure at once, and says neither.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_hours(24);
const UP_TO_A_DAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(24);
/// What a body may be limited to; 0 allows none.
const BODY_BYTES: RangeInclusive<u64> = 0..=1 << 40;
