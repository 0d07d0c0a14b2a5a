//! What the clients of a fleet saw, and what Redis must have counted according to that, to the unit.
//!
//! An admitted request costs what its answer says, and others cost nothing. So the count of a key is a sum over what
//! its clients were told, whichever gateways decided, in whatever order. Nothing ages out in the meantime. A gcra
//! bucket does leak, so its busy time is compared instead: the time from when it was last full to when it is full
//! again, which is the sum of each unit's interval at the gateway that charged it.

use tollgate::limit::{Algorithm, Quota};

use crate::support::redis::{Server, Value};

/// Units that a request is charged until its answer says what it costs.
pub const RESERVE: u64 = 4;
/// How long a gateway remembers a refusal, in microseconds.
pub const REMEMBERED: i64 = 100_000;

/// A policy of the fleet.
#[derive(Clone, Debug)]
pub struct Policy {
    pub name: String,
    pub manner: Manner,
    /// Whether all clients share one quota of the policy.
    pub is_common: bool,
    /// The policy's quota, as each gateway has it configured.
    pub quotas: Vec<Quota>,
}

/// What a policy does without Redis, and where its costs come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// The policy refuses without Redis; a response field has the cost.
    Closed,
    /// The gateway counts by itself without Redis; a response field has the cost.
    Local,
    /// The gateway counts by itself without Redis; the response body has the cost.
    Body,
    /// The policy refuses without Redis; each request costs 1, and is held until its turn.
    Paced,
}

/// One request, as its client saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub route: usize,
    pub client: usize,
    pub gateway: usize,
    /// Time of sending, in microseconds by a clock that never steps. The decision came between it and `received`.
    pub sent: i64,
    pub received: i64,
    pub verdict: Verdict,
    /// Units that stay charged once the answer is known.
    pub stays: u64,
    /// Whether the origin holds back the answer.
    pub is_held: bool,
    /// Time from which Redis has certainly settled the request.
    pub settled: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request went on to the origin.
    Admitted,
    Refused,
    /// The request was refused because Redis did not decide.
    Undecided,
    /// The request went on to the origin, and Redis was not asked.
    Elsewhere,
}

/// Everything that the clients of a fleet saw.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub policies: Vec<Policy>,
    /// Indexes of each route's policies.
    pub routes: Vec<Vec<usize>>,
    pub asked: Vec<Asked>,
}

impl Asked {
    /// Returns the units that a policy counts for this request in the end.
    fn counts(&self, policy: &Policy) -> u64 {
        match (self.verdict, policy.manner) {
            (Verdict::Admitted, Manner::Paced) => 1,
            // The cost is not known yet.
            (Verdict::Admitted, _) if self.is_held => RESERVE,
            (Verdict::Admitted, _) => self.stays,
            _ => 0,
        }
    }

    /// Returns the units of this request that had certainly been counted when `other` was sent.
    fn at_least(&self, policy: &Policy, other: &Self) -> u64 {
        let counts = self.counts(policy);
        if self.received > other.sent {
            0
        } else if self.settled.is_some_and(|at| at <= other.sent) {
            counts
        } else {
            counts.min(RESERVE)
        }
    }

    /// Returns the most units of this request that may have been counted when `other` was decided.
    fn at_most(&self, policy: &Policy, other: &Self) -> u64 {
        let is_nothing = matches!(self.verdict, Verdict::Refused | Verdict::Elsewhere);
        let counts = self.counts(policy);
        if self.sent > other.received || is_nothing {
            0
        } else if (self.settled).is_some_and(|at| at + REMEMBERED <= other.sent) {
            counts
        } else {
            counts.max(RESERVE)
        }
    }
}

impl Ledger {
    /// Returns what Redis must have counted: units, or for gcra the sum of their intervals in microseconds.
    pub fn expected(&self, policy: usize, client: usize) -> u64 {
        let of = &self.policies[policy];
        let all = self.of_key(policy, client);
        all.map(|asked| asked.counts(of) * weight(&of.quotas[asked.gateway]))
            .sum()
    }

    /// Records that Redis has settled all requests that are not held.
    pub fn note_settled(&mut self, at: i64) {
        let all = self.asked.iter_mut();
        let open = all.filter(|asked| asked.settled.is_none() && !asked.is_held);
        open.for_each(|asked| asked.settled = Some(at));
    }

    /// Returns the requests that a gateway admitted beyond its own numbers, or refused within them.
    pub fn misjudged(&self) -> Vec<Asked> {
        let wrong = |asked: &&Asked| match asked.verdict {
            Verdict::Admitted => self
                .judging(asked)
                .any(|policy| self.is_beyond(policy, asked)),
            Verdict::Refused => !self
                .judging(asked)
                .any(|policy| self.may_refuse(policy, asked)),
            Verdict::Undecided | Verdict::Elsewhere => false,
        };
        self.asked.iter().filter(wrong).copied().collect()
    }

