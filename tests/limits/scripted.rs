//! The scripts of `lua/` on a real server, called directly: plans of fixed quotas of one partition, at times that the
//! test names.

#![allow(dead_code, reason = "each test file uses its share")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use smallvec::SmallVec;
use tollgate::clock::Timestamp;
use tollgate::limit::plan::{PlanPolicy, SeriesId};
use tollgate::limit::{Adjustment, Charged, Check, Decision, PartitionId, Verdict};
use tollgate::store::GatewayId;
use tollgate::store::redis::wire::{
    self, AskingGateway, Call, Intent, KeyNames, Packed, PlanError, Replies, Reply, Script,
    Settlement, SettlementStep, time_argument,
};

use crate::ledger::{Rows, is_window};
use crate::support::redis::{Connection, Server, Value, documented_rights};

/// Quotas of a partition that no other test uses.
///
/// Scripts are called as a user with no more rights than they need.
pub struct Scripted {
    /// The restricted user's connection, on which scripts are called.
    connection: Connection,
    /// The tests' own connection, with all rights.
    control: Connection,
    pub names: KeyNames,
    pub rows: Rows,
    pub partition_id: PartitionId,
    /// What each decision charged, check by check.
    pub charges: Vec<Vec<Option<Charged>>>,
    /// Number of calls so far, which varies the gateway's clock.
    asked: u64,
    /// Units in flight that are held, by row.
    held: Vec<u64>,
    /// The last sequence number that a gateway drew.
    sequence: u64,
    /// Whether the scripts for a full server are called.
    pub is_full: bool,
    /// The digests of the scripts that are called; [`small_blocks`](Self::small_blocks) names others.
    shas: Vec<String>,
}

/// The gateway in whose name units in flight are held.
const GATEWAY: GatewayId = GatewayId::new(1);

/// Most entries in a block of a log after [`Scripted::small_blocks`].
pub const SMALL_BLOCK: usize = 8;

impl Scripted {
    /// Makes a partition on the server that this process's tests share.
    pub fn new(rows: impl Into<Rows>) -> Self {
        Self::on(shared(), rows)
    }

    /// Makes a partition on a server.
    pub fn on(server: &Server, rows: impl Into<Rows>) -> Self {
        static PARTITIONS: AtomicU64 = AtomicU64::new(1);
        let mut control = server.connect().expect("the server runs");
        let words: Vec<_> = [
            "ACL",
            "SETUSER",
            "gateway",
            "on",
            ">secret",
            "resetkeys",
            "~test:*",
        ]
        .into_iter()
        .chain(documented_rights())
        .collect();
        let made = control.ask(&words).expect("the server answers");
        assert_eq!(made.text(), "OK");
        let mut connection = server.connect().expect("the server runs");
        let entered = connection.ask(&["AUTH", "gateway", "secret"]);
        assert_eq!(entered.expect("the server answers").text(), "OK");
        for script in Script::ALL {
            let sha = control.ask(&["SCRIPT", "LOAD", script.source()]);
            assert_eq!(sha.expect("the server answers").text(), script.sha());
        }
        let names = KeyNames::new("test");
        let rows = rows.into();
        for row in 0..rows.quotas.len() {
            names.note(series_id(rows.series[row]), &rows.series_of(row));
        }
        let partition = u128::from(PARTITIONS.fetch_add(1, Relaxed)) << 64;
        Self {
            connection,
            control,
            names,
            partition_id: PartitionId::new(partition | u128::from(rows.partition_low)),
            held: vec![0; rows.quotas.len()],
            sequence: 0,
            rows,
            charges: Vec::new(),
            asked: 0,
            is_full: false,
            shas: Script::ALL.map(|script| script.sha().to_owned()).to_vec(),
        }
    }

    /// Makes the scripts use short blocks in logs, so that a few entries fill several.
    pub fn small_blocks(mut self) -> Self {
        for (script, sha) in Script::ALL.iter().zip(&mut self.shas) {
            let is_of_logs = script.source().contains("LAST_BYTES =");
            let source = (script.source())
                .replace("583 * 14", &format!("{SMALL_BLOCK} * 14"))
                .replace("32 * 14", "3 * 14");
            assert_eq!(source != script.source(), is_of_logs);
            *sha = (self.control.ask(&["SCRIPT", "LOAD", &source]))
                .expect("the server answers")
                .text();
        }
        self
    }

