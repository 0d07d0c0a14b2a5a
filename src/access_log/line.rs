//! One log line: written key by key, as JSON or as text, whatever bytes a client sent.
//!
//! Both shapes escape alike: a value is valid UTF-8 of printable characters, and everything else
//! becomes `\u….` or the replacement character. So a line is one line on every terminal and in
//! every parser. Text quotes a value that holds a separator; JSON quotes all values.

use crate::clock::Timestamp;
use crate::logging::LogFormat;

/// A line that is being written.
pub(super) struct LogLine<'b> {
    out: &'b mut Vec<u8>,
    format: LogFormat,
}

/// A key as each shape writes it, with its separators, so that each of a line's twenty or so keys is a single copy.
#[derive(Clone, Copy)]
pub(super) struct LogKey {
    pub(super) json: &'static str,
    pub(super) text: &'static str,
}

/// Makes a [`LogKey`] from its name.
macro_rules! key {
    ($name:literal) => {
        $crate::access_log::line::LogKey {
            json: concat!(",\"", $name, "\":"),
            text: concat!(" ", $name, "="),
        }
    };
}
pub(super) use key;

impl<'b> LogLine<'b> {
    /// Begins a line with its time.
    pub(super) fn new(out: &'b mut Vec<u8>, format: LogFormat, at: Timestamp) -> Self {
        match format {
            LogFormat::Json => {
                out.extend_from_slice(b"{\"timestamp\":\"");
                out.extend_from_slice(&rfc3339(at));
                out.extend_from_slice(b"\",\"target\":\"access\"");
            }
            LogFormat::Text => {
                out.extend_from_slice(&rfc3339(at));
                out.extend_from_slice(b" access");
            }
        }
        Self { out, format }
    }

    /// Adds a text of at most [`TEXT_BYTES_MAX`] bytes.
    pub(super) fn text(&mut self, key: LogKey, value: &[u8]) {
        self.key(key);
        self.value(value, TEXT_BYTES_MAX);
    }

    /// Adds a text of at most [`LONG_TEXT_BYTES_MAX`] bytes.
    pub(super) fn long_text(&mut self, key: LogKey, value: &[u8]) {
        self.key(key);
        self.value(value, LONG_TEXT_BYTES_MAX);
    }

    /// Adds a text if there is one.
    pub(super) fn optional_text(&mut self, key: LogKey, value: Option<&str>) {
        if let Some(value) = value {
            self.text(key, value.as_bytes());
        }
    }

    /// Adds a text if it is not empty.
    pub(super) fn text_unless_empty(&mut self, key: LogKey, value: &[u8]) {
        if !value.is_empty() {
            self.text(key, value);
        }
    }

