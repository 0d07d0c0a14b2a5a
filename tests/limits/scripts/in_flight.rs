//! Units in flight of a fleet: what gateways ask for and announce, in whatever order it arrives.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tollgate::clock::Timestamp;
use tollgate::limit::plan::CheckMode;
use tollgate::limit::{Algorithm, Check, Quota, Verdict};
use tollgate::store::GatewayId;
use tollgate::store::redis::wire::{self, AskingGateway, Intent, Settlement, SettlementStep};

use crate::in_memory::quota_of;
use crate::scripted::{Scripted, series_id};
use crate::support::redis::Value;
use crate::traffic::START;

const S: u64 = 1_000_000;
/// How long a grant or an announcement counts.
const LEASE_US: u64 = 15 * S;

/// What arrives at Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    /// A request asks for units.
    Ask(u64),
    /// As `Ask`, but another quota of the plan refuses.
    AskInVain(u64),
    /// A gateway announces how many units its requests hold.
    Announce(u64),
}
use Message::{Announce, Ask, AskInVain};

/// What Redis answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Admitted,
    Refused,
    Noted,
    /// A later message has arrived before, so the gateway is to announce again.
    Outdated,
}
use Reply::{Admitted, Noted, Outdated, Refused};

/// What one gateway holds.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    units: u64,
    announced: u64,
    highest: u64,
    ends_us: u64,
}

/// What Redis does by its contract: the rows of all gateways, by their ids.
#[derive(Default)]
struct Model(BTreeMap<u64, Row>);

impl Model {
    fn take(
        &mut self,
        quota: u64,
        now_us: u64,
        (gateway, sequence): (u64, u64),
        message: Message,
    ) -> Reply {
        let held = self.held(now_us);
        let row = self.0.get(&gateway).filter(|row| row.ends_us > now_us);
        let mut row = row.copied().unwrap_or_default();
        let latest_us = now_us + LEASE_US;
        let reply = match message {
            Announce(_) if sequence < row.highest => return Outdated,
            // The announcement has already counted the units.
            Ask(_) | AskInVain(_) if sequence < row.announced && held <= quota => Admitted,
            Ask(_) | AskInVain(_) if sequence < row.announced => Refused,
            Ask(units) | AskInVain(units) if held + units > quota => Refused,
            Ask(_) | AskInVain(_) => Admitted,
            Announce(_) => Noted,
        };
        // A lease from a clock that was ahead is cut to the length of all others.
        let is_cut = self.0.values().any(|row| row.ends_us > latest_us);
        match message {
            Announce(units) => {
                (row.units, row.announced, row.highest) = (units, sequence, sequence);
            }
            Ask(units) if reply == Admitted && units > 0 && sequence >= row.announced => {
                row.units += units;
                row.highest = row.highest.max(sequence);
            }
            _ if is_cut => {}
            _ => return reply,
        }
        row.ends_us = latest_us;
        self.0.retain(|_, row| row.ends_us > now_us);
        for row in self.0.values_mut() {
            row.ends_us = row.ends_us.min(latest_us);
        }
        self.0.insert(gateway, row);
        reply
    }

    fn held(&self, now_us: u64) -> u64 {
        let rows = self.0.values().filter(|row| row.ends_us > now_us);
        rows.map(|row| row.units).sum()
    }
}

/// The scripts, with this many units in flight beside a quota that refuses a cost of 2.
struct Lua(Scripted);

impl Lua {
    fn new(quota: u64) -> Self {
        let mut quotas = vec![(in_flight(quota), CheckMode::Enforce)];
        quotas.push((quota_of(Algorithm::FixedWindow, 1), CheckMode::Enforce));
        Self(Scripted::new(quotas))
    }

