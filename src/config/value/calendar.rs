//! Values that say when calendar quotas begin: a time zone, a day, a time of day.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::{ValueError, did_you_mean, part_choice};
use crate::limit::AnchorDay;
use crate::request::{Choice, Part};

/// `time_zone`
#[derive(Clone, Debug)]
pub struct Zone {
    /// Name of the zone, such as `Europe/Berlin`.
    pub name: Arc<str>,
    /// The zone's offsets from UTC, and when they change.
    pub zone: TimeZone,
    /// Where the zone's data come from.
    pub source: ZoneSource,
}

/// Where the data of a time zone come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneSource {
    /// Nowhere: UTC needs no data.
    None,
    /// The system's time zone database.
    System,
    /// The time zone database that is part of this program.
    Program,
}

impl Default for Zone {
    fn default() -> Self {
        Self {
            name: "UTC".into(),
            zone: TimeZone::UTC,
            source: ZoneSource::None,
        }
    }
}

/// Compares names only: if the data differ, the edges of windows move, but counters are kept.
impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Finds a time zone by its name, in the system's data first.
pub fn zone(text: &str) -> Result<Zone, ValueError> {
    if text == "UTC" {
        return Ok(Zone::default());
    }
    let system = SYSTEM.as_ref().and_then(|system| {
        // The database caches zones; without a reset, a reload would not see newer data.
        system.reset();
        Some((system.get(text).ok()?, ZoneSource::System))
    });
    let own = TimeZoneDatabase::bundled();
    let found = system.or_else(|| Some((own.get(text).ok()?, ZoneSource::Program)));
    let Some((zone, source)) = found else {
        let expected = "the name of a time zone such as `Europe/Berlin`";
        let names: Vec<String> = own.available().map(|name| name.to_string()).collect();
        let hint = did_you_mean(text, names.iter().map(String::as_str));
        return Err(ValueError::new("is not a known time zone", expected).maybe_hint(hint));
    };
    Ok(Zone {
        name: zone.iana_name().unwrap_or(text).into(),
        zone,
        source,
    })
}

/// Parses an anchor day such as `15` or `monday`.
pub fn anchor_day(text: &str) -> Result<AnchorDay, ValueError> {
    AnchorDay::parse(text).ok_or_else(|| {
        let expected = "a day of the month from 1 to 31, or a day of the week such as `monday`";
        let hint = did_you_mean(text, AnchorDay::WEEKDAYS);
        ValueError::new("is not a day", expected).maybe_hint(hint)
    })
}

/// Parses a time of day such as `06:30`, in minutes since midnight.
pub fn anchor_time(text: &str) -> Result<u16, ValueError> {
    let number = |text: &str, max: u16| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        let number: Option<u16> = text.parse().ok().filter(|_| is_number);
        number.filter(|number| *number <= max)
    };
    let read = |text: &str| {
        let (hour, minute) = text.split_once(':')?;
        Some(number(hour, 23)? * 60 + number(minute, 59)?)
    };
    read(text)
        .ok_or_else(|| ValueError::new("is not a time of day", "hours and minutes such as `06:30`"))
}

/// Parses `jwt:CLAIM`, the claim that names a client's own day.
pub fn anchor_by(text: &str) -> Result<Choice, ValueError> {
    let choice = part_choice(text)?;
    if choice.0.iter().all(|part| matches!(part, Part::Claim(_))) {
        return Ok(choice);
    }
    let expected = "a claim of a token, such as `jwt:billing_day`";
    let hint = "from anything else clients could choose when their quota begins";
    Err(ValueError::new("is not a claim", expected).hint(hint))
}

/// JSON Schema pattern that every anchor day matches.
pub fn anchor_day_pattern() -> String {
    let weekdays = AnchorDay::WEEKDAYS.join("|");
    format!("^([1-9]|[12][0-9]|3[01]|{weekdays})$")
}

/// JSON Schema pattern that every anchor time matches.
pub const ANCHOR_TIME_PATTERN: &str = "^([01][0-9]|2[0-3]):[0-5][0-9]$";

/// The system's time zone database; only the one in `TZDIR`, if that is set.
static SYSTEM: LazyLock<Option<TimeZoneDatabase>> = LazyLock::new(|| {
    let folders = match std::env::var_os("TZDIR") {
        Some(folder) => vec![PathBuf::from(folder)],
        None => FOLDERS.map(PathBuf::from).to_vec(),
    };
    let mut folders = folders.into_iter().filter(|folder| folder.is_dir());
    folders.find_map(|folder| TimeZoneDatabase::from_dir(folder).ok())
});
/// Folders in which systems keep their time zone database.
const FOLDERS: [&str; 2] = ["/usr/share/zoneinfo", "/etc/zoneinfo"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_times_are_read_or_refused() {
        for (text, expected) in [
            ("1", Some(AnchorDay::Month(1))),
            ("31", Some(AnchorDay::Month(31))),
            ("monday", Some(AnchorDay::Week(1))),
            ("Sunday", Some(AnchorDay::Week(7))),
            ("0", None),
            ("32", None),
            ("sun", None),
            ("", None),
        ] {
            assert_eq!(anchor_day(text).ok(), expected, "{text}");
        }
        for (text, expected) in [
            ("00:00", Some(0)),
            ("06:30", Some(390)),
            ("23:59", Some(1439)),
            ("24:00", None),
            ("6:30", None),
            ("06:60", None),
            ("06:30:00", None),
            ("+6:30", None),
        ] {
            assert_eq!(anchor_time(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn zones_are_found_by_name() {
        assert_eq!(
            &*zone("Europe/Berlin").expect("a zone").name,
            "Europe/Berlin"
        );
        let wrong = zone("Europe/Berlyn").expect_err("no zone");
        assert_eq!(wrong.hint.as_deref(), Some("did you mean `Europe/Berlin`?"));
    }
}
