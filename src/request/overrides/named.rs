//! A client that is named by its values, as the log shows it when it sends requests.

use std::fmt::{self, Display, Write as _};

use smallvec::SmallVec;

use super::super::partition::{Choice, Part, Partition, Value, id_of_values};
use super::super::redacted::{ALL, ClientNames, write_name, write_value};
use super::key::OverrideKey;
use super::pattern::Pattern;
use crate::limit::PartitionId;
use crate::request::ClientPrefixes;

/// A client that a pattern names: one value for each item of its partition.
pub struct NamedClient<'p> {
    partition: &'p Partition,
    values: Vec<(&'p Part, Value<'p>)>,
}

impl<'p> NamedClient<'p> {
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
            let is_plain = matches!(&*self.partition.0, [choice] if choice.0.len() == 1);
            let mut separator = "";
            for (part, value) in &self.values {
                f.write_str(separator)?;
                separator = ", ";
                if !is_plain {
                    write_name(f, part)?;
                    f.write_char('=')?;
                }
                write_value(f, (key, names), part, value, None)?;
            }
            Ok(())
        })
    }
}
