//! The text to read, and what is needed to read it.

use super::variables::Env;
use crate::config::options::TableDoc;
use crate::config::text::MissingValues;

/// The text of the file, and what is needed to read its values.
#[derive(Clone, Copy)]
pub(super) struct FileSource<'t> {
    pub(super) text: &'t str,
    pub(super) env: &'t Env<'t>,
    /// Docs of all tables, to say where a misplaced key belongs.
    pub(super) tables: &'t [&'static TableDoc],
    /// How missing values are treated.
    pub(super) missing: MissingValues,
}
