//! Endpoints that fail several times in a row are left out for a while; statuses do not count, and one endpoint stays.

use std::net::SocketAddr;

use tollgate::clock::Micros;

use crate::support::{
    Client, Config, Manner, Origin, Replica, Stepped, balanced, eventually, secs, start,
};

/// Ejects after three failures in a row. Nothing is retried, so that each failure is seen, and no connection is kept,
/// because an origin may end it.
const EJECT: &str = "retries = 0\npool = { max_idle = 0 }\neject = { failures = 3, for = '1s' }";

/// Sends requests one after the other over connections to all workers, and returns the statuses.
fn statuses(address: SocketAddr, requests: usize) -> Vec<u16> {
    let mut clients: Vec<_> = (0..4).map(|_| Client::connect(address)).collect();
    let answers = (0..requests).map(|index| clients[index % 4].get("/", ""));
    answers.map(|answer| answer.status).collect()
}

/// Returns how many of 40 requests fail.
fn failures(address: SocketAddr) -> usize {
    let statuses = statuses(address, 40);
    assert!(
        statuses.iter().all(|status| [200, 502].contains(status)),
        "{statuses:?}"
    );
    statuses.iter().filter(|status| **status == 502).count()
}

/// Returns how many requests fail until the replica is used again, and in the 40 requests after that.
#[track_caller]
fn failures_after_return(address: SocketAddr, replica: &Replica) -> usize {
    let before = replica.requests();
    let mut failed = 0;
    eventually("it is used again", || {
        failed += statuses(address, 4)
            .iter()
            .filter(|status| **status != 200)
            .count();
        (replica.requests() > before).then_some(())
    });
    failed + failures(address)
}

fn requests(replicas: &[Replica]) -> Vec<usize> {
    replicas.iter().map(Replica::requests).collect()
}

#[test]
fn endpoint_that_fails_three_times_in_a_row_is_left_out_for_its_time() {
    let replicas = Replica::several(2);
    let running = start(&balanced(&replicas, &[1], EJECT));
    assert_eq!(failures(running.public), 0);
    let before = replicas[0].requests();
    replicas[0].behave(Manner::HangsUp);
    assert_eq!(failures(running.public), 3);
    assert_eq!(
        replicas[0].requests(),
        before + 3,
        "not tried while it is out"
    );
    running.clock.advance(Micros(999_999));
    assert_eq!(failures(running.public), 0);
    // The endpoint is tried again, but one more failure in a row has it left out again.
    for turn in 1..=3 {
        running.clock.advance(secs(2));
        assert_eq!(failures_after_return(running.public, &replicas[0]), 1);
        assert_eq!(replicas[0].requests(), before + 3 + turn);
    }
    replicas[0].behave(Manner::Answers);
    running.clock.advance(secs(2));
    assert_eq!(failures_after_return(running.public, &replicas[0]), 0);
    assert!(replicas[0].requests() >= before + 6 + 15, "it is back");
    // It has answered since, so the count of failures starts again at zero.
    replicas[0].behave(Manner::HangsUp);
    assert_eq!(failures(running.public), 3);
}

#[test]
fn endpoint_that_refuses_connections_is_left_out_and_back_when_it_listens_again() {
    let mut replicas = Replica::several(3);
    let running = start(&balanced(&replicas, &[1], EJECT));
    replicas[1].kill();
    assert_eq!(failures(running.public), 3);
    assert_eq!(failures(running.public), 0);
    replicas[1].revive();
    assert_eq!(failures(running.public), 0);
    assert_eq!(replicas[1].requests(), 0, "its time is not over");
    running.clock.advance(secs(1));
    assert_eq!(failures_after_return(running.public, &replicas[1]), 0);
    assert!(replicas[1].requests() >= 10, "{:?}", requests(&replicas));
}

