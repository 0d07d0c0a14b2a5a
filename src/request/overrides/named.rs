//! A client that is named by its values, as the log shows it when it sends requests.

use std::fmt::{self, Display};

use smallvec::SmallVec;

use super::super::partition::{Choice, Facts, Part, Partition, Value, first_present, id_of_values};
use super::super::redacted::{ALL, ClientNames, write_items, write_value};
use super::key::OverrideKey;
use super::pattern::Pattern;
use crate::limit::PartitionId;
use crate::request::ClientPrefixes;

/// A client that a pattern names: one value for each item of its partition.
pub struct NamedClient<'p> {
    partition: &'p Partition,
    values: Vec<(&'p Part, Value<'p>)>,
}

/// The values that a client's request had for the items of a partition, kept beyond the request.
#[derive(Clone, Default)]
pub struct ClientValues(Box<[ClientValue]>);

#[derive(Clone)]
struct ClientValue {
    /// Which of the item's alternatives it is of.
    alternative: usize,
    value: Value<'static>,
}

impl ClientValues {
    /// Keeps the values of a request; none if it lacks one, or if they take more than `len_max` bytes.
    pub fn of(partition: &Partition, facts: &Facts<'_>, len_max: usize) -> Option<Self> {
        let mut len = 0;
        let kept = partition.0.iter().map(|choice| {
            let (part, value) = first_present(choice, facts)?;
            let alternative = choice.0.iter().position(|one| std::ptr::eq(one, part))?;
            len += value.len();
            (len <= len_max).then(|| ClientValue {
                alternative,
                value: value.into_owned(),
            })
        });
        kept.collect::<Option<_>>().map(Self)
    }
}

/// Values may be clients' keys.
impl fmt::Debug for ClientValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientValues({})", self.0.len())
    }
}

impl<'p> NamedClient<'p> {
    /// Finds the client that has these values; none if they are of a partition of another shape.
    pub fn with_values(partition: &'p Partition, values: &ClientValues) -> Option<Self> {
        if partition.0.len() != values.0.len() {
            return None;
        }
        let kept = partition.0.iter().zip(&values.0);
        let values = kept.map(|(choice, kept)| {
            let part = choice.0.get(kept.alternative)?;
            Some((part, kept.value.clone()))
        });
        let values = values.collect::<Option<_>>()?;
        Some(Self { partition, values })
    }

    /// Finds the client that `pattern` names, where these prefixes identify one; none
    /// if it matches several.
    pub fn of(
        partition: &'p Partition,
        pattern: &'p Pattern,
        prefixes: ClientPrefixes,
    ) -> Option<Self> {
        let values = partition.0.iter().zip(pattern).map(|(choice, said)| {
            let said = said.as_ref()?;
            let part = &choice.0[said.alternative as usize];
            Some((part, said.value(prefixes)?))
        });
        let values = values.collect::<Option<_>>()?;
        Some(Self { partition, values })
    }

    /// Returns the partition id that its requests have under `key`.
    pub fn partition_id(&self, key: &[u8; 32]) -> PartitionId {
        let values = self.values.iter().map(|(part, value)| (*part, value));
        id_of_values(key, values)
    }

    /// Returns its values as patterns are asked for them.
    pub(super) fn override_keys(
        &self,
        override_key: impl Fn(u32, &Part, Value<'p>) -> OverrideKey<'p>,
    ) -> SmallVec<[OverrideKey<'p>; 2]> {
        let items = self.partition.0.iter().zip(&self.values);
        let key = |(choice, (part, value)): (&Choice, &(&Part, Value<'p>))| {
            let mut alternatives = (0..).zip(&choice.0);
            let found = alternatives.find(|(_, one)| std::ptr::eq(*one, *part));
            let (alternative, _) = found.expect("its part is one of the choice");
            override_key(alternative, part, value.clone())
        };
        items.map(key).collect()
    }

    /// Shows it, with digests under `key`, as the log does.
    pub fn redacted(&self, key: &[u8; 32], names: ClientNames) -> impl Display {
        fmt::from_fn(move |f| {
            if self.values.is_empty() {
                return f.write_str(ALL);
            }
            let items = self.values.iter().map(|(part, value)| (*part, value));
            write_items(f, self.partition, items, |f, part, value| {
                write_value(f, (key, names), part, value, None)
            })
        })
    }
}
