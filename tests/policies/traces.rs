//! Worked traces of the systems that this project grew from: what each request is answered, by hand.

use tollgate::clock::Micros;

use super::stores::on_each_store;
use crate::support::{Client, Config, Running, START, secs};

/// Sends a request at each of those times, in tenths of a second after the start, and returns the statuses.
fn at_tenths(running: &Running, tenths: &[u64]) -> Vec<u16> {
    let mut client = Client::connect(running.public);
    let ask = |tenth: &u64| {
        go_to(running, Micros(tenth * 100_000));
        client.get("/", "").status
    };
    tenths.iter().map(ask).collect()
}

/// Moves the clock to that time after the start.
fn go_to(running: &Running, after: Micros) {
    let passed = running.clock.now().since(START);
    running.clock.advance(Micros(after.0 - passed.0));
}

/// Sends `count` requests at once, and returns how many were admitted.
fn admitted(running: &Running, count: usize) -> usize {
    let mut client = Client::connect(running.public);
    let admitted = (0..count).filter(|_| client.get("/", "").status == 200);
    admitted.count()
}

/// The number of requests that are admitted in each minute, of `count` that come evenly.
///
/// Not in each second: keys of Redis expire by real time, a second after their window, and the requests of a window
/// may take longer than that.
fn per_minute(running: &Running, minutes: u64, count: u64) -> Vec<usize> {
    let mut client = Client::connect(running.public);
    let mut minute = |minute| {
        let mut is_admitted = |number: &u64| {
            let at = (minute * count + number) * secs(60).0 / count;
            go_to(running, Micros(at));
            client.get("/", "").status == 200
        };
        (0..count).filter(&mut is_admitted).count()
    };
    (0..minutes).map(&mut minute).collect()
}

fn limited(policy: &str) -> Config {
    Config::limited("builtin:status/200", policy)
}

#[test]
fn of_700_a_minute_500_pass_each_minute() {
    for algorithm in ["fixed-window", "sliding-log"] {
        on_each_store(|start| {
            let policy = format!("quota = '500 per minute'\nalgorithm = '{algorithm}'");
            let running = start(limited(&policy));
            assert_eq!(per_minute(&running, 5, 700), [500; 5], "{algorithm}");
        });
    }
}

#[test]
fn a_log_that_counts_refused_requests_keeps_refusing_who_hammers() {
    on_each_store(|start| {
        let policy = "quota = '500 per minute'\nalgorithm = 'sliding-log'\ncount = 'all'";
        let running = start(limited(policy));
        assert_eq!(per_minute(&running, 5, 700), [500, 0, 0, 0, 0]);
    });
}

#[test]
fn five_per_six_seconds_with_refused_requests_counted() {
    on_each_store(|start| {
        let policy = "quota = '5 per 6s'\nalgorithm = 'sliding-log'\ncount = 'all'";
        let running = start(limited(policy));
        let times = [0, 5, 30, 50, 62, 85, 88, 105, 109, 115, 146];
        let mut expected = [200; 11];
        expected[8..10].fill(429);
        assert_eq!(at_tenths(&running, &times), expected);
    });
}

#[test]
fn ten_per_five_seconds_admits_ten_of_fifteen() {
    on_each_store(|start| {
        let running = start(limited("quota = '10 per 5s'\nalgorithm = 'sliding-log'"));
        let times: Vec<u64> = (0..15).collect();
        let expected = [[200; 10].as_slice(), &[429; 5]].concat();
        assert_eq!(at_tenths(&running, &times), expected);
    });
}

#[test]
fn the_window_of_two_counters_weighs_what_leaves() {
    on_each_store(|start| {
        let running = start(limited("quota = '50 per 6s'\nbuckets = 1"));
        go_to(&running, Micros(1_000_000));
        assert_eq!(admitted(&running, 40), 40);
        go_to(&running, Micros(9_500_000));
        assert_eq!(admitted(&running, 25), 25);
        go_to(&running, Micros(10_400_000));
        let mut client = Client::connect(running.public);
        let statuses: Vec<u16> = (0..15).map(|_| client.get("/", "").status).collect();
        assert_eq!(statuses, [200; 15]);
        let refused = client.get("/", "");
        assert_eq!(
            (refused.status, refused.field("retry-after")),
            (429, Some("1"))
        );
    });
}

#[test]
fn three_windows_together_admit_what_all_have_room_for() {
    let windows = ["2 per minute", "6 per 4m", "8 per hour"];
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for algorithm in ["fixed-window", "sliding-log"] {
        for order in orders {
            on_each_store(|start| {
                let quota = order.map(|window| windows[window]);
                let policy = format!("quota = {quota:?}\nalgorithm = '{algorithm}'");
                let running = start(limited(&policy));
                let minutes = per_minute(&running, 8, 5);
                assert_eq!(minutes, [2, 2, 2, 0, 2, 0, 0, 0], "{algorithm} {quota:?}");
            });
        }
    }
}
