//! What the store says about itself, as text: what it holds, and how its servers answer.

use std::fmt::Error;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::text::{count, counter, counters, gauge, gauges, histogram};
use super::{BreakerState, ROUND_TRIP_BOUNDS_US, RedisUsage, Usage};

/// Renders what the store says about itself.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, usage: &Usage) -> Result<(), Error> {
    let help = "Partitions with live state in memory.";
    gauge(encoder, "store_partitions", help, usage.partitions)?;
    let help = "Bytes the memory store holds.";
    gauge(encoder, "store_bytes", help, usage.bytes)?;
    let help = "1 if new clients find the memory store full, or found it full a few seconds ago.";
    gauge(encoder, "store_full", help, usage.is_full.into())?;
    let help = "Checks that found the memory store full.";
    counter(encoder, "store_overflowed", help, usage.overflowed)?;
    let help = "Charges recorded less exactly because the memory store was full.";
    counter(encoder, "store_coarsened", help, usage.coarsened)?;
    match &usage.redis {
        Some(redis) => encode_redis(encoder, redis),
        None => Ok(()),
    }
}

fn encode_redis(encoder: &mut DescriptorEncoder<'_>, redis: &RedisUsage) -> Result<(), Error> {
    let help = "Plans, or parts of plans, by result: answered by the store, decided by a \
                remembered refusal, paid with units held ahead, decided by this gateway's own counts, or undecided because the store was late, failed, could not be reached, or was not asked.";
    let mut family = counters(encoder, "store_decisions", help)?;
    for (result, value) in [
        ("answered", redis.answered),
        ("remembered", redis.remembered),
        ("leased", redis.leased),
        ("synced", redis.synced),
        ("late", redis.late),
        ("failed", redis.failed),
        ("unsent", redis.unsent),
        ("unasked", redis.unasked),
    ] {
        count(&mut family, &[("result", result)], value)?;
    }
    let help = "Calls for which a server of the store had no memory.";
    counter(encoder, "store_out_of_memory", help, redis.out_of_memory)?;
    let help = "Charges that could not be corrected in time.";
    counter(
        encoder,
        "settlements_dropped",
        help,
        redis.settlements_dropped,
    )?;
    let help = "Refusals remembered now.";
    gauge(encoder, "store_refusals", help, redis.refusals_remembered)?;
    let help = "Units of leased quotas that this gateway holds ahead now.";
    gauge(encoder, "store_leased_units", help, redis.units_leased)?;
    let help = "Synced quotas of clients that this gateway counts by itself now.";
    gauge(
        encoder,
        "store_followed_quotas",
        help,
        redis.quotas_followed as u64,
    )?;
    let help = "Open connections to the store's servers.";
    gauge(encoder, "store_connections", help, redis.connections)?;
    let help = "Gateways that share the store, as last seen.";
    gauge(encoder, "store_nodes", help, redis.nodes.into())?;
    encode_servers(encoder, redis)?;
    encode_round_trips(encoder, redis)
}

fn encode_servers(encoder: &mut DescriptorEncoder<'_>, redis: &RedisUsage) -> Result<(), Error> {
    let help = "The circuit breaker of each server: 1 for its current state.";
    let mut family = gauges(encoder, "store_breaker", help)?;
    for server in &redis.servers {
        for one in BreakerState::ALL {
            let labels = [("server", &*server.name), ("state", one.word())];
            let value = u64::from(one == server.breaker);
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
    }
    let help = "Among how many gateways each quota is divided now: 1 while the server decides.";
    let mut family = gauges(encoder, "store_share_divisor", help)?;
    for server in &redis.servers {
        let divisor = match server.breaker {
            BreakerState::Closed => 1,
            BreakerState::Open | BreakerState::HalfOpen => redis.share_nodes,
        };
        let labels = [("server", &*server.name)];
        family.encode_family(&labels)?.encode_gauge(&divisor)?;
    }
    let help = "1 if two round trips to a server take longer than `timeout`.";
    let mut family = gauges(encoder, "store_timeout_short", help)?;
    for server in &redis.servers {
        let labels = [("server", &*server.name)];
        let value = u64::from(server.is_far);
        family.encode_family(&labels)?.encode_gauge(&value)?;
    }
    let help = "1 if a server may evict any key, so that no credits are decided there.";
    let mut family = gauges(encoder, "store_evicts_credits", help)?;
    for server in &redis.servers {
        let labels = [("server", &*server.name)];
        let value = u64::from(server.evicts_all);
        family.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

fn encode_round_trips(
    encoder: &mut DescriptorEncoder<'_>,
    redis: &RedisUsage,
) -> Result<(), Error> {
    let help = "Time the store took to reply, in seconds, including time in the queue.";
    let name = "store_round_trip_seconds";
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    let counts = &redis.round_trips;
    histogram(
        &mut metric,
        &ROUND_TRIP_BOUNDS_US,
        counts,
        redis.round_trips_us,
    )
}
