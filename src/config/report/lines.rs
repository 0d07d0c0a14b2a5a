//! Where the lines of a text begin, and which places of it overlap.

use std::ops::Range;

/// A text and where its lines begin, so that thousands of places are found in it.
pub(super) struct Lines<'t> {
    pub(super) text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let after = text.match_indices('\n').map(|(newline, _)| newline + 1);
        let starts = [0].into_iter().chain(after).collect();
        Self { text, starts }
    }

    /// Returns the index of the line that `offset` is in.
    fn index(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset) - 1
    }

    /// Returns line and column, both from 1, the column in characters.
    pub(super) fn place(&self, offset: usize) -> (usize, usize) {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.index(offset);
        let before = &self.text[self.starts[line]..offset];
        (line + 1, before.chars().count() + 1)
    }

    /// Returns the number of the line where `span` begins, and the bytes of all its lines.
    pub(super) fn around(&self, span: &Range<usize>) -> (usize, Range<usize>) {
        let first = self.index(span.start);
        let after = self.starts.get(self.index(span.end) + 1);
        let end = after.copied().unwrap_or(self.text.len());
        (first + 1, self.starts[first]..end)
    }
}

/// Places of a file, ready to be asked which of them others overlap.
pub(super) struct Places {
    /// By start, then end.
    sorted: Vec<(usize, usize)>,
    /// The furthest end up to each of them.
    ends: Vec<usize>,
}

impl Places {
    pub(super) fn of<'s>(spans: impl IntoIterator<Item = &'s Range<usize>>) -> Self {
        let spans = spans.into_iter().map(|span| (span.start, span.end));
        let mut sorted: Vec<_> = spans.collect();
        sorted.sort_unstable();
        let furthest = |end: &mut usize, span: &(usize, usize)| {
            *end = span.1.max(*end);
            Some(*end)
        };
        let ends = sorted.iter().scan(0, furthest).collect();
        Self { sorted, ends }
    }

    /// Says whether one of the places overlaps `span`, or is the same, as two empty ones can be.
    pub(super) fn touch(&self, span: &Range<usize>) -> bool {
        let before = self.sorted.partition_point(|(start, _)| *start < span.end);
        let overlaps = before > 0 && self.ends[before - 1] > span.start;
        overlaps || (self.sorted.binary_search(&(span.start, span.end))).is_ok()
    }
}
