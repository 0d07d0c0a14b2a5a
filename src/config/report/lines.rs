//! Finds the lines of places in a text, and places that overlap.

use std::ops::Range;

/// A text with the offsets of its lines, so that thousands of places in it are found quickly.
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

    /// Returns the line and the column of an offset, both from 1, the column in characters.
    pub(super) fn place(&self, offset: usize) -> (usize, usize) {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.index(offset);
        let before = &self.text[self.starts[line]..offset];
        (line + 1, before.chars().count() + 1)
    }

    /// Returns the number of the line where `span` begins, and the bytes of all lines that `span` touches.
    pub(super) fn around(&self, span: &Range<usize>) -> (usize, Range<usize>) {
        let first = self.index(span.start);
        let after = self.starts.get(self.index(span.end) + 1);
        let end = after.copied().unwrap_or(self.text.len());
        (first + 1, self.starts[first]..end)
    }
}

/// Places of a file, sorted so that one which overlaps a given place is found quickly.
pub(super) struct Places {
    /// Start and end of each place, sorted.
    sorted: Vec<(usize, usize)>,
    /// For each place, the furthest end of it and of those before it.
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

    /// Whether one of the places overlaps `span` or equals it; empty places can only be equal.
    pub(super) fn touch(&self, span: &Range<usize>) -> bool {
        let before = self.sorted.partition_point(|(start, _)| *start < span.end);
        let overlaps = before > 0 && self.ends[before - 1] > span.start;
        overlaps || (self.sorted.binary_search(&(span.start, span.end))).is_ok()
    }
}
