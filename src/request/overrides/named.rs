//! A client that is named by its values: those of a request, those that were kept of one, or those of a pattern.

use std::fmt::{self, Display};

use smallvec::SmallVec;

use super::super::partition::{Facts, Part, Partition, Value, id_of_values, value};
use super::super::redacted::{ALL, ClientNames, write_items, write_value};
use super::pattern::Pattern;
use crate::limit::PartitionId;
use crate::request::ClientPrefixes;

/// A client by its values: one for each item of its partition.
pub struct NamedClient<'p> {
    partition: &'p Partition,
    values: SmallVec<[ItemValue<'p>; 2]>,
    /// Whether the case of its values does not matter, as its route says.
    ignores_case: bool,
}

/// The value for one item of a partition.
pub(super) struct ItemValue<'p> {
    /// Which of the item's alternatives it is of.
    pub(super) alternative: u32,
    pub(super) part: &'p Part,
    pub(super) value: Value<'p>,
}

/// The values that a client's request had for the items of a partition, kept beyond the request.
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

/// Values may be clients' keys.
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

    /// Finds the client that has these values; none if they are of a partition of another shape.
    pub fn with_values(partition: &'p Partition, values: &ClientValues) -> Option<Self> {
        if partition.0.len() != values.0.len() {
            return None;
        }
        Self::new(partition, values.0.iter().cloned().map(Some))
    }

    /// Finds the client that `pattern` names, where these prefixes identify one; none
    /// if it matches several.
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

    /// Finds the client that has a value of this alternative for each item; none if there is none for one.
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

    /// Returns the partition id that its requests have under `key`.
    pub fn partition_id(&self, key: &[u8; 32]) -> PartitionId {
        id_of_values(key, self.values.iter().map(|one| (one.part, &one.value)))
    }

    pub(super) fn values(&self) -> &[ItemValue<'p>] {
        &self.values
    }

    pub(super) fn ignores_case(&self) -> bool {
        self.ignores_case
    }

    /// Shows it, with digests under `key`, as the log does.
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
