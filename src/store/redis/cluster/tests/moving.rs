//! Slots that change hands.

use super::*;

#[tokio::test(flavor = "local")]
async fn slot_that_moved_is_followed_and_its_new_owner_remembered() {
    let servers = Arc::new(servers::Cluster::start(3, 0));
    let bench = Bench::open([servers.nodes[0].address()]);
    let slot = bench.slot(1);
    bench.decide(1, 2).await.expect("an answer");
    let from = servers.primary_of(slot);
    let to = servers.nodes.iter().find(|node| node.port() != from.port());
    servers.move_slot(slot, to.expect("another"));
    for _ in 0..20 {
        bench.decide(1, 2).await.expect("an answer");
    }
    assert_eq!(bench.spent(1).await, [21, 21]);
    assert_eq!(errors(from, "MOVED"), 1);
}

/// Keys are moved one by one, so that plans meet a slot of which both nodes have some keys.
#[tokio::test(flavor = "local")]
async fn decisions_of_a_slot_on_the_move_are_counted_once() {
    let servers = Arc::new(servers::Cluster::start(3, 0));
    let bench = Bench::open([servers.nodes[0].address()]);
    for quotas in [1, 2] {
        let slot = bench.slot(quotas.try_into().expect("a partition id"));
        let partition_ids = bench.partitions_in(slot, 12);
        for partition_id in &partition_ids[..6] {
            bench
                .decide(*partition_id, quotas)
                .await
                .expect("an answer");
        }
        let moving = Arc::clone(&servers);
        let load = under_load(&bench, &partition_ids, quotas, move || {
            let from = moving.primary_of(slot).port();
            let to = moving.nodes.iter().find(|node| node.port() != from);
            let to = to.expect("another");
            moving.begin_move(slot, to);
            for _ in 0..8 {
                thread::sleep(Duration::from_millis(10));
                moving.move_keys(slot, to, 1);
            }
            moving.finish_move(slot, to);
        })
        .await;
        assert_eq!(load.errors, []);
        for (index, partition_id) in partition_ids.iter().enumerate() {
            let decided = load.decided[index] + u64::from(index < 6);
            let expected = [decided, if quotas == 2 { decided } else { 0 }];
            assert_eq!(bench.spent(*partition_id).await, expected, "{partition_id}");
        }
        let asked: usize = servers.nodes.iter().map(|node| errors(node, "ASK")).sum();
        assert!(asked > 0, "the move was met");
    }
}

#[tokio::test(flavor = "local")]
async fn resharding_under_load_loses_and_repeats_nothing() {
    let servers = Arc::new(servers::Cluster::start(3, 0));
    let bench = Bench::open([servers.nodes[0].address()]);
    let partition_ids: Vec<u128> = (0..2_000).collect();
    for quotas in [1, 2] {
        for node in &servers.nodes {
            node.command(&["FLUSHALL"]);
        }
        let moving = Arc::clone(&servers);
        let load = under_load(&bench, &partition_ids, quotas, move || {
            reshard(&moving, 500);
        })
        .await;
        assert_eq!(load.errors, []);
        for (partition_id, decided) in partition_ids.iter().zip(&load.decided) {
            let expected = [*decided, if quotas == 2 { *decided } else { 0 }];
            assert_eq!(bench.spent(*partition_id).await, expected, "{partition_id}");
        }
        let sent_on = |node| errors(node, "ASK") + errors(node, "MOVED");
        assert!(servers.nodes.iter().map(sent_on).sum::<usize>() > 0);
    }
}

/// Lets Redis' own tool move this many slots from the first node to the second.
fn reshard(servers: &servers::Cluster, slots: u32) {
    let id = |node: &Server| node.command(&["CLUSTER", "MYID"]).text();
    let [first, second, ..] = &servers.nodes[..] else {
        panic!("two nodes")
    };
    let output = std::process::Command::new("redis-cli")
        .args(["--user", servers::HARNESS.0, "--pass", servers::HARNESS.1])
        .args(["--cluster", "reshard", &first.address().to_string()])
        .args(["--cluster-from", &id(first), "--cluster-to", &id(second)])
        .args(["--cluster-slots", &slots.to_string(), "--cluster-yes"])
        .output()
        .expect("redis-cli is installed");
    assert!(output.status.success(), "{output:?}");
}
