//! What the pointers have found so far: numbers, sums in progress, members, and texts.

use super::decimal::Decimal;
use super::exact_sum::ExactSum;
use super::pointers::Pointers;
use super::tree::{Fold, FoldTarget, Gather, Joining, Node, bits};

/// What the pointers have found in a body.
#[derive(Debug)]
pub(super) struct Findings {
    /// The largest number at each pointer, or the last.
    pub(super) numbers: Box<[Option<Decimal>]>,
    /// For each pointer whose last number counts, the document that reported it; empty if no pointer is of this kind.
    pub(super) documents: Box<[u32]>,
    /// Parts of the sums in progress.
    parts: Box<[SumPart]>,
    /// The text at each pointer; empty if no pointer looks for one.
    pub(super) texts: Box<[FoundText]>,
    /// How many documents have begun; the elements of a top-level array count as documents.
    begun: u32,
    /// Pointers whose member was found in what has ended.
    pub(super) members: MembersFound,
    /// Pointers whose member was found in what has not ended yet.
    pending: MembersFound,
}

/// Pointers that have found a member, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MembersFound {
    /// Pointers that found it in the first document.
    pub(super) first: u32,
    /// Pointers that found it in a later document.
    pub(super) later: u32,
}

/// The text that has been found at a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FoundText {
    /// No value was found.
    #[default]
    Nothing,
    /// This text was found; all duplicates were equal.
    Told(Box<str>),
    /// Different texts were found, a text that is too long, or a value that is not a text.
    Unclear,
}

/// What has been found for a part of a sum.
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

    /// Ends what was read so far. Its members count only if it is sound.
    pub(super) fn end(&mut self, is_sound: bool) {
        let pending = std::mem::take(&mut self.pending);
        if is_sound {
            self.members.first |= pending.first;
            self.members.later |= pending.later;
        }
    }

    /// Whether there are sums, whose parts must be handed on where containers end.
    pub(super) fn has_sums(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Notes a number found at a node.
    #[inline]
    pub(super) fn note(&mut self, pointers: &Pointers, node: &Node, number: &Decimal) {
        for pointer in bits(node.numbers.into()) {
            self.report(pointers, pointer, number);
        }
        if !node.gathers.is_empty() {
            self.note_sums(node, number);
        }
    }

    // Not inlined, because few routes have sums.
    #[inline(never)]
    fn note_sums(&mut self, node: &Node, number: &Decimal) {
        for gather in &node.gathers {
            self.gather(*gather, SumPart::Number(number.clone()));
        }
    }

    /// Notes that these pointers have found a member that is not empty.
    pub(super) fn note_members(&mut self, members: u32) {
        if self.begun > 1 {
            self.pending.later |= members;
        } else {
            self.pending.first |= members;
        }
    }

    /// Notes a value at these pointers to texts; `text` is `None` if the value is not a text.
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

    /// Hands on what a container at a node has found, because the container ends.
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

    /// Adds without turning a sum into a number, which takes much longer than adding one sum to another.
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
