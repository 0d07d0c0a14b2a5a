//! What a pipeline does when the server or the network fails.

use std::sync::mpsc;

use tokio::runtime::{Builder, LocalOptions};
use tokio::task::spawn_blocking;

use super::*;
use crate::store::redis::servers::{Fault, Proxy};
use crate::store::settings::Password;

#[tokio::test(flavor = "local")]
async fn killed_server_ends_what_was_sent_and_the_pipeline_heals() {
    let server = Server::start();
    let pipeline = connected(&server).await;
    server.stop();
    let mut asked: Vec<_> = (0..8)
        .map(|_| Box::pin(pipeline.asked(plan("k", 1))))
        .collect();
    sent(&mut asked).await;
    server.kill();
    let ended = join_all(asked).await;
    assert!(ended.iter().all(|end| *end == Err(CallError::Disconnected)));
    becomes(&pipeline, PipelineState::Down).await;
    let refused = polled(&mut Box::pin(pipeline.asked(plan("k", 1)))).await;
    assert_eq!(refused, Poll::Ready(Err(CallError::Unsent)));
    server.restart();
    becomes(&pipeline, PipelineState::Up).await;
    pipeline.asked(plan("k", 1)).await.expect("an answer");
    assert_eq!(spent(&server, "k"), 1);
}

#[test]
fn name_that_nobody_answers_for_any_more_leads_where_it_led() {
    // Names are looked up on one thread, which the test can keep busy.
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1);
    let runtime = runtime.build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(async {
        let server = Server::start();
        let named = Address {
            host: "localhost".into(),
            ..address(server.address())
        };
        let endpoint = DialEndpoint::Tcp(named, None);
        let target = DialTarget {
            endpoint,
            ..target(server.address())
        };
        let pipeline = Pipeline::open(PrimaryResolver::Fixed(target), context());
        becomes(&pipeline, PipelineState::Up).await;
        let (busy, until_dropped) = mpsc::channel::<()>();
        let looking_up = spawn_blocking(move || until_dropped.recv());
        server.kill();
        becomes(&pipeline, PipelineState::Down).await;
        server.restart();
        becomes(&pipeline, PipelineState::Up).await;
        drop(busy);
        assert!(looking_up.await.is_ok());
    });
}

#[tokio::test(flavor = "local")]
async fn connection_that_is_reset_is_replaced_without_a_call_that_fails_later() {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    let pipeline = open(proxy.address());
    pipeline.asked(plan("k", 1)).await.expect("an answer");
    let accepted = proxy.accepted();
    proxy.reset_all();
    until("another connection is made", || proxy.accepted() > accepted).await;
    becomes(&pipeline, PipelineState::Up).await;
    let decided = join_all((0..8).map(|_| pipeline.asked(plan("k", 1)))).await;
    assert!(decided.iter().all(Result::is_ok), "{decided:?}");
}

#[tokio::test(flavor = "local")]
async fn calls_fail_at_once_while_a_connection_that_broke_is_replaced() {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    let pipeline = open(proxy.address());
    becomes(&pipeline, PipelineState::Up).await;
    // The next attempt to connect hangs until it is given up.
    proxy.set(Fault::BlackHole);
    proxy.reset_all();
    until("the connection is gone", || {
        pipeline.state() != PipelineState::Up
    })
    .await;
    let refused = polled(&mut Box::pin(pipeline.asked(plan("k", 1)))).await;
    assert_eq!(refused, Poll::Ready(Err(CallError::Unsent)));
    proxy.set(Fault::None);
    becomes(&pipeline, PipelineState::Up).await;
    pipeline.asked(plan("k", 1)).await.expect("an answer");
}

#[tokio::test(flavor = "local")]
async fn many_workers_come_back_to_a_server_that_restarts() {
    let server = Server::start();
    let pipelines: Vec<_> = (0..200).map(|_| open(server.address())).collect();
    let are = |state| pipelines.iter().all(|pipeline| pipeline.state() == state);
    until("all are up", || are(PipelineState::Up)).await;
    server.kill();
    until("all are down", || are(PipelineState::Down)).await;
    server.restart();
    until("all are up", || are(PipelineState::Up)).await;
}

#[tokio::test(flavor = "local")]
async fn late_replies_answer_their_own_callers() {
    let server = Server::start();
    let context = PipelineContext {
        shared: RedisShared::new("tollgate", Clock::manual(Timestamp(1_700_000_000_000_000))),
        ..context()
    };
    let pipeline = Pipeline::open(PrimaryResolver::Fixed(target(server.address())), context);
    // These share calls, as the late ones do, so the server knows the late ones' script and executes them all.
    let ask = |amount| pipeline.asked(plan(&format!("expected {amount}"), amount));
    let expected = join_all((1..=40).map(ask)).await;
    assert!(expected.iter().all(Result::is_ok), "{expected:?}");
    server.stop();
    let callers: Vec<_> = (0..40).map(|_| Caller::new(&|_| None)).collect();
    let ask = |(amount, caller)| {
        let late = plan(&format!("late {amount}"), amount);
        Box::pin(pipeline.decide(late, caller))
    };
    let mut asked: Vec<_> = (1..=40).zip(&callers).map(ask).collect();
    sent(&mut asked).await;
    // Half of the callers give up, because their client left or their time is over; others come meanwhile.
    let (mut stayed, mut given_up) = (Vec::new(), Vec::new());
    for (place, one) in asked.into_iter().enumerate() {
        if place % 2 == 0 {
            &mut stayed
        } else {
            &mut given_up
        }
        .push((place, one));
    }
    for caller in callers.iter().skip(1).step_by(4) {
        caller.given_up.set(GivenUp::Late);
    }
    drop(given_up);
    let mut others: Vec<_> = (1..=40)
        .map(|amount| Box::pin(pipeline.asked(plan(&format!("other {amount}"), amount))))
        .collect();
    sent(&mut others).await;
    server.resume();
    for (place, one) in stayed {
        assert_eq!(one.await, expected[place]);
    }
    assert_eq!(join_all(others).await, expected);
}

