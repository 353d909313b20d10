//! The built-in tool `current_time`.

use chrono::{DateTime, SecondsFormat, Utc};
use chrono_tz::Tz;
use reenact_events::Timestamp;

/// The moment as RFC 3339, in `zone` or in UTC.
pub(super) fn tell(now: Timestamp, zone: Option<&str>) -> Result<String, String> {
    let moment: DateTime<Utc> = DateTime::from_timestamp_millis(now.0).ok_or("the clock is out of range")?;
    let Some(name) = zone else {
        return Ok(moment.to_rfc3339_opts(SecondsFormat::Secs, true));
    };
    let zone: Tz = name.parse().map_err(|_| {
        let name = crate::text::preview(name, 60);
        format!("`{name}` is not an IANA time zone, such as `Europe/Berlin`")
    })?;
    Ok(moment.with_timezone(&zone).to_rfc3339_opts(SecondsFormat::Secs, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_told_in_the_zone_asked_for() {
        let now = Timestamp(1_750_000_000_000);
        assert_eq!(tell(now, None).unwrap(), "2025-06-15T15:06:40Z");
        assert_eq!(tell(now, Some("Europe/Berlin")).unwrap(), "2025-06-15T17:06:40+02:00");
        assert!(tell(now, Some("Middle/Earth")).unwrap_err().contains("Middle/Earth"));
    }
}
