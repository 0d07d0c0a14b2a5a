//! Keys of `[policies.NAME]` for single clients.

use std::sync::LazyLock;

use super::files::content;
use super::kind::{ValueSpec, number, scalar};
use super::quotas::quotas_of_override;
use super::{TableSpec, ValueShape};
use crate::config::file::{OverridesFile, RawGrant, RawOverride, RawOverrides};
use crate::config::read::{Form, FreeKeys};
use crate::config::secrets::quoted;
use crate::config::value::ValueError;
use crate::limit::quota::COUNT_MAX;

/// `overrides`
pub(super) fn overrides() -> ValueSpec<RawOverrides> {
    let keys = FreeKeys {
        example: "{ \"live_*\" = \"unlimited\" }",
        noun: "a pattern",
        dotted: "10.0.0.1",
        is_inner: |name| OVERRIDE.about.names().any(|key| key == name),
    };
    let count = |overrides: &RawOverrides| overrides.0.len().to_string();
    let table = ValueShape::Table(OVERRIDE.about.clone());
    let one = ValueShape::OneOf(vec![quotas_of_override().shape, table]);
    let kind = ValueSpec::new(
        keys.example,
        ValueShape::FreeTable(Box::new(one)),
        move |scalar| {
            let entries =
                scalar.entries(&keys, quoted, |mut value| match value.table(&OVERRIDE) {
                    Some(grant) => Some(grant),
                    None => Some(RawGrant {
                        quota: quotas_of_override().read(value)?,
                        ..RawGrant::default()
                    }),
                })?;
            let overrides = entries
                .into_iter()
                .map(|(pattern, grant)| RawOverride { pattern, grant });
            Some(RawOverrides(overrides.collect()))
        },
        count,
    );
    kind.or(RawOverrides::default())
}

/// An override that is written as a table.
static OVERRIDE: LazyLock<TableSpec<RawGrant>> = LazyLock::new(|| {
    TableSpec::<RawGrant>::of("override", "an override")
        .key("quota", quotas_of_override())
        .sets(|table| &mut table.quota)
        .doc("What these clients may spend.")
        .key(
            "burst",
            number(1..=COUNT_MAX).spanned().or_none("the quota"),
        )
        .sets(|table| &mut table.burst)
        .doc("Most units that such a client may spend at once if it was idle, for gcra.")
        .key("queue", number(0..=COUNT_MAX).spanned().or_none("0"))
        .sets(|table| &mut table.queue)
        .doc("Most units of such a client that wait, for leaky-bucket.")
        .key(
            "initial_credits",
            number(0..=COUNT_MAX).spanned().or_none("0"),
        )
        .sets(|table| &mut table.initial_credits)
        .doc("The balance of such a client at first, for credits.")
});

/// `overrides_file`
pub(super) fn overrides_file() -> ValueSpec<OverridesFile> {
    let form = Form::File("overrides.csv");
    scalar(form, read, |file: &OverridesFile| file.path.clone())
}

fn read(path: &str) -> Result<OverridesFile, ValueError> {
    let content = content(path, BYTES_MAX, EXPECTED)?;
    let content = String::from_utf8(content).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + memchr::memchr_iter(b'\n', valid).count();
        (ValueError::new("is not UTF-8", EXPECTED).unquoted("this file"))
            .hint(format!("line {line} is the first that is not"))
    })?;
    let content = match content.strip_prefix(BYTE_ORDER_MARK) {
        Some(content) => content.to_owned(),
        None => content,
    };
    Ok(OverridesFile {
        path: path.to_owned(),
        digest: blake3::hash(content.as_bytes()).into(),
        content,
        rows: 0,
    })
}

const EXPECTED: &str = "a file of overrides";
/// Character that spreadsheets may put at the beginning of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';
/// Largest file of overrides, in bytes: over a million rows.
const BYTES_MAX: u64 = 64 << 20;
