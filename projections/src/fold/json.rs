//! Other people's JSON inside rows.
//!
//! A row's JSON is read back by a parser that stops at 128 levels and at numbers beyond what a double holds. A
//! caller's value that would not come back stands in the row as the text that it is, so that no input can make
//! a row unreadable.

use reenact_events::RawJson;
use serde_json::Value;

/// Levels that a foreign value may have; the row that holds it adds a few.
const DEPTH_MAX: usize = 100;

/// A foreign value as it stands in a row.
#[must_use]
pub fn foreign(json: &RawJson) -> Value {
    parse(json.as_str()).unwrap_or_else(|| Value::String(json.as_str().to_owned()))
}

/// The value of a text, if it is JSON that a row can hold.
#[must_use]
pub fn parse(text: &str) -> Option<Value> {
    let value = serde_json::from_str(text).ok()?;
    fits(&value, DEPTH_MAX).then_some(value)
}

/// Whether a value has at most `levels` levels. The parser's own limit bounds the recursion.
fn fits(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(list) => levels > 0 && list.iter().all(|item| fits(item, levels - 1)),
        Value::Object(map) => levels > 0 && map.values().all(|item| fits(item, levels - 1)),
        _ => true,
    }
}