    /// Renders the key of a quota of the plan.
    pub fn key(&self, index: usize) -> Box<[u8]> {
        (self.names).key(series_id(self.rows.series[index]), self.partition_id)
    }

    /// Makes a plan of all rows.
    pub fn plan<'q>(&self, rows: &'q Rows, cost: u64) -> Vec<Check<'q>> {
        self.plan_of(rows, &rows.all(), cost)
    }

    /// Makes a plan of some of the rows.
    fn plan_of<'q>(&self, rows: &'q Rows, of: &[usize], cost: u64) -> Vec<Check<'q>> {
        let partition_id = self.partition_id;
        let plan = rows.plan(of, cost).into_iter();
        plan.map(|check| Check {
            partition_id,
            ..check
        })
        .collect()
    }

    /// Asks as a gateway does whose clock differs from the server's: once more if the server is in other windows.
    fn ask(&mut self, now: Timestamp, plan: &[Check<'_>], intent: Intent) -> Reply {
        let about = self.about(now);
        let asks = plan.iter().filter(|check| check.quota.is_in_flight());
        let sequences = asks.map(|_| self.next()).collect::<Vec<_>>();
        let asking = AskingGateway {
            gateway: GATEWAY,
            sequences,
        };
        let asking = (intent == Intent::Decide).then_some(&asking);
        let packed = wire::pack(plan, &self.names, intent, asking, || about);
        let reply = self.reply(Some(now), &packed);
        if !reply.is_outside() {
            return reply;
        }
        assert_eq!(reply.time, now);
        let packed = wire::pack(plan, &self.names, intent, asking, || now);
        self.reply(Some(now), &packed)
    }

    /// Draws a sequence number, as a gateway does.
    fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Returns the step that announces how many units of a row are held.
    fn announcement(&mut self, row: usize) -> SettlementStep {
        SettlementStep::Announce {
            gateway: GATEWAY,
            units: self.held[row],
            sequence: self.next(),
        }
    }

    /// Announces the units that are held, as a gateway does before its leases end.
    fn renew(&mut self, now: Timestamp) {
        let held: Vec<usize> = (self.rows.all().into_iter())
            .filter(|row| self.held[*row] > 0)
            .collect();
        if !held.is_empty() {
            let steps: Vec<_> = (held.into_iter())
                .map(|row| (row, self.announcement(row)))
                .collect();
            self.take(now, &steps);
        }
    }

    /// Returns the time of a gateway's clock: in turns right, a day behind, a day ahead, and 70 days ahead.
    fn about(&mut self, now: Timestamp) -> Timestamp {
        const DAY_US: u64 = 86_400_000_000;
        self.asked += 1;
        match self.asked % 4 {
            0 => now,
            1 => Timestamp(now.0.saturating_sub(DAY_US)),
            2 => Timestamp(now.0 + DAY_US),
            _ => Timestamp(now.0 + 70 * DAY_US),
        }
    }

    pub fn decide(&mut self, now: Timestamp, cost: u64) -> Verdict {
        self.decide_some(now, &self.rows.all(), cost)
    }

    /// Decides a plan of some of the rows.
    pub fn decide_some(&mut self, now: Timestamp, of: &[usize], cost: u64) -> Verdict {
        self.renew(now);
        let rows = self.rows.clone();
        let plan = self.plan_of(&rows, of, cost);
        let reply = self.ask(now, &plan, Intent::Decide);
        let mut verdict = Verdict::default();
        wire::verdict(&plan, &reply, &mut verdict).expect("a reply");
        for ((row, check), answer) in of.iter().zip(&plan).zip(&verdict.answers) {
            if check.quota.is_in_flight() && answer.charged.is_some() {
                self.held[*row] += check.cost;
            }
        }
        let charged = verdict.answers.iter().map(|answer| answer.charged);
        self.charges.push(charged.collect());
        verdict
    }

    /// Peeks at the quotas, all of which must be decided.
    pub fn peek(&mut self, now: Timestamp, cost: u64) -> SmallVec<[Decision; 4]> {
        let peeks = self.peeks(now, cost).into_iter();
        peeks.map(|peek| peek.expect("decided")).collect()
    }

    pub fn peeks(&mut self, now: Timestamp, cost: u64) -> SmallVec<[Option<Decision>; 4]> {
        let rows = self.rows.clone();
        let plan = self.plan(&rows, cost);
        let reply = self.ask(now, &plan, Intent::Peek);
        wire::peeks(&plan, &reply).expect("a reply")
    }

    /// Gives back up to `amount` of what a decision charged; returns what is then left of each quota that was charged.
    pub fn release(&mut self, now: Timestamp, decision: usize, amount: u64) -> Vec<Decision> {
        let all = self.rows.all();
        self.settle(now, decision, &all, |_| Adjustment::GiveBack(amount))
    }

    /// Gives back or spends more of what a decision of some of the rows charged; returns what is left.
    pub fn settle(
        &mut self,
        now: Timestamp,
        decision: usize,
        of: &[usize],
        adjustment: impl Fn(PlanPolicy) -> Adjustment,
    ) -> Vec<Decision> {
        let mut settlements = Vec::new();
        let mut standing = self.charges[decision].clone();
        for (charged, &row) in standing.iter_mut().zip(of) {
            let Some(charged) = charged else { continue };
            let step = match adjustment(PlanPolicy(self.rows.policies[row])) {
                Adjustment::GiveBack(amount) => {
                    let (charged_then, amount) = (*charged, amount.min(charged.amount));
                    charged.amount -= amount;
                    if self.rows.quotas[row].0.is_in_flight() {
                        self.held[row] -= amount;
                        self.announcement(row)
                    } else {
                        SettlementStep::Release {
                            charged: charged_then,
                            amount,
                        }
                    }
                }
                Adjustment::Spend(amount) => SettlementStep::Spend(amount),
            };
            settlements.push((row, step));
        }
        self.charges[decision] = standing;
        self.take(now, &settlements)
    }

    /// Spends `amount` in every quota, without asking; returns what is left.
    pub fn spend(&mut self, now: Timestamp, amount: u64) -> Vec<Decision> {
        self.take_in_all(now, SettlementStep::Spend(amount))
    }

    /// Spends `amount` in every window in which a decision charged; returns what is left.
    pub fn spend_then(&mut self, now: Timestamp, decision: usize, amount: u64) -> Vec<Decision> {
        let charges = self.charges[decision].iter().enumerate();
        let steps: Vec<_> = charges
            .filter(|(row, _)| is_window(&self.rows.quotas[*row].0))
            .filter_map(|(row, then)| {
                let then = (*then)?;
                Some((row, SettlementStep::SpendThen { then, amount }))
            })
            .collect();
        self.take(now, &steps)
    }

    /// Gives back units of the newest charge of every quota; returns what is left.
    pub fn release_newest(&mut self, now: Timestamp, amount: u64) -> Vec<Decision> {
        self.take_in_all(now, SettlementStep::ReleaseNewest(amount))
    }

    pub fn reset(&mut self, now: Timestamp) -> Vec<Decision> {
        self.take_in_all(now, SettlementStep::Reset)
    }

    fn take_in_all(&mut self, now: Timestamp, step: SettlementStep) -> Vec<Decision> {
        let steps: Vec<_> = self.rows.all().into_iter().map(|row| (row, step)).collect();
        self.take(now, &steps)
    }

    /// Has steps settled; returns what is left of each step's quota.
    fn take(&mut self, now: Timestamp, steps: &[(usize, SettlementStep)]) -> Vec<Decision> {
        let rows = self.rows.clone();
        let settlement = |&(row, step): &(usize, SettlementStep)| Settlement {
            quota: &rows.quotas[row].0,
            series_id: series_id(rows.series[row]),
            partition_id: self.partition_id,
            step,
        };
        let settlements: Vec<_> = steps.iter().map(settlement).collect();
        let about = self.about(now);
        let mut call = wire::settle(&settlements, &self.names, Some(now), || about);
        call.script = self.form(call.script);
        let mut entries = self.call(&call).list().to_vec();
        assert_eq!(entries.len(), steps.len());
        for (entry, settlement) in entries.iter_mut().zip(settlements) {
            let Value::Error(error) = &*entry else {
                continue;
            };
            // A full server has no memory for a new balance, so its entry is the time alone.
            if error.starts_with("OOM ") && self.is_full {
                *entry = Value::Bytes(now.0.to_be_bytes()[1..].to_vec());
            } else if let Some(at) = wire::outside_at(error) {
                assert_eq!(at, now);
                let mut call = wire::settle(&[settlement], &self.names, Some(now), || now);
                call.script = self.form(call.script);
                *entry = self.call(&call).list()[0].clone();
            }
        }
        let peeks = self.peeks(now, 0);
        let described = |(&(index, _), entry): (&(usize, _), Value)| {
            let admit = peeks[index].is_none_or(|peek| peek.admit);
            self.described(&rows, index, admit, &entry)
        };
        steps.iter().zip(entries).map(described).collect()
    }

    /// Reads what a settled entry says is left, in the form of a decision.
    fn described(&self, rows: &Rows, index: usize, admit: bool, entry: &Value) -> Decision {
        let Value::Bytes(entry) = entry else {
            panic!("an entry that was not settled: {entry:?}");
        };
        let (at, state) = entry.split_at(7);
        let length = u16::try_from(state.len()).expect("a short state");
        let fits = [1, u8::from(admit)];
        let reply = [at, &fits, &length.to_be_bytes(), state].concat();
        let reply = Replies::read(reply).expect("a time").next(1);
        let plan = [self.plan(rows, 0)[index]];
        let peeks = wire::peeks(&plan, &reply.expect("a reply")).expect("a state");
        peeks[0].expect("decided")
    }

    /// Has one plan decided, which must not fail.
    pub fn reply(&mut self, now: Option<Timestamp>, packed: &Packed) -> Reply {
        let mut replies = self.replies(now, std::slice::from_ref(packed));
        replies.remove(0).expect("a reply")
    }

    /// Has plans decided in one call, by the script that a gateway calls for them; a plan that is not decided has the
    /// text of its error.
    pub fn replies(
        &mut self,
        now: Option<Timestamp>,
        plans: &[Packed],
    ) -> Vec<Result<Reply, String>> {
        let bytes = self.reply_to_all(now, plans);
        let mut replies = Replies::read(bytes).expect("a time");
        let reply = |packed: &Packed| match replies.next(packed.checks()) {
            Ok(reply) => Ok(reply),
            Err(PlanError::Failed(text)) => Err(text),
            Err(PlanError::Bad) => panic!("no reply to a plan"),
        };
        let each = plans.iter().map(reply).collect();
        assert!(replies.is_at_end());
        each
    }

    /// Has plans decided in one call; returns the bytes of the reply.
    pub fn reply_to_all(&mut self, now: Option<Timestamp>, plans: &[Packed]) -> Vec<u8> {
        let script = match plans {
            [packed] => packed.script,
            _ => Script::Decide,
        };
        let arguments = plans.iter().map(|packed| packed.argument.clone());
        let call = Call {
            script: self.form(script),
            keys: plans
                .iter()
                .flat_map(|packed| packed.keys.clone())
                .collect(),
            arguments: time_argument(now).into_iter().chain(arguments).collect(),
        };
        match self.call(&call) {
            Value::Bytes(bytes) => bytes,
            reply => panic!("no reply: {reply:?}"),
        }
    }

    /// Returns the script to call in place of `script`: on a full server, the one for that.
    fn form(&self, script: Script) -> Script {
        match script.when_full() {
            Some(existing) if self.is_full => existing,
            _ => script,
        }
    }

    /// Calls a script, which must not fail.
    pub fn call(&mut self, call: &Call) -> Value {
        let value = self.answer(call);
        assert_eq!(value.error(), None);
        value
    }

    /// Calls a script, which may fail.
    pub fn answer(&mut self, call: &Call) -> Value {
        let mut words = vec![
            b"EVALSHA".to_vec(),
            self.shas[call.script as usize].clone().into_bytes(),
        ];
        words.push(call.keys.len().to_string().into_bytes());
        words.extend(call.keys.iter().map(|key| key.to_vec()));
        words.extend(call.arguments.iter().cloned());
        self.connection.ask(&words).expect("the server answers")
    }

    /// Sends a command on the tests' own connection, which must not fail.
    pub fn command(&mut self, words: &[impl AsRef<[u8]>]) -> Value {
        let value = self.control.ask(words).expect("the server answers");
        assert_eq!(value.error(), None);
        value
    }
}

pub fn series_id(index: usize) -> SeriesId {
    SeriesId(u32::try_from(index).expect("few quotas"))
}

/// Returns the server that the tests of this process share.
pub fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}
