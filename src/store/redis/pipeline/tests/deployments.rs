//! Pipelines to servers by Unix socket, by TLS, by RESP2, and as a user with few permissions.

use super::*;
use crate::limit::{Charged, OldestBucket};
use crate::store::redis::servers::{Authority, Encryption, documented_user};
use crate::store::settings::Password;
use crate::tls::{ClientTls, TlsMaterial};

#[tokio::test(flavor = "local")]
async fn server_is_reached_by_its_unix_socket() {
    let server = Server::start();
    decides_at(DialTarget {
        endpoint: DialEndpoint::Unix(server.socket()),
        ..target(server.address())
    })
    .await;
    assert_eq!(spent(&server, "k"), 1);
}

#[tokio::test(flavor = "local")]
async fn server_that_speaks_only_the_older_protocol_is_served_in_it() {
    let server = Server::start_with(&["rename-command HELLO \"\"", "requirepass secret"]);
    decides_at(DialTarget {
        password: Some(Password::new("secret")),
        ..target(server.address())
    })
    .await;
    assert_eq!(spent(&server, "k"), 1);
}

#[tokio::test(flavor = "local")]
async fn named_database_is_the_one_that_is_used() {
    let server = Server::start();
    decides_at(DialTarget {
        database: 3,
        ..target(server.address())
    })
    .await;
    assert_eq!(spent(&server, "k"), 0);
    assert!(server.info("keyspace").contains_key("db3"));
}

#[tokio::test(flavor = "local")]
async fn user_with_the_documented_rights_suffices() {
    let server = Server::start();
    server.command(&documented_user());
    server.command(&["ACL", "SETUSER", "default", "off"]);
    let target = DialTarget {
        username: Some("tollgate".into()),
        password: Some(Password::new("PASSWORD")),
        database: 1,
        ..target(server.address())
    };
    let pipeline = Pipeline::open(PrimaryResolver::Fixed(target), context());
    let sliding = Algorithm::SlidingWindow {
        buckets: 10,
        oldest: OldestBucket::Weighted,
    };
    let gcra = Algorithm::Gcra { burst: 10 };
    let algorithms = [Algorithm::FixedWindow, sliding, Algorithm::SlidingLog, gcra];
    for (place, algorithm) in algorithms.into_iter().enumerate() {
        let key = format!("tollgate:{place}");
        let quota = Quota {
            algorithm,
            limit: 20,
            ..QUOTA
        };
        for amount in [0, 1, 9, 10, 1, 1] {
            let plan = plan_of(&quota, &key, amount);
            pipeline.asked(plan).await.expect("an answer");
        }
        let charged = Charged::plain(Timestamp(1), 1);
        let release = SettlementStep::Release { charged, amount: 1 };
        for step in [SettlementStep::Spend(1), release, SettlementStep::Reset] {
            settle_step(&pipeline, &quota, &key, step)
                .await
                .expect("an answer");
        }
    }
    let call = wire::announce(&KeyNames::new("tollgate"), "node", Micros::from_secs(1));
    let announced = pipeline.call(call, false, &Caller::new(&|_| None)).await;
    assert_eq!(announced, Ok(Value::Int(1)));
    let denied = server.command(&["ACL", "LOG"]);
    assert!(denied.list().is_empty(), "{denied:?}");
    // The server may refuse `INFO`, which decisions do not need.
    server.command(&["ACL", "SETUSER", "tollgate", "-info"]);
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    while (pipeline.asked(plan_of(&QUOTA, "tollgate:again", 1)).await).is_err() {
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "local")]
async fn encrypted_server_is_served_if_its_authority_is_trusted() {
    let authority = Authority::new();
    let certificate = authority.sign_local();
    let server = Server::start_encrypted(Encryption::Tls(&certificate), &[]);
    for host in ["localhost", "127.0.0.1"] {
        decides_at(encrypted(host, &server, &authority)).await;
    }
    assert_eq!(spent(&server, "k"), 2);
}

#[tokio::test(flavor = "local")]
async fn server_that_cannot_prove_who_it_is_learns_nothing() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let misnamed = authority.sign("misnamed", &["DNS:elsewhere.test"]);
    let expired = authority.sign_expired("expired", &["IP:127.0.0.1"]);
    for certificate in [stranger.sign_local(), misnamed, expired] {
        let server = Server::start_encrypted(Encryption::Tls(&certificate), &[]);
        refuses(&server, encrypted("127.0.0.1", &server, &authority)).await;
    }
    // A server without any encryption is not talked to either.
    let server = Server::start();
    refuses(&server, encrypted("127.0.0.1", &server, &authority)).await;
}

async fn decides_at(target: DialTarget) {
    let pipeline = Pipeline::open(PrimaryResolver::Fixed(target), context());
    pipeline.asked(plan("k", 1)).await.expect("an answer");
}

/// Asserts that a pipeline to `target` does not connect, and that the server was asked nothing.
async fn refuses(server: &Server, target: DialTarget) {
    let pipeline = Pipeline::open(PrimaryResolver::Fixed(target), context());
    let refused = pipeline.asked(plan("k", 1)).await;
    assert_eq!(refused, Err(CallError::Unsent));
    let asked = server.info("commandstats");
    let strange = ["hello", "evalsha"];
    assert!(
        !strange
            .iter()
            .any(|name| asked.contains_key(&format!("cmdstat_{name}")))
    );
}

fn encrypted(host: &str, server: &Server, authority: &Authority) -> DialTarget {
    let ca = std::fs::read(authority.file()).expect("a certificate");
    let material = TlsMaterial {
        ca: Some(&ca),
        ..TlsMaterial::default()
    };
    let address = Address {
        host: host.into(),
        port: server.port(),
    };
    DialTarget {
        endpoint: DialEndpoint::Tcp(
            address,
            Some(ClientTls::new(material).expect("an authority")),
        ),
        ..target(server.address())
    }
}
