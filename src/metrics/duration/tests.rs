use super::*;
use crate::metrics::{Exposition, Handles, Metrics};

/// Finds or makes the series of `many` routes, named `/0`, `/1`, and so on.
fn routes(metrics: &Metrics, many: usize) -> (Vec<Arc<str>>, Handles) {
    let names: Vec<Arc<str>> = (0..many).map(|n| format!("/{n}").into()).collect();
    let none: [Arc<str>; 0] = [];
    let handles = metrics.handles(names.iter(), none.iter(), none.iter());
    (names, handles)
}

/// Ranks routes that have had these numbers of requests.
fn rank(durations: &RouteDurations, routes: &[(Arc<str>, RouteMetrics, u64)], now: Instant) {
    let totals = routes.iter().map(|(name, route, requests)| RouteTotal {
        name,
        route,
        requests: *requests,
    });
    durations.rank(&totals.collect::<Vec<_>>(), now);
}

fn give_free_places(durations: &RouteDurations, routes: &[(Arc<str>, RouteMetrics, u64)]) {
    let routes = routes.iter().map(|(name, route, _)| (name, route.clone()));
    durations.give_free_places(&routes.collect::<Vec<_>>());
}

/// Returns the names of routes with a place.
fn held(durations: &RouteDurations) -> Vec<String> {
    let places = durations.places();
    let names = places.holders.iter().flatten().map(|one| &*one.name);
    names.map(str::to_owned).collect()
}

fn made(names: impl Iterator<Item = usize>) -> Vec<(Arc<str>, RouteMetrics, u64)> {
    let route = || RouteMetrics::new(2, OTHERS);
    names
        .map(|n| (format!("/{n}").into(), route(), 0))
        .collect()
}

#[test]
fn ten_thousand_routes_have_as_many_histograms_as_fifty() {
    let histograms = |many| {
        let metrics = Metrics::new(1);
        let (_, handles) = routes(&metrics, many);
        for route in &handles.routes {
            route.answered(metrics.worker(0), http::StatusCode::OK);
            metrics.took(metrics.worker(0), route, Micros(1));
        }
        let page = metrics.render(Exposition::OpenMetrics);
        let counts = page.lines().filter_map(|line| {
            let rest = line.strip_prefix("tollgate_request_duration_seconds_count")?;
            rest.rsplit_once(' ')?.1.parse::<usize>().ok()
        });
        let counts: Vec<_> = counts.collect();
        assert_eq!(counts.iter().sum::<usize>(), many);
        counts.len()
    };
    assert_eq!(histograms(3), 5);
    assert_eq!(histograms(ROUTES_MAX), PLACES);
    assert_eq!(histograms(10_000), PLACES);
}

#[test]
fn the_busiest_routes_take_the_places_of_quiet_ones_at_most_once_a_minute() {
    let durations = RouteDurations::new(2);
    let mut all = made(0..ROUTES_MAX + 3);
    for route in &mut all {
        route.2 = 10;
    }
    give_free_places(&durations, &all);
    let start = crate::clock::monotonic();
    rank(&durations, &all, start);
    assert!(!held(&durations).contains(&format!("/{ROUTES_MAX}")));
    // The first new route just takes the place of `/0`, the second that of `/7`, and the third is not busy enough.
    let [first, second, third] = [0, 1, 2].map(|more| ROUTES_MAX + more);
    for (route, requests) in all.iter_mut().zip(0_u64..) {
        route.2 += 100 + requests;
    }
    all[7].2 = 10;
    all[first].2 = 10 + 201;
    all[second].2 = 10 + 5_000;
    all[third].2 = 10 + 200;
    rank(&durations, &all, start + RANKING_PERIOD.mul_f64(0.99));
    assert!(held(&durations).contains(&"/7".to_owned()), "too early");
    rank(&durations, &all, start + RANKING_PERIOD);
    let now = held(&durations);
    let has = |n: usize| now.contains(&format!("/{n}"));
    assert_eq!(
        [has(7), has(0), has(1), has(first), has(second), has(third)],
        [false, false, true, true, true, false]
    );
    assert_eq!(all[7].1.ranking.place.load(Relaxed), OTHERS);
}

#[test]
fn a_route_that_takes_a_place_begins_at_0_and_the_sum_of_the_others_does_not_fall() {
    let durations = RouteDurations::new(1);
    let worker = WorkerIndex(0);
    let mut all = made(0..=ROUTES_MAX);
    give_free_places(&durations, &all);
    let late = all[ROUTES_MAX].1.clone();
    for (_, route, _) in &all {
        durations.took(worker, route, Micros(600));
    }
    all[ROUTES_MAX].2 = 9;
    rank(&durations, &all, crate::clock::monotonic());
    let place = late.ranking.place.load(Relaxed);
    assert_ne!(place, OTHERS);
    let own = || {
        let sums = durations
            .sums(place)
            .since(&durations.places().before[place]);
        (sums.counts.iter().sum::<u64>(), sums.sum_us)
    };
    let others = || durations.sums(OTHERS).counts.iter().sum::<u64>();
    assert_eq!((own(), others()), ((0, 0), 1));
    durations.took(worker, &late, Micros(40));
    assert_eq!((own(), others()), ((1, 40), 1));
}

#[test]
fn routes_of_a_new_file_get_the_places_that_those_of_the_old_one_leave() {
    let durations = RouteDurations::new(1);
    let (old, new) = (made(0..ROUTES_MAX), made(100..103));
    give_free_places(&durations, &old);
    let now = crate::clock::monotonic();
    rank(&durations, &old, now);
    give_free_places(&durations, &new);
    assert_eq!(held(&durations).len(), ROUTES_MAX);
    drop(old);
    rank(&durations, &new, now);
    assert_eq!(held(&durations), ["/100", "/101", "/102"]);
}
