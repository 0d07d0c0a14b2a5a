//! Parsers of the file's scalar values: each error says what was expected and how to mend the text.
//!
//! Nothing here knows about places, keys or variables; `read` does. An error's problem is a predicate
//! ("is not a duration"), so that `read` can combine it with the text as written in the file, and
//! never shows the value of a variable.

mod address;
mod amount;
mod calendar;
mod cost;
mod endpoint;
mod field;
mod grant;
mod overrides;
mod page_origin;
mod part;
mod quota;
mod request;
mod store;
mod synonyms;
mod time;

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

pub use address::{
    ADMIN_PATTERN, LISTEN_PATTERN, NETWORK_PATTERN, SOURCE_PATTERN, admin_address, client_address,
    listen_address, network,
};
pub use amount::{
    OVERSHOOT_PATTERN, THRESHOLD_PATTERN, bytes_text, overshoot, ratio, ratio_from_0, size,
    size_pattern, threshold,
};
pub use calendar::{
    ANCHOR_TIME_PATTERN, Zone, ZoneSource, anchor_by, anchor_day, anchor_day_pattern, anchor_time,
    zone,
};
pub use cost::{
    COST_SOURCES, CostText, PRICED_SOURCES, REPORTED_NUMBERS, RESERVE_SOURCES, RefundOn,
    STATUS_PATTERN, Sources, UNKNOWN_SOURCES, WEIGHTS, amount, cost, dearest, price_name,
    refund_on, refusal_status, reported_number, retry_jitter, sources, sources_pattern,
    status_range, weight,
};
pub use endpoint::{
    ENDPOINT_PATTERN, URL_PATTERN, endpoint, endpoint_url, health_host, health_path, server_name,
};
pub use field::{answer_field, field_value, own_field, request_field};
pub use grant::{BLOCKED, GrantText, UNLIMITED, grant, grant_pattern};
pub use overrides::Chooser;
pub use page_origin::page_origin;
pub use part::{part_choice, part_pattern};
pub use quota::{CREDITS, QuotaSpan, QuotaText, quota, quota_pattern, windowed_pattern};
pub use request::{
    TOKEN_PATTERN, header_after_prefix, header_name, header_value, method, routed_header_name,
    upgrade,
};
pub use store::{
    Encryption, RedisUrl, STORE_URL_PATTERN, StoreUrl, admin_token, password, prefix, secret,
    store_url, username,
};
use synonyms::synonym;
pub use time::{duration, duration_pattern};

/// Why a text is not a valid value of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    /// What to call the text if it must not be repeated because it may hold a password; then the
    /// hint does not repeat it either.
    pub subject: Option<&'static str>,
    /// What is wrong with the text, as a predicate: `is not a duration`.
    pub problem: &'static str,
    /// What was expected, as a noun.
    pub expected: String,
    /// How to mend the text; may repeat it.
    pub hint: Option<String>,
    /// Whether the text names a variable or a file that does not exist.
    pub is_missing: bool,
}

/// Why a file that a value names could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadFile {
    /// The reason, in words for the operator.
    pub why: String,
    /// Whether the file does not exist.
    pub is_missing: bool,
}

impl ValueError {
    /// Returns an error without a hint.
    pub fn new(problem: &'static str, expected: impl Into<String>) -> Self {
        Self {
            subject: None,
            problem,
            expected: expected.into(),
            hint: None,
            is_missing: false,
        }
    }

    /// Adds a hint that says how to mend the text.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.maybe_hint(Some(hint.into()))
    }

    /// Sets the hint that says how to mend the text, if there is one.
    #[must_use]
    pub fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }

    /// Adds the reason why the file that the text names cannot be read.
    #[must_use]
    pub fn unread(mut self, file: UnreadFile) -> Self {
        self.is_missing = file.is_missing;
        self.hint(file.why)
    }

    /// Notes that the text names something that does not exist.
    #[must_use]
    pub fn missing(mut self) -> Self {
        self.is_missing = true;
        self
    }

    /// Says what is wrong, what was expected and how to mend it, in one line.
    pub fn in_a_line(&self) -> String {
        let hint = self.hint.as_deref().unwrap_or_default();
        let separator = if hint.is_empty() { "" } else { "; " };
        format!(
            "{}, expected {}{separator}{hint}",
            self.problem, self.expected
        )
    }

    /// Calls the text `subject` instead of repeating it.
    #[must_use]
    pub fn unquoted(mut self, subject: &'static str) -> Self {
        self.subject = Some(subject);
        self
    }
}

