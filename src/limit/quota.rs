//! A quota, its algorithm, and the decision that it makes.

use serde::{Deserialize, Serialize};

use super::calendar::Calendar;
use super::charged::Charged;
use super::partition_id::PartitionId;
use crate::clock::Micros;

/// `limit` units per `window`, counted by an algorithm.
///
/// It is compiled from the file, so it is sound: `limit` is at least 1, a sliding window's buckets
/// divide the window, and `2 * burst * T` stays below 2^52 µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Units per window (`q`).
    pub limit: u64,
    /// The window (`w`).
    pub window: Micros,
    /// How the units are counted.
    pub algorithm: Algorithm,
    /// Which requests are counted.
    pub count: Count,
    /// Where windows and buckets begin.
    pub align: Align,
    /// Whether a charge may come back, or be followed by more, once the request is answered. If not, the
    /// memory store keeps less of a bucket ([`CompactGcra`](super::gcra::CompactGcra)).
    pub can_come_back: bool,
}

/// How a quota's units are counted over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// At most `limit` per window aligned to the epoch.
    FixedWindow,
    /// At most `limit` per window of a calendar.
    Calendar(&'static Calendar),
    /// The window in equal buckets, the oldest of which is leaving.
    SlidingWindow {
        /// Buckets per window, 1 to 360; divides the window.
        buckets: u32,
        /// How much of the leaving bucket still counts.
        oldest: OldestBucket,
    },
    /// Every spent cost with its time.
    SlidingLog,
    /// A token bucket that stores one time.
    Gcra {
        /// Most units admitted at one instant from idle.
        burst: u64,
    },
    /// gcra whose admitted requests are delayed so that they depart evenly.
    LeakyBucket {
        /// Most units that wait.
        queue: u64,
    },
    /// A balance that time does not refill. Such a quota has no window, and its `limit` is [`COUNT_MAX`].
    Credits {
        /// The balance of a client that has never spent and was never granted any.
        initial: u64,
    },
    /// Units that requests hold until they have been answered. Such a quota has no window.
    InFlight,
    /// Whoever was refused by another quota of the policy is refused for a time. It has no window, and its `limit` is
    /// [`COUNT_MAX`].
    Penalty {
        /// For how long, the first time.
        length: Micros,
        /// The factor by which each further time within a day of the last one's end grows; 1 or more.
        growth: u32,
    },
}

/// How much of the bucket that is sliding out of the window still counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OldestBucket {
    /// The part that is still inside, as if its units were spread evenly; rounded down.
    #[default]
    Weighted,
    /// All of it.
    Whole,
    /// Nothing.
    Dropped,
}

/// Where the windows of a fixed window and the buckets of a sliding window begin; the other algorithms
/// have neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Align {
    /// At the epoch, for all partitions.
    #[default]
    Epoch,
    /// Later or earlier by each partition's phase, so that not every client's quota returns at once.
    Spread,
    /// Of a fixed window: with the first unit that a partition spends after its last window has ended.
    First,
}

/// Which requests a quota counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Count {
    /// Those the whole plan admitted.
    #[default]
    Admitted,
    /// Every decided request, refused ones too.
    All,
}

/// The answer of one quota, as of after the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request's cost fits now.
    pub admit: bool,
    /// Units that would be admitted after this request, at the same instant.
    pub remaining: u64,
    /// Units by which a balance is below 0; other quotas owe nothing.
    pub debt: u64,
    /// Time until `remaining` rises by at least one; none if the quota is whole.
    pub next: Option<Micros>,
    /// Time until the whole quota is available; 0 if it is.
    pub reset: Micros,
    /// When the same cost would be admitted; `Retry::NOW` if it was.
    pub retry: Retry,
    /// How long the admitted request is delayed before it is forwarded.
    pub wait: Micros,
}

/// When the same cost would be admitted, if there were no other traffic; ordered by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// After this time.
    After(Micros),
    /// Never: the cost exceeds what the quota can ever hold.
    Never,
}

impl Retry {
    /// The retry of an admitted request.
    pub const NOW: Self = Self::After(Micros(0));
}

impl Decision {
    /// Returns what a client is told of a quota if another one took what it refused.
    #[must_use]
    pub fn spilled(self) -> Self {
        Self {
            admit: true,
            retry: Retry::NOW,
            ..self
        }
    }

    /// Returns what a client is told of a quota whose policy refuses it for a time in any case.
    #[must_use]
    pub fn while_punished(self, penalty: Micros) -> Self {
        if penalty == Micros(0) {
            return self;
        }
        Self {
            remaining: 0,
            next: self.next.max(Some(penalty)),
            reset: self.reset.max(penalty),
            ..self
        }
    }

    /// Describes one window of `quota`, of which `used` units are used, and which ends after `to_end`.
    pub(super) fn of_window(
        quota: &Quota,
        used: u64,
        to_end: Micros,
        cost: u64,
        admit: bool,
    ) -> Self {
        let is_whole = used == 0;
        Self {
            admit,
            remaining: quota.limit.saturating_sub(used),
            debt: 0,
            next: (!is_whole).then_some(to_end),
            reset: if is_whole { Micros(0) } else { to_end },
            retry: match admit {
                true => Retry::NOW,
                false if cost > quota.limit => Retry::Never,
                false => Retry::After(to_end),
            },
            wait: Micros(0),
        }
    }
}

