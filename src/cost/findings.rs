//! What has been found at the pointers so far: the number of each, the sums that are under way, members, and texts.

use super::decimal::Decimal;
use super::exact_sum::ExactSum;
use super::pointers::Pointers;
use super::tree::{Fold, FoldTarget, Gather, Joining, Node, bits};

/// What has been found.
#[derive(Debug)]
pub(super) struct Findings {
    /// The largest number at each pointer, or the last.
    pub(super) numbers: Box<[Option<Decimal>]>,
    /// For each pointer of which the last counts, the document that told it; empty if there is none.
    pub(super) documents: Box<[u32]>,
    /// The parts of sums.
    parts: Box<[SumPart]>,
    /// For each pointer its text; empty if none is looked for.
    pub(super) texts: Box<[FoundText]>,
    /// How many documents have begun; the elements of a top-level array count like them.
    begun: u32,
    /// The pointers whose member was found.
    pub(super) members: MembersFound,
    /// The same in what has not ended yet.
    pending: MembersFound,
}

/// At which pointers a member was found, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MembersFound {
    /// In the first document.
    pub(super) first: u32,
    /// In a later one.
    pub(super) later: u32,
}

/// The text that has been found at a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FoundText {
    /// No value.
    #[default]
    Nothing,
    /// This one; duplicates had the same.
    Told(Box<str>),
    /// Different ones, one that is too long, or another value than a text.
    Unclear,
}

/// What numbers have been found that make one.
#[derive(Debug, Default)]
enum SumPart {
    #[default]
    Nothing,
    Number(Decimal),
    Sum(ExactSum),
}

impl Findings {
    pub(super) fn new(pointers: &Pointers) -> Self {
        let documents = if pointers.last() == 0 {
            0
        } else {
            pointers.count()
        };
        let texts = if pointers.has_texts() {
            pointers.count()
        } else {
            0
        };
        let parts = std::iter::repeat_with(SumPart::default);
        Self {
            numbers: vec![None; pointers.count()].into(),
            documents: vec![0; documents].into(),
            parts: parts.take(pointers.parts()).collect(),
            texts: vec![FoundText::Nothing; texts].into(),
            begun: 0,
            members: MembersFound::default(),
            pending: MembersFound::default(),
        }
    }

    /// Notes that a document begins.
    pub(super) fn begin_document(&mut self) {
        self.begun = self.begun.saturating_add(1);
    }

    /// Ends what was read. A member counts only in what is sound.
    pub(super) fn end(&mut self, is_sound: bool) {
        let pending = std::mem::take(&mut self.pending);
        if is_sound {
            self.members.first |= pending.first;
            self.members.later |= pending.later;
        }
    }

    /// Whether there are sums, whose parts are handed on where containers end.
    pub(super) fn has_sums(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Notes a number that stands at a node.
    #[inline]
    pub(super) fn note(&mut self, pointers: &Pointers, node: &Node, number: &Decimal) {
        for pointer in bits(node.numbers.into()) {
            self.report(pointers, pointer, number);
        }
        if !node.gathers.is_empty() {
            self.note_sums(node, number);
        }
    }

    // Few routes have sums, so that they are kept out of the way of others.
    #[inline(never)]
    fn note_sums(&mut self, node: &Node, number: &Decimal) {
        for gather in &node.gathers {
            self.gather(*gather, SumPart::Number(number.clone()));
        }
    }

    /// Notes members that are not empty.
    pub(super) fn note_members(&mut self, members: u32) {
        if self.begun > 1 {
            self.pending.later |= members;
        } else {
            self.pending.first |= members;
        }
    }

    /// Notes a value that stands at these pointers to texts: a text, or another.
    pub(super) fn note_text(&mut self, pointers: u32, text: Option<&str>) {
        for pointer in bits(pointers.into()) {
            let found = &mut self.texts[pointer];
            match (&*found, text) {
                (FoundText::Nothing, Some(text)) => *found = FoundText::Told(text.into()),
                (FoundText::Told(told), Some(text)) if **told == *text => {}
                _ => *found = FoundText::Unclear,
            }
        }
    }

    /// Hands on what a container at a node has found, which ends.
    #[inline(never)]
    pub(super) fn fold(&mut self, pointers: &Pointers, node: &Node) {
        for Fold { from, to } in &node.folds {
            let part = std::mem::take(&mut self.parts[*from]);
            match to {
                FoldTarget::Part(gather) => self.gather(*gather, part),
                FoldTarget::Pointer(pointer) => {
                    if let Some(number) = part.number() {
                        self.report(pointers, *pointer, &number);
                    }
                }
            }
        }
    }

    #[expect(clippy::inline_always, reason = "each number at a pointer comes here")]
    #[inline(always)]
    fn report(&mut self, pointers: &Pointers, pointer: usize, number: &Decimal) {
        let reported = &mut self.numbers[pointer];
        if pointers.last() >> pointer & 1 != 0 {
            self.documents[pointer] = self.begun;
            *reported = Some(number.clone());
        } else if reported.as_ref() < Some(number) {
            *reported = Some(number.clone());
        }
    }

    fn gather(&mut self, gather: Gather, added: SumPart) {
        if matches!(added, SumPart::Nothing) {
            return;
        }
        let part = &mut self.parts[gather.part];
        let before = std::mem::take(part);
        *part = match gather.how {
            Joining::Added => SumPart::Sum(before.plus(added)),
            Joining::Later => added,
            Joining::Larger => before.or_larger(added),
        };
    }
}

impl SumPart {
    fn number(self) -> Option<Decimal> {
        match self {
            Self::Nothing => None,
            Self::Number(number) => Some(number),
            Self::Sum(sum) => Some(sum.total()),
        }
    }

    /// A sum stays one, because to make a number of it takes much longer than to add it to another.
    fn plus(self, added: Self) -> ExactSum {
        let mut sum = match self {
            Self::Sum(sum) => sum,
            Self::Nothing | Self::Number(_) => ExactSum::default(),
        };
        match added {
            Self::Nothing => {}
            Self::Number(number) => sum.add(&number),
            Self::Sum(added) => sum.add_sum(added),
        }
        sum
    }

    fn or_larger(self, other: Self) -> Self {
        if matches!(self, Self::Nothing) {
            return other;
        }
        let larger = self.number().max(other.number());
        larger.map_or(Self::Nothing, Self::Number)
    }
}
