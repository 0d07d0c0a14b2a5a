//! Sizes in bytes, shares and percentages.

use super::ValueError;
use crate::limit::Overshoot;
use crate::snapshot::Threshold;

/// Parses a size such as `64KiB`, `10MB`, or plain bytes.
pub fn size(text: &str) -> Result<u64, ValueError> {
    let text = text.trim();
    let wrong = ValueError::new(
        "is not a size",
        "a size such as `64KiB`, `10MB` or `1048576`",
    );
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let (digits, unit) = (&text[..text.len() - unit.len()], unit.trim_start());
    if unit.starts_with(['.', ',']) && !digits.is_empty() {
        return Err(wrong.hint("whole numbers only; take a smaller unit: `1536KiB`"));
    }
    let Ok(count) = digits.parse::<u64>() else {
        return Err(wrong);
    };
    let known = UNITS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit));
    match known {
        Some((_, bytes)) => count
            .checked_mul(*bytes)
            .ok_or_else(|| ValueError::new("is too large", "a size such as `64KiB`")),
        None if matches!(unit, "K" | "k" | "M" | "m" | "G" | "g" | "T" | "t") => {
            let unit = unit.to_ascii_uppercase();
            Err(wrong.hint(format!(
                "did you mean `{count}{unit}iB` (powers of 1024) or `{count}{unit}B` (powers of 1000)?"
            )))
        }
        None => Err(wrong.hint(
            "units are `KiB`, `MiB`, `GiB` (powers of 1024), `KB`, `MB`, `GB` (powers of 1000)",
        )),
    }
}

/// JSON Schema pattern that every size matches, with units in any case.
pub fn size_pattern() -> String {
    let in_any_case = |unit: &str| {
        let letters = unit
            .chars()
            .map(|c| format!("[{c}{}]", c.to_ascii_lowercase()));
        letters.collect::<String>()
    };
    let units = UNITS.map(|(unit, _)| in_any_case(&unit.to_ascii_uppercase()));
    format!(r"^\s*[0-9]+\s*({})\s*$", units.join("|"))
}

/// Parses a share such as `0.5`: above 0, and at most 1.
pub fn ratio(text: &str) -> Result<f64, ValueError> {
    share(text, RATIOS, |ratio| ratio > 0.0)
}

/// Parses a share from 0 to 1.
pub fn ratio_from_0(text: &str) -> Result<f64, ValueError> {
    share(text, RATIOS_FROM_0, |ratio| ratio >= 0.0)
}

fn share(text: &str, expected: &str, is_enough: impl Fn(f64) -> bool) -> Result<f64, ValueError> {
    match text.trim().parse::<f64>() {
        Ok(ratio) if is_enough(ratio) && ratio <= 1.0 => Ok(ratio),
        Ok(ratio) => {
            let hint = (ratio > 1.0).then(|| "one half is `0.5`".to_owned());
            Err(ValueError::new("is out of range", expected).maybe_hint(hint))
        }
        Err(_) => Err(ValueError::new("is not a share", expected)),
    }
}

/// Parses `overshoot`: a percentage with at most four decimals.
pub fn overshoot(text: &str) -> Result<Overshoot, ValueError> {
    let digits = text.trim().strip_suffix('%').map_or("", str::trim_end);
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_cut = digits.ends_with('.');
    if whole.is_empty() || is_cut || !is_number(whole) || !is_number(decimals) {
        return Err(ValueError::new("is not a percentage", OVERSHOOTS));
    }
    let ppm = format!("{whole}{decimals:0<4}").parse();
    match ppm {
        Ok(ppm @ 1..=1_000_000) if decimals.len() <= 4 => Ok(Overshoot(ppm)),
        _ => Err(ValueError::new("is out of range", OVERSHOOTS)),
    }
}

/// Parses an item of `notify`: a whole percentage.
pub fn threshold(text: &str) -> Result<Threshold, ValueError> {
    let digits = text.trim().strip_suffix('%').map_or("", str::trim_end);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ValueError::new("is not a whole percentage", THRESHOLDS));
    }
    let threshold = digits.parse().ok().and_then(Threshold::new);
    threshold.ok_or_else(|| ValueError::new("is out of range", THRESHOLDS))
}

/// JSON Schema pattern that every item of `notify` matches.
pub const THRESHOLD_PATTERN: &str = r"^\s*[0-9]+\s*%\s*$";
const THRESHOLDS: &str = "a percentage from `1%` to `100%`";

/// JSON Schema pattern that every `overshoot` matches.
pub const OVERSHOOT_PATTERN: &str = r"^\s*[0-9]+([.][0-9]{1,4})?\s*%\s*$";
const OVERSHOOTS: &str = "a percentage such as `1%`, at most `100%`";

/// Spells a size as the file would: `64KiB`.
pub fn bytes_text(bytes: u64) -> String {
    let exact = UNITS
        .iter()
        .filter(|(name, _)| name.contains('i'))
        .rfind(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    match exact {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

const RATIOS: &str = "a number above 0 and up to 1 such as `0.5`";
const RATIOS_FROM_0: &str = "a number from 0 to 1 such as `0.5`";
const UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counts_of_bytes() {
        for (text, bytes) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("64KiB", 64 << 10),
            ("10 MB", 10_000_000),
            ("1tib", 1 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        assert_eq!(bytes_text(64 << 10), "64KiB");
        assert_eq!(bytes_text(1500), "1500");
    }

    #[test]
    fn a_share_is_more_than_none_and_at_most_all() {
        for (text, share) in [("0.5", 0.5), ("1", 1.0), (" 1e-3 ", 0.001)] {
            assert_eq!(ratio(text), Ok(share));
        }
        for text in ["0", "-0.5", "1.1", "50", "nan", "inf", "-0.0"] {
            assert_eq!(ratio(text).expect_err(text).problem, "is out of range");
        }
        assert_eq!(ratio("50%").expect_err("%").problem, "is not a share");
    }

    #[test]
    fn a_size_without_a_clear_unit_is_refused() {
        let hint = |text| size(text).expect_err(text).hint;
        assert_eq!(
            hint("64k").as_deref(),
            Some("did you mean `64KiB` (powers of 1024) or `64KB` (powers of 1000)?")
        );
        assert_eq!(
            hint("1.5MiB").as_deref(),
            Some("whole numbers only; take a smaller unit: `1536KiB`")
        );
        assert_eq!(hint("big"), None);
        assert_eq!(
            size("99999999TiB").expect_err("too much").problem,
            "is too large"
        );
    }
}
