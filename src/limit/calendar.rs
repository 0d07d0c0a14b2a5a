//! Windows whose edges follow a calendar in a time zone: days, weeks and months.
//!
//! A window is numbered by the civil date of its first day, never by an instant: gateways whose zone data
//! differ agree on which window counts, though not on the instant at which it ends.

use std::fmt::{self, Debug, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use jiff::civil::Date;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, Timestamp as Instant};
use serde::{Deserialize, Serialize};

use crate::clock::{Micros, Timestamp};

/// A calendar, which divides time into windows.
///
/// Each one that a file has asked for lives as long as the process, so that quotas can be copied.
pub struct Calendar {
    shape: CalendarShape,
    zone: TimeZone,
    /// The window that was asked for last, and its neighbours: most requests ask for the same.
    latest: ArcSwap<Windows>,
}

/// The parts of a calendar that its stored states depend on: all but the zone's data.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CalendarShape {
    /// How long a window is.
    pub unit: CalendarUnit,
    /// The name of the time zone.
    pub time_zone: Arc<str>,
    /// The day on which windows begin. For weeks: 1 for Monday. For months: the day of the month, or the last day of a
    /// month that lacks it. For days: 1.
    pub anchor_day: u8,
    /// The minute of the day at which windows begin.
    pub anchor_minute: u16,
    /// Whether the anchor day is the client's own, and not the policy's.
    pub is_own: bool,
}

/// How long a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CalendarUnit {
    /// A day, of whatever length.
    Day,
    /// Seven days.
    Week,
    /// A month.
    Month,
}

/// The day on which a week or a month begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnchorDay {
    /// A day of a month, 1 to 31.
    Month(u8),
    /// A day of a week, from 1 for Monday.
    Week(u8),
}

impl AnchorDay {
    /// Names of the days of a week.
    pub const WEEKDAYS: [&str; 7] = [
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ];

    /// Reads a day such as `15` or `monday`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut weekdays = (1..).zip(Self::WEEKDAYS);
        if let Some((day, _)) = weekdays.find(|(_, name)| name.eq_ignore_ascii_case(text)) {
            return Some(Self::Week(day));
        }
        text.parse()
            .ok()
            .filter(|day| (1..=31).contains(day))
            .map(Self::Month)
    }

    /// Returns the number of the day, if windows of this unit begin on such a day.
    pub fn within(self, unit: CalendarUnit) -> Option<u8> {
        match (self, unit) {
            (Self::Month(day), CalendarUnit::Month) | (Self::Week(day), CalendarUnit::Week) => {
                Some(day)
            }
            _ => None,
        }
    }
}

/// One window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Number of the window's first day, counted from the first of January of the year 1, which is 1.
    pub number: u32,
    /// When it begins.
    pub start: Timestamp,
    /// When the next one begins.
    pub end: Timestamp,
}

/// Three windows in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The window before the current one.
    pub previous: Window,
    /// The one that contains the time that was asked about.
    pub current: Window,
    /// The window after the current one.
    pub next: Window,
}

/// Every calendar that was asked for.
static CALENDARS: Mutex<Vec<&'static Calendar>> = Mutex::new(Vec::new());