    fn take(&mut self, now: Timestamp, (gateway, sequence): (u64, u64), message: Message) -> Reply {
        let (rows, gateway) = (self.0.rows.clone(), GatewayId::new(gateway));
        let (cost, checks) = match message {
            Ask(units) => (units, 1),
            AskInVain(units) => (units, 2),
            Announce(units) => return self.announce(now, gateway, (units, sequence)),
        };
        let mut plan = self.0.plan(&rows, cost);
        plan.truncate(checks);
        if let [_, other] = &mut plan[..] {
            other.cost = 2;
        }
        let sequences = vec![sequence];
        let asking = AskingGateway { gateway, sequences };
        let packed = wire::pack(&plan, &self.0.names, Intent::Decide, Some(&asking), || now);
        let reply = self.0.reply(Some(now), &packed);
        let mut verdict = Verdict::default();
        wire::verdict(&plan, &reply, &mut verdict).expect("a reply");
        match verdict.answers[0].decision {
            Some(decision) if decision.admit => Admitted,
            _ => Refused,
        }
    }

    fn announce(
        &mut self,
        now: Timestamp,
        gateway: GatewayId,
        (units, sequence): (u64, u64),
    ) -> Reply {
        let quota = self.0.rows.quotas[0].0;
        let announcement = Settlement {
            quota: &quota,
            series_id: series_id(0),
            partition_id: self.0.partition_id,
            step: SettlementStep::Announce {
                gateway,
                units,
                sequence,
            },
        };
        let call = wire::settle(&[announcement], &self.0.names, Some(now), || now);
        match self.0.call(&call).list() {
            [Value::Bytes(entry)] => {
                let reply = wire::announcement_reply(entry).expect("a reply");
                assert_eq!(reply.held, Some(self.held(now).0));
                if reply.is_outdated { Outdated } else { Noted }
            }
            reply => panic!("no reply: {reply:?}"),
        }
    }

