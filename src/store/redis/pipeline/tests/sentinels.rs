//! Servers behind sentinels: which primary is trusted, and which worker asks.

use super::*;
use crate::store::redis::sentinel::{NamedPrimary, Sentinels as Group};
use crate::store::redis::servers::Sentinels;
use crate::store::redis::watch::Watch;
use crate::store::settings::{Deployment, Password, RedisSettings};

#[tokio::test(flavor = "local")]
async fn failover_is_followed_and_the_old_primary_left() {
    let group = Sentinels::start();
    let resolver = PrimaryResolver::Sentinel(sentinels(&settings(&group)));
    let pipeline = Pipeline::open(resolver, context());
    pipeline.asked(plan("k", 1)).await.expect("an answer");
    let old = group.primary().expect("a primary");
    assert_eq!(
        pipeline.server().as_deref(),
        Some(&*old.address().to_string())
    );
    let new = group.fail_over();
    until("the new primary is asked", || {
        pipeline.server().as_deref() == Some(&*new.address().to_string())
    })
    .await;
    pipeline.asked(plan("after", 1)).await.expect("an answer");
    assert_eq!(spent(new, "after"), 1);
    new.kill();
    let newest = group.wait_for_another_than(new);
    until("the newest primary is asked", || {
        pipeline.server().as_deref() == Some(&*newest.address().to_string())
    })
    .await;
    pipeline.asked(plan("newest", 1)).await.expect("an answer");
    assert_eq!(spent(newest, "newest"), 1);
}

#[tokio::test(flavor = "local")]
async fn primary_that_sentinels_no_longer_name_is_left_although_it_serves() {
    let group = Sentinels::start();
    let pipeline = Pipeline::open(
        PrimaryResolver::Sentinel(sentinels(&settings(&group))),
        context(),
    );
    pipeline.asked(plan("k", 1)).await.expect("an answer");
    let old = group.primary().expect("a primary");
    // The old primary stays a primary, as if it were cut off from the sentinels.
    let successor = group
        .servers
        .iter()
        .find(|server| server.port() != old.port())
        .expect("a replica");
    successor.command(&["REPLICAOF", "NO", "ONE"]);
    let port = successor.port().to_string();
    for sentinel in &group.sentinels {
        sentinel.command(&["SENTINEL", "REMOVE", Sentinels::NAME]);
        let monitor = [
            "SENTINEL",
            "MONITOR",
            Sentinels::NAME,
            "127.0.0.1",
            &port,
            "2",
        ];
        sentinel.command(&monitor);
    }
    until("the named primary is asked", || {
        pipeline.server().as_deref() == Some(&*successor.address().to_string())
    })
    .await;
    assert_eq!(old.role(), "master");
}

#[tokio::test(flavor = "local")]
async fn sentinels_that_are_dead_or_want_a_password_are_no_obstacle() {
    let group = Sentinels::start_with(&[], &["requirepass secret"]);
    group.sentinels[0].kill();
    let mut settings = settings(&group);
    settings.sentinel_password = Some(Password::new("secret"));
    let resolver = PrimaryResolver::Sentinel(sentinels(&settings));
    let pipeline = Pipeline::open(resolver, context());
    pipeline.asked(plan("k", 1)).await.expect("an answer");
    group.sentinels[1].kill();
    pipeline.asked(plan("k", 1)).await.expect("an answer");
}

#[tokio::test(flavor = "local")]
async fn sentinels_are_asked_as_their_own_user_whose_password_is_read_again() {
    let group = Sentinels::start();
    let user =
        "ACL SETUSER tollgate on >secret -@all +sentinel|get-master-addr-by-name +sentinel|master";
    let user: Vec<&str> = user.split(' ').collect();
    for sentinel in &group.sentinels {
        sentinel.command(&user);
        sentinel.command(&["ACL", "SETUSER", "default", "off"]);
    }
    let mut settings = settings(&group);
    settings.sentinel_username = Some("tollgate".into());
    // The file had an old password when the gateway started.
    let read = || Ok("secret".into());
    settings.sentinel_password = Some(Password::from_source("old", "${file:sentinel}", read));
    let pipeline = Pipeline::open(PrimaryResolver::Sentinel(sentinels(&settings)), context());
    while pipeline.asked(plan("k", 1)).await.is_err() {
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "local")]
async fn workers_of_a_process_ask_the_sentinels_as_one_and_another_takes_over() {
    let group = Sentinels::start();
    let sentinels = sentinels(&settings(&group));
    let open = || Pipeline::open(PrimaryResolver::Sentinel(sentinels.clone()), context());
    let pipelines: Vec<_> = (0..8).map(|_| open()).collect();
    for pipeline in &pipelines {
        pipeline.asked(plan("k", 1)).await.expect("an answer");
    }
    let askers = |sentinel: &Server| {
        let clients = sentinel.command(&["CLIENT", "LIST", "TYPE", "NORMAL"]);
        let clients = clients.text();
        let is_asker = |line: &&str| line.contains("cmd=sentinel|master");
        clients.lines().filter(is_asker).count()
    };
    until("each sentinel has one that asks", || {
        group.sentinels.iter().all(|sentinel| askers(sentinel) == 1)
    })
    .await;
    let mut pipelines = pipelines.into_iter();
    // The first pipeline began first, so it is the one that asks.
    drop(pipelines.next());
    let new = group.fail_over();
    for pipeline in pipelines {
        until("the new primary is asked", || {
            pipeline.server().as_deref() == Some(&*new.address().to_string())
        })
        .await;
    }
    assert!(group.sentinels.iter().all(|sentinel| askers(sentinel) == 1));
}

/// The sentinel and its primary are in a group of their own, as if cut off since before the failover.
#[tokio::test(flavor = "local")]
async fn sentinel_that_missed_a_failover_is_not_believed() {
    let (group, cut_off) = (Sentinels::start(), Sentinels::start());
    let new = group.fail_over();
    let old = cut_off.primary().expect("a primary");
    let mut settings = settings(&group);
    let Deployment::Sentinel { sentinels, .. } = &mut settings.deployment else {
        panic!("there are sentinels")
    };
    sentinels[0] = address(cut_off.sentinels[0].address());
    let said: Arc<Watch<NamedPrimary>> = Arc::default();
    let sentinels = sentinels_watched(&settings, &said);
    let pipeline = Pipeline::open(PrimaryResolver::Sentinel(sentinels), context());
    pipeline.asked(plan("k", 1)).await.expect("an answer");
    assert_eq!((spent(new, "k"), spent(old, "k")), (1, 0));
    // It is not trusted even if no other sentinel answers: those that know better are only away.
    for sentinel in &group.sentinels[1..] {
        sentinel.kill();
    }
    until("only the outdated one answers", || {
        said.subscribe().borrow().failure.is_some()
    })
    .await;
    pipeline.asked(plan("k", 1)).await.expect("an answer");
    assert_eq!((spent(new, "k"), spent(old, "k")), (2, 0));
}

fn settings(group: &Sentinels) -> RedisSettings {
    RedisSettings::plain(Deployment::Sentinel {
        sentinels: group.addresses().into_iter().map(address).collect(),
        name: Sentinels::NAME.into(),
    })
}

fn sentinels(settings: &RedisSettings) -> Group {
    sentinels_watched(settings, &Arc::default())
}

fn sentinels_watched(settings: &RedisSettings, found: &Arc<Watch<NamedPrimary>>) -> Group {
    let Deployment::Sentinel { sentinels, name } = &settings.deployment else {
        panic!("there are sentinels")
    };
    Group::new(sentinels.clone(), name.clone(), settings, Arc::clone(found))
}
