//! Judges what clients saw: did the limiter admit more than it may, or refuse what it had to admit?
//!
//! A client knows only that its request was decided between sending and receiving. So a law is
//! broken only if *every* choice of times within those intervals breaks it:
//!
//! - too many units were admitted if the requests that were certainly decided within a stretch (sent after its
//!   beginning, answered before its end) sum to more than the law allows there;
//! - a request was wrongly refused if there was room for it even when everything counts that may have been spent
//!   before it, and that may still count.
//!
//! So a correct limiter is never accused, however slow the answers are, but a broken one may get
//! away. Requests without an answer may have been spent: they excuse refusals and accuse nobody.

use std::collections::BTreeMap;

use tollgate::limit::{Algorithm, Count, OldestBucket, Quota};

/// What the clients of a limiter saw.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub requests: Vec<Request>,
    /// How much the clients' clock and the limiter's may differ, in microseconds.
    pub tolerance: i64,
    /// Times in which the limiter may have forgotten units.
    pub losses: Vec<Loss>,
    /// Times in which others may have decided in place of the limiter: all together admit as much again, however many
    /// outages there are (`on_store_failure = "local"`).
    pub outages: Vec<Outage>,
}

impl History {
    /// Returns how many requests were admitted, were refused, and had no answer.
    pub fn counts(&self) -> [usize; 3] {
        let count = |answer| {
            let requests = self.requests.iter();
            requests.filter(|x| x.answer == answer).count()
        };
        [Answer::Admitted, Answer::Refused, Answer::Unknown].map(count)
    }
}

/// One request; times are microseconds since 1970 by a clock that never steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub key: u32,
    pub cost: u64,
    pub sent: i64,
    pub received: i64,
    pub answer: Answer,
}

/// The answer that a client got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Admitted,
    Refused,
    /// No answer, so the units may have been spent or not.
    Unknown,
}

/// A time in which the limiter may have forgotten `units` of each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    pub since: i64,
    pub until: i64,
    pub units: u64,
}

/// A time in which the limiter may have been unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    pub since: i64,
    pub until: i64,
}

/// A decision for which the limiter has no excuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// More was admitted within a stretch than the law allows.
    Excess {
        key: u32,
        since: i64,
        until: i64,
        admitted: u64,
        allowed: u64,
    },
    /// A request was refused although at most `spent_at_most` units of the quota were spent.
    Refusal {
        request: Request,
        spent_at_most: u64,
    },
}

/// Returns violations for which a limiter with that quota has no excuse: at most one excess and one refusal for each
/// key.
pub fn violations(history: &History, quota: &Quota) -> Vec<Violation> {
    let judged = cases(history, quota).into_iter().flat_map(|case| {
        let refusal = case.refusals().next();
        [case.excess(), refusal]
    });
    judged.flatten().collect()
}

/// Returns the excesses for which there is no excuse: at most one for each key.
pub fn excesses(history: &History, quota: &Quota) -> Vec<Violation> {
    let cases = cases(history, quota).into_iter();
    cases.filter_map(|case| case.excess()).collect()
}

/// Returns every request that was refused although the quota had room, with the most that may have been spent.
pub fn refusals(history: &History, quota: &Quota) -> Vec<(Request, u64)> {
    let cases = cases(history, quota);
    let refusals = cases.iter().flat_map(Case::refusals);
    let each = refusals.filter_map(|violation| match violation {
        Violation::Refusal {
            request,
            spent_at_most,
        } => Some((request, spent_at_most)),
        Violation::Excess { .. } => None,
    });
    each.collect()
}

fn cases<'a>(history: &'a History, quota: &'a Quota) -> Vec<Case<'a>> {
    let mut keys = BTreeMap::<u32, Vec<Request>>::new();
    for request in &history.requests {
        assert!(request.sent <= request.received, "{request:?}");
        keys.entry(request.key).or_default().push(*request);
    }
    let requests = keys.into_values();
    requests
        .map(|requests| Case::new(requests, history, quota))
        .collect()
}

/// The requests of one key.
struct Case<'a> {
    key: u32,
    quota: &'a Quota,
    history: &'a History,
    tolerance: i64,
    /// Requests that were admitted, in the order of their answers.
    admitted: Vec<Request>,
    refused: Vec<Request>,
    /// Requests that may have spent something: times of sending, in order, each with the sum of the
    /// costs so far.
    by_sent: Vec<(i64, u64)>,
    by_received: Vec<(i64, u64)>,
    /// Times of sending and answering of the requests that may have spent something.
    spending: Vec<(i64, i64)>,
}

impl<'a> Case<'a> {
    fn new(mut requests: Vec<Request>, history: &'a History, quota: &'a Quota) -> Self {
        requests.sort_by_key(|request| request.received);
        let of = |answer| {
            let chosen = requests.iter().filter(move |x| x.answer == answer);
            chosen.copied().collect::<Vec<_>>()
        };
        let counts_all = quota.count == Count::All;
        let spending = requests
            .iter()
            .filter(|x| counts_all || x.answer != Answer::Refused);
        let spending: Vec<Request> = spending.copied().collect();
        Self {
            key: requests[0].key,
            quota,
            history,
            tolerance: history.tolerance,
            admitted: of(Answer::Admitted),
            refused: of(Answer::Refused),
            by_sent: sums(&spending, |request| request.sent),
            by_received: sums(&spending, |request| request.received),
            spending: spending.iter().map(|x| (x.sent, x.received)).collect(),
        }
    }

