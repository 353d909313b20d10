//! How long a server asks to wait.
//!
//! | Where | Form |
//! |---|---|
//! | `retry-after-ms` | milliseconds; OpenAI's own, and more exact than the next |
//! | `retry-after` | seconds, by some with a fraction, or an HTTP date |
//! | `x-ratelimit-reset…`, `anthropic-ratelimit-…-reset` | with a 429 only: seconds, a span (`6m0s`), a Unix time or RFC 3339 |
//! | `retryDelay` in the body | Gemini's `RetryInfo`: seconds with a fraction (`34.07s`) |
//!
//! Anything else (`-5`, `abc`) counts as not said. There is no upper bound here: whether a wait of days makes
//! sense is the runtime's decision.

use std::time::UNIX_EPOCH;

use chrono::DateTime;
use reenact_events::Timestamp;
use reqwest::header::HeaderMap;
use serde_json::Value;

/// When a limit is lifted, and how much was left of it: one with something left is not the one that was met.
const RESETS: &[(&str, &str)] = &[
    ("x-ratelimit-reset", "x-ratelimit-remaining"),
    ("x-ratelimit-reset-requests", "x-ratelimit-remaining-requests"),
    ("x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"),
    ("anthropic-ratelimit-requests-reset", "anthropic-ratelimit-requests-remaining"),
    ("anthropic-ratelimit-tokens-reset", "anthropic-ratelimit-tokens-remaining"),
    ("anthropic-ratelimit-input-tokens-reset", "anthropic-ratelimit-input-tokens-remaining"),
    ("anthropic-ratelimit-output-tokens-reset", "anthropic-ratelimit-output-tokens-remaining"),
];
/// A number of seconds from here on is a moment and no span: it is the year 2001, or 31 years.
const MOMENT_S_MIN: f64 = 1e9;
/// The same in milliseconds.
const MOMENT_MS_MIN: f64 = 1e12;

/// Milliseconds to wait from `now`, by the headers of an answer of this status.
pub(super) fn in_headers(status: u16, headers: &HeaderMap, now: Timestamp) -> Option<u64> {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let exact = header("retry-after-ms").and_then(|value| value.parse().ok());
    exact.or_else(|| header("retry-after").and_then(|value| seconds(value).or_else(|| until(value, now)))).or_else(
        || {
            let is_met =
                |left: Option<&str>| left.and_then(|left| left.parse::<f64>().ok()).is_none_or(|left| left <= 0.0);
            let met = RESETS.iter().filter(|(_, left)| status == 429 && is_met(header(left)));
            met.filter_map(|(reset, _)| reset_ms(header(reset)?, now)).max()
        },
    )
}

/// Milliseconds to wait, by an error's body.
pub(super) fn in_body(body: &Value) -> Option<u64> {
    let details =
        ["/details", "/error/details", "/0/error/details"].iter().find_map(|at| body.pointer(at)?.as_array())?;
    details.iter().find_map(|detail| span_ms(detail.get("retryDelay")?.as_str()?))
}

fn seconds(value: &str) -> Option<u64> {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds = value.parse::<f64>().ok().filter(|_| digits)?;
    u64::try_from(whole(seconds * 1000.0)?).ok()
}

fn until(value: &str, now: Timestamp) -> Option<u64> {
    let date = httpdate::parse_http_date(value).ok()?;
    let at = i64::try_from(date.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()?;
    Some(wait_ms(at, now))
}

/// A moment that has passed needs no wait.
fn wait_ms(at: i64, now: Timestamp) -> u64 {
    u64::try_from(Timestamp(at).ms_since(now)).unwrap_or(0)
}

fn reset_ms(value: &str, now: Timestamp) -> Option<u64> {
    if let Ok(number) = value.parse::<f64>() {
        return match number {
            _ if !(0.0..1e15).contains(&number) => None,
            _ if number >= MOMENT_MS_MIN => Some(wait_ms(whole(number)?, now)),
            _ if number >= MOMENT_S_MIN => Some(wait_ms(whole(number * 1000.0)?, now)),
            _ => u64::try_from(whole(number * 1000.0)?).ok(),
        };
    }
    let moment = || DateTime::parse_from_rfc3339(value).ok().map(|date| wait_ms(date.timestamp_millis(), now));
    span_ms(value).or_else(moment)
}

/// A span as Go and protobuf write it: `20ms`, `1.5s`, `6m0s`, `1h2m3s`.
fn span_ms(value: &str) -> Option<u64> {
    let mut rest = value;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let (number, unit_on) = rest.split_at(digits);
        let units = unit_on.find(|character: char| character.is_ascii_digit()).unwrap_or(unit_on.len());
        let (unit, after) = unit_on.split_at(units);
        let unit_ms = match unit {
            "ms" => 1.0,
            "s" => 1_000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            "d" => 86_400_000.0,
            _ => return None,
        };
        let ms = whole(number.parse::<f64>().ok()? * unit_ms)?;
        total = total.checked_add(u64::try_from(ms).ok()?)?;
        rest = after;
    }
    (!value.is_empty()).then_some(total)
}

