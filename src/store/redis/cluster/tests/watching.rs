//! Views that share what one of them asks for, as the workers of a process do.

use std::future::Future;

use tokio::runtime::LocalOptions;

use super::*;

#[tokio::test(flavor = "local")]
async fn views_of_a_process_ask_for_the_map_as_one() {
    let servers = servers::Cluster::start(3, 0);
    let watch = Arc::default();
    let benches: Vec<_> = (0..32).map(|_| shared(&servers, &watch)).collect();
    for bench in &benches {
        for partition_id in 0..30 {
            bench.decide(partition_id, 1).await.expect("an answer");
        }
    }
    let maps = |node: &Server| node.calls("cluster|slots");
    let asked: u64 = servers.nodes.iter().map(maps).sum();
    assert!(
        (1..benches.len() as u64 / 2).contains(&asked),
        "{asked} maps"
    );
}

#[tokio::test(flavor = "local")]
async fn what_one_worker_finds_wrong_all_workers_learn() {
    let servers = Arc::new(servers::Cluster::start(3, 0));
    let watch = Arc::default();
    let benches = [(); 3].map(|()| shared(&servers, &watch));
    let slot = benches[0].slot(1);
    // The view that finds out is not the one that asks for maps.
    learns_of_a_move(&servers, slot, &benches[1], &benches[2]).await;
    learns_of_a_move(&servers, slot, &benches[2], &benches[0]).await;
}

#[test]
fn view_on_another_thread_takes_over_from_one_that_ends() {
    let servers = Arc::new(servers::Cluster::start(3, 0));
    let watch = Arc::default();
    let run = |future: std::pin::Pin<Box<dyn Future<Output = ()>>>| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build_local(LocalOptions::default());
        runtime.expect("a runtime").block_on(future);
    };
    let (is_asking, asks) = std::sync::mpsc::channel();
    let (over, ends) = tokio::sync::oneshot::channel::<()>();
    let (its_servers, its_watch) = (Arc::clone(&servers), Arc::clone(&watch));
    let first = thread::spawn(move || {
        run(Box::pin(async move {
            let bench = shared(&its_servers, &its_watch);
            bench.decide(1, 1).await.expect("an answer");
            is_asking.send(()).expect("the test waits");
            drop(ends.await);
        }));
    });
    asks.recv().expect("it asks");
    run(Box::pin(async move {
        let benches = [(); 2].map(|()| shared(&servers, &watch));
        let slot = benches[0].slot(1);
        learns_of_a_move(&servers, slot, &benches[0], &benches[1]).await;
        drop(over);
        aside(move || first.join().expect("it has ended")).await;
        learns_of_a_move(&servers, slot, &benches[0], &benches[1]).await;
    }));
}

/// Moves a slot, lets one view find that out, and waits until the other, which makes no calls, knows it.
async fn learns_of_a_move(
    servers: &Arc<servers::Cluster>,
    slot: u16,
    finds_out: &Bench,
    learns: &Bench,
) {
    let from = servers.primary_of(slot).port();
    let to = servers.nodes.iter().find(|node| node.port() != from);
    let to = to.expect("another").port();
    let moving = Arc::clone(servers);
    aside(move || {
        let to = moving.nodes.iter().find(|node| node.port() == to);
        moving.move_slot(slot, to.expect("it is there"));
    })
    .await;
    let partition_id = finds_out.partitions_in(slot, 1)[0];
    finds_out.decide(partition_id, 1).await.expect("an answer");
    let owner = async || {
        let map = learns.cluster.view.map.borrow();
        map.owner(slot).is_some_and(|node| node.address.port == to)
    };
    until(owner).await;
}

fn shared(servers: &servers::Cluster, watch: &Arc<Watch<Slots>>) -> Rc<Bench> {
    Bench::open_watching([servers.nodes[0].address()], |_| (), watch)
}
