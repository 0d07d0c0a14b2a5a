//! What is read.

use super::variables::Env;
use crate::config::options::TableDoc;
use crate::config::text::MissingValues;

/// The file's text, and what its variables stand for.
#[derive(Clone, Copy)]
pub(super) struct FileSource<'t> {
    pub(super) text: &'t str,
    pub(super) env: &'t Env<'t>,
    /// What is known of every table, which says where a misplaced key belongs.
    pub(super) tables: &'t [&'static TableDoc],
    /// What becomes of values that are not there.
    pub(super) missing: MissingValues,
}
