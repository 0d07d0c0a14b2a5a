//! Key names: `prefix:{tag}:` and the series, which ends with the policy's name.
//!
//! A name consists of texts from the file and the hash tag, which is the partition id, a digest. All
//! keys of a partition have the same hash tag, so a Cluster keeps them in one slot.

use std::fmt::Write as _;
use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::limit::plan::SeriesId;
use crate::limit::{Align, OldestBucket, PartitionId};
use crate::store::series::{Series, SeriesRole, Shape};

/// Renders the keys of a store. All workers share it.
#[derive(Debug)]
pub struct KeyNames {
    /// The prefix with the colon and the brace that follow it in a key.
    prefix: Box<str>,
    /// What follows the hash tag, by series; empty for an id without a known series.
    series: ArcSwap<Vec<Arc<str>>>,
}

impl KeyNames {
    /// Makes key names that begin with `prefix`; no series is known yet.
    pub fn new(prefix: &str) -> Self {
        Self {
            prefix: format!("{prefix}:{{").into(),
            series: ArcSwap::default(),
        }
    }

    /// Notes the name that the keys of a series have.
    pub fn note(&self, series_id: SeriesId, series: &Series) {
        let index = series_id.0 as usize;
        let name: Arc<str> = name(series).into();
        self.series.rcu(|known| {
            let mut known = known.to_vec();
            if known.len() <= index {
                known.resize_with(index + 1, || Arc::from(""));
            }
            known[index] = Arc::clone(&name);
            known
        });
    }

    /// Renders the key of one partition's state in a series that was noted.
    pub fn key(&self, series_id: SeriesId, partition_id: PartitionId) -> Box<[u8]> {
        let series = self.series.load();
        let name = series.get(series_id.0 as usize).map_or("", |name| name);
        debug_assert!(
            !name.is_empty(),
            "a series id is noted before it is asked for"
        );
        let mut key = Vec::with_capacity(self.prefix.len() + TAG_CHARS + name.len());
        key.extend_from_slice(self.prefix.as_bytes());
        key.extend_from_slice(&Self::tag(partition_id));
        key.extend_from_slice(name.as_bytes());
        key.into_boxed_slice()
    }

    /// Renders the hash tag of a partition's keys, which alone determines their slot: the 128 bits of the
    /// partition id in base64url, highest first.
    pub fn tag(partition_id: PartitionId) -> [u8; TAG_CHARS] {
        let mut chars = [0; TAG_CHARS];
        (URL_SAFE_NO_PAD.encode_slice(partition_id.bits().to_be_bytes(), &mut chars))
            .expect("sixteen bytes take as many characters");
        chars
    }

    /// Renders the key under which the nodes of a fleet announce themselves.
    pub fn nodes(&self) -> Box<[u8]> {
        format!("{}nodes}}", self.prefix).into_bytes().into()
    }

    /// Renders the key under which the fleet keeps directives, in the same slot as the nodes.
    pub fn directives(&self) -> Box<[u8]> {
        (format!("{}nodes}}:directives{LAYOUT}", self.prefix).into_bytes()).into()
    }
}

/// Renders what follows the hash tag: role and version of the value, algorithm and shape, window, policy.
fn name(series: &Series) -> String {
    let role = match series.role {
        SeriesRole::Real => 'r',
        SeriesRole::Candidate => 'c',
    };
    let mut name = format!("}}:{role}{LAYOUT}:");
    if let Shape::FixedWindow { align } | Shape::SlidingWindow { align, .. } = series.shape {
        name.push_str(match align {
            Align::Epoch => "",
            Align::Spread => "spread-",
            Align::First => "first-",
        });
    }
    let written = match &series.shape {
        Shape::FixedWindow { .. } => write!(name, "fixed"),
        Shape::SlidingWindow {
            buckets, oldest, ..
        } => {
            let oldest = match oldest {
                OldestBucket::Weighted => "weighted",
                OldestBucket::Whole => "whole",
                OldestBucket::Dropped => "dropped",
            };
            write!(name, "{oldest}{buckets}")
        }
        Shape::Calendar(shape) => {
            let unit = shape.unit.name();
            let (zone, day, minute) = (&shape.time_zone, shape.anchor_day, shape.anchor_minute);
            let own = if shape.is_own { ".own" } else { "" };
            write!(name, "{unit}.{zone}.{day}.{minute}{own}")
        }
        Shape::SlidingLog => write!(name, "log2"),
        Shape::Gcra => write!(name, "gcra"),
        Shape::LeakyBucket => write!(name, "leaky"),
        Shape::Credits => write!(name, "credits"),
        Shape::Penalty => write!(name, "penalty"),
        Shape::InFlight => write!(name, "flight"),
    };
    written.expect("a string takes all");
    write!(name, ":{}:{}", series.window.0, series.policy).expect("a string takes all");
    name
}

/// Characters of a hash tag.
pub const TAG_CHARS: usize = 22;
/// The version of the values' layout: gateways of another version must not read them.
const LAYOUT: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Micros;

    #[test]
    fn key_has_the_tag_in_braces_and_the_policy_last() {
        let names = KeyNames::new("tollgate");
        let series = |shape| Series {
            policy: Arc::from("per-client"),
            role: SeriesRole::Real,
            shape,
            window: Micros(60_000_000),
        };
        let sliding = Shape::SlidingWindow {
            buckets: 10,
            oldest: OldestBucket::Weighted,
            align: Align::Epoch,
        };
        names.note(SeriesId(1), &series(sliding));
        names.note(SeriesId(0), &series(Shape::SlidingLog));
        let bits = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10;
        assert_eq!(
            [SeriesId(0), SeriesId(1)]
                .map(|series_id| names.key(series_id, PartitionId::new(bits))),
            [*b"tollgate:{AQIDBAUGBwgJCgsMDQ4PEA}:r1:log2:60000000:per-client",]
                .iter()
                .map(|key| Box::from(&key[..]))
                .chain([Box::from(
                    &b"tollgate:{AQIDBAUGBwgJCgsMDQ4PEA}:r1:weighted10:60000000:per-client"[..]
                )])
                .collect::<Vec<Box<[u8]>>>()[..]
        );
        assert_eq!(&*names.nodes(), b"tollgate:{nodes}");
    }
}