impl Quota {
    /// Returns the quota of admitted requests whose windows are aligned to the epoch and whose charges may come back.
    #[must_use]
    pub const fn of(algorithm: Algorithm, limit: u64, window: Micros) -> Self {
        Self {
            limit,
            window,
            algorithm,
            count: Count::Admitted,
            align: Align::Epoch,
            can_come_back: true,
        }
    }

    /// Returns gcra's emission interval, `ceil(window / limit)`, in microseconds.
    pub fn interval_us(&self) -> u64 {
        self.window.0.div_ceil(self.limit)
    }

    /// Returns how far a partition's windows are shifted: its state is kept, and asked, at times that are
    /// later than the store's by this phase, below a window or a bucket.
    pub fn phase(&self, partition_id: PartitionId) -> Micros {
        if self.align != Align::Spread {
            return Micros(0);
        }
        let period_us = match self.algorithm {
            Algorithm::FixedWindow => self.window.0,
            // Phases that differ by whole buckets mean the same.
            Algorithm::SlidingWindow { buckets, .. } => self.window.0 / u64::from(buckets),
            _ => return Micros(0),
        };
        Micros(partition_id.low() % period_us)
    }

    /// Returns how long gcra's bucket takes to fill, `burst * T`, in microseconds.
    pub fn burst_us(&self) -> u64 {
        self.capacity() * self.interval_us()
    }

    /// Returns how long a request that was charged so is delayed before it is forwarded.
    pub fn wait(&self, charged: &Charged) -> Micros {
        match self.algorithm {
            Algorithm::LeakyBucket { .. } if charged.amount > 0 => charged.debt,
            _ => Micros(0),
        }
    }

    /// Takes the first units out of what was charged at once for several requests, as if they had been charged by
    /// themselves right before the rest.
    #[must_use]
    pub fn take(&self, charged: &mut Charged, amount: u64) -> Charged {
        let taken = Charged { amount, ..*charged };
        charged.amount -= amount;
        if let Algorithm::Gcra { .. } = self.algorithm {
            let length_us = self.interval_us().saturating_mul(amount);
            charged.debt = Micros(charged.debt.0.saturating_add(length_us));
        }
        taken
    }

    /// Returns how long a charge counts at most: a window and a bucket, or until a bucket that is as far ahead as
    /// it may be is full again. After that it makes no difference any more to settle it.
    pub fn counts_for(&self) -> Micros {
        match self.algorithm {
            Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => Micros(2 * self.burst_us()),
            Algorithm::SlidingWindow { buckets, .. } => {
                Micros(self.window.0 + self.window.0 / u64::from(buckets))
            }
            // Months and days are longer where clocks are set back.
            Algorithm::Calendar(_) => Micros(self.window.0 + DAY.0),
            Algorithm::FixedWindow | Algorithm::SlidingLog => self.window,
            // They count until they come back.
            Algorithm::Credits { .. } | Algorithm::InFlight => Micros(COUNT_MAX),
            // Nothing is given back of it.
            Algorithm::Penalty { .. } => Micros(0),
        }
    }

    /// Returns the most units the quota can ever hold.
    pub fn capacity(&self) -> u64 {
        match self.algorithm {
            Algorithm::Gcra { burst } => burst,
            Algorithm::LeakyBucket { queue } => queue + 1,
            Algorithm::Credits { .. } => COUNT_MAX,
            _ => self.limit,
        }
    }

    /// Returns what a client has that has spent nothing.
    pub fn whole(&self) -> u64 {
        match self.algorithm {
            Algorithm::Credits { initial } => initial,
            _ => self.capacity(),
        }
    }

    /// Says whether it is a balance of credits, of which there is no full amount.
    pub fn is_balance(&self) -> bool {
        matches!(self.algorithm, Algorithm::Credits { .. })
    }

    /// Says whether requests hold its units, and spend none.
    pub fn is_in_flight(&self) -> bool {
        self.algorithm == Algorithm::InFlight
    }

    /// Says whether time gives its units back.
    pub fn has_window(&self) -> bool {
        !self.is_balance() && !self.is_in_flight() && !self.is_penalty()
    }

    /// Says whether a reset ends what counts: a balance stays, and so do units that requests hold.
    pub fn ends_by_reset(&self) -> bool {
        !self.is_balance() && !self.is_in_flight()
    }

    /// Says whether it is a penalty, which runs or does not, and is spent by nobody.
    pub fn is_penalty(&self) -> bool {
        matches!(self.algorithm, Algorithm::Penalty { .. })
    }

    /// Says whether at least 80 % of it is used if this many units are left.
    pub fn is_nearly_used_up(&self, remaining: u64) -> bool {
        !self.is_balance() && !self.is_penalty() && remaining <= self.capacity() / 5
    }
}

/// By how much a clock is ever set at most.
const DAY: Micros = Micros::from_secs(86_400);
/// Counters saturate here: the largest integer that Lua's doubles hold with room to add.
pub const COUNT_MAX: u64 = 1 << 52;
/// Most units that one request may cost.
pub const COST_MAX: u64 = 1 << 31;