/// Returns the value of `text` among `words`.
pub fn word<T: Clone>(text: &str, words: &[(&str, T)]) -> Result<T, ValueError> {
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(value.clone());
    }
    let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let expected = one_of(&names);
    let hint = synonym(text, &names).map(|meant| format!("did you mean `{meant}`?"));
    let hint = hint.or_else(|| did_you_mean(text, names));
    Err(ValueError::new("is not a known value", expected).maybe_hint(hint))
}

/// JSON Schema pattern that every name of a table matches.
pub const NAME_PATTERN: &str = r"^[ !#-\[\]-~]{1,64}$";

/// Checks a name that ends up in header fields and metric labels.
pub fn name(text: &str) -> Result<String, ValueError> {
    let fits = |byte: u8| matches!(byte, b' '..=b'~') && !b"\"\\".contains(&byte);
    if (1..=NAME_LEN_MAX).contains(&text.len()) && text.bytes().all(fits) {
        return Ok(text.to_owned());
    }
    Err(ValueError::new("cannot be a name", "1 to 64 printable ASCII characters without `\"` and `\\`")
        .hint("names are used in header fields and metric labels; letters, digits, `-` and `_` are a good choice"))
}

/// Reads a file of at most `most` bytes, or says why it cannot be read.
pub fn file(path: impl AsRef<Path>, most: u64) -> Result<Vec<u8>, UnreadFile> {
    let file = fs::File::open(path)?;
    let mut content = Vec::new();
    if file.take(most + 1).read_to_end(&mut content)? as u64 > most {
        return Err(UnreadFile::because(format!(
            "it is larger than {most} bytes"
        )));
    }
    Ok(content)
}

impl UnreadFile {
    /// Returns the reason why a file that exists cannot be read.
    pub fn because(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            is_missing: false,
        }
    }
}

impl From<io::Error> for UnreadFile {
    fn from(error: io::Error) -> Self {
        let kind = error.kind();
        Self {
            why: format!("the system says: {kind}"),
            is_missing: matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        }
    }
}

/// Joins words as in "`a`, `b` or `c`".
pub fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => format!("`{only}`"),
        [rest @ .., last] => {
            let rest: Vec<_> = rest.iter().map(|word| format!("`{word}`")).collect();
            format!("{} or `{last}`", rest.join(", "))
        }
    }
}

/// Suggests the word of `known` that is closest to `text`.
pub fn did_you_mean<'w>(text: &str, known: impl IntoIterator<Item = &'w str>) -> Option<String> {
    nearest(text, known).map(|word| format!("did you mean `{word}`?"))
}

/// Returns the word of `known` that is closest to `text`, if it is close at all.
pub fn nearest<'w>(text: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    if text.len() > NAME_LEN_MAX {
        return None;
    }
    // Words are compared in lower case and singular first, and as written if that ties.
    let stem_of_text = stem(text);
    let distances = |word: &str| {
        let stem = stem(word);
        let most = (word.len() / 3).max(1);
        // The distance is at least the difference in length, which is quick to compute.
        if stem.chars().count().abs_diff(stem_of_text.chars().count()) > most {
            return None;
        }
        let stems = strsim::damerau_levenshtein(&stem_of_text, &stem);
        let is_close = stems <= most && stems < word.len();
        is_close.then(|| (stems, strsim::damerau_levenshtein(text, word)))
    };
    known
        .into_iter()
        .filter_map(|word| Some((distances(word)?, word)))
        .min_by_key(|(distances, _)| *distances)
        .map(|(_, word)| word)
}

/// Normalises a word: lower case, `-` between its parts, singular.
fn stem(word: &str) -> String {
    let word = word.trim().to_lowercase().replace(['_', ' '], "-");
    match word.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None if word.len() > 3 => word.strip_suffix('s').unwrap_or(&word).to_owned(),
        None => word,
    }
}

/// Longest name of a listener, an upstream or a policy, in bytes.
const NAME_LEN_MAX: usize = 64;