#[tokio::test(flavor = "local")]
async fn scripts_flushed_under_load_lose_nothing_and_count_nothing_twice() {
    for grouping in [Grouping::OneCall, Grouping::CallEach] {
        let server = Server::start();
        let context = PipelineContext {
            grouping,
            ..context()
        };
        let pipeline = Pipeline::open(PrimaryResolver::Fixed(target(server.address())), context);
        let load = join_all((0..20).map(|_| async {
            for _ in 0..50 {
                pipeline.asked(plan("k", 1)).await.expect("an answer");
            }
        }));
        let flushing = async {
            loop {
                server.command(&["SCRIPT", "FLUSH"]);
                sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            _ = load => {}
            () = flushing => {}
        }
        settle(&pipeline, "k").await.expect("an answer");
        assert_eq!(spent(&server, "k"), 1_001, "{grouping:?}");
    }
}

#[tokio::test(flavor = "local")]
async fn mute_server_is_left_for_another_connection() {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    let pipeline = open(proxy.address());
    pipeline.asked(plan("k", 1)).await.expect("an answer");
    for is_suspected in [false, true] {
        let accepted = proxy.accepted();
        proxy.set(Fault::BlackHole);
        let mut asked = [Box::pin(pipeline.asked(plan("k", 1)))];
        sent(&mut asked).await;
        if is_suspected {
            pipeline.suspect();
        }
        let [asked] = asked;
        assert_eq!(asked.await, Err(CallError::Disconnected));
        proxy.set(Fault::None);
        becomes(&pipeline, PipelineState::Up).await;
        assert!(proxy.accepted() > accepted, "another connection");
        pipeline.asked(plan("k", 1)).await.expect("an answer");
    }
}

#[tokio::test(flavor = "local")]
async fn slow_server_is_not_taken_for_a_mute_one() {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    let pipeline = open(proxy.address());
    pipeline.asked(plan("k", 1)).await.expect("an answer");
    let accepted = proxy.accepted();
    proxy.set(Fault::Latency {
        by: context().timeout + Duration::from_millis(10),
        jitter: Duration::ZERO,
    });
    for _ in 0..4 {
        pipeline.suspect();
        pipeline.asked(plan("k", 1)).await.expect("an answer");
    }
    assert_eq!(proxy.accepted(), accepted);
}

#[tokio::test(flavor = "local")]
async fn server_that_answers_and_breaks_in_turn_is_not_dialled_without_a_pause() {
    let server = Server::start();
    let pipeline = connected(&server).await;
    for _ in 0..2 {
        server.command(&["REPLICAOF", "NO", "ONE"]);
        while pipeline.asked(plan("k", 1)).await.is_err() {
            sleep(Duration::from_millis(5)).await;
        }
        server.command(&["REPLICAOF", "127.0.0.1", "1"]);
        let failed = pipeline.asked(plan("k", 1)).await;
        assert_eq!(failed, Err(CallError::ReadOnly));
    }
    becomes(&pipeline, PipelineState::Down).await;
}

#[tokio::test(flavor = "local")]
async fn changed_password_is_followed_at_once_and_a_wrong_one_only_fails() {
    let server = Server::start();
    let pipeline = connected(&server).await;
    server.command(&["CONFIG", "SET", "requirepass", "right"]);
    let with = |password: &str| {
        PrimaryResolver::Fixed(DialTarget {
            password: Some(Password::new(password)),
            ..target(server.address())
        })
    };
    pipeline.reconfigure(with("wrong"));
    becomes(&pipeline, PipelineState::Down).await;
    assert_eq!(pipeline.asked(plan("k", 1)).await, Err(CallError::Unsent));
    pipeline.reconfigure(with("right"));
    becomes(&pipeline, PipelineState::Up).await;
    pipeline.asked(plan("k", 1)).await.expect("an answer");
}

#[tokio::test(flavor = "local")]
async fn pipeline_led_elsewhere_finishes_what_was_sent_first() {
    let (old, new) = (Server::start(), Server::start());
    let pipeline = connected(&old).await;
    old.stop();
    let mut asked = [Box::pin(pipeline.asked(plan("k", 1)))];
    sent(&mut asked).await;
    pipeline.reconfigure(PrimaryResolver::Fixed(target(new.address())));
    let mut later = [Box::pin(pipeline.asked(plan("k", 2)))];
    sent(&mut later).await;
    old.resume();
    let ([asked], [later]) = (asked, later);
    assert!(asked.await.is_ok());
    assert!(later.await.is_ok());
    assert_eq!((spent(&old, "k"), spent(&new, "k")), (1, 2));
}

/// While the pipeline connects to another server, calls wait only once, and no longer than a decision may take.
#[tokio::test(flavor = "local")]
async fn calls_wait_only_once_for_another_server_that_is_mute() {
    let server = Server::start();
    let pipeline = connected(&server).await;
    let mute = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let mute = mute.local_addr().expect("an address");
    pipeline.reconfigure(PrimaryResolver::Fixed(target(mute)));
    assert_eq!(pipeline.asked(plan("k", 1)).await, Err(CallError::Unsent));
    assert_eq!(pipeline.state(), PipelineState::Down);
    pipeline.reconfigure(PrimaryResolver::Fixed(target(server.address())));
    becomes(&pipeline, PipelineState::Up).await;
    pipeline.asked(plan("k", 1)).await.expect("an answer");
}
