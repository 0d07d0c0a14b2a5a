//! Nodes that go away.

use super::*;

#[tokio::test(flavor = "local")]
async fn handing_over_to_a_replica_loses_no_decision() {
    let servers = Arc::new(servers::Cluster::start(3, 1));
    let bench = Bench::open([servers.nodes[0].address()]);
    let partition_ids: Vec<u128> = (0..60).collect();
    let handing = Arc::clone(&servers);
    let load = under_load(&bench, &partition_ids, 2, move || {
        handing.hand_over(&handing.nodes[3]);
    })
    .await;
    assert_eq!(load.errors, []);
    for (partition_id, decided) in partition_ids.iter().zip(&load.decided) {
        assert_eq!(
            bench.spent(*partition_id).await,
            [*decided; 2],
            "{partition_id}"
        );
    }
    let left = &servers.nodes[0];
    until(async || clients(left) == 0).await;
}

#[tokio::test(flavor = "local")]
async fn replica_that_said_who_the_primaries_are_is_not_kept_connected() {
    let servers = servers::Cluster::start(1, 1);
    let bench = Bench::open([servers.nodes[1].address()]);
    bench.decide(1, 1).await.expect("an answer");
    until(async || clients(&servers.nodes[1]) == 0).await;
    bench.decide(1, 1).await.expect("an answer");
}

/// The map is outdated by then, but a call that was not sent may go to another node.
#[tokio::test(flavor = "local")]
async fn primary_that_left_while_nobody_asked_costs_no_decision() {
    let servers = servers::Cluster::start(3, 1);
    let bench = Bench::open([servers.nodes[1].address()]);
    let partition_ids = bench
        .partitions_of(&servers, &[&servers.nodes[0]])
        .remove(0);
    bench.decide(partition_ids[0], 1).await.expect("an answer");
    servers.hand_over(&servers.nodes[3]);
    servers.nodes[0].kill();
    let is_noticed = async || bench.connections() == 0 && bench.cluster.view.watch.is_ready();
    until(is_noticed).await;
    for partition_id in &partition_ids {
        bench
            .decide(*partition_id, 1)
            .await
            .expect("the one in its place");
    }
    assert_eq!(bench.spent(partition_ids[0]).await, [2, 0]);
}

#[tokio::test(flavor = "local")]
async fn only_the_keys_of_a_lost_primary_fail_until_its_replica_takes_over() {
    let line = "cluster-require-full-coverage no";
    let servers = servers::Cluster::start_with(3, 1, Encryption::None, &[line]);
    let bench = Bench::open([servers.nodes[0].address()]);
    let primaries: Vec<&Server> = servers.nodes[..3].iter().collect();
    let partition_ids = bench.partitions_of(&servers, &primaries);
    for partition_id in partition_ids.iter().flatten() {
        bench.decide(*partition_id, 1).await.expect("an answer");
    }
    let replica = &servers.nodes[3];
    until(async || replica.figure("replication", "master_repl_offset") > 0).await;
    primaries[0].kill();
    let lost = bench.decide(partition_ids[0][0], 1).await;
    assert!(lost.is_err(), "{lost:?}");
    let mut turn = 0;
    until(async || {
        turn += 1;
        for partition_ids in &partition_ids[1..] {
            let partition_id = partition_ids[turn % partition_ids.len()];
            bench
                .decide(partition_id, 1)
                .await
                .expect("a primary that lives");
        }
        bench.decide(partition_ids[0][0], 1).await.is_ok()
    })
    .await;
    for partition_id in &partition_ids[0] {
        bench
            .decide(*partition_id, 1)
            .await
            .expect("the promoted one");
    }
    assert_eq!(bench.spent(partition_ids[0][1]).await, [2, 0]);
}

#[tokio::test(flavor = "local")]
async fn seeds_that_are_dead_are_passed_over() {
    let servers = servers::Cluster::start(3, 0);
    let gone = Server::start();
    gone.kill();
    let seeds = [gone.address(), servers.nodes[2].address()];
    let bench = Bench::open(seeds);
    for partition_id in 0..30 {
        bench.decide(partition_id, 1).await.expect("an answer");
    }
}

#[tokio::test(flavor = "local")]
async fn calls_fail_at_once_while_nobody_knows_the_slots_and_go_on_when_somebody_does() {
    let node = Server::start_with(&["cluster-enabled yes"]);
    let bench = Bench::open([node.address()]);
    for _ in 0..100 {
        assert_eq!(bench.decide(1, 1).await, Err(CallError::Unsent));
    }
    node.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    until(async || bench.decide(1, 1).await.is_ok()).await;
}

#[tokio::test(flavor = "local")]
async fn slot_that_nobody_has_fails_alone_and_heals() {
    let line = "cluster-require-full-coverage no";
    let servers = servers::Cluster::start_with(3, 0, Encryption::None, &[line]);
    let bench = Bench::open([servers.nodes[0].address()]);
    let slot = bench.slot(5);
    let owner = servers.primary_of(slot);
    let other = (0..60).find(|partition_id| {
        bench.slot(*partition_id) != slot
            && servers.primary_of(bench.slot(*partition_id)).port() == owner.port()
    });
    let other = other.expect("another of that primary");
    bench.decide(5, 1).await.expect("an answer");
    for node in &servers.nodes {
        node.command(&["CLUSTER", "DELSLOTS", &slot.to_string()]);
    }
    assert!(bench.decide(5, 1).await.is_err());
    // Once the map names no node for the slot, the node that had it is still asked.
    until(async || {
        for node in &servers.nodes {
            // A node that heard of the slot from its owner in between has it in its map again.
            let _ = node.ask(&["CLUSTER", "DELSLOTS", &slot.to_string()]);
        }
        bench.cluster.view.watch.want();
        bench.cluster.view.map.borrow().has_gaps()
    })
    .await;
    let refused = bench.decide(5, 1).await;
    let is_said_by_the_node =
        matches!(&refused, Err(CallError::Server(text)) if text.starts_with("CLUSTERDOWN"));
    assert!(is_said_by_the_node, "{refused:?}");
    bench.decide(other, 1).await.expect("an answer");
    owner.command(&["CLUSTER", "ADDSLOTS", &slot.to_string()]);
    until(async || bench.decide(5, 1).await.is_ok()).await;
}

/// Counts the connections of gateways, which are known by their last command.
fn clients(node: &Server) -> usize {
    let list = node.command(&["CLIENT", "LIST", "TYPE", "NORMAL"]).text();
    let is_ours = |line: &&str| line.contains("evalsha") || line.contains("cluster|slots");
    list.lines().filter(is_ours).count()
}
