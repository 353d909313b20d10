//! How long a server asks to wait.
//!
//! `Retry-After` is whole seconds or an HTTP date; `retry-after-ms` is OpenAI's own and more exact.
//! Anything else (`-5`, `abc`) counts as not said. There is no upper bound here: whether a wait of days
//! makes sense is the runtime's decision.

use std::time::UNIX_EPOCH;

use reenact_events::Timestamp;
use reqwest::header::HeaderMap;

/// Milliseconds to wait from `now`.
pub(super) fn retry_after_ms(headers: &HeaderMap, now: Timestamp) -> Option<u64> {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let exact = header("retry-after-ms").and_then(|value| value.parse().ok());
    exact.or_else(|| {
        let value = header("retry-after")?;
        seconds(value).or_else(|| until(value, now))
    })
}

fn seconds(value: &str) -> Option<u64> {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse::<u64>().ok().filter(|_| digits)?.checked_mul(1000)
}

fn until(value: &str, now: Timestamp) -> Option<u64> {
    let date = httpdate::parse_http_date(value).ok()?;
    let at = i64::try_from(date.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()?;
    u64::try_from(Timestamp(at).ms_since(now)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a26_retry_after_is_read_in_every_form_and_never_guessed() {
        let now = Timestamp(784_111_777_000); // Sun, 06 Nov 1994 08:49:37 GMT
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
            ("1.5", None),
            ("99999999999999999999", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", value.parse().unwrap());
            assert_eq!(retry_after_ms(&headers, now), expected, "{value}");
        }
        assert_eq!(retry_after_ms(&HeaderMap::new(), now), None);
    }
}
