//! Text from outside: one rule for what is not Unicode, and one way to quote it in an error.
//!
//! **The rule.** Bytes that are not UTF-8 and `\uD800`–`\uDFFF` escapes without their partner become U+FFFD,
//! the replacement character. Everything else stays as it is: U+0000, U+FFFE, direction marks, emoji,
//! combining sequences.

use std::borrow::Cow;

/// The text of `bytes`, by the rule of this module.
pub(crate) fn decode(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

/// JSON text whose lone surrogate escapes are `\ufffd`, by the rule of this module. Nothing else changes,
/// so numbers keep all their digits; a text that is not JSON stays not JSON.
pub(crate) fn mend_surrogates(json: &str) -> Cow<'_, str> {
    let mut mended = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = json[at..].find('\\') {
        let escape = at + found;
        match surrogate_at(json, escape) {
            None => at = after_escape(json, escape),
            Some(unit) if unit < 0xDC00 && surrogate_at(json, escape + 6).is_some_and(|low| low >= 0xDC00) => {
                at = escape + 12;
            }
            Some(_) => {
                mended.push_str(&json[copied..escape]);
                mended.push_str("\\ufffd");
                at = escape + 6;
                copied = at;
            }
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    mended.push_str(&json[copied..]);
    Cow::Owned(mended)
}

/// The surrogate that the escape at `at` writes, if it is such an escape.
fn surrogate_at(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u16::from_str_radix(digits, 16).ok().filter(|unit| (0xD800..=0xDFFF).contains(unit))
}

/// Where reading goes on after the backslash at `at` and the character that it escapes.
fn after_escape(json: &str, at: usize) -> usize {
    let escaped = json[at + 1..].chars().next();
    at + 1 + escaped.map_or(0, char::len_utf8)
}

/// The beginning of a text for an error: at most `chars_max` characters on one line, with its whole size
/// when it was cut.
pub(crate) fn preview(text: &str, chars_max: usize) -> String {
    let mut short: String =
        text.chars().take(chars_max).map(|character| if character.is_control() { ' ' } else { character }).collect();
    if text.chars().nth(chars_max).is_some() {
        short.push_str(&format!("… ({} bytes in all)", text.len()));
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a20_lone_surrogate_escapes_become_the_replacement_character() {
        for (json, mended) in [
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\uD83D\uDE00 \u0000 \uFFFE \u200f""#, r#""\uD83D\uDE00 \u0000 \uFFFE \u200f""#),
            (r#""a\ud83d""#, r#""a\ufffd""#),
            (r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\\\ud83d""#, r#""\\\ufffd""#),
            ("\\é\\", "\\é\\"),
            (r#""\ud8""#, r#""\ud8""#),
            (r#""\u+d80""#, r#""\u+d80""#),
        ] {
            assert_eq!(mend_surrogates(json), mended, "{json}");
        }
    }

    #[test]
    fn a20_invalid_bytes_become_the_replacement_character() {
        assert_eq!(decode(b"a\xff\xf0\x9f\x98\x80\0".to_vec()), "a\u{FFFD}😀\0");
        assert_eq!(decode("e\u{301}\u{200F}\u{FFFE}".into()), "e\u{301}\u{200F}\u{FFFE}");
    }

    #[test]
    fn a_preview_is_one_bounded_line() {
        assert_eq!(preview("a\nb", 10), "a b");
        assert_eq!(preview(&"ß".repeat(20), 3), "ßßß… (40 bytes in all)");
    }
}
