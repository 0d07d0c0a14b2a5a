//! Units that are given back are counted as refunded when Redis has them, and not if it cannot take them.

use crate::gate::{CLIENT, Gate};
use crate::support::origin::{After, Gate as Door, Origin};
use crate::support::ratelimit::remaining;
use crate::support::redis::{Fault, Proxy, Server, Value};
use crate::support::{Client, Config, eventually};

const QUOTA: i64 = 10;
const REFUNDED: &str = "tollgate_refunded_units_total";

/// A gateway whose requests are all answered with 404, some once the door is open, so that their units are given back.
struct Refunds {
    server: Server,
    proxy: Proxy,
    door: Door,
    gate: Gate,
    _origin: Origin,
}

impl Refunds {
    #[track_caller]
    fn start() -> Self {
        let server = Server::start();
        let proxy = Proxy::to(server.address());
        let door = Door::default();
        let opened = door.clone();
        let origin = Origin::scripted(move |exchange| {
            if exchange.target() == "/held" {
                opened.wait();
            }
            exchange.write("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
            Ok(After::Keep)
        });
        let policy = format!(
            "quota = '{QUOTA} per hour'\npartition = ['header:{CLIENT}']\nrefund_on = ['4xx']"
        );
        let config = Config::to(origin.url())
            .policy("p", &policy)
            .route("/*", "policies = ['p']");
        // Answers of Redis that take too long would not be counted, so the timeout is long.
        let store = format!("url = 'redis://{}'\ntimeout = '5s'", proxy.address());
        let gate = Gate::start(config, &store);
        gate.wait_until_redis_decides();
        Self {
            server,
            proxy,
            door,
            gate,
            _origin: origin,
        }
    }

    /// Calls `fail` while a request that Redis has charged is waiting for its answer.
    #[track_caller]
    fn answer_while(&self, fail: impl FnOnce()) {
        let before = self.charged();
        let alice = format!("{CLIENT}: alice\r\n");
        let mut client = Client::asking(self.gate.process.public, "/held", &alice);
        eventually("Redis has charged the request", || {
            (self.charged() > before).then_some(())
        });
        fail();
        self.door.open();
        assert_eq!(client.answer().status, 404);
        (self.gate.process).wait_for_line(&["\"path\":\"/held\""]);
    }

    /// Returns how many decisions Redis has made for the gateway.
    fn charged(&self) -> u64 {
        self.gate.decisions("answered")
    }

    fn refunded(&self) -> u64 {
        self.gate.metric(&[REFUNDED])
    }

    /// Waits until every request is counted as refunded, and returns how many there are.
    #[track_caller]
    fn all_refunded(&self) -> u64 {
        eventually("every answer's unit is counted as given back", || {
            let answered = self.gate.metric(&["tollgate_requests_total", "4xx"]);
            (self.refunded() == answered).then_some(answered)
        })
    }
}

#[test]
fn units_count_as_refunded_once_redis_has_them() {
    let it = Refunds::start();
    let before = it.all_refunded();
    it.answer_while(|| {
        it.proxy.set(Fault::Refuse);
        it.proxy.reset_all();
        // Anything sent on a connection that is about to end may be lost.
        it.gate.wait_for_connections(0);
    });
    assert_eq!(it.refunded(), before, "Redis is out of reach");
    it.proxy.set(Fault::None);
    assert_eq!(it.all_refunded(), before + 1);
    eventually("all of the quota is back", || {
        let reply = it.gate.ask_as("alice");
        (remaining(&reply.answer, "p") == QUOTA).then_some(())
    });
}

#[test]
fn units_that_redis_cannot_take_back_are_not_counted_as_refunded() {
    let it = Refunds::start();
    let before = it.all_refunded();
    it.answer_while(|| {
        // A value of another type under the charge's key makes its settlement fail.
        let keys = it.server.command(&["KEYS", "*:p"]);
        for key in keys.list().iter().map(Value::text) {
            it.server.command(&["DEL", &key]);
            it.server.command(&["SADD", &key, "x"]);
        }
    });
    eventually("the settlement is dropped", || {
        let dropped = it.gate.metric(&["tollgate_settlements_dropped"]);
        (dropped == 1).then_some(())
    });
    assert_eq!(it.refunded(), before);
}