/// The next whole number, so that nobody is asked too early.
fn whole(number: f64) -> Option<i64> {
    format!("{:.0}", number.ceil()).parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const NOW: Timestamp = Timestamp(784_111_777_000);

    fn asked(status: u16, headers: &[(&str, &str)]) -> Option<u64> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(reqwest::header::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        in_headers(status, &map, NOW)
    }

    #[test]
    fn a26_retry_after_is_read_in_every_form_and_never_guessed() {
        for (value, expected) in [
            ("2", Some(2_000)),
            ("0", Some(0)),
            ("86400", Some(86_400_000)),
            ("Sun, 06 Nov 1994 08:49:40 GMT", Some(3_000)),
            ("Sun, 06 Nov 1994 08:49:30 GMT", Some(0)),
            ("-5", None),
            ("+5", None),
            ("abc", None),
            ("", None),
            ("1.5", Some(1_500)),
            ("99999999999999999999", None),
        ] {
            assert_eq!(asked(429, &[("retry-after", value)]), expected, "{value}");
        }
        assert_eq!(asked(429, &[]), None);
        assert_eq!(asked(429, &[("retry-after", "2"), ("retry-after-ms", "1250")]), Some(1_250));
    }

    #[test]
    fn a26_a_limit_that_says_when_it_is_lifted_is_waited_for() {
        for (value, expected) in [
            ("2", Some(2_000)),
            ("1.5", Some(1_500)),
            ("20ms", Some(20)),
            ("6m0s", Some(360_000)),
            ("1h2m3.5s", Some(3_723_500)),
            ("784111780", Some(0)),
            ("1784111780", Some(1_000_000_003_000)),
            ("1784111780000", Some(1_000_000_003_000)),
            ("1994-11-06T08:49:40Z", Some(3_000)),
            ("1994-11-06T08:49:30Z", Some(0)),
            ("-5", None),
            ("abc", None),
            ("5x", None),
            ("nan", None),
            ("", None),
        ] {
            let expected = if value == "784111780" { Some(784_111_780_000) } else { expected };
            assert_eq!(asked(429, &[("x-ratelimit-reset-requests", value)]), expected, "{value}");
        }
        let both = [("x-ratelimit-reset-requests", "1s"), ("x-ratelimit-reset-tokens", "9s")];
        assert_eq!(asked(429, &both), Some(9_000));
        assert_eq!(asked(429, &[both[0], both[1], ("x-ratelimit-remaining-tokens", "500")]), Some(1_000));
        assert_eq!(asked(429, &[both[1], ("retry-after", "2")]), Some(2_000), "what is asked for counts first");
        assert_eq!(asked(503, &both), None, "a limit that was not met says nothing");
        assert_eq!(asked(429, &[("anthropic-ratelimit-tokens-reset", "1994-11-06T08:49:40Z")]), Some(3_000));
    }

    #[test]
    fn a26_gemini_says_it_in_the_body() {
        let info = |delay: &str| {
            json!({"error": {"code": 429, "details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure"},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]}})
        };
        assert_eq!(in_body(&info("34.074824224s")), Some(34_075));
        assert_eq!(in_body(&json!([info("2s")])), Some(2_000));
        assert_eq!(in_body(&info("2s")["error"]), Some(2_000));
        for unsaid in [info("soon"), json!({}), json!(null), json!({"error": {"details": []}})] {
            assert_eq!(in_body(&unsaid), None);
        }
    }
}