    /// Returns how many units are held in all, and how many by each gateway.
    fn held(&mut self, now: Timestamp) -> (u64, BTreeMap<u64, u64>) {
        let rows = self.0.rows.clone();
        let plan = [self.0.plan(&rows, 0)[0]];
        let pack =
            |plan: &[Check<'_>], names: &_| wire::pack(plan, names, Intent::Peek, None, || now);
        let packed = pack(&plan, &self.0.names);
        let reply = self.0.reply(Some(now), &packed);
        let left = wire::peeks(&plan, &reply).expect("a reply")[0].expect("it is decided");
        let holders = wire::holders(&plan, &reply).expect("a reply").remove(0);
        let holders = holders.iter().map(|one| (one.gateway.number(), one.units));
        let holders: BTreeMap<u64, u64> = holders.collect();
        let held = holders.values().sum();
        assert_eq!(left.remaining, rows.quotas[0].0.limit.saturating_sub(held));
        (held, holders)
    }
}

fn in_flight(limit: u64) -> Quota {
    quota_of(Algorithm::InFlight, limit)
}

/// Time in µs, gateway, its sequence number, message, reply, and how many units are held then.
type Step = (u64, u64, u64, Message, Reply, u64);

/// What a case is about, its quota, and what happens.
const CASES: &[(&str, u64, &[Step])] = &[
    (
        "gateways share the quota",
        3,
        &[
            (0, 1, 1, Ask(2), Admitted, 2),
            (0, 2, 1, Ask(2), Refused, 2),
            (0, 2, 2, Ask(1), Admitted, 3),
            (0, 3, 1, Ask(1), Refused, 3),
            (0, 3, 2, Ask(0), Admitted, 3),
            (1, 1, 2, Announce(0), Noted, 1),
            (1, 3, 3, Ask(2), Admitted, 3),
        ],
    ),
    (
        "what another quota refuses holds nothing",
        3,
        &[
            (0, 1, 1, AskInVain(2), Admitted, 0),
            (0, 1, 2, Ask(3), Admitted, 3),
            (0, 1, 3, AskInVain(1), Refused, 3),
        ],
    ),
    (
        "an announcement that is older than what was seen changes nothing",
        3,
        &[
            (0, 1, 1, Ask(1), Admitted, 1),
            (0, 1, 3, Ask(1), Admitted, 2),
            (0, 1, 2, Announce(0), Outdated, 2),
            (0, 1, 4, Announce(1), Noted, 1),
        ],
    ),
    (
        "an ask that is older than the last announcement is in its number",
        3,
        &[
            (0, 1, 2, Announce(2), Noted, 2),
            (0, 1, 1, Ask(2), Admitted, 2),
            (0, 2, 1, Ask(1), Admitted, 3),
            (0, 1, 4, Announce(3), Noted, 4),
            (0, 1, 3, Ask(1), Refused, 4),
            (0, 1, 5, Announce(2), Noted, 3),
        ],
    ),
    (
        "an ask that was given up, and announced as such, adds nothing however late it comes",
        3,
        &[
            (0, 1, 2, Announce(0), Noted, 0),
            (14 * S, 1, 1, Ask(3), Admitted, 0),
        ],
    ),
    (
        "who says nothing for a lease holds nothing, and says again what it holds",
        3,
        &[
            (0, 1, 1, Ask(2), Admitted, 2),
            (0, 2, 1, Ask(1), Admitted, 3),
            (5 * S, 2, 2, Announce(1), Noted, 3),
            (LEASE_US - 1, 3, 1, Ask(1), Refused, 3),
            (LEASE_US, 3, 2, Ask(2), Admitted, 3),
            (16 * S, 1, 2, Announce(2), Noted, 5),
            (16 * S, 3, 3, Ask(1), Refused, 5),
            (17 * S, 1, 3, Announce(0), Noted, 3),
        ],
    ),
    (
        "a clock that is set back ends no lease and lengthens none",
        3,
        &[
            (3600 * S, 1, 1, Ask(2), Admitted, 2),
            (0, 2, 1, Ask(2), Refused, 2),
            (0, 2, 2, Ask(1), Admitted, 3),
            (LEASE_US, 3, 1, Ask(3), Admitted, 3),
        ],
    ),
    (
        "gateways may have other numbers for a time: each one's own holds for what it admits",
        3,
        &[
            (0, 1, 1, Announce(7), Noted, 7),
            (0, 2, 1, Ask(1), Refused, 7),
        ],
    ),
];

#[test]
fn what_gateways_ask_for_and_announce_is_counted_once_in_whatever_order_it_arrives() {
    for (what, quota, steps) in CASES {
        let (mut lua, mut model) = (Lua::new(*quota), Model::default());
        for (number, &(at_us, gateway, sequence, message, reply, held)) in steps.iter().enumerate()
        {
            let (now, from) = (Timestamp(START.0 + at_us), (gateway, sequence));
            let by_model = model.take(*quota, now.0, from, message);
            assert_eq!(
                (by_model, model.held(now.0)),
                (reply, held),
                "{what}, step {number}: model"
            );
            let by_lua = lua.take(now, from, message);
            let found = (by_lua, lua.held(now).0);
            assert_eq!(found, (reply, held), "{what}, step {number}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Both give the same answers to whatever arrives, in whatever order, under clocks that jump either way.
    #[test]
    fn the_contract_and_lua_agree(
        quota in 1_u64..6,
        messages in proptest::collection::vec((
            (1_u64..4, 0_u64..30),
            prop_oneof![(0_u64..4).prop_map(Ask), (0_u64..4).prop_map(AskInVain), (0_u64..4).prop_map(Announce)],
            prop_oneof![6 => 0_i64..S.cast_signed(), 2 => 0_i64..20 * S.cast_signed(), 1 => -20 * S.cast_signed()..0],
        ), 1..40),
    ) {
        let (mut lua, mut model, mut now) = (Lua::new(quota), Model::default(), START);
        for (from, message, after_us) in messages {
            now = Timestamp(now.0.saturating_add_signed(after_us));
            // No two messages of a gateway have the same number.
            let from = (from.0, 2 * from.1 + u64::from(matches!(message, Announce(_))));
            let (by_lua, by_model) = (lua.take(now, from, message), model.take(quota, now.0, from, message));
            prop_assert_eq!(by_lua, by_model);
            let rows = model.0.iter().filter(|(_, row)| row.ends_us > now.0 && row.units > 0);
            let holders: BTreeMap<u64, u64> = rows.map(|(gateway, row)| (*gateway, row.units)).collect();
            prop_assert_eq!(lua.held(now).1, holders);
        }
    }
}
