//! Tests of windows, whenever and wherever clocks are set.

use jiff::civil::DateTime;
use jiff::tz::TimeZoneDatabase;

use super::*;

const HOUR_US: u64 = 3_600_000_000;
/// For how many years windows are checked.
const YEARS: u64 = 3;

fn calendar(time_zone: &str, unit: CalendarUnit, day: u8, minute: u16) -> &'static Calendar {
    let zone = TimeZoneDatabase::bundled().get(time_zone);
    let shape = CalendarShape {
        unit,
        time_zone: time_zone.into(),
        anchor_day: day,
        anchor_minute: minute,
        is_own: false,
    };
    Calendar::of(shape, zone.expect("a zone of that name"))
}

fn civil(calendar: &Calendar, at: Timestamp) -> DateTime {
    calendar.zone.to_datetime(instant(at))
}

/// A window begins at the first instant at which clocks show its first day and time, or later. So each
/// instant is in one window, whatever clocks do at its edges.
#[test]
fn windows_begin_when_clocks_first_show_their_begin() {
    let zones = [
        "UTC",
        "Europe/Lisbon",
        "America/Santiago",
        "Asia/Beirut",
        "Australia/Lord_Howe",
        "Africa/Cairo",
        "America/St_Johns",
        "America/Havana",
        "Pacific/Apia",
        "Africa/Casablanca",
        "Antarctica/Troll",
    ];
    let units = [
        (CalendarUnit::Day, 1, 0),
        (CalendarUnit::Day, 1, 150),
        (CalendarUnit::Week, 1, 0),
        (CalendarUnit::Week, 7, 30),
        (CalendarUnit::Month, 1, 0),
        (CalendarUnit::Month, 31, 23 * 60 + 30),
    ];
    let from = Timestamp(1_293_840_000_000_000); // 2011
    for zone in zones {
        for (unit, day, minute) in units {
            let calendar = calendar(zone, unit, day, minute);
            let mut window = calendar.windows(from).current;
            while window.start.0 < from.0 + YEARS * 366 * 24 * HOUR_US {
                let what = || format!("{zone} {unit:?} {day} {minute} {window:?}");
                let begin = window.first_day().at(0, 0, 0, 0) + Span::new().minutes(minute);
                assert!(civil(calendar, window.start) >= begin, "{}", what());
                let before = Timestamp(window.start.0 - 1);
                assert!(civil(calendar, before) < begin, "{}", what());
                for at in [window.start, Timestamp(window.end.0 - 1)] {
                    assert_eq!(calendar.windows(at).current, window, "{}", what());
                    // Twice, because the window is remembered.
                    for _ in 0..2 {
                        assert_eq!(calendar.current(at), window, "{}", what());
                    }
                }
                let next = calendar.windows(window.end).current;
                assert_eq!(calendar.windows(window.start).next, next, "{}", what());
                assert_eq!(calendar.windows(next.start).previous, window, "{}", what());
                assert_eq!(next.start, window.end, "{}", what());
                assert!(next.number > window.number, "{}", what());
                window = next;
            }
        }
    }
}

#[test]
fn a_week_begins_on_its_day() {
    for day in 1..=7 {
        let window = calendar("Asia/Tokyo", CalendarUnit::Week, day, 360)
            .windows(Timestamp(0))
            .next;
        assert_eq!(
            window
                .first_day()
                .weekday()
                .to_monday_one_offset()
                .cast_unsigned(),
            day
        );
    }
}

#[test]
fn far_times_have_windows() {
    let calendar = calendar("America/New_York", CalendarUnit::Day, 1, 0);
    assert_eq!(
        calendar
            .windows(Timestamp(0))
            .current
            .first_day()
            .to_string(),
        "1969-12-31"
    );
    let last = calendar.windows(Timestamp(u64::MAX)).current;
    assert_eq!(last.first_day().to_string(), "2255-06-05");
}
