//! Remembers a partition id that a connection's next request probably has too.

use std::net::IpAddr;

use super::{Choice, Facts, Identified, Missing, Part, Partition, partition_id};
use crate::limit::PartitionId;
use crate::request::ClientPrefixes;

/// The latest partition id on a connection that was made from the client's address alone: most
/// requests of a connection have the same one.
#[derive(Debug, Default)]
pub struct LatestPartition(Option<([u8; 32], IpAddr, ClientPrefixes, PartitionId)>);

impl LatestPartition {
    /// Does what [`partition_id`] does, but does not compute a digest again that it remembers.
    pub fn partition_id(
        &mut self,
        key: &[u8; 32],
        partition: &Partition,
        missing: Missing,
        facts: &Facts<'_>,
    ) -> Identified {
        if !matches!(&*partition.0, [Choice(parts)] if **parts == [Part::Ip]) {
            return partition_id(key, partition, missing, facts);
        }
        let (Some(client), prefixes) = (facts.client, facts.prefixes) else {
            // Without an address, the result depends on the policy's `missing`.
            return partition_id(key, partition, missing, facts);
        };
        if let Some((of_key, address, of, partition_id)) = &self.0
            && (of_key, *address, *of) == (key, client, prefixes)
        {
            return Identified::PartitionId(*partition_id);
        }
        let identified = partition_id(key, partition, missing, facts);
        if let Identified::PartitionId(partition_id) = identified {
            self.0 = Some((*key, client, prefixes, partition_id));
        }
        identified
    }
}
