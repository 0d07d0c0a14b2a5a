//! Which clients have asked for their usage lately, and what they were told.
//!
//! Each client is looked up once a second by the whole process, so a flood of such requests costs the store no more
//! than that. A client is identified here by its network, which it cannot choose freely: if it asks again within
//! the second, it gets the same answer to the same question, and has to wait with any other question. The table has an
//! entry for each client of the last two seconds, and a bound: if it is full, other clients have to wait too.

use std::collections::HashMap;
use std::mem;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use crate::clock::{Micros, Timestamp};
use crate::limit::PartitionId;
use crate::limit::plan::SeriesId;
use crate::store::PeekedCheck;

/// Which clients have asked for their usage lately, and what they were told.
#[derive(Debug, Default)]
pub(crate) struct UsageCache(Mutex<CacheGenerations>);

#[derive(Debug, Default)]
struct CacheGenerations {
    /// When `current` began.
    began: Timestamp,
    current: HashMap<Option<IpAddr>, CachedUsage>,
    /// The clients of the previous second, if that was just before.
    previous: HashMap<Option<IpAddr>, CachedUsage>,
}

#[derive(Debug)]
struct CachedUsage {
    at: Timestamp,
    question: Box<UsageQuestion>,
    /// What the store answered; none while it is asked.
    answer: Option<Box<[PeekedCheck]>>,
}

/// The states of quotas that a client asks about.
pub(super) type UsageQuestion = [(SeriesId, PartitionId)];

/// What a client that asks gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UsageAnswer {
    /// What the store says now; it is to be [noted](UsageCache::note).
    New,
    /// What the store said within the last second.
    Same(Box<[PeekedCheck]>),
    /// Nothing yet: the client has to wait.
    Later,
}

impl UsageCache {
    /// Says what a client that asks at `now` gets.
    pub(super) fn begin(
        &self,
        client: Option<IpAddr>,
        question: &UsageQuestion,
        now: Timestamp,
    ) -> UsageAnswer {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cache.turn(now);
        let CacheGenerations {
            current, previous, ..
        } = &mut *cache;
        let last = current.get(&client).or_else(|| previous.get(&client));
        if let Some(last) = last.filter(|last| now < last.at + PERIOD) {
            let same = last.answer.as_ref().filter(|_| *last.question == *question);
            return same.map_or(UsageAnswer::Later, |answer| {
                UsageAnswer::Same(answer.clone())
            });
        }
        if current.len() >= CLIENTS_MAX {
            return UsageAnswer::Later;
        }
        let usage = CachedUsage {
            at: now,
            question: question.into(),
            answer: None,
        };
        current.insert(client, usage);
        UsageAnswer::New
    }

    /// Notes what the store said to a client.
    pub(super) fn note(
        &self,
        client: Option<IpAddr>,
        question: &UsageQuestion,
        answer: &[PeekedCheck],
    ) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let CacheGenerations {
            current, previous, ..
        } = &mut *cache;
        let last = current
            .get_mut(&client)
            .or_else(|| previous.get_mut(&client));
        if let Some(last) = last.filter(|last| *last.question == *question) {
            last.answer = Some(answer.into());
        }
    }
}

impl CacheGenerations {
    /// Begins a new second if the current one is over, and forgets clients that were looked up before that one.
    fn turn(&mut self, now: Timestamp) {
        if now < self.began + PERIOD {
            return;
        }
        let of_last = mem::take(&mut self.current);
        self.previous = if now < self.began + PERIOD + PERIOD {
            of_last
        } else {
            HashMap::new()
        };
        self.began = now;
    }
}

/// Least time between two look-ups of one client.
const PERIOD: Micros = Micros::from_secs(1);
/// Most clients that are looked up in one second.
const CLIENTS_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::{Decision, Retry};

    fn answer(remaining: u64) -> Box<[PeekedCheck]> {
        let decision = Decision {
            admit: true,
            remaining,
            debt: 0,
            next: None,
            reset: Micros(0),
            retry: Retry::NOW,
            wait: Micros(0),
        };
        let is_degraded = false;
        Box::new([PeekedCheck {
            holders: Vec::new(),
            decision,
            is_degraded,
        }])
    }

    const START: Timestamp = Timestamp(1_000_000_000);
    const QUESTION: &UsageQuestion = &[(SeriesId(1), PartitionId::new(1))];
    const OTHER: &UsageQuestion = &[(SeriesId(1), PartitionId::new(2))];

    #[test]
    fn a_client_is_looked_up_once_a_second_whatever_it_asks() {
        let (cache, client) = (UsageCache::default(), Some([192, 0, 2, 1].into()));
        let begin = |question, after_ms: u64| {
            cache.begin(client, question, START + Micros(after_ms * 1_000))
        };
        assert_eq!(begin(QUESTION, 0), UsageAnswer::New);
        assert_eq!(
            begin(QUESTION, 1),
            UsageAnswer::Later,
            "while the store is asked"
        );
        cache.note(client, QUESTION, &answer(7));
        for after_ms in [2, 999] {
            assert_eq!(begin(QUESTION, after_ms), UsageAnswer::Same(answer(7)));
            assert_eq!(begin(OTHER, after_ms), UsageAnswer::Later);
        }
        assert_eq!(begin(OTHER, 1_000), UsageAnswer::New);
        cache.note(client, QUESTION, &answer(6));
        assert_eq!(
            begin(OTHER, 1_001),
            UsageAnswer::Later,
            "the answer is another question's"
        );
        assert_eq!(begin(QUESTION, 1_999), UsageAnswer::Later);
        assert_eq!(begin(QUESTION, 9_000), UsageAnswer::New);
    }

    #[test]
    fn a_full_table_keeps_whom_it_has_and_lets_others_wait() {
        let cache = UsageCache::default();
        let client = |number: usize| {
            let number = u32::try_from(number).expect("small");
            Some(IpAddr::from(number.to_be_bytes()))
        };
        let begin = |number, now| cache.begin(client(number), QUESTION, now);
        for number in 0..CLIENTS_MAX {
            assert_eq!(begin(number, START), UsageAnswer::New);
        }
        assert_eq!(begin(CLIENTS_MAX, START), UsageAnswer::Later);
        cache.note(client(0), QUESTION, &answer(1));
        assert_eq!(begin(0, START), UsageAnswer::Same(answer(1)));
        let later = START + PERIOD;
        assert_eq!(begin(CLIENTS_MAX, later), UsageAnswer::New);
        assert_eq!(begin(0, later), UsageAnswer::New);
    }
}
