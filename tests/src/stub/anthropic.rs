//! What a scripted model says in Anthropic's messages protocol, and that protocol's rules for requests.

use serde_json::{Value, json};

use super::Reply;

/// A streamed answer in words, one delta a word.
#[must_use]
pub fn text(text: &str) -> Reply {
    let mut events = vec![
        start(),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "ping"}),
    ];
    events.extend(
        text.split_inclusive(' ').map(
            |word| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}),
        ),
    );
    events.push(json!({"type": "content_block_stop", "index": 0}));
    events.extend(end("end_turn", text.split_whitespace().count()));
    stream(&events)
}

/// A turn with tool calls, each `(id, name, arguments)`; the arguments come in two fragments.
#[must_use]
pub fn calls(calls: &[(&str, &str, &str)]) -> Reply {
    let mut events = vec![start()];
    for (index, (id, name, arguments)) in calls.iter().enumerate() {
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        let (first, second) = arguments.split_at(arguments.len() / 2);
        for fragment in [first, second] {
            let delta = json!({"type": "input_json_delta", "partial_json": fragment});
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.extend(end("tool_use", 5));
    stream(&events)
}

/// A stream of these events.
#[must_use]
pub fn stream(events: &[Value]) -> Reply {
    Reply::events(events.iter().map(Value::to_string))
}

/// An error as the protocol reports it.
#[must_use]
pub fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

/// How a stream begins: 10 tokens were read.
#[must_use]
pub fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [],
        "stop_reason": null, "usage": {"input_tokens": 10, "output_tokens": 1}}})
}

fn end(stop_reason: &str, output_tokens: usize) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": output_tokens}}),
        json!({"type": "message_stop"}),
    ]
}

/// What breaks the protocol's rules: roles take turns, a turn's calls are all answered at the beginning of the next
/// message, and no text is empty; `None` when nothing does.
#[must_use]
pub fn malformed(body: &Value) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut role = "assistant";
    for (index, message) in body["messages"].as_array()?.iter().enumerate() {
        let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
        if message["role"] == role || blocks.is_empty() {
            return Some(format!("message {index} is empty or of the same role as the one before"));
        }
        role = message["role"].as_str().unwrap_or_default();
        for block in blocks {
            match block["type"].as_str().unwrap_or_default() {
                "tool_result" => {
                    let id = block["tool_use_id"].as_str().unwrap_or_default();
                    let Some(place) = open.iter().position(|call| *call == id) else {
                        return Some(format!("message {index} answers `{id}`, which was not called or is answered"));
                    };
                    open.remove(place);
                }
                _ if !open.is_empty() => return Some(format!("message {index} comes before the results of {open:?}")),
                "text" if block["text"].as_str().is_none_or(|text| text.trim().is_empty()) => {
                    return Some(format!("message {index} holds an empty text"));
                }
                _ => {}
            }
        }
        open.extend(blocks.iter().filter(|block| block["type"] == "tool_use").filter_map(|block| block["id"].as_str()));
    }
    (!open.is_empty()).then(|| format!("no results for {open:?}"))
}
