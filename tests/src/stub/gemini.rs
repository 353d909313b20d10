//! What a scripted model says in Gemini's `streamGenerateContent`, and that protocol's rules for requests.

use serde_json::{Value, json};

use super::Reply;

/// A streamed answer in words, one piece a word, with running totals of usage in each.
#[must_use]
pub fn text(text: &str) -> Reply {
    let words: Vec<_> = text.split_inclusive(' ').collect();
    let pieces = words.iter().enumerate().map(|(at, word)| piece(&[json!({"text": word})], None, at + 1));
    let end = piece(&[], Some("STOP"), words.len());
    stream(&pieces.chain([end]).collect::<Vec<_>>())
}

/// A turn with tool calls, each `(id, name, arguments)`; an empty id is not sent.
#[must_use]
pub fn calls(calls: &[(&str, &str, Value)]) -> Reply {
    let parts: Vec<_> = calls
        .iter()
        .map(|(id, name, args)| {
            let mut call = json!({"name": name, "args": args});
            if !id.is_empty() {
                call["id"] = json!(id);
            }
            json!({"functionCall": call, "thoughtSignature": "c2ln"})
        })
        .collect();
    stream(&[piece(&parts, Some("STOP"), 5)])
}

/// A stream of these pieces.
#[must_use]
pub fn stream(pieces: &[Value]) -> Reply {
    Reply::events(pieces.iter().map(Value::to_string))
}

/// One piece of a stream: 10 tokens were read, and so many written.
#[must_use]
pub fn piece(parts: &[Value], finish_reason: Option<&str>, written: usize) -> Value {
    let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
    if let Some(reason) = finish_reason {
        candidate["finishReason"] = json!(reason);
    }
    json!({"candidates": [candidate], "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": written,
        "totalTokenCount": 10 + written}})
}

/// An error as the protocol reports it; `retry_delay` is what its `RetryInfo` says.
#[must_use]
pub fn error(code: u16, status: &str, message: &str, retry_delay: Option<&str>) -> Value {
    let details: Vec<_> = retry_delay
        .iter()
        .map(|delay| json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}))
        .collect();
    json!({"error": {"code": code, "message": message, "status": status, "details": details}})
}

/// What breaks the protocol's rules: roles take turns, a turn's calls are answered by as many answers at the
/// beginning of the next content, and no text is empty; `None` when nothing does.
#[must_use]
pub fn malformed(body: &Value) -> Option<String> {
    let mut open: Vec<&Value> = Vec::new();
    let mut role = "model";
    for (index, content) in body["contents"].as_array()?.iter().enumerate() {
        let parts = content["parts"].as_array().map_or(&[][..], Vec::as_slice);
        if content["role"] == role || parts.is_empty() {
            return Some(format!("content {index} is empty or of the same role as the one before"));
        }
        role = content["role"].as_str().unwrap_or_default();
        for part in parts {
            if let Some(answer) = part.get("functionResponse") {
                let same = |call: &&Value| call["id"] == answer["id"] && call["name"] == answer["name"];
                let Some(place) = open.iter().position(same) else {
                    return Some(format!("content {index} answers {answer}, which was not called or is answered"));
                };
                open.remove(place);
            } else if !open.is_empty() {
                return Some(format!("content {index} comes before the answers to {open:?}"));
            } else if part.get("text").is_some_and(|text| text.as_str().is_none_or(|text| text.trim().is_empty())) {
                return Some(format!("content {index} holds an empty text"));
            }
        }
        open.extend(parts.iter().filter_map(|part| part.get("functionCall")));
    }
    (!open.is_empty()).then(|| format!("no answers to {open:?}"))
}
