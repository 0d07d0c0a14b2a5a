//! How long requests take, by route, in constant memory: a histogram for each of the busiest routes, one for requests
//! that no route took, and one for all other routes.
//!
//! A route knows its place among the histograms, and a request is counted at that place. At most once a minute, while
//! metrics are rendered anyway, a route that has become much busier than one with a place takes its place over: the old
//! series ends, and a new one begins at 0. Counters never decrease, so what a place counted for its earlier routes is
//! remembered and subtracted.

use std::fmt::Error;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::route::{OTHERS, PLACES, ROUTES_MAX, RouteMetrics, RouteRanking, UNROUTED};
use super::shard::{Sharded, WorkerIndex, add};
use super::text::{BOUNDS_US, BUCKETS, histogram};
use crate::clock::Micros;

/// The histograms, and which routes have one.
#[derive(Debug)]
pub(super) struct RouteDurations {
    shards: Sharded<DurationShard>,
    places: Mutex<PlaceTable>,
}

/// A worker's counters, by place.
#[derive(Debug)]
struct DurationShard(Box<[DurationCounters]>);

/// Requests by how long they took: up to each of [`BOUNDS_US`], and longer. Only their worker writes them.
#[derive(Debug, Default)]
struct DurationCounters {
    counts: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

#[derive(Debug)]
struct PlaceTable {
    /// The route that has each place, if any.
    holders: Vec<Option<PlaceHolder>>,
    /// What each place had counted when its route took it.
    before: Vec<DurationSums>,
    ranked: Option<Instant>,
}

/// A route that has a place.
#[derive(Debug)]
struct PlaceHolder {
    name: Arc<str>,
    ranking: Weak<RouteRanking>,
}

/// Sums of the counters of all workers.
#[derive(Clone, Copy, Debug, Default)]
struct DurationSums {
    counts: [u64; BUCKETS],
    sum_us: u64,
}

/// A route and how many requests it has had.
pub(super) struct RouteTotal<'r> {
    pub(super) name: &'r Arc<str>,
    pub(super) route: &'r RouteMetrics,
    pub(super) requests: u64,
}

/// Least time between two rankings.
const RANKING_PERIOD: Duration = Duration::from_mins(1);

/// A route takes another's place only if it had more than this many times as many requests.
const BUSIER_TIMES: u64 = 2;

impl RouteDurations {
    pub(super) fn new(shards: usize) -> Self {
        Self {
            shards: Sharded::new(shards),
            places: Mutex::new(PlaceTable {
                holders: (0..ROUTES_MAX).map(|_| None).collect(),
                before: vec![DurationSums::default(); ROUTES_MAX],
                ranked: None,
            }),
        }
    }

    /// Counts a request of a route by how long it took.
    pub(super) fn took(&self, worker: WorkerIndex, route: &RouteMetrics, took: Micros) {
        let place = route.ranking.place.load(Relaxed);
        let counters = &self.shards.of(worker).0[place];
        add(
            &counters.counts[BOUNDS_US.partition_point(|bound_us| *bound_us < took.0)],
            1,
        );
        add(&counters.sum_us, took.0);
    }

    /// Gives free places to those of these routes that have none, in their order, as long as there are any.
    pub(super) fn give_free_places(&self, routes: &[(&Arc<str>, RouteMetrics)]) {
        let mut places = self.places();
        let without =
            (routes.iter()).filter(|(_, route)| route.ranking.place.load(Relaxed) == OTHERS);
        for (place, (name, route)) in places.free().into_iter().zip(without) {
            self.place(&mut places, place, name, route);
        }
    }