#[test]
fn endpoint_that_does_not_answer_in_time_is_left_out() {
    let replicas = Replica::several(2);
    let lines = "retries = 0\nresponse_timeout = '1s'\neject = { failures = 3, for = '1m' }";
    let running = Stepped::start(&balanced(&replicas, &[1], lines));
    replicas[0].behave(Manner::Holds);
    for _ in 0..3 {
        // One of the two requests goes to the endpoint that does not answer.
        let mut clients = [(); 2].map(|()| Client::connect(running.public));
        for client in &mut clients {
            client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        }
        running.settle();
        eventually("one is held", || (replicas[0].holding() > 0).then_some(()));
        running.advance(secs(1));
        let mut statuses = clients.map(|mut client| client.answer().status);
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 504]);
        replicas[0].behave(Manner::HangsUp);
        eventually("none is held", || {
            (replicas[0].holding() == 0).then_some(())
        });
        replicas[0].behave(Manner::Holds);
    }
    assert_eq!(failures(running.public), 0);
    assert_eq!(replicas[0].requests(), 3);
}

#[test]
fn success_in_between_starts_the_count_again() {
    let replicas = Replica::several(2);
    let running = start(&balanced(&replicas, &[1], EJECT).one_worker());
    for _ in 0..5 {
        replicas[0].behave(Manner::HangsUp);
        let statuses = statuses(running.public, 4);
        assert_eq!(statuses.iter().filter(|status| **status == 502).count(), 2);
        replicas[0].behave(Manner::Answers);
        assert_eq!(self::statuses(running.public, 2), [200, 200]);
    }
    assert_eq!(requests(&replicas), [15, 15]);
}

#[test]
fn statuses_are_no_failures() {
    let replicas = Replica::several(2);
    let running = start(&balanced(&replicas, &[1], EJECT));
    for status in [500, 502, 503, 504, 429] {
        replicas[0].behave(Manner::AnswersWith(status));
        let statuses = statuses(running.public, 40);
        assert_eq!(statuses.iter().filter(|one| **one == status).count(), 20);
    }
    assert_eq!(requests(&replicas), [100, 100]);
}

#[test]
fn last_endpoint_is_never_left_out() {
    for count in [1, 2, 3] {
        let replicas = Replica::several(count);
        let running = start(&balanced(&replicas, &[1], EJECT));
        for replica in &replicas {
            replica.behave(Manner::HangsUp);
        }
        assert_eq!(failures(running.public), 40, "none is a 503");
        assert_eq!(requests(&replicas).iter().sum::<usize>(), 40);
        let mut tried = replicas.iter().filter(|replica| replica.requests() > 3);
        assert!(tried.next().is_some() && tried.next().is_none());
        for replica in &replicas {
            replica.behave(Manner::Answers);
        }
        assert_eq!(failures(running.public), 0);
    }
}

#[test]
fn endpoint_stays_out_over_a_reload() {
    let mut replicas = Replica::several(3);
    let mut running = start(&balanced(&replicas, &[1], EJECT));
    replicas[0].kill();
    assert_eq!(failures(running.public), 3);
    let text = balanced(&replicas, &[1, 2, 1], EJECT).text();
    running.gateway.reload(&text).expect("a good file");
    assert_eq!(failures(running.public), 0);
}

#[test]
fn retries_hide_what_fails_until_it_is_left_out() {
    let mut replicas = Replica::several(2);
    let lines = EJECT.replace("retries = 0", "retries = 1");
    let running = start(&balanced(&replicas, &[1], &lines));
    replicas[0].kill();
    assert_eq!(failures(running.public), 0);
    // A POST is not repeated, so it shows the next failure, after which the endpoint is left out again.
    replicas[0].revive();
    replicas[0].behave(Manner::HangsUp);
    running.clock.advance(secs(1));
    let mut client = Client::connect(running.public);
    let mut post = || client.post("/", "", "body").status;
    eventually("it is used again", || (post() == 502).then_some(()));
    let statuses: Vec<_> = (0..8).map(|_| post()).collect();
    assert_eq!(statuses, [200; 8]);
}

#[test]
fn request_whose_client_left_is_no_failure() {
    let origins = [Origin::mute(), Origin::plain()];
    let config = Config::to("")
        .endpoints(&origins.each_ref().map(Origin::url))
        .upstream(EJECT)
        .route("/*", "");
    let running = Stepped::start(&config);
    for asked in 1..=5 {
        let mut clients = [(); 2].map(|()| Client::connect(running.public));
        for client in &mut clients {
            client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        }
        origins[0].wait_for_requests(asked);
        origins[1].wait_for_requests(asked);
        drop(clients);
        origins[0].wait_for_ended(asked);
        running.settle();
    }
}