    /// Adds a list of texts.
    pub(super) fn list<'v>(&mut self, key: LogKey, values: impl Iterator<Item = &'v str>) {
        self.items(key, values, |line, value| {
            line.value(value.as_bytes(), TEXT_BYTES_MAX);
        });
    }

    /// Adds a list of numbers.
    pub(super) fn numbers(&mut self, key: LogKey, values: impl Iterator<Item = u64>) {
        self.items(key, values, Self::digits);
    }

    /// Adds a list, each item of which `write` writes.
    fn items<V>(
        &mut self,
        key: LogKey,
        values: impl Iterator<Item = V>,
        write: impl Fn(&mut Self, V),
    ) {
        self.key(key);
        let (open, close): (&[u8], &[u8]) = match self.format {
            LogFormat::Json => (b"[", b"]"),
            LogFormat::Text => (b"", b""),
        };
        self.out.extend_from_slice(open);
        for (index, value) in values.enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            write(self, value);
        }
        self.out.extend_from_slice(close);
    }

    /// Adds a number.
    pub(super) fn number(&mut self, key: LogKey, value: u64) {
        self.key(key);
        self.digits(value);
    }

    fn digits(&mut self, value: u64) {
        let mut digits = itoa::Buffer::new();
        self.out.extend_from_slice(digits.format(value).as_bytes());
    }

    /// Adds a number if there is one.
    pub(super) fn optional_number(&mut self, key: LogKey, value: Option<u64>) {
        if let Some(value) = value {
            self.number(key, value);
        }
    }

    /// Adds `true`.
    pub(super) fn truth(&mut self, key: LogKey) {
        self.key(key);
        self.out.extend_from_slice(b"true");
    }

    /// Ends the line.
    pub(super) fn end(self) {
        let end: &[u8] = match self.format {
            LogFormat::Json => b"}\n",
            LogFormat::Text => b"\n",
        };
        self.out.extend_from_slice(end);
    }

    fn key(&mut self, key: LogKey) {
        let written = match self.format {
            LogFormat::Json => key.json,
            LogFormat::Text => key.text,
        };
        self.out.extend_from_slice(written.as_bytes());
    }

    /// Writes a value's first `bytes_max` bytes, quoted if the shape requires it.
    fn value(&mut self, value: &[u8], bytes_max: usize) {
        let shown = &value[..value.len().min(bytes_max)];
        let is_whole = shown.len() == value.len();
        let are_all = |wanted: u8| {
            shown
                .iter()
                .all(|byte| PLAIN[usize::from(*byte)] & wanted != 0)
        };
        if self.format == LogFormat::Text && !shown.is_empty() && is_whole && are_all(IN_TEXT) {
            self.out.extend_from_slice(shown);
            return;
        }
        self.out.push(b'"');
        if are_all(IN_QUOTES) {
            self.out.extend_from_slice(shown);
        } else {
            self.escaped(shown);
        }
        if !is_whole {
            self.out.extend_from_slice("…".as_bytes());
        }
        self.out.push(b'"');
    }

    fn escaped(&mut self, value: &[u8]) {
        for chunk in value.utf8_chunks() {
            for character in chunk.valid().chars() {
                self.character(character);
            }
            if !chunk.invalid().is_empty() {
                self.out.extend_from_slice("\u{fffd}".as_bytes());
            }
        }
    }

    fn character(&mut self, character: char) {
        match character {
            '"' | '\\' => self.out.extend_from_slice(&[b'\\', character as u8]),
            _ if is_printable(character) => {
                let mut utf8 = [0; 4];
                let utf8 = character.encode_utf8(&mut utf8);
                self.out.extend_from_slice(utf8.as_bytes());
            }
            _ => {
                // JSON escapes are UTF-16 units (RFC 8259, section 7).
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let hex = unit.to_be_bytes().map(|byte| [byte >> 4, byte & 15]);
                    self.out.extend_from_slice(b"\\u");
                    let digits = hex.as_flattened().iter();
                    self.out
                        .extend(digits.map(|digit| HEX[usize::from(*digit)]));
                }
            }
        }
    }
}

/// In which values a byte means only itself: in those in quotes ([`IN_QUOTES`]), and in text without ([`IN_TEXT`]).
const PLAIN: [u8; 256] = {
    let (mut plain, mut byte) = ([0; 256], b' ');
    while byte <= b'~' {
        plain[byte as usize] = match byte {
            b'"' | b'\\' => 0,
            b' ' | b'=' | b',' => IN_QUOTES,
            _ => IN_QUOTES | IN_TEXT,
        };
        byte += 1;
    }
    plain
};
const IN_QUOTES: u8 = 1;
const IN_TEXT: u8 = 2;

/// Whether a character shows as itself: it is not a control character, and neither breaks nor reorders a line.
fn is_printable(character: char) -> bool {
    !character.is_control()
        && !matches!(character,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns a time as RFC 3339 with microseconds, in UTC.
pub(crate) fn rfc3339(at: Timestamp) -> [u8; 27] {
    let (secs, micros) = (at.0 / 1_000_000, at.0 % 1_000_000);
    let (year, month, day) = civil_date(secs / 86_400);
    let time = secs % 86_400;
    let mut text = *b"0000-00-00T00:00:00.000000Z";
    for (digits, value) in [
        (0..4, year),
        (5..7, month),
        (8..10, day),
        (11..13, time / 3600),
        (14..16, time / 60 % 60),
        (17..19, time % 60),
        (20..26, micros),
    ] {
        let mut rest = value;
        for digit in text[digits].iter_mut().rev() {
            *digit += (rest % 10) as u8;
            rest /= 10;
        }
    }
    text
}

/// Returns the year, month and day of a day that is counted from 1970-01-01.
///
/// Years are counted from March, so that a leap day ends its year, and the first day of each month is a linear function
/// of the month's number. Eras are the calendar's periods of 400 years.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // From 0000-03-01.
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// Most bytes shown of an ordinary value.
const TEXT_BYTES_MAX: usize = 256;

/// Most bytes shown of a path.
pub(super) const LONG_TEXT_BYTES_MAX: usize = 1024;

const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc3339_in_utc() {
        for (us, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399_999_999, "2000-02-28T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (951_868_800_000_000, "2000-03-01T00:00:00.000000Z"),
            (1_735_689_599_000_001, "2024-12-31T23:59:59.000001Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(String::from_utf8_lossy(&rfc3339(Timestamp(us))), text);
        }
    }
}
