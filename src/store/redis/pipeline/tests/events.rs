//! What a pipeline tells its observer: whatever happens to the server is one event, however many decisions
//! it concerns.

use super::*;
use crate::store::redis::observer::{Observer, Observers, ServerEvent};

/// Keeps the events that it is told, as texts.
#[derive(Clone, Debug, Default)]
struct Heard(Rc<RefCell<Vec<String>>>);

impl Observers for Heard {
    fn of(&self, _: &str) -> Rc<dyn Observer> {
        Rc::new(self.clone())
    }
}

impl Observer for Heard {
    fn note(&self, event: ServerEvent<'_>) {
        self.0.borrow_mut().push(match event {
            ServerEvent::Keeps(_) => return,
            ServerEvent::Connected => "connected".to_owned(),
            ServerEvent::Disconnected => "disconnected".to_owned(),
            ServerEvent::ConnectFailed(_) => "not connected".to_owned(),
            ServerEvent::Answered => "answered".to_owned(),
            ServerEvent::Full => "full".to_owned(),
            ServerEvent::Failed(error) => error.to_string(),
        });
    }
}

impl Heard {
    fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

async fn listening(server: &Server) -> (Rc<Pipeline>, Heard) {
    let heard = Heard::default();
    let context = PipelineContext {
        observers: Rc::new(heard.clone()),
        ..context()
    };
    let pipeline = Pipeline::open(PrimaryResolver::Fixed(target(server.address())), context);
    pipeline.asked(plan("k", 1)).await.expect("an answer");
    assert_eq!(heard.take(), ["connected", "answered"]);
    (pipeline, heard)
}

#[tokio::test(flavor = "local")]
async fn batch_that_is_late_is_one_failure_however_many_wait_for_it() {
    let server = Server::start();
    let (pipeline, heard) = listening(&server).await;
    server.stop();
    let callers: Vec<_> = (0..PLANS_PER_CALL)
        .map(|_| Caller::new(&|_| None))
        .collect();
    let ask = |caller| Box::pin(pipeline.decide(plan("late", 1), caller));
    let mut asked: Vec<_> = callers.iter().map(ask).collect();
    sent(&mut asked).await;
    for caller in &callers {
        caller.given_up.set(GivenUp::Late);
    }
    drop(asked);
    assert_eq!(heard.take(), ["no response in time"]);
    server.resume();
    pipeline.asked(plan("k", 1)).await.expect("an answer");
    assert_eq!(heard.take(), ["answered"], "the late answer is none");
}

#[tokio::test(flavor = "local")]
async fn reply_that_came_and_that_nobody_took_is_read_all_the_same() {
    let server = Server::start();
    let (pipeline, heard) = listening(&server).await;
    let read = Rc::new(RefCell::new(Vec::new()));
    let late_reader = |given_up| -> Option<LateReader> {
        let read = Rc::clone(&read);
        Some(Box::new(move |_| read.borrow_mut().push(given_up)))
    };
    let caller = Caller::new(&late_reader);
    server.stop();
    let mut asked = [Box::pin(pipeline.decide(plan("k", 1), &caller))];
    sent(&mut asked).await;
    server.resume();
    while heard.take().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    drop(asked);
    assert_eq!(read.take(), [GivenUp::Left]);
}

#[tokio::test(flavor = "local")]
async fn callers_that_leave_are_no_failure() {
    let server = Server::start();
    let (pipeline, heard) = listening(&server).await;
    server.stop();
    let mut left = [Box::pin(pipeline.asked(plan("k", 1)))];
    sent(&mut left).await;
    drop(left);
    server.resume();
    until("it is answered", || !heard.0.borrow().is_empty()).await;
    assert_eq!(heard.take(), ["answered"]);
}

#[tokio::test(flavor = "local")]
async fn connection_that_ends_is_one_failure_and_so_is_each_attempt() {
    let server = Server::start();
    let (pipeline, heard) = listening(&server).await;
    server.stop();
    let ask = |_| Box::pin(pipeline.asked(plan("k", 1)));
    let mut asked: Vec<_> = (0..200).map(ask).collect();
    sent(&mut asked).await;
    server.kill();
    let answers = join_all(asked).await;
    assert!(answers.iter().all(Result::is_err));
    until("an attempt has failed", || heard.0.borrow().len() >= 3).await;
    let heard = heard.take();
    assert_eq!(
        heard[..3],
        ["disconnected", "the connection was closed", "not connected"]
    );
}

#[tokio::test(flavor = "local")]
async fn errors_of_the_server_are_failures_and_those_of_a_plan_are_none() {
    let server = Server::start();
    let (pipeline, heard) = listening(&server).await;
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let refused = join_all((0..8).map(|_| pipeline.asked(plan("k", 1)))).await;
    assert!(refused.iter().all(Result::is_err));
    assert_eq!(
        heard.take(),
        ["NOREPLICAS Not enough good replicas to write."]
    );
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    server.command(&["SADD", "bad", "a member"]);
    pipeline
        .asked(plan("bad", 1))
        .await
        .expect_err("another type");
    assert_eq!(heard.take(), ["answered"]);
}

#[tokio::test(flavor = "local")]
async fn full_server_goes_on_with_the_keys_it_has_and_that_is_no_failure() {
    let server = Server::start();
    let (pipeline, heard) = listening(&server).await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let both = join_all([pipeline.asked(plan("k", 1)), pipeline.asked(plan("new", 1))]).await;
    assert!(both.iter().all(Result::is_ok), "{both:?}");
    assert_eq!(heard.take(), ["full", "answered"]);
    assert_eq!(
        (
            spent(&server, "k"),
            server.command(&["EXISTS", "new"]).integer()
        ),
        (2, 0)
    );
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    pipeline.asked(plan("new", 1)).await.expect("an answer");
    assert_eq!(heard.take(), ["answered"]);
}

/// One endpoint may hide several servers: then no call may have keys of several slots.
#[tokio::test(flavor = "local")]
async fn server_that_keeps_slots_apart_is_asked_in_a_call_each() {
    let cluster = servers::Cluster::start(1, 0);
    let context = context();
    let target = target(cluster.addresses()[0]);
    let pipeline = Pipeline::open(PrimaryResolver::Fixed(target), context.clone());
    for _ in 0..2 {
        let keys = (0..8).map(|number| format!("k{number}"));
        let decided = join_all(keys.map(|key| {
            let pipeline = Rc::clone(&pipeline);
            async move { pipeline.asked(plan(&key, 1)).await }
        }));
        assert!(decided.await.iter().all(Result::is_ok));
    }
    assert!(
        context
            .shared
            .keeps_slots_apart
            .load(std::sync::atomic::Ordering::Relaxed)
    );
}