    /// Gives places to the routes that had the most requests since the latest ranking. If there are more routes than
    /// places, it does so at most once in a [`RANKING_PERIOD`].
    pub(super) fn rank(&self, routes: &[RouteTotal<'_>], now: Instant) {
        let mut places = self.places();
        let is_early =
            (places.ranked).is_some_and(|ranked| now.duration_since(ranked) < RANKING_PERIOD);
        // If there are places for all routes, they get those of an earlier file's routes as soon as these are free.
        if is_early && routes.len() > ROUTES_MAX {
            return;
        }
        places.ranked = Some(now);
        let (mut held, mut waiting) = (Vec::new(), Vec::new());
        for one in routes {
            let before = one
                .route
                .ranking
                .ranked_requests
                .swap(one.requests, Relaxed);
            let recent = one.requests.saturating_sub(before);
            match one.route.ranking.place.load(Relaxed) {
                OTHERS => waiting.push((recent, one)),
                _ => held.push((recent, one)),
            }
        }
        waiting.sort_by_key(|(recent, _)| std::cmp::Reverse(*recent));
        held.sort_by_key(|(recent, _)| *recent);
        let mut waiting = waiting.into_iter();
        let free = places.free();
        for (place, (_, busy)) in free.iter().zip(waiting.by_ref()) {
            self.place(&mut places, *place, busy.name, busy.route);
        }
        for ((recent, quiet), (busy_recent, busy)) in held.into_iter().zip(waiting) {
            if busy_recent <= recent * BUSIER_TIMES {
                return;
            }
            let place = quiet.route.ranking.place.swap(OTHERS, Relaxed);
            self.place(&mut places, place, busy.name, busy.route);
        }
    }

    /// Renders a histogram for each route that has a place, one for the other routes, and one, with the label
    /// `unrouted`, for requests without a route.
    pub(super) fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        unrouted: &str,
    ) -> Result<(), Error> {
        let help = "Time from the end of a request's head to the end of its response, by route, in seconds.";
        let name = "request_duration_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        let places = self.places();
        let own = places.holders.iter().zip(&places.before).enumerate();
        let own = own.filter_map(|(place, (holder, before))| {
            let name = &*holder.as_ref()?.name;
            Some((name, self.sums(place).since(before)))
        });
        let common = [
            (OTHERS_LABEL, self.sums(OTHERS)),
            (unrouted, self.sums(UNROUTED)),
        ];
        for (name, sums) in own.chain(common) {
            let labels = [("route", name)];
            let mut metric = family.encode_family(&labels)?;
            histogram(&mut metric, &BOUNDS_US, &sums.counts, sums.sum_us)?;
        }
        Ok(())
    }

    /// Gives a place to a route.
    fn place(&self, places: &mut PlaceTable, place: usize, name: &Arc<str>, route: &RouteMetrics) {
        // A request that is being counted for the earlier route at this moment may be counted for the new one.
        places.before[place] = self.sums(place);
        places.holders[place] = Some(PlaceHolder {
            name: Arc::clone(name),
            ranking: Arc::downgrade(&route.ranking),
        });
        route.ranking.place.store(place, Relaxed);
    }

    fn sums(&self, place: usize) -> DurationSums {
        let sum = |counter: &dyn Fn(&DurationCounters) -> &AtomicU64| {
            self.shards.sum(|shard| counter(&shard.0[place]))
        };
        DurationSums {
            counts: std::array::from_fn(|bucket| sum(&|counters| &counters.counts[bucket])),
            sum_us: sum(&|counters| &counters.sum_us),
        }
    }

    fn places(&self) -> MutexGuard<'_, PlaceTable> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        for holder in &mut places.holders {
            holder.take_if(|holder| holder.ranking.strong_count() == 0);
        }
        places
    }
}

impl PlaceTable {
    fn free(&self) -> Vec<usize> {
        let places = self.holders.iter().enumerate();
        let free = places.filter_map(|(place, holder)| holder.is_none().then_some(place));
        free.collect()
    }
}

impl DurationSums {
    fn since(&self, before: &Self) -> Self {
        Self {
            counts: std::array::from_fn(|bucket| self.counts[bucket] - before.counts[bucket]),
            sum_us: self.sum_us - before.sum_us,
        }
    }
}

impl Default for DurationShard {
    fn default() -> Self {
        Self((0..PLACES).map(|_| DurationCounters::default()).collect())
    }
}

/// Label of routes without a place; no route has this name.
const OTHERS_LABEL: &str = "other";

#[cfg(test)]
mod tests;
