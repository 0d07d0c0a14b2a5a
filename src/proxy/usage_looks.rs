//! Who has asked for its usage lately, and what it was told.
//!
//! Each client is looked up once a second by the whole process, so a flood of such requests costs the store no more
//! than that. A client is its network address here, which it cannot choose as it likes: if it asks again
//! within the second, it gets the same answer to the same question, and has to wait for another one. The table has an
//! entry for each client of the last two seconds, and a bound: if it is full, others have to wait too.

use std::collections::HashMap;
use std::mem;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use crate::clock::{Micros, Timestamp};
use crate::limit::PartitionId;
use crate::limit::plan::SeriesId;
use crate::store::PeekedCheck;

/// Who has asked for its usage lately, and what it was told.
#[derive(Debug, Default)]
pub(crate) struct UsageLooks(Mutex<Looks>);

#[derive(Debug, Default)]
struct Looks {
    /// When `current` began.
    began: Timestamp,
    current: HashMap<Option<IpAddr>, LastLook>,
    /// Those of the second before.
    previous: HashMap<Option<IpAddr>, LastLook>,
}

#[derive(Debug)]
struct LastLook {
    at: Timestamp,
    question: Box<UsageQuestion>,
    /// None while the store is asked.
    answer: Option<Box<[PeekedCheck]>>,
}

/// The states of quotas that somebody asks about.
pub(super) type UsageQuestion = [(SeriesId, PartitionId)];

/// What a client that asks may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UsageLook {
    /// What the store says now; it is to be [noted](UsageLooks::note).
    New,
    /// What it said within the last second.
    Same(Box<[PeekedCheck]>),
    /// Nothing before the next second.
    Later,
}

impl UsageLooks {
    /// Says what a client may have that asks at this time.
    pub(super) fn begin(
        &self,
        client: Option<IpAddr>,
        question: &UsageQuestion,
        now: Timestamp,
    ) -> UsageLook {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        looks.turn(now);
        let Looks {
            current, previous, ..
        } = &mut *looks;
        let last = current.get(&client).or_else(|| previous.get(&client));
        if let Some(last) = last.filter(|last| now < last.at + PERIOD) {
            let same = last.answer.as_ref().filter(|_| *last.question == *question);
            return same.map_or(UsageLook::Later, |answer| UsageLook::Same(answer.clone()));
        }
        if current.len() >= CLIENTS_MAX {
            return UsageLook::Later;
        }
        let look = LastLook {
            at: now,
            question: question.into(),
            answer: None,
        };
        current.insert(client, look);
        UsageLook::New
    }

    /// Notes what the store said to a client.
    pub(super) fn note(
        &self,
        client: Option<IpAddr>,
        question: &UsageQuestion,
        answer: &[PeekedCheck],
    ) {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Looks {
            current, previous, ..
        } = &mut *looks;
        let last = current
            .get_mut(&client)
            .or_else(|| previous.get_mut(&client));
        if let Some(last) = last.filter(|last| *last.question == *question) {
            last.answer = Some(answer.into());
        }
    }
}

impl Looks {
    /// Forgets what is older than two seconds, or less.
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

/// How often a client is looked up at most.
const PERIOD: Micros = Micros::from_secs(1);
/// How many clients are looked up in a second at most.
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
        let (looks, client) = (UsageLooks::default(), Some([192, 0, 2, 1].into()));
        let begin = |question, after_ms: u64| {
            looks.begin(client, question, START + Micros(after_ms * 1_000))
        };
        assert_eq!(begin(QUESTION, 0), UsageLook::New);
        assert_eq!(
            begin(QUESTION, 1),
            UsageLook::Later,
            "while the store is asked"
        );
        looks.note(client, QUESTION, &answer(7));
        for after_ms in [2, 999] {
            assert_eq!(begin(QUESTION, after_ms), UsageLook::Same(answer(7)));
            assert_eq!(begin(OTHER, after_ms), UsageLook::Later);
        }
        assert_eq!(begin(OTHER, 1_000), UsageLook::New);
        looks.note(client, QUESTION, &answer(6));
        assert_eq!(
            begin(OTHER, 1_001),
            UsageLook::Later,
            "the answer is another question's"
        );
        assert_eq!(begin(QUESTION, 1_999), UsageLook::Later);
        assert_eq!(begin(QUESTION, 9_000), UsageLook::New);
    }

    #[test]
    fn a_full_table_keeps_whom_it_has_and_lets_others_wait() {
        let looks = UsageLooks::default();
        let client = |number: usize| {
            let number = u32::try_from(number).expect("small");
            Some(IpAddr::from(number.to_be_bytes()))
        };
        let begin = |number, now| looks.begin(client(number), QUESTION, now);
        for number in 0..CLIENTS_MAX {
            assert_eq!(begin(number, START), UsageLook::New);
        }
        assert_eq!(begin(CLIENTS_MAX, START), UsageLook::Later);
        looks.note(client(0), QUESTION, &answer(1));
        assert_eq!(begin(0, START), UsageLook::Same(answer(1)));
        let later = START + PERIOD;
        assert_eq!(begin(CLIENTS_MAX, later), UsageLook::New);
        assert_eq!(begin(0, later), UsageLook::New);
    }
}
