//! A client that is named by its values, which come from a request, were kept from one, or come from a pattern.

use std::fmt::{self, Display};

use smallvec::SmallVec;

use super::super::partition::{Facts, Part, Partition, Value, id_of_values, value};
use super::super::redacted::{ALL, ClientNames, write_items, write_value};
use super::pattern::Pattern;
use crate::limit::PartitionId;
use crate::request::ClientPrefixes;

/// A client, named by its values: one for each item of its partition.
pub struct NamedClient<'p> {
    partition: &'p Partition,
    values: SmallVec<[ItemValue<'p>; 2]>,
    /// Whether case in paths does not matter, because the route ignores it.
    ignores_case: bool,
}

/// A client's value for one item of a partition.
pub(super) struct ItemValue<'p> {
    /// The alternative of the item that the value belongs to.
    pub(super) alternative: u32,
    pub(super) part: &'p Part,
    pub(super) value: Value<'p>,
}

/// The values that a client's request had for the items of a partition, kept after the request.
#[derive(Clone, Default)]
pub struct ClientValues(Box<[(u32, Value<'static>)]>);

impl ClientValues {
    /// Keeps the values of a request; none if it lacks one, or if they take more than `len_max` bytes.
    pub fn of(partition: &Partition, facts: &Facts<'_>, len_max: usize) -> Option<Self> {
        let values = NamedClient::of_request(partition, facts)?.values;
        let len: usize = values.iter().map(|one| one.value.len()).sum();
        let kept = (values.into_iter()).map(|one| (one.alternative, one.value.into_owned()));
        (len <= len_max).then(|| Self(kept.collect()))
    }
}

/// Shows only the number of values, because they may be clients' keys.
impl fmt::Debug for ClientValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientValues({})", self.0.len())
    }
}

impl<'p> NamedClient<'p> {
    /// Finds the client of a request; none if the request lacks an item of the partition.
    pub fn of_request(partition: &'p Partition, facts: &Facts<'p>) -> Option<Self> {
        let values = partition.0.iter().map(|choice| {
            let mut alternatives = (0..).zip(&choice.0);
            alternatives.find_map(|(alternative, part)| Some((alternative, value(part, facts)?)))
        });
        let client = Self::new(partition, values)?;
        let ignores_case = facts.router.ignores_case(facts.found);
        Some(Self {
            ignores_case,
            ..client
        })
    }

    /// Makes the client that has these values; none if their partition had another shape.
    pub fn with_values(partition: &'p Partition, values: &ClientValues) -> Option<Self> {
        if partition.0.len() != values.0.len() {
            return None;
        }
        Self::new(partition, values.0.iter().cloned().map(Some))
    }

    /// Makes the client that `pattern` names, if addresses identify clients by these prefixes; none if it matches
    /// several.
    pub fn of(
        partition: &'p Partition,
        pattern: &'p Pattern,
        prefixes: ClientPrefixes,
    ) -> Option<Self> {
        let said = pattern.iter().map(|said| {
            let said = said.as_ref()?;
            Some((said.alternative, said.value(prefixes)?))
        });
        Self::new(partition, said)
    }

    /// Makes a client from an alternative and a value for each item; none if an item has no value or no such
    /// alternative.
    fn new(
        partition: &'p Partition,
        values: impl Iterator<Item = Option<(u32, Value<'p>)>>,
    ) -> Option<Self> {
        let values = partition.0.iter().zip(values).map(|(choice, value)| {
            let (alternative, value) = value?;
            let part = choice.0.get(alternative as usize)?;
            Some(ItemValue {
                alternative,
                part,
                value,
            })
        });
        Some(Self {
            partition,
            values: values.collect::<Option<_>>()?,
            ignores_case: false,
        })
    }

    /// Returns the partition id that the client's requests have under `key`.
    pub fn partition_id(&self, key: &[u8; 32]) -> PartitionId {
        id_of_values(key, self.values.iter().map(|one| (one.part, &one.value)))
    }

    pub(super) fn values(&self) -> &[ItemValue<'p>] {
        &self.values
    }

    pub(super) fn ignores_case(&self) -> bool {
        self.ignores_case
    }

    /// Shows the client as the log does, with digests under `key`.
    pub fn redacted(&self, key: &[u8; 32], names: ClientNames) -> impl Display {
        fmt::from_fn(move |f| {
            if self.values.is_empty() {
                return f.write_str(ALL);
            }
            let items = self.values.iter().map(|one| (one.part, &one.value));
            write_items(f, self.partition, items, |f, part, value| {
                write_value(f, (key, names), part, value, None)
            })
        })
    }
}
