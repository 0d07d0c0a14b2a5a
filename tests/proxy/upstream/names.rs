//! Endpoints given by name: which addresses a name resolves to, and what happens while it does not resolve.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use tokio::net::TcpListener;
use tokio::task::yield_now;
use tokio::{join, select};
use tollgate::metrics::Exposition;
use tollgate::proxy::upstream::{
    ForwardError, HostField, NameResolver, NameTable, NoEndpoint, UpstreamBody,
};
use tollgate::snapshot::{HttpUpstream, Upstream};

use super::harness::{Gateway, LAST, OK, Origin, get, read, upstream, worker};
use crate::support::Unreachable;

const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// An upstream whose only endpoint is `api.test` at this port.
fn api(port: u16, change: impl FnOnce(&mut HttpUpstream)) -> Arc<Upstream> {
    upstream(&[(FIRST, port).into()], |http| {
        let endpoint = &mut http.endpoints[0];
        endpoint.host = "api.test".into();
        endpoint.authority = format!("api.test:{port}").parse().expect("an authority");
        change(http);
    })
}

/// A gateway with that upstream, and the table of names that it resolves by.
fn named(port: u16) -> (Gateway, NameTable) {
    let names = NameTable::default();
    let mut gateway = Gateway::new(&[]);
    gateway.upstream = api(port, |_| ());
    gateway.terms.host = HostField::Endpoint;
    gateway
        .endpoints
        .resolve_by(NameResolver::Table(names.clone()));
    gateway.adopt();
    (gateway, names)
}

/// Looks up the names that are due.
async fn look_up(gateway: &Gateway) {
    gateway.endpoints.tick();
    for _ in 0..3 {
        yield_now().await;
    }
}

async fn at(address: IpAddr, port: u16) -> Origin {
    let address = SocketAddr::new(address, port);
    Origin::on(TcpListener::bind(address).await.expect("a free port"))
}

/// Sends a request that either of two origins answers, and returns which one did.
async fn turn(gateway: &Gateway, origins: [&Origin; 2]) -> usize {
    let (answer, (at, head)) = join!(gateway.send(get("/")), async {
        let (at, mut wire) = select! {
            wire = origins[0].accept() => (0, wire),
            wire = origins[1].accept() => (1, wire),
        };
        let head = wire.head().await;
        wire.say(LAST).await;
        (at, head)
    });
    assert_eq!(read(answer).await, "ok");
    assert!(head.contains("host: api.test:"), "{head}");
    at
}

#[test]
fn each_address_of_a_name_is_an_endpoint_as_long_as_it_is_one() {
    worker(async {
        let first = Origin::new().await;
        let port = first.address.port();
        let second = at(SECOND, port).await;
        let origins = [&first, &second];
        let (gateway, names) = named(port);
        let turns = async |count| {
            let mut turns = [0; 2];
            for _ in 0..count {
                turns[turn(&gateway, origins).await] += 1;
            }
            turns
        };
        names.set("api.test", &[FIRST, SECOND, FIRST]);
        look_up(&gateway).await;
        assert_eq!(turns(10).await, [5, 5]);
        names.set("api.test", &[SECOND]);
        look_up(&gateway).await;
        assert_eq!(turns(4).await, [2, 2], "it is not due yet");
        gateway.pass(Duration::from_secs(30));
        look_up(&gateway).await;
        assert_eq!(turns(4).await, [0, 4]);
        names.remove("api.test");
        gateway.pass(Duration::from_secs(30));
        look_up(&gateway).await;
        assert_eq!(turns(4).await, [0, 4], "the last good answer is kept");
        names.set("api.test", &[FIRST]);
        gateway.pass(Duration::from_secs(1));
        look_up(&gateway).await;
        assert_eq!(turns(4).await, [4, 0], "a failure is remembered briefly");
    });
}

#[test]
fn request_waits_for_the_first_answer_of_the_resolver_but_not_for_ever() {
    worker(async {
        let origin = Origin::new().await;
        let (gateway, names) = named(origin.address.port());
        let no_endpoint = |answer: Result<Response<UpstreamBody>, ForwardError>| match answer {
            Err(ForwardError::NoEndpoint(why)) => why,
            Err(other) => panic!("{other:?}"),
            Ok(answer) => panic!("{}", answer.status()),
        };
        names.hang("api.test");
        let (answer, ()) = join!(gateway.send(get("/")), async {
            look_up(&gateway).await;
            gateway.pass(Duration::from_secs(3));
        });
        assert_eq!(no_endpoint(answer), NoEndpoint::Resolving);

        let (gateway, names) = named(origin.address.port());
        let (answer, ()) = join!(gateway.send(get("/")), look_up(&gateway));
        let unknown = NoEndpoint::Unresolved("no such name".into());
        assert_eq!(no_endpoint(answer), unknown);
        let answer = gateway.send(get("/")).await;
        assert_eq!(no_endpoint(answer), unknown, "at once from now on");
        names.set("api.test", &[FIRST]);
        gateway.pass(Duration::from_secs(1));
        let sent = async {
            look_up(&gateway).await;
            gateway.send(get("/")).await
        };
        let (answer, _wire) = join!(sent, origin.answer(OK));
        assert_eq!(read(answer).await, "ok");
    });
}

#[test]
fn request_that_waits_for_the_resolver_survives_a_reload() {
    worker(async {
        let origin = Origin::new().await;
        let port = origin.address.port();
        let (gateway, names) = named(port);
        names.set("api.test", &[FIRST]);
        let reload = async {
            gateway
                .endpoints
                .adopt(&[api(port, |http| http.retries = 0)]);
            look_up(&gateway).await;
        };
        let (answer, (), _wire) = join!(gateway.send(get("/")), reload, origin.answer(OK));
        assert_eq!(read(answer).await, "ok");
    });
}

#[test]
fn address_that_is_slow_to_accept_is_not_waited_for_alone() {
    worker(async {
        let unreachable = Unreachable::new();
        let port = unreachable.address().port();
        let origin = at(SECOND, port).await;
        let (mut gateway, names) = named(port);
        names.set("api.test", &[FIRST]);
        look_up(&gateway).await;
        // Both addresses belong to one name, even if they got their weights at different times.
        gateway.upstream = api(port, |http| http.endpoints[0].weight = 2);
        gateway.adopt();
        names.set("api.test", &[FIRST, SECOND]);
        gateway.pass(Duration::from_secs(30));
        look_up(&gateway).await;
        for _ in 0..2 {
            let time = async {
                for _ in 0..20 {
                    yield_now().await;
                }
                gateway.pass(Duration::from_millis(250));
            };
            let (answer, (), _wire) = join!(gateway.send(get("/")), time, origin.answer(LAST));
            assert_eq!(read(answer).await, "ok");
        }
        let slow = format!("endpoint=\"api.test:{port} ({FIRST})\",cause=\"connect_timeout\"}} 1");
        let rendered = gateway.metrics.render(Exposition::OpenMetrics);
        assert!(rendered.contains(&slow), "it is to blame: {rendered}");
    });
}

#[test]
fn localhost_is_one_endpoint_whichever_family_answers() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        worker(async {
            let listener = TcpListener::bind(address).await;
            let origin = Origin::on(listener.expect("a loopback of this family"));
            let gateway = Gateway::with(&[origin.address], |http| {
                http.endpoints[0].host = "localhost".into();
                http.retries = 0;
            });
            for _ in 0..3 {
                let (answer, _wire) = join!(gateway.send(get("/")), origin.answer(LAST));
                assert_eq!(read(answer).await, "ok");
                assert_eq!(gateway.attempts.borrow().count(), 1);
            }
        });
    }
}
