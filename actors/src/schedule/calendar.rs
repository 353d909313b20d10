//! When five fields of cron are due in a zone.
//!
//! The fields are matched by `croner` against local time as a clock on the wall shows it, without a zone. What becomes
//! of that when clocks are changed is decided here, in one place:
//!
//! * a local time that comes twice is due the first time it comes;
//! * one that does not come is due as if the clock had not been put forward: 02:30 then shows as 03:30;
//! * fields that name every hour (their second begins with `*`) count hours and not days. They are due in both
//!   passages of an hour that comes twice, and are not made up for in one that does not come.

use std::collections::VecDeque;

use chrono::{DateTime, Duration, MappedLocalTime, NaiveDateTime, Offset, TimeZone, Utc};
use chrono_tz::Tz;
use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use reenact_events::Timestamp;

use super::Unfit;

/// Clocks are put by at most a day, and something.
const SHIFT_MAX: Duration = Duration::hours(26);
/// Changes of the offset that are looked at between two due times.
const CHANGES_MAX: usize = 64;
/// How many fields there are.
const FIELDS: usize = 5;

/// See the module.
#[derive(Debug, Clone)]
pub struct Calendar {
    cron: Cron,
    zone: Tz,
    counts_hours: bool,
}

/// What the change of clocks has to do with a due time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// Nothing.
    Plain,
    /// Its local time comes again.
    First,
    /// Its local time has come before.
    Second,
    /// The local time that the fields name does not come.
    Shifted,
}

/// A zone by its IANA name.
///
/// # Errors
/// When there is none of that name.
pub fn zone(name: &str) -> Result<Tz, Unfit> {
    let unknown = |_| {
        Unfit::new("timezone", format!("there is no zone `{name}`: use an IANA name like `Europe/Berlin` or `UTC`"))
    };
    name.parse().map_err(unknown)
}

