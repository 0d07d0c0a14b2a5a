//! Reads the same responses through the codec and through hyper's client.
//!
//! Responses that both accept are read alike: head, body, trailers, and whether the connection can carry another
//! request. [`Difference`] lists why only one of them may accept a response; some response in the corpus meets each of
//! these reasons. How a response is cut makes no difference to the codec at all.

mod answers;
mod difference;
mod outcome;

use std::collections::{BTreeSet, VecDeque};

use http::Method;

use super::scripted::StreamEnd;
use crate::proxy::differential::{every_cut, for_each_seed};
use answers::{ANSWERS, large, mutated};
use difference::Difference;
use outcome::{Case, Codec, Outcome, Progress, hyper};

const METHODS: [Method; 2] = [Method::GET, Method::HEAD];
const ENDS: [StreamEnd; 3] = [StreamEnd::Open, StreamEnd::Fin, StreamEnd::Reset];

#[test]
fn every_answer_is_read_alike_wherever_it_is_cut() {
    let (codec, mut met) = (Codec::new(), BTreeSet::new());
    for answer in ANSWERS.iter().map(|answer| answer.to_vec()).chain(large()) {
        let cuts = cuts(&answer);
        for method in METHODS {
            for end in ENDS {
                let mut case = Case::whole(&answer, method.clone(), end);
                let (whole, raw) = (codec.read(&case).0, hyper(&case));
                for pieces in &cuts {
                    case.pieces.clone_from(pieces);
                    met.extend(compare(&codec, &case, &whole, &raw));
                }
            }
        }
    }
    assert!(met.iter().eq(&Difference::ALL), "{met:?} are met");
}

#[test]
fn mutated_answers_are_read_alike() {
    let codec = Codec::new();
    let (accepted, cases) = for_each_seed(|draws| {
        let bytes = mutated(draws);
        let method = METHODS[draws.below(METHODS.len())].clone();
        let mut case = Case::whole(&bytes, method, draws.one_of(&ENDS));
        let (whole, raw) = (codec.read(&case).0, hyper(&case));
        case.pieces = draws.cut(&bytes);
        compare(&codec, &case, &whole, &raw);
        whole.is_accepted()
    });
    let few = cases / 5..=cases - cases / 5;
    assert!(few.contains(&accepted), "{accepted} of {cases} are good");
}

/// Fails unless the codec reads `case` as it reads the same bytes in one piece (`whole`), and hyper
/// (`raw`) reads the same, or differs for a known reason, which is returned.
fn compare(codec: &Codec, case: &Case, whole: &Outcome, raw: &Outcome) -> Option<Difference> {
    let (ours, refusal) = codec.read(case);
    assert_eq!(ours, *whole, "{case:?}");
    let theirs = raw.clone().passed_on();
    let shown = || format!("{case:?}: {ours:#?} {theirs:#?}");
    let is_waiting = ours.progress == Progress::Waiting;
    let is_open = case.end == StreamEnd::Open;
    assert!(is_open || !is_waiting, "it waits for nothing: {}", shown());
    match (ours.is_accepted(), theirs.is_accepted()) {
        (true, true) if ours == theirs => None,
        (true, true) => {
            let reusable = Progress::Whole { is_reusable: true };
            let closed = Progress::Whole { is_reusable: false };
            let progress = (ours.progress, theirs.progress);
            assert_eq!(progress, (closed, reusable), "{}", shown());
            let kept = Outcome {
                progress: reusable,
                ..ours.clone()
            };
            assert_eq!(kept, theirs, "{case:?}");
            let difference = Difference::of_closing(raw.head.as_ref()?);
            assert!(difference.is_some(), "closed in vain: {}", shown());
            difference
        }
        (false, true) => {
            let difference = refusal.and_then(|_| refused_for(codec, case));
            assert!(difference.is_some(), "refused in vain: {}", shown());
            difference
        }
        (true, false) => {
            // The codec checks some lines only when they have ended.
            let is_refused = is_waiting && !codec.read(&case.ended()).0.is_accepted();
            let difference = Difference::of_leniency(&ours);
            let is_known = is_refused || difference.is_some();
            assert!(is_known, "read in vain: {}", shown());
            difference
        }
        (false, false) => {
            if ours.head.is_some() && theirs.head.is_some() {
                let (short, long) = (&ours.body, &theirs.body);
                let is_alike = short.starts_with(long) || long.starts_with(short);
                assert!(is_alike && ours.head == theirs.head, "{}", shown());
            }
            None
        }
    }
}

/// Returns why the codec refuses a response that hyper accepts.
fn refused_for(codec: &Codec, case: &Case) -> Option<Difference> {
    let mut single = case.clone();
    single.pieces = case.bytes.iter().map(|&byte| vec![byte]).collect();
    let (refusal, read) = codec.read(&single).1?;
    Difference::of_refusal(refusal, &case.bytes[..read])
}

/// Cuts a response in every way, unless it is too long for that.
fn cuts(answer: &[u8]) -> Vec<VecDeque<Vec<u8>>> {
    if answer.len() < 1000 {
        return every_cut(answer).collect();
    }
    let pieces = |size| answer.chunks(size).map(<[u8]>::to_vec).collect();
    [7, 20_000].map(pieces).into()
}

impl Case {
    /// Makes the case of a response that comes in one piece.
    fn whole(bytes: &[u8], method: Method, end: StreamEnd) -> Self {
        Self {
            method,
            bytes: bytes.to_vec(),
            pieces: VecDeque::from([bytes.to_vec()]),
            end,
        }
    }

    /// Returns the same case with a line end and an empty line after it.
    fn ended(&self) -> Self {
        let mut ended = self.clone();
        ended.pieces.push_back(b"\r\n\r\n".to_vec());
        ended
    }
}
