//! Several plans in one call: each is decided by itself.

use tollgate::clock::{Micros, Timestamp};
use tollgate::limit::plan::CheckMode;
use tollgate::limit::{Algorithm, Check, PartitionId, Quota, Verdict};
use tollgate::store::redis::wire::{self, Call, Intent, Packed, Replies};

use crate::in_memory::{algorithms, quota_of};
use crate::scripted::Scripted;
use crate::traffic::START;

fn one_of_each(limit: u64) -> Vec<(Quota, CheckMode)> {
    let quota = |algorithm| (quota_of(algorithm, limit), CheckMode::Enforce);
    algorithms().into_iter().map(quota).collect()
}

/// Packs a plan for each quota alone, all of the same partition.
fn packed_apart(scripted: &Scripted, cost: u64) -> Vec<Packed> {
    let plan = scripted.plan(&scripted.rows, cost);
    let pack = |ask| {
        wire::pack(
            std::slice::from_ref(ask),
            &scripted.names,
            Intent::Decide,
            None,
            || Timestamp(0),
        )
    };
    plan.iter().map(pack).collect()
}

/// Reads what a script replied to one plan, as a peek and as a decision; `None` if it is no reply.
fn read(plan: &[Check<'_>], bytes: &[u8]) -> Option<Verdict> {
    let mut replies = Replies::read(bytes.to_vec()).ok()?;
    let reply = replies.next(plan.len()).ok()?;
    let _ = wire::peeks(plan, &reply);
    let mut verdict = Verdict::default();
    let is_read = wire::verdict(plan, &reply, &mut verdict).is_ok() && replies.is_at_end();
    is_read.then_some(verdict)
}

#[test]
fn batch_is_decided_as_one_by_one() {
    let mut together = Scripted::new(one_of_each(3));
    let mut apart = Scripted::new(one_of_each(3));
    for (round, cost) in [1, 0, 2, 1, 3, 1, 2, 1].into_iter().enumerate() {
        let now = Some(START + Micros(20_000_000 * round as u64));
        let batch = packed_apart(&together, cost);
        // The batch twice in one call: the second finds what the first has spent.
        let twice: Vec<_> = batch.iter().chain(&batch).cloned().collect();
        let replies = together.replies(now, &twice);
        let one_by_one = packed_apart(&apart, cost);
        for (index, packed) in one_by_one.iter().chain(&one_by_one).enumerate() {
            let expected = apart.reply(now, packed);
            assert_eq!(replies[index], Ok(expected), "plan {index}, round {round}");
        }
    }
}

#[test]
fn plan_with_a_foreign_key_fails_alone_and_spends_nothing() {
    let mut scripted = Scripted::new(one_of_each(3));
    let foreign = scripted.key(2);
    scripted.command(&[b"SADD".as_slice(), &foreign, b"not ours"]);
    let quotas = scripted.rows.clone();
    let whole = wire::pack(
        &scripted.plan(&quotas, 1),
        &scripted.names,
        Intent::Decide,
        None,
        || Timestamp(0),
    );
    let mut batch = packed_apart(&scripted, 1);
    batch.push(whole);

    let replies = scripted.replies(Some(START), &batch);
    for (index, reply) in replies.iter().enumerate() {
        let is_error = (reply.as_ref()).is_err_and(|error| error.starts_with("WRONGTYPE"));
        assert_eq!(
            is_error,
            index == 2 || index == 5,
            "plan {index}: {reply:?}"
        );
    }
    // The plan of all five fails after it has read some quotas, and leaves these as the plans of one left them.
    let peeks = scripted.replies(Some(START), &packed_apart(&scripted, 0));
    let again = packed_apart(&scripted, 1);
    for index in [0, 1, 3, 4] {
        let plan = [scripted.plan(&quotas, 0)[index]];
        let reply = peeks[index].as_ref().expect("a reply");
        let decision = wire::peeks(&plan, reply).expect("a state")[0];
        assert_eq!(decision.expect("decided").remaining, 2, "quota {index}");
    }
    assert!(scripted.replies(Some(START), &again)[2].is_err());
}

#[test]
fn value_that_no_script_wrote_is_an_error_of_its_plan_and_stays() {
    for algorithm in algorithms() {
        let mut scripted = Scripted::new(vec![(quota_of(algorithm, 3), CheckMode::Enforce)]);
        let key = scripted.key(0);
        for set in [
            [b"SET".as_slice(), &key, b"x"],
            [b"LPUSH".as_slice(), &key, b"x"],
        ] {
            scripted.command(&[b"DEL".as_slice(), &key]);
            scripted.command(&set);
            let dump = [b"DUMP".as_slice(), &key];
            let before = scripted.command(&dump);
            let alone = packed_apart(&scripted, 1);
            let twice = [alone.clone(), alone.clone()].concat();
            let replies = scripted.replies(Some(START), &twice).into_iter();
            let mut errors: Vec<_> = replies.map(|reply| reply.expect_err("an error")).collect();
            let answer = scripted.answer(&Call {
                script: alone[0].script,
                keys: alone[0].keys.to_vec(),
                arguments: vec![alone[0].argument.clone()],
            });
            errors.push(answer.error().expect("an error").to_owned());
            let codes = ["WRONGTYPE ", "UNREADABLE ", "ERR user_script"];
            for error in errors {
                let is_known = codes.iter().any(|code| error.starts_with(code));
                assert!(is_known, "{algorithm:?}: {error}");
            }
            assert_eq!(scripted.command(&dump), before, "{algorithm:?}");
        }
    }
}

#[test]
fn argument_that_is_none_fails_alone() {
    let mut scripted = Scripted::new(one_of_each(3));
    let mut batch = packed_apart(&scripted, 1);
    let argument = &mut batch[1].argument;
    argument.truncate(argument.len() - 1);
    batch[3].argument[2] = 99;
    let replies = scripted.replies(Some(START), &batch);
    let failed: Vec<_> = (0..5).filter(|index| replies[*index].is_err()).collect();
    assert_eq!(failed, [1, 3]);
}

#[test]
fn empty_plan_and_empty_batch_are_answered() {
    let mut scripted = Scripted::new(Vec::new());
    assert_eq!(scripted.replies(Some(START), &[]), []);
    let verdict = scripted.decide(START, 1);
    assert!(verdict.admit && verdict.answers.is_empty());
}

#[test]
fn quota_that_a_plan_names_twice_is_charged_once() {
    let quota = quota_of(Algorithm::FixedWindow, 3);
    let mut scripted = Scripted::new(vec![(quota, CheckMode::Enforce)]);
    let ask = scripted.plan(&scripted.rows, 1)[0];
    let packed = wire::pack(&[ask, ask], &scripted.names, Intent::Decide, None, || {
        Timestamp(0)
    });
    scripted.reply(Some(START), &packed);
    assert_eq!(scripted.peek(START, 0)[0].remaining, 2);
}

#[test]
fn what_is_no_reply_is_an_error() {
    let quotas = one_of_each(3);
    for (quota, mode) in quotas {
        let mut scripted = Scripted::new(vec![(quota, mode)]);
        let quotas = scripted.rows.clone();
        let plan = scripted.plan(&quotas, 1);
        let packed = wire::pack(&plan, &scripted.names, Intent::Decide, None, || {
            Timestamp(0)
        });
        let good = scripted.reply_to_all(Some(START), &[packed]);
        assert!(read(&plan, &good).is_some());
        assert_eq!(read(&plan, &[&good[..], b"x"].concat()), None);
        for length in 0..good.len() {
            assert_eq!(read(&plan, &good[..length]), None);
        }
        // No changed byte makes reading panic.
        for place in 0..good.len() {
            for byte in [0, 1, 2, 7, 127, 255] {
                let mut bad = good.clone();
                bad[place] = byte;
                let _ = read(&plan, &bad);
            }
        }
    }
}

#[test]
fn partitions_share_nothing() {
    let mut one = Scripted::new(one_of_each(2));
    let mut other = Scripted::new(one_of_each(2));
    one.partition_id = PartitionId::new(other.partition_id.bits() | 1 << 127);
    for _ in 0..2 {
        assert!(one.decide(START, 1).admit);
    }
    assert!(!one.decide(START, 1).admit);
    assert!(other.decide(Timestamp(START.0), 1).admit);
}
