use super::*;

fn quota(buckets: u32, oldest: OldestBucket) -> Quota {
    Quota::of(
        Algorithm::SlidingWindow { buckets, oldest },
        10,
        Micros(1_000_000),
    )
}

fn buckets(window: &SlidingWindow) -> Vec<(u64, u64)> {
    window.buckets().collect()
}

fn charged_at(quota: &Quota, times_us: &[u64]) -> SlidingWindow {
    let mut window = SlidingWindow::default();
    for &at_us in times_us {
        let at = window.arrive(quota, Timestamp(at_us));
        window.charge(quota, 1, at);
    }
    window
}

#[test]
fn two_requests_far_apart_hold_no_heap() {
    let window = charged_at(&quota(100, OldestBucket::Weighted), &[7, 990_000]);
    assert_eq!((window.heap_bytes(), size_of::<SlidingWindow>()), (0, 32));
    assert_eq!(buckets(&window), [(0, 1), (99, 1)]);
}

#[test]
fn index_survives_the_wrap_of_its_low_bits() {
    let quota = quota(100, OldestBucket::Whole);
    let window = charged_at(&quota, &[20_470_000, 20_480_000, 21_470_000]);
    assert_eq!(buckets(&window), [(2047, 1), (2048, 1), (2147, 1)]);
}

#[test]
fn bucket_saturates_without_touching_its_index() {
    let quota = quota(10, OldestBucket::Weighted);
    let mut window = charged_at(&quota, &[900_000]);
    window.spend(&quota, u64::MAX, Timestamp(900_000));
    window.spend(&quota, u64::MAX, Timestamp(900_000));
    assert_eq!(buckets(&window), [(9, COUNT_MAX)]);
}

#[test]
fn release_of_the_newest_bucket_lets_time_run_again() {
    let quota = quota(10, OldestBucket::Weighted);
    let mut window = charged_at(&quota, &[100_000, 800_000]);
    let charged = Charged::plain(Timestamp(800_000), 1);
    window.release(&quota, charged, 1, Timestamp(800_000));
    assert_eq!(buckets(&window), [(1, 1)]);
    assert_eq!(
        window.arrive(&quota, Timestamp(300_000)),
        Timestamp(300_000)
    );
}

#[test]
fn buckets_from_far_ahead_are_gathered_and_not_given_back() {
    let quota = quota(10, OldestBucket::Weighted);
    let mut window = charged_at(&quota, &[8_000_000, 8_300_000]);
    let at = window.arrive(&quota, Timestamp(1_234_567));
    let charged = Charged::plain(Timestamp(8_300_000), 1);
    window.release(&quota, charged, 1, at);
    assert_eq!(at, Timestamp(1_234_567));
    assert_eq!(buckets(&window), [(12, 2)]);
}
