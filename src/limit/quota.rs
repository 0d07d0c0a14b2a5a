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
    /// Whether a charge may be given back, or followed by more, once the request is answered. If not, the memory store
    /// keeps less for gcra and leaky-bucket ([`CompactGcra`](super::gcra::CompactGcra)).
    pub can_come_back: bool,
}

/// How a quota's units are counted over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// At most `limit` per window of fixed length, which begins as [`Align`] says.
    FixedWindow,
    /// At most `limit` per window of a calendar.
    Calendar(&'static Calendar),
    /// At most `limit` in a window of equal buckets, the oldest of which is leaving.
    SlidingWindow {
        /// Buckets per window, 1 to 360; divides the window.
        buckets: u32,
        /// How much of the leaving bucket still counts.
        oldest: OldestBucket,
    },
    /// At most `limit` in any stretch of `window`: a log of every spent cost with its time.
    SlidingLog,
    /// A token bucket that stores one time.
    Gcra {
        /// Most units admitted at one instant after an idle time.
        burst: u64,
    },
    /// gcra whose admitted requests are delayed so that they depart evenly.
    LeakyBucket {
        /// Most units that wait.
        queue: u64,
    },
    /// A balance that time does not refill. Such a quota has no window, and its `limit` is [`COUNT_MAX`].
    Credits {
        /// The balance of a client that has neither spent nor been granted any units.
        initial: u64,
    },
    /// Units that requests hold until they have been answered. Such a quota has no window.
    InFlight,
    /// A client that another quota of the policy refused is refused for a time. Such a quota has no window, and its
    /// `limit` is [`COUNT_MAX`].
    Penalty {
        /// Length of the first penalty.
        length: Micros,
        /// Factor by which each further penalty within a day of the last one's end is longer; 1 or more.
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
    /// Shifted by each partition's phase, so that not every client's quota returns at once.
    Spread,
    /// For a fixed window: with the first unit that a partition spends after its last window has ended.
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

/// The answer of one quota; it describes the state after the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the quota admits the request's cost.
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
    /// Returns what a client is told of a quota if another one took over what it refused.
    #[must_use]
    pub fn spilled(self) -> Self {
        Self {
            admit: true,
            retry: Retry::NOW,
            ..self
        }
    }

    /// Returns what a client is told of a quota while a penalty runs; it ends after `penalty`, which is 0 if none runs.
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
    /// Returns a quota of admitted requests whose windows are aligned to the epoch and whose charges may come back.
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

    /// Returns how far a partition's windows are shifted: its state is read and written at times that
    /// are ahead of the store's by this phase, which is less than a window or a bucket.
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

    /// Returns how long a request with this charge is delayed before it is forwarded.
    pub fn wait(&self, charged: &Charged) -> Micros {
        match self.algorithm {
            Algorithm::LeakyBucket { .. } if charged.amount > 0 => charged.debt,
            _ => Micros(0),
        }
    }

    /// Takes the first units out of what was charged at once for several requests, as if they had been charged on their
    /// own right before the rest.
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

    /// Returns the longest time that a charge counts: a window and a bucket, or for gcra until a bucket with the
    /// largest possible debt is full again. After that, settling it makes no difference.
    pub fn counts_for(&self) -> Micros {
        match self.algorithm {
            Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => Micros(2 * self.burst_us()),
            Algorithm::SlidingWindow { buckets, .. } => {
                Micros(self.window.0 + self.window.0 / u64::from(buckets))
            }
            // A day or a month in which clocks are set back is longer.
            Algorithm::Calendar(_) => Micros(self.window.0 + CLOCK_CHANGE_MAX.0),
            Algorithm::FixedWindow | Algorithm::SlidingLog => self.window,
            // Their units count until they come back.
            Algorithm::Credits { .. } | Algorithm::InFlight => Micros(COUNT_MAX),
            // Nothing of a penalty is given back.
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

    /// Returns the units of a client that has spent nothing.
    pub fn whole(&self) -> u64 {
        match self.algorithm {
            Algorithm::Credits { initial } => initial,
            _ => self.capacity(),
        }
    }

    /// Says whether the quota is a balance of credits, for which there is no full amount.
    pub fn is_balance(&self) -> bool {
        matches!(self.algorithm, Algorithm::Credits { .. })
    }

    /// Says whether requests hold the quota's units instead of spending them.
    pub fn is_in_flight(&self) -> bool {
        self.algorithm == Algorithm::InFlight
    }

    /// Says whether time gives the quota's units back.
    pub fn has_window(&self) -> bool {
        !self.is_balance() && !self.is_in_flight() && !self.is_penalty()
    }

    /// Says whether a reset clears the state. A balance stays, and so do units that requests hold.
    pub fn is_cleared_by_reset(&self) -> bool {
        !self.is_balance() && !self.is_in_flight()
    }

    /// Says whether the quota is a penalty, which either runs or does not, and has no units to spend.
    pub fn is_penalty(&self) -> bool {
        matches!(self.algorithm, Algorithm::Penalty { .. })
    }

    /// Says whether at least 80 % of the quota is used if this many units are left.
    pub fn is_nearly_used_up(&self, remaining: u64) -> bool {
        !self.is_balance() && !self.is_penalty() && remaining <= self.capacity() / 5
    }
}

/// The most by which the clocks of a time zone are ever set.
const CLOCK_CHANGE_MAX: Micros = Micros::from_secs(86_400);
/// Counters saturate here: the largest integer that Lua's doubles hold with room to add.
pub const COUNT_MAX: u64 = 1 << 52;
/// Most units that one request may cost.
pub const COST_MAX: u64 = 1 << 31;