    /// Counts the requests with that verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        let all = self.asked.iter();
        all.filter(|asked| asked.verdict == verdict).count()
    }

    fn of_key(&self, policy: usize, client: usize) -> impl Iterator<Item = &Asked> {
        let is_common = self.policies[policy].is_common;
        self.asked.iter().filter(move |asked| {
            let is_of_client = is_common || asked.client == client;
            is_of_client && self.routes[asked.route].contains(&policy)
        })
    }

    /// Yields the policies of a request whose numbers limit it at once, that is, all but the paced one.
    fn judging(&self, asked: &Asked) -> impl Iterator<Item = usize> {
        let of_route = self.routes[asked.route].iter().copied();
        of_route.filter(|policy| self.policies[*policy].manner != Manner::Paced)
    }

    /// Whether a request certainly did not fit.
    fn is_beyond(&self, policy: usize, asked: &Asked) -> bool {
        let (spent, first) = self.spent(policy, asked, Asked::at_least);
        !self.fits(policy, asked, spent, asked.received - first.sent)
    }

    /// Whether a request may not have fitted.
    fn may_refuse(&self, policy: usize, asked: &Asked) -> bool {
        let (spent, first) = self.spent(policy, asked, Asked::at_most);
        !self.fits(policy, asked, spent, asked.sent - first.received)
    }

    /// Returns what other requests had spent of this one's key, and the first request of the key.
    fn spent(
        &self,
        policy: usize,
        asked: &Asked,
        counted: impl Fn(&Asked, &Policy, &Asked) -> u64,
    ) -> (u64, Asked) {
        let of = &self.policies[policy];
        let all = || self.of_key(policy, asked.client);
        let others = all().filter(|other| *other != asked);
        let each =
            others.map(|other| counted(other, of, asked) * weight(&of.quotas[other.gateway]));
        let first = all().min_by_key(|other| other.sent);
        (each.sum(), *first.expect("it is one of them"))
    }

    /// Whether a request fits in addition to `spent`, `later` microseconds after the key's first request.
    fn fits(&self, policy: usize, asked: &Asked, spent: u64, later: i64) -> bool {
        let quota = &self.policies[policy].quotas[asked.gateway];
        let (capacity, leaked) = match quota.algorithm {
            Algorithm::Gcra { .. } => (quota.burst_us(), later.max(0).unsigned_abs()),
            _ => (quota.limit, 0),
        };
        spent + RESERVE * weight(quota) <= capacity + leaked
    }
}

/// Returns by how much a unit increases the count that is compared.
fn weight(quota: &Quota) -> u64 {
    match quota.algorithm {
        Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => quota.interval_us(),
        _ => 1,
    }
}

/// Returns what Redis has counted under a key: units, or for gcra the sum of their intervals in microseconds.
#[track_caller]
pub fn counted(server: &Server, key: &str, algorithm: Algorithm) -> u64 {
    if let Algorithm::SlidingLog = algorithm {
        return logged(server.command(&["LRANGE", key, "0", "-1"]).list());
    }
    let Value::Bytes(value) = server.command(&["GET", key]) else {
        return 0;
    };
    match algorithm {
        Algorithm::FixedWindow => number(&value[7..]),
        // Without the oldest bucket's part, because no bucket is that old; and no count is as large as 2^32.
        Algorithm::SlidingWindow { .. } => number(&value[8..]),
        // The time at which the bucket is full again, minus the time at which it was last full.
        _ => number(&value) - number(&value[7..]),
    }
}

/// Returns the units in a log, after checking that its head and its entries agree.
#[track_caller]
fn logged(blocks: &[Value]) -> u64 {
    let Some((Value::Bytes(head), before)) = blocks.split_last() else {
        return 0;
    };
    let (mut entries, mut rest) = (Vec::new(), &head[37..]);
    let mut gone = 0;
    if !before.is_empty() {
        gone = usize::try_from(number(rest)).expect("less than a block");
        rest = &rest[14 + 14 * before.len()..];
    }
    for block in before {
        let Value::Bytes(block) = block else {
            panic!("a block is a text: {block:?}");
        };
        entries.extend_from_slice(block);
    }
    entries.extend_from_slice(rest);
    let units = entries[gone..].chunks(14).map(|entry| number(&entry[7..]));
    let sum = units.sum();
    assert_eq!(number(head), sum, "the head of a log and its entries");
    sum
}

/// Returns the first seven bytes as a number.
fn number(bytes: &[u8]) -> u64 {
    let seven = bytes[..7].iter();
    seven.fold(0, |number, byte| number << 8 | u64::from(*byte))
}