    /// Finds a stretch in which more was admitted than the law allows.
    fn excess(&self) -> Option<Violation> {
        let window = micros(self.quota.window.0);
        let sent = self.admitted.iter().map(|request| request.sent);
        match self.quota.algorithm {
            Algorithm::Calendar(_)
            | Algorithm::Credits { .. }
            | Algorithm::InFlight
            | Algorithm::Penalty { .. } => {
                unreachable!("no fleet has such quotas")
            }
            Algorithm::FixedWindow => self.excess_of_runs(window, 1),
            Algorithm::SlidingWindow { buckets, oldest } => {
                let (bucket, run) = (window / i64::from(buckets), i64::from(buckets));
                let run = run + i64::from(oldest == OldestBucket::Whole);
                let of_runs = self.excess_of_runs(bucket, run);
                of_runs.or_else(|| match oldest {
                    OldestBucket::Weighted => self.excess_beside_leaving(bucket, run),
                    OldestBucket::Whole | OldestBucket::Dropped => None,
                })
            }
            Algorithm::SlidingLog => {
                let mut since: Vec<i64> = sent.collect();
                since.sort_unstable();
                let last = window - self.tolerance - 1;
                self.excess_of(since.into_iter().map(|since| (since, since + last)))
            }
            Algorithm::Gcra { burst } => self.excess_of_rate(burst),
            Algorithm::LeakyBucket { queue } => self.excess_of_rate(queue + 1),
        }
    }

    /// Law: at most the quota in `run` consecutive parts of the time, which is cut at multiples of `part`.
    fn excess_of_runs(&self, part: i64, run: i64) -> Option<Violation> {
        let parts = self.admitted.iter().map(|x| self.earliest_part(x, part));
        let mut parts: Vec<i64> = parts.collect();
        parts.sort_unstable();
        parts.dedup();
        self.excess_of(parts.into_iter().map(|first| {
            let (since, until) = (first * part, (first + run) * part);
            (since + self.tolerance, until - 1 - self.tolerance)
        }))
    }

    /// Law: at most the quota in each of these stretches, whose beginnings and ends both increase.
    fn excess_of(&self, stretches: impl Iterator<Item = (i64, i64)>) -> Option<Violation> {
        let mut by_sent = self.admitted.clone();
        by_sent.sort_by_key(|request| request.sent);
        let (mut oldest, mut coming) = (by_sent.iter().peekable(), self.admitted.iter().peekable());
        let (mut units, mut last_until) = (0, i64::MIN);
        for (since, until) in stretches {
            while let Some(gone) = oldest.next_if(|request| request.sent < since) {
                // It was counted only if it was within an earlier stretch.
                let was_counted = gone.received <= last_until;
                units -= if was_counted { gone.cost } else { 0 };
            }
            while let Some(new) = coming.next_if(|request| request.received <= until) {
                units += if new.sent >= since { new.cost } else { 0 };
            }
            last_until = until;
            let excess = self.judge(since, until, units, self.quota.limit);
            if excess.is_some() {
                return excess;
            }
        }
        None
    }

    /// Law: at most `burst` units, plus one for each whole interval, in any stretch.
    fn excess_of_rate(&self, burst: u64) -> Option<Violation> {
        let interval = self.interval();
        for first in &self.admitted {
            let since = first.sent;
            let mut units = 0;
            for request in self.admitted.iter().filter(|x| x.sent >= since) {
                units += request.cost;
                let stretch = request.received - since + self.tolerance;
                let allowed = burst + units_of(stretch / interval);
                let excess = self.judge(since, request.received, units, allowed);
                if excess.is_some() {
                    return excess;
                }
            }
        }
        None
    }

    /// Law: a request must fit in addition to what is left of the leaving part, whose units count as spread evenly.
    fn excess_beside_leaving(&self, part: i64, run: i64) -> Option<Violation> {
        self.admitted.iter().find_map(|request| {
            let at = self.earliest_part(request, part);
            let latest = request.received + self.tolerance;
            if latest.div_euclid(part) != at {
                return None;
            }
            let (since, until) = (request.sent, request.received);
            let spent_within = |from: i64, to: i64| -> u64 {
                let certain = self.admitted.iter().filter(|x| {
                    x.sent >= from * part + self.tolerance
                        && x.received < to * part - self.tolerance
                        && x.received < since
                });
                certain.map(|x| x.cost).sum()
            };
            let left = u64::try_from((at + 1) * part - latest).expect("it is in that part");
            let part = u64::try_from(part).expect("a positive length");
            let oldest = spent_within(at - run, at - run + 1) * left / part;
            // While one server takes over from another, both may decide, and each rounds down what is left of its part.
            let rounded = u64::from(self.lost(since, until) > 0);
            let oldest = oldest.saturating_sub(rounded);
            let units = spent_within(at - run + 1, at + 1) + oldest + request.cost;
            self.judge(since, until, units, self.quota.limit)
        })
    }

