//! Mistakes of a configuration that consists of several files: finds the file of each mistake.

use std::ops::Range;
use std::sync::Arc;

use super::mistake::OtherFile;
use super::{Mistake, Report};
use crate::config::secrets::overwritten;

/// A file that the configuration includes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncludedFile {
    /// Path of the file.
    pub name: String,
    /// Text of the file.
    pub text: String,
    /// Offset at which the file begins: its places are counted on from those of the files before it.
    pub start: usize,
}

impl Report {
    /// Adds the mistakes of an included file, and counts their places from `start` on.
    pub(in crate::config) fn absorb_part(&mut self, part: Self, start: usize) {
        self.mistakes
            .extend(part.mistakes.into_iter().map(|mistake| {
                let span = mistake.span.start + start..mistake.span.end + start;
                Mistake { span, ..mistake }
            }));
    }

    /// Replaces each place by the file that it is in and the place within that file.
    pub(in crate::config) fn assign(&mut self, included: &[IncludedFile]) {
        if self.is_empty() || included.is_empty() {
            return;
        }
        let shown = included.iter().map(|file| {
            let shown = OtherFile::new(&file.name, &overwritten(&file.text));
            (file.start, shown)
        });
        let shown: Vec<_> = shown.collect();
        let assign = |file: &mut Option<Arc<OtherFile>>, span: &mut Range<usize>| {
            let before = shown.partition_point(|(start, _)| *start <= span.start);
            let Some((start, of)) = before.checked_sub(1).and_then(|at| shown.get(at)) else {
                return;
            };
            if file.is_none() {
                *file = Some(Arc::clone(of));
                *span = span.start - start..span.end - start;
            }
        };
        for mistake in &mut self.mistakes {
            assign(&mut mistake.file, &mut mistake.span);
            if let Some(first) = &mut mistake.first {
                assign(&mut first.file, &mut first.span);
            }
        }
    }
}