impl Calendar {
    /// Returns the calendar of that shape with this zone's data.
    pub fn of(shape: CalendarShape, zone: TimeZone) -> &'static Self {
        let mut known = CALENDARS.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |calendar: &&&Self| calendar.shape == shape && calendar.zone == zone;
        if let Some(calendar) = known.iter().find(is_same) {
            return calendar;
        }
        let nowhere = Window {
            number: 0,
            start: Timestamp(0),
            end: Timestamp(0),
        };
        let nothing = Windows {
            previous: nowhere,
            current: nowhere,
            next: nowhere,
        };
        let calendar = Box::leak(Box::new(Self {
            shape,
            zone,
            latest: ArcSwap::from_pointee(nothing),
        }));
        known.push(calendar);
        calendar
    }

    /// Returns the parts of the calendar that its stored states depend on.
    pub fn shape(&self) -> &CalendarShape {
        &self.shape
    }

    /// Returns the window that contains a time.
    pub fn current(&self, at: Timestamp) -> Window {
        self.windows(at).current
    }

    /// Returns the window that contains a time, and its neighbours.
    pub fn windows(&self, at: Timestamp) -> Windows {
        let latest = self.latest.load();
        if latest.current.contains(at) {
            return **latest;
        }
        drop(latest);
        let current = self.window(at);
        let windows = Windows {
            previous: self.window(Timestamp(current.start.0.saturating_sub(1))),
            current,
            next: self.window(current.end),
        };
        self.latest.store(Arc::new(windows));
        windows
    }

    /// Returns the window that contains a time. A day that a zone has left out has no window.
    fn window(&self, at: Timestamp) -> Window {
        let at = Timestamp(at.0.min(TIME_MAX));
        let civil = self.zone.to_datetime(instant(at)).date();
        // No clock is set by more than a day, so this window begins after `at`.
        let mut end = self.ordinal(civil) + 3;
        loop {
            let first_day = self.first_day(end - 1);
            let start = self.edge(first_day);
            if start <= at {
                return Window {
                    number: number(first_day),
                    start,
                    end: self.edge(self.first_day(end)),
                };
            }
            end -= 1;
        }
    }

    /// Returns the ordinal of the window that a day is in, or of one next to it: windows are numbered in a row.
    fn ordinal(&self, day: Date) -> i64 {
        match self.shape.unit {
            CalendarUnit::Day => i64::from(number(day)),
            CalendarUnit::Week => i64::from(number(day)) / 7,
            CalendarUnit::Month => i64::from(day.year()) * 12 + i64::from(day.month()) - 1,
        }
    }

    /// Returns the first day of the window with this ordinal.
    fn first_day(&self, ordinal: i64) -> Date {
        match self.shape.unit {
            CalendarUnit::Day => date(ordinal),
            // The first of January of the year 1 is a Monday.
            CalendarUnit::Week => date(ordinal * 7 + i64::from(self.shape.anchor_day)),
            CalendarUnit::Month => {
                let year = i16::try_from(ordinal.div_euclid(12)).unwrap_or(i16::MAX);
                let month = i8::try_from(ordinal.rem_euclid(12) + 1).unwrap_or(1);
                let first = Date::new(year, month, 1).unwrap_or(Date::MAX);
                let day = i8::try_from(self.shape.anchor_day).unwrap_or(1);
                let day = day.min(first.days_in_month());
                Date::new(year, month, day).unwrap_or(Date::MAX)
            }
        }
    }

    /// Returns when the window with this first day begins.
    fn edge(&self, first_day: Date) -> Timestamp {
        let minute = i8::try_from(self.shape.anchor_minute % 60).unwrap_or(0);
        let hour = i8::try_from(self.shape.anchor_minute / 60).unwrap_or(0);
        let ambiguous = self
            .zone
            .to_ambiguous_timestamp(first_day.at(hour, minute, 0, 0));
        let first_after_gap = match ambiguous.offset() {
            AmbiguousOffset::Gap { after, .. } => {
                let before = ambiguous.earlier().unwrap_or(Instant::MIN);
                let mut transitions = self.zone.following(before);
                (transitions.find(|transition| transition.offset() == after))
                    .map(|transition| transition.timestamp())
            }
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => None,
        };
        // If a time comes twice, this is the first one.
        let edge = first_after_gap.or_else(|| ambiguous.compatible().ok());
        let edge_us = edge.unwrap_or(Instant::MAX).as_microsecond();
        Timestamp(edge_us.try_into().unwrap_or(0))
    }
}

#[cfg(test)]
impl Calendar {
    /// Returns the calendar of days in UTC.
    pub(crate) fn of_days() -> &'static Self {
        let shape = CalendarShape {
            unit: CalendarUnit::Day,
            time_zone: "UTC".into(),
            anchor_day: 1,
            anchor_minute: 0,
            is_own: false,
        };
        Self::of(shape, TimeZone::UTC)
    }
}

impl Window {
    fn contains(&self, at: Timestamp) -> bool {
        self.start <= at && at < self.end
    }

    /// Returns the window's first day.
    pub fn first_day(&self) -> Date {
        date(self.number.into())
    }
}

impl CalendarUnit {
    /// Returns the longest that a window of this unit usually is.
    pub const fn longest(self) -> Micros {
        let days = match self {
            Self::Day => 1,
            Self::Week => 7,
            Self::Month => 31,
        };
        Micros::from_secs(days * 86_400)
    }

    /// Returns the name of the unit.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }
}

/// Two calendars are equal if they are one object: there is only one of each shape and zone data.
impl PartialEq for Calendar {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Calendar {}

impl Hash for Calendar {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.shape.hash(hasher);
    }
}

impl Debug for Calendar {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.shape.fmt(f)
    }
}

fn instant(at: Timestamp) -> Instant {
    let us = i64::try_from(at.0).unwrap_or(i64::MAX);
    Instant::from_microsecond(us).unwrap_or(Instant::MAX)
}

/// Returns the number of a day, counted from the first of January of the year 1, which is 1.
fn number(day: Date) -> u32 {
    let hours = day.duration_since(DAY_ZERO).as_hours();
    u32::try_from(hours / 24).unwrap_or(0)
}

/// Returns the day with this number.
fn date(number: i64) -> Date {
    let days = Span::new().try_days(number);
    let day = days.and_then(|days| DAY_ZERO.checked_add(days));
    day.unwrap_or(Date::MAX)
}

/// The day whose number is 0.
const DAY_ZERO: Date = jiff::civil::date(0, 12, 31);
/// The latest time that is looked up, in the year 2255: the most microseconds that a double holds exactly.
const TIME_MAX: u64 = 1 << 53;

#[cfg(test)]
mod tests;
