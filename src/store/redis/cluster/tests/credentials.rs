//! What nodes require of a gateway: TLS, permissions, a password.

use super::*;
use crate::store::redis::servers::Authority;
use crate::tls::{ClientTls, TlsMaterial};

#[tokio::test(flavor = "local")]
async fn every_node_is_spoken_to_encrypted() {
    let authority = Authority::new();
    let certificate = authority.sign_local();
    let servers = servers::Cluster::start_with(3, 0, Encryption::Tls(&certificate), &[]);
    let ca = std::fs::read(authority.file()).expect("the authority");
    let material = TlsMaterial {
        ca: Some(&ca),
        ..TlsMaterial::default()
    };
    let tls = ClientTls::new(material).expect("a configuration");
    let bench = Bench::open_with([servers.nodes[0].address()], |settings| {
        settings.tls = Some(tls);
    });
    for partition_id in 0..30 {
        bench.decide(partition_id, 1).await.expect("an answer");
    }
    let slot = bench.slot(40);
    let from = servers.primary_of(slot).port();
    let to = servers.nodes.iter().find(|node| node.port() != from);
    servers.move_slot(slot, to.expect("another"));
    bench
        .decide(40, 1)
        .await
        .expect("an answer of the new owner");
}

#[tokio::test(flavor = "local")]
async fn user_with_the_documented_rights_suffices_on_a_cluster() {
    let servers = Arc::new(servers::Cluster::start(3, 0));
    for node in &servers.nodes {
        node.command(&servers::documented_user());
    }
    let bench = Bench::open_with([servers.nodes[0].address()], |settings| {
        settings.username = Some("tollgate".into());
        settings.password = Some(Password::new("PASSWORD"));
    });
    let slot = bench.slot(7);
    bench.decide(7, 1).await.expect("an answer");
    let from = servers.primary_of(slot).port();
    let to = servers.nodes.iter().find(|node| node.port() != from);
    servers.begin_move(slot, to.expect("another"));
    for partition_id in bench.partitions_in(slot, 3) {
        bench
            .decide(partition_id, 1)
            .await
            .expect("an answer of the new node");
    }
}

#[tokio::test(flavor = "local")]
async fn password_that_every_node_refuses_is_read_again() {
    let servers = servers::Cluster::start(3, 0);
    for node in &servers.nodes {
        node.command(&["CONFIG", "SET", "requirepass", "new"]);
    }
    let bench = Bench::open_with([servers.nodes[0].address()], |settings| {
        let read = || Ok("new".into());
        settings.password = Some(Password::from_source("old", "${file:password}", read));
    });
    until(async || bench.decide(1, 1).await.is_ok()).await;
}
