//! A process that buys units ahead, and the process that takes over from it.

use tollgate::store::{GuardedStore, Store};

use crate::gate::calls;
use crate::lease_fleet::{CLIENT, Gateway, PATIENT, daily, with};
use crate::support::redis::Proxy;

#[test]
fn process_that_takes_over_buys_ahead_at_once_and_the_one_before_holds_nothing() {
    with(2, async |fleet| {
        let (quota, old) = (daily(1_500), &fleet.gateways[0]);
        let few_calls = async |gateway: &Gateway| {
            let plan = [gateway.leased(&quota, 20, CLIENT, 1)];
            let before = calls(fleet.server);
            assert_eq!(gateway.busy(100, &plan).await, 100);
            calls(fleet.server) - before < 50
        };
        assert!(few_calls(old).await && old.held() > 0);
        let passed = redis(old).pass_leasing_on();
        let proxy = Proxy::to(fleet.server.address());
        let elsewhere = Gateway::start(proxy.address(), &fleet.clock, PATIENT).await;
        redis(&elsewhere).take_leasing_over(&passed);
        assert!(!few_calls(&elsewhere).await, "another Redis");
        let new = old.next_process().await;
        redis(&new).take_leasing_over(&passed);
        assert!(!few_calls(old).await);
        assert!(few_calls(&new).await && new.held() > 0);
        for _ in 0..4 {
            fleet.tick().await;
        }
        assert_eq!(old.held(), 0);
        assert_eq!(fleet.counted(&quota, CLIENT).await, 400 + new.held());
        redis(old).resume_leasing();
        assert!(few_calls(old).await, "the other process has failed");
    });
}

/// Returns a gateway's store.
fn redis(gateway: &Gateway) -> &GuardedStore {
    match &gateway.bench.store {
        Store::Redis(store) => store,
        Store::Memory(_) => unreachable!("it has Redis"),
    }
}
