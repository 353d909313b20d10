//! A frame as JSON, as it travels between the nodes and as anybody may read it.
//!
//! `{"run_id", "node", "index", "after"?, "kind": "event", "at", "type", "event"}` or
//! `{"run_id", "node", "index", "after"?, "kind": "delta", "step", "attempt", "reasoning"?, "text"}`. Indexes grow
//! strictly within a run; `after` is the index of the frame before this one, if its sender knows it, so that a
//! frame that was lost on the way is noticed. Words of a lower attempt of a step are void.

use std::sync::Arc;

use reenact_events::{Event, RawJson, RunId, Timestamp, upcast};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Frame, FrameBody};

/// A frame on its way from one node to the others.
#[derive(Debug, Clone)]
pub(super) struct Travelling {
    pub(super) run_id: RunId,
    pub(super) node: Uuid,
    pub(super) after: Option<u64>,
    pub(super) frame: Frame,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    run_id: RunId,
    node: Uuid,
    index: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
    #[serde(flatten)]
    body: Body,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Body {
    Event {
        at: Timestamp,
        r#type: String,
        event: serde_json::Value,
    },
    Delta {
        step: u32,
        attempt: u32,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reasoning: bool,
        text: Arc<str>,
    },
}

/// The frame as JSON.
pub(super) fn encode(travelling: &Travelling) -> Result<Vec<u8>, serde_json::Error> {
    let body = match &travelling.frame.body {
        FrameBody::Event { at, event } => {
            let event = Event::from((**event).clone());
            let value = RawJson::parse(&event.encode()?)?.value();
            Body::Event { at: *at, r#type: event.type_name().to_owned(), event: value }
        }
        FrameBody::Delta { step, attempt, reasoning, text } => {
            Body::Delta { step: *step, attempt: *attempt, reasoning: *reasoning, text: text.clone() }
        }
    };
    let Travelling { run_id, node, after, frame } = travelling;
    serde_json::to_vec(&Wire { run_id: run_id.clone(), node: *node, index: frame.index, after: *after, body })
}

/// Reads what [`encode`] wrote; says what is wrong with anything else.
pub(super) fn decode(bytes: &[u8]) -> Result<Travelling, String> {
    let Wire { run_id, node, index, after, body } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let body = match body {
        Body::Event { at, r#type, event } => {
            match upcast::decode(&r#type, &event.to_string()).map_err(|error| error.to_string())? {
                Event::Run(event) => FrameBody::Event { at, event: Arc::new(event) },
                _ => return Err(format!("`{}` is no event of a run", r#type)),
            }
        }
        Body::Delta { step, attempt, reasoning, text } => FrameBody::Delta { step, attempt, reasoning, text },
    };
    Ok(Travelling { run_id, node, after, frame: Frame { index, body } })
}

#[cfg(test)]
mod tests {
    use reenact_events::event::RunStarted;

    use super::*;

    fn there_and_back(body: FrameBody, after: Option<u64>) -> (Travelling, Travelling) {
        let frame = Frame { index: (7 << 20) + 3, body };
        let sent = Travelling { run_id: RunId::trusted("r"), node: Uuid::from_u128(5), after, frame };
        let read = decode(&encode(&sent).expect("writes")).expect("reads");
        (sent, read)
    }

    #[test]
    fn frames_come_back_as_they_went() {
        let event = Arc::new(RunStarted { run_id: RunId::trusted("r") }.into());
        let delta = FrameBody::Delta { step: 1, attempt: 2, reasoning: true, text: "né\n\"🙂".into() };
        for body in [FrameBody::Event { at: Timestamp(-4), event }, delta] {
            for after in [None, Some(9)] {
                let (sent, read) = there_and_back(body.clone(), after);
                assert_eq!(format!("{sent:?}"), format!("{read:?}"));
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_told_apart() {
        for bad in ["", "{}", "[1]", r#"{"run_id":"r","node":"x","index":1,"kind":"delta"}"#] {
            assert!(decode(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
