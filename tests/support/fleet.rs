//! Several gateway processes that run with the same file, and policies written from quotas.

use std::net::SocketAddr;

use tollgate::limit::{Algorithm, Count, OldestBucket, Quota};

use super::{Config, Process};

/// Request field that names the client to the policies in this module.
pub const CLIENT: &str = "X-Api-Key";

/// Gateways that share a store.
#[derive(Debug)]
pub struct Fleet {
    pub gateways: Vec<Process>,
}

impl Fleet {
    /// Starts `count` gateways with a route `/N` for the N-th quota, counted from 0, and these `[store]` lines.
    #[track_caller]
    pub fn start(count: usize, quotas: &[Quota], policy: &str, store: &str) -> Self {
        Self::of(count, &config(quotas, policy, store))
    }

    /// Starts `count` gateways with the same file.
    #[track_caller]
    pub fn of(count: usize, config: &Config) -> Self {
        let gateways = (0..count).map(|_| Process::start(config));
        Self {
            gateways: gateways.collect(),
        }
    }

    /// Returns the public addresses of the gateways.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.gateways.iter().map(|gateway| gateway.public).collect()
    }
}

/// Returns every algorithm, with every shape that it has.
pub fn algorithms(limit: u64) -> Vec<Algorithm> {
    let sliding = |buckets, oldest| Algorithm::SlidingWindow { buckets, oldest };
    vec![
        Algorithm::FixedWindow,
        sliding(10, OldestBucket::Weighted),
        sliding(1, OldestBucket::Weighted),
        sliding(5, OldestBucket::Whole),
        sliding(5, OldestBucket::Dropped),
        Algorithm::SlidingLog,
        Algorithm::Gcra { burst: limit },
        Algorithm::LeakyBucket { queue: limit - 1 },
    ]
}

/// Returns a file with a route `/N` for the N-th quota, counted from 0; each policy also has the lines `policy`.
pub fn config(quotas: &[Quota], policy: &str, store: &str) -> Config {
    let mut config = Config::to("builtin:echo").with(&format!(
        "[log]\naccess = 'off'\nformat = 'json'\n[store]\n{store}"
    ));
    for (index, quota) in quotas.iter().enumerate() {
        let lines = format!("{}\n{policy}", lines(quota));
        config = config
            .policy(&format!("p{index}"), &lines)
            .route(&format!("/{index}"), &format!("policies = ['p{index}']"));
    }
    config
}

/// Returns the lines of a policy with that quota, which counts each client ([`CLIENT`]) separately.
pub fn lines(quota: &Quota) -> String {
    let algorithm = match quota.algorithm {
        Algorithm::FixedWindow => "'fixed-window'".to_owned(),
        Algorithm::SlidingWindow { buckets, oldest } => {
            let oldest = match oldest {
                OldestBucket::Weighted => "weighted",
                OldestBucket::Whole => "whole",
                OldestBucket::Dropped => "dropped",
            };
            format!("'sliding-window'\nbuckets = {buckets}\noldest_bucket = '{oldest}'")
        }
        Algorithm::SlidingLog => "'sliding-log'".to_owned(),
        Algorithm::Calendar(_)
        | Algorithm::Credits { .. }
        | Algorithm::InFlight
        | Algorithm::Penalty { .. } => {
            unreachable!("no fleet has such quotas")
        }
        Algorithm::Gcra { burst } => format!("'gcra'\nburst = {burst}"),
        Algorithm::LeakyBucket { queue } => format!("'leaky-bucket'\nqueue = {queue}"),
    };
    let count = match quota.count {
        Count::Admitted => "",
        Count::All => "count = 'all'\n",
    };
    let milliseconds = quota.window.0 / 1_000;
    format!(
        "quota = '{} per {milliseconds}ms'\nalgorithm = {algorithm}\n{count}\
         partition = ['header:{CLIENT}']",
        quota.limit
    )
}