impl Calendar {
    /// Reads five fields.
    ///
    /// # Errors
    /// When they are not five, or cannot be read.
    pub fn parse(fields: &str, zone: Tz) -> Result<Self, Unfit> {
        let found = fields.split_whitespace().count();
        if found != FIELDS {
            let reason = format!(
                "`{fields}` has {found} fields: there are five (minute, hour, day of the month, month, day of the week)"
            );
            return Err(Unfit::new("cron_expr", reason));
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let unread = |error| Unfit::new("cron_expr", format!("`{fields}` cannot be read: {error}"));
        let cron = parser.parse(fields).map_err(unread)?;
        let counts_hours = fields.split_whitespace().nth(1).is_some_and(|hours| hours.starts_with('*'));
        Ok(Self { cron, zone, counts_hours })
    }

    /// The first due time after `moment`, if there is any.
    #[must_use]
    pub fn after(&self, moment: Timestamp) -> Option<Timestamp> {
        let moment = DateTime::from_timestamp_millis(moment.0)?;
        let due = if self.counts_hours { self.hour_after(moment) } else { self.day_after(moment) };
        due.map(|due| Timestamp(due.timestamp_millis()))
    }

    /// The last `most` due times from `from` to `until`, both included, in order.
    #[must_use]
    pub fn between(&self, from: Timestamp, until: Timestamp, most: usize) -> Vec<Timestamp> {
        let first = from.plus_ms(-1);
        let mut reach_ms = 60_000;
        loop {
            let begin = first.max(until.plus_ms(-reach_ms));
            let mut found = VecDeque::new();
            let mut at = begin;
            while let Some(due) = self.after(at).filter(|due| *due <= until) {
                found.push_back(due);
                if found.len() > most {
                    found.pop_front();
                }
                at = due;
            }
            if begin == first || found.len() >= most {
                return found.into();
            }
            reach_ms = reach_ms.saturating_mul(2);
        }
    }

    /// What the change of clocks has to do with a due time.
    #[must_use]
    pub fn passage(&self, due: Timestamp) -> Passage {
        let Some(due) = DateTime::from_timestamp_millis(due.0) else { return Passage::Plain };
        let local = self.local(due);
        match self.zone.from_local_datetime(&local) {
            MappedLocalTime::Ambiguous(one, other) if one.min(other).to_utc() == due => Passage::First,
            MappedLocalTime::Ambiguous(..) => Passage::Second,
            _ if !self.cron.is_time_matching(&local).unwrap_or(true) => Passage::Shifted,
            _ => Passage::Plain,
        }
    }

    fn offset(&self, moment: DateTime<Utc>) -> Duration {
        let offset = self.zone.offset_from_utc_datetime(&moment.naive_utc()).fix();
        Duration::seconds(offset.local_minus_utc().into())
    }

    fn local(&self, moment: DateTime<Utc>) -> NaiveDateTime {
        moment.naive_utc() + self.offset(moment)
    }

    fn next_local(&self, after: NaiveDateTime, inclusive: bool) -> Option<NaiveDateTime> {
        self.cron.find_next_occurrence(&after, inclusive).ok()
    }

    /// For fields that name hours of the day: each local time that fits is due once.
    fn day_after(&self, moment: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let here = self.offset(moment);
        let is_calm = self.offset(moment - SHIFT_MAX) == here && self.offset(moment + SHIFT_MAX) == here;
        let mut local = if is_calm { self.local(moment) } else { self.local(moment) - SHIFT_MAX };
        let mut best: Option<DateTime<Utc>> = None;
        loop {
            let Some(next) = self.next_local(local, false) else { return best };
            local = next;
            if best.is_some_and(|best| local > self.local(best)) {
                return best;
            }
            let (due, is_shifted) = self.once(local)?;
            if due <= moment {
                continue;
            }
            best = Some(best.map_or(due, |best| best.min(due)));
            // Only behind a time that was shifted there may be one that comes before it.
            if !is_shifted {
                return best;
            }
        }
    }

    /// When a local time is due, and whether it does not come itself.
    fn once(&self, local: NaiveDateTime) -> Option<(DateTime<Utc>, bool)> {
        match self.zone.from_local_datetime(&local) {
            MappedLocalTime::Single(due) => Some((due.to_utc(), false)),
            MappedLocalTime::Ambiguous(one, other) => Some((one.min(other).to_utc(), false)),
            MappedLocalTime::None => {
                let before = self.zone.from_local_datetime(&(local - Duration::days(1))).earliest()?;
                Some(((local - self.offset(before.to_utc())).and_utc(), true))
            }
        }
    }

    /// For fields that name every hour: whatever the clock shows, each moment at which it fits is due.
    fn hour_after(&self, moment: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let (mut from, mut inclusive) = (moment, false);
        for _ in 0..CHANGES_MAX {
            let offset = self.offset(from);
            let due = (self.next_local(self.local(from), inclusive)? - offset).and_utc();
            if self.offset(due) == offset {
                return Some(due);
            }
            (from, inclusive) = (self.change(from, due), true);
        }
        None
    }

    /// The moment between two with different offsets from which the first one's does not hold any more.
    fn change(&self, mut before: DateTime<Utc>, mut after: DateTime<Utc>) -> DateTime<Utc> {
        let offset = self.offset(before);
        while after - before > Duration::seconds(1) {
            let middle = before + (after - before) / 2;
            if self.offset(middle) == offset { before = middle } else { after = middle }
        }
        let seconds = after.timestamp();
        DateTime::from_timestamp(seconds, 0).unwrap_or(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp(DateTime::parse_from_rfc3339(text).expect("a moment").timestamp_millis())
    }

    fn shown(zone: Tz, due: Timestamp) -> String {
        let moment = DateTime::from_timestamp_millis(due.0).expect("a moment").with_timezone(&zone);
        moment.format("%Y-%m-%d %H:%M %Z").to_string()
    }

    fn dues(fields: &str, name: &str, from: &str, until: &str) -> Vec<String> {
        let zone = zone(name).expect("a zone");
        let calendar = Calendar::parse(fields, zone).expect("five fields");
        calendar.between(at(from), at(until), 1_000).into_iter().map(|due| shown(zone, due)).collect()
    }

    #[test]
    fn a_local_time_that_comes_twice_is_due_the_first_time() {
        let found = dues("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z");
        assert_eq!(found, ["2026-11-01 01:30 EDT", "2026-11-02 01:30 EST"]);
    }

    #[test]
    fn a_local_time_that_does_not_come_is_shifted_forward() {
        let found = dues("30 2 * * *", "America/New_York", "2027-03-13T12:00:00Z", "2027-03-15T12:00:00Z");
        assert_eq!(found, ["2027-03-14 03:30 EDT", "2027-03-15 02:30 EDT"]);
    }

    #[test]
    fn times_that_come_to_stand_together_are_due_once_and_in_order() {
        let found = dues("0,30 2,3 * * *", "America/New_York", "2027-03-14T05:00:00Z", "2027-03-14T12:00:00Z");
        assert_eq!(found, ["2027-03-14 03:00 EDT", "2027-03-14 03:30 EDT"]);
    }

    #[test]
    fn every_hour_goes_on_through_an_hour_that_comes_twice_and_over_one_that_does_not_come() {
        let found = dues("0 * * * *", "America/New_York", "2026-11-01T05:00:00Z", "2026-11-01T08:00:00Z");
        assert_eq!(
            found,
            ["2026-11-01 01:00 EDT", "2026-11-01 01:00 EST", "2026-11-01 02:00 EST", "2026-11-01 03:00 EST"]
        );
        let found = dues("0 * * * *", "America/New_York", "2027-03-14T06:00:00Z", "2027-03-14T08:00:00Z");
        assert_eq!(found, ["2027-03-14 01:00 EST", "2027-03-14 03:00 EDT", "2027-03-14 04:00 EDT"]);
    }

    #[test]
    fn the_last_due_times_are_found_without_counting_all() {
        let calendar = Calendar::parse("* * * * *", Tz::UTC).expect("five fields");
        let found = calendar.between(Timestamp(0), at("2026-11-30T00:00:30Z"), 2);
        assert_eq!(found, [at("2026-11-29T23:59:00Z"), at("2026-11-30T00:00:00Z")]);
    }

    #[test]
    fn what_is_no_calendar_is_refused_by_its_field() {
        for fields in ["", "* * * *", "0 0 * * * *", "61 * * * *", "a b c d e", "* * * 13 *"] {
            assert_eq!(&*Calendar::parse(fields, Tz::UTC).expect_err(fields).field, "cron_expr");
        }
        assert_eq!(&*zone("Mars/Olympus").expect_err("no zone").field, "timezone");
        let never = Calendar::parse("0 0 30 2 *", Tz::UTC).expect("can be read");
        assert_eq!(never.after(Timestamp(0)), None, "that day never comes");
    }
}
