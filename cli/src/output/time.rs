//! Times as people and scripts read them.

use jiff::tz::TimeZone;
use turnkeep::Timestamp;

fn moment(at: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_millisecond(at.as_millis()).ok()
}

/// RFC 3339 in UTC, with milliseconds: for scripts.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    moment(at).map_or_else(|| format!("{}ms", at.as_millis()), |at| format!("{at:.3}"))
}

/// Date and time in the person's own time zone.
pub(crate) fn local(at: Timestamp) -> String {
    match moment(at) {
        Some(at) => at.to_zoned_datetime(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string(),
        None => format!("{}ms", at.as_millis()),
    }
}

/// How long ago it was, roughly; a date once that says more.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let count = |n: i64, one: &str| if n == 1 { format!("1 {one} ago") } else { format!("{n} {one}s ago") };
    match now.since_ms(at) / 1000 {
        // A clock that was set back must not make the past look like the future.
        i64::MIN..5 => "just now".to_owned(),
        seconds @ 5..MINUTE => count(seconds, "second"),
        seconds @ MINUTE..HOUR => count(seconds / MINUTE, "minute"),
        seconds @ HOUR..DAY => count(seconds / HOUR, "hour"),
        seconds if seconds < 14 * DAY => count(seconds / DAY, "day"),
        _ => local(at).chars().take(10).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ago_says_roughly_how_long() {
        let now = Timestamp::from_millis(1_796_000_000_000);
        let before = |seconds: i64| ago(now.plus_ms(-seconds * 1000), now);
        assert_eq!(before(-100), "just now");
        assert_eq!(before(4), "just now");
        assert_eq!(before(59), "59 seconds ago");
        assert_eq!(before(60), "1 minute ago");
        assert_eq!(before(7200), "2 hours ago");
        assert_eq!(before(86_400), "1 day ago");
        assert_eq!(before(40 * 86_400).len(), 10);
    }

    #[test]
    fn times_beyond_the_calendar_are_shown_all_the_same() {
        assert_eq!(rfc3339(Timestamp::from_millis(i64::MAX)), format!("{}ms", i64::MAX));
        assert_eq!(rfc3339(Timestamp::from_millis(1_796_000_000_123)), "2026-11-30T00:53:20.123Z");
    }
}
