//! Old shapes, lifted at read: pure functions from version N to N+1, chained until the type is current.
//!
//! The table is empty while every type is at its first version. An entry is added when a type's payload
//! changes in a way that serde's defaults cannot absorb; the golden files of the old version stay and must
//! keep reading to the same event.

use crate::event::{DecodeError, Event};

/// Lifts one version: (old type, new type, payload → payload).
pub type Upcaster = (&'static str, &'static str, fn(serde_json::Value) -> serde_json::Value);

/// Every known lift. At most one per old type.
pub const UPCASTERS: &[Upcaster] = &[];

/// Reads a stored payload of any version.
///
/// # Errors
/// When the type is unknown to this version or the payload is not of that type.
pub fn decode(name: &str, json: &str) -> Result<Event, DecodeError> {
    decode_with(UPCASTERS, name, json)
}

fn decode_with(upcasters: &[Upcaster], name: &str, json: &str) -> Result<Event, DecodeError> {
    let lift = |name: &str| upcasters.iter().find(|(from, ..)| *from == name);
    let Some(first) = lift(name) else {
        return Event::decode_current(name, json);
    };
    let payload = |source| DecodeError::Payload { name: name.to_owned(), source };
    let mut value = serde_json::from_str(json).map_err(payload)?;
    let mut current = first.0;
    while let Some((_, to, upcaster)) = lift(current) {
        value = upcaster(value);
        current = to;
    }
    Event::decode_current(current, &value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{RunEvent, RunStarted};

    #[test]
    fn old_versions_are_lifted_step_by_step() {
        let table: &[Upcaster] = &[
            ("old.v1", "old.v2", |mut value| {
                value["run"] = value["id"].take();
                value
            }),
            ("old.v2", "dev.reenact.run.started.v1", |value| serde_json::json!({ "run_id": value["run"] })),
        ];
        let event = decode_with(table, "old.v1", r#"{"id":"r1"}"#).expect("lifts");
        let run_id = crate::RunId::trusted("r1");
        assert_eq!(event, Event::Run(RunEvent::Started(RunStarted { run_id })));
    }

    #[test]
    fn an_unknown_type_is_named() {
        let error = decode("dev.other.v1", "{}").expect_err("unknown");
        assert!(error.to_string().contains("dev.other.v1"));
    }
}
