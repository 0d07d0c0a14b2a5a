//! How counters, gauges and histograms are written as OpenMetrics text.

use std::fmt::Error;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

pub(super) fn counters<'e>(
    encoder: &'e mut DescriptorEncoder<'_>,
    name: &'e str,
    help: &str,
) -> Result<MetricEncoder<'e>, Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Counter)
}

pub(super) fn gauges<'e>(
    encoder: &'e mut DescriptorEncoder<'_>,
    name: &'e str,
    help: &str,
) -> Result<MetricEncoder<'e>, Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)
}

pub(super) fn count<const N: usize>(
    family: &mut MetricEncoder<'_>,
    labels: &[(&str, &str); N],
    value: u64,
) -> Result<(), Error> {
    let mut series = family.encode_family(labels)?;
    series.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

pub(super) fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> Result<(), Error> {
    counters(encoder, name, help)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

pub(super) fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> Result<(), Error> {
    gauges(encoder, name, help)?.encode_gauge(&value)
}

/// Renders a histogram from the number of observations in each bucket, which are not cumulative.
pub(super) fn histogram(
    metric: &mut MetricEncoder<'_>,
    bounds_us: &[u64],
    counts: &[u64],
    sum_us: u64,
) -> Result<(), Error> {
    const US_PER_S: f64 = 1e6;
    #[expect(
        clippy::cast_precision_loss,
        reason = "bounds are small, a sum need not be exact"
    )]
    let seconds = |us: u64| us as f64 / US_PER_S;
    let bounds = bounds_us.iter().map(|us| seconds(*us));
    let buckets: Vec<(f64, u64)> = bounds
        .chain([f64::INFINITY])
        .zip(counts.iter().copied())
        .collect();
    metric.encode_histogram::<NoLabelSet>(seconds(sum_us), counts.iter().sum(), &buckets, None)
}

/// Upper bounds of the buckets in which times of requests and responses are counted, in microseconds.
pub(super) const BOUNDS_US: [u64; 15] = [
    500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    2_000_000, 5_000_000, 10_000_000, 30_000_000,
];

/// Number of buckets: one for each bound, and one for longer times.
pub(super) const BUCKETS: usize = BOUNDS_US.len() + 1;