    fn judge(&self, since: i64, until: i64, admitted: u64, allowed: u64) -> Option<Violation> {
        let lost = self.lost(since, until);
        let mut outages = self.history.outages.iter();
        let is_within = outages.any(|x| since <= x.until && until >= x.since);
        let allowed = allowed + lost + if is_within { allowed } else { 0 };
        (admitted > allowed).then_some(Violation::Excess {
            key: self.key,
            since,
            until,
            admitted,
            allowed,
        })
    }

    /// Returns the most units beyond the law that losses excuse in a stretch.
    fn lost(&self, since: i64, until: i64) -> u64 {
        let reach = micros(self.quota.capacity()) * self.interval() * 2;
        // The lost units may have been spent before the stretch, and would still have counted in it.
        let losses = self.history.losses.iter();
        let losses = losses.filter(|x| since - reach <= x.until && until >= x.since);
        losses
            .map(|loss| self.units_of_loss(loss, since, until))
            .sum()
    }

    /// Returns the most units beyond the law that a loss excuses in a stretch: the lost units, and those that two
    /// servers work off twice while one takes over from the other.
    fn units_of_loss(&self, loss: &Loss, since: i64, until: i64) -> u64 {
        let is_rate = matches!(
            self.quota.algorithm,
            Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. }
        );
        let both = (until.min(loss.until) - since.max(loss.since)).max(0);
        let twice = if is_rate {
            units_of(both / self.interval())
        } else {
            0
        };
        loss.units + twice
    }

    /// Finds the requests that were refused although there was room.
    fn refusals(&self) -> impl Iterator<Item = Violation> {
        self.refused.iter().filter_map(|request| {
            let counted_itself = self.quota.count == Count::All;
            let itself = if counted_itself { request.cost } else { 0 };
            let (spent_at_most, most) = match self.quota.algorithm {
                Algorithm::Gcra { burst } => (self.backlog(request), burst),
                Algorithm::LeakyBucket { queue } => (self.backlog(request), queue + 1),
                _ => (self.spent_at_most(request), self.quota.limit),
            };
            let spent_at_most = spent_at_most - itself.min(spent_at_most);
            (spent_at_most + request.cost <= most).then_some(Violation::Refusal {
                request: *request,
                spent_at_most,
            })
        })
    }

    /// Returns the most units that a window may have held when the request was decided.
    fn spent_at_most(&self, request: &Request) -> u64 {
        let window = micros(self.quota.window.0);
        let earliest = request.sent - self.tolerance;
        // Units answered before that time no longer count.
        let since = match self.quota.algorithm {
            Algorithm::FixedWindow => earliest.div_euclid(window) * window,
            Algorithm::SlidingWindow { buckets, .. } => {
                let bucket = window / i64::from(buckets);
                (earliest.div_euclid(bucket) - i64::from(buckets)) * bucket
            }
            _ => earliest - window,
        };
        let spent = sum_up_to(&self.by_sent, request.received + self.tolerance);
        spent - sum_up_to(&self.by_received, since - self.tolerance - 1)
    }

    /// Returns the most units that gcra may still have had to work off when the request was decided.
    ///
    /// It works off one unit an interval while there are any. If a given request was the last to find none, at most the
    /// units from that request on are left, minus those worked off since.
    fn backlog(&self, request: &Request) -> u64 {
        let interval = self.interval();
        let spent = sum_up_to(&self.by_sent, request.received + self.tolerance);
        let before = self.spending.iter();
        let before = before.filter(|(sent, _)| *sent <= request.received + self.tolerance);
        let left = before.map(|(sent, received)| {
            let since = spent - sum_up_to(&self.by_received, sent - self.tolerance - 1);
            let passed = (request.sent - received - self.tolerance).max(0);
            // Rounded up, because part of a unit may be what is missing.
            (micros(since) * interval - passed + interval - 1).div_euclid(interval)
        });
        units_of(left.max().unwrap_or(0).max(0))
    }

    fn interval(&self) -> i64 {
        micros(self.quota.interval_us())
    }

    fn earliest_part(&self, request: &Request, part: i64) -> i64 {
        (request.sent - self.tolerance).div_euclid(part)
    }
}

fn sums(requests: &[Request], time: impl Fn(&Request) -> i64) -> Vec<(i64, u64)> {
    let mut sums: Vec<_> = requests.iter().map(|x| (time(x), x.cost)).collect();
    sums.sort_unstable();
    let mut sum = 0;
    for (_, cost) in &mut sums {
        sum += *cost;
        *cost = sum;
    }
    sums
}

/// Returns the last sum at or before `time`.
fn sum_up_to(sums: &[(i64, u64)], time: i64) -> u64 {
    let count = sums.partition_point(|(at, _)| *at <= time);
    count.checked_sub(1).map_or(0, |last| sums[last].1)
}

fn micros(value: u64) -> i64 {
    i64::try_from(value).expect("times are small")
}

fn units_of(value: i64) -> u64 {
    u64::try_from(value).expect("units are not negative")
}
