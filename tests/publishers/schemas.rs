//! `reenact schema` says what is understood: what the schema takes is taken, and what it refuses is refused.

use std::process::Output;

use reenact_events::wire::{self, Attributes};
use serde_json::{Value, json};

use crate::product::Product;

fn schema(kind: &str) -> Value {
    let Output { status, stdout, stderr } = Product::new().run(&["schema", kind]);
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    serde_json::from_slice(&stdout).expect("JSON")
}

/// One command of each kind with all that it may have, as the documents show them.
fn samples() -> Vec<Value> {
    let blob = json!({"sha256": "0".repeat(64), "bytes": 1});
    vec![
        json!({"type": "StartRun", "id": "1", "session_id": "s", "user_id": "u", "agent_id": "demo", "message": "m",
            "reply_to": {"topic": "reenact.replies", "correlation_id": "c"}, "metadata": {"a": 1},
            "session_state": {}, "output_schema": {"type": "object"}, "stream": false, "background": true,
            "media": [{"kind": "image", "blob": blob, "mime": "image/png", "name": "a.png"}]}),
        json!({"type": "StartRun", "id": "1", "session_id": "s", "agent_id": "demo", "message": blob}),
        json!({"type": "CancelRun", "id": "1", "run_id": "r"}),
        json!({"type": "CancelRun", "id": "1", "run_id": "r", "session_id": "s", "reason": "why"}),
        json!({"type": "RequeueRun", "id": "1", "run_id": "r", "session_id": "s"}),
        json!({"type": "ContinueRun", "id": "1", "run_id": "r", "requirements": [
            {"tool_call_id": "a", "confirmed": true}, {"tool_call_id": "b", "result": "done"},
            {"tool_call_id": "c", "fail": true}]}),
        json!({"type": "ForkRun", "id": "1", "run_id": "r", "session_id": "s", "continue_from": "last_user",
            "input": "more", "model": "m", "instructions": "Be brief.", "stream": false, "background": true}),
        json!({"type": "ForkRun", "id": "1", "run_id": "r", "continue_from": 3}),
        json!({"type": "ForkRun", "id": "1", "run_id": "r", "step": 2, "input": blob}),
        json!({"type": "ForkRun", "id": "1", "run_id": "r", "regenerate": true}),
        json!({"type": "ForkSession", "id": "1", "session_id": "s", "name": "n", "metadata": {}, "summary": {}}),
        json!({"type": "CreateSession", "id": "1", "session_id": "s", "agent_id": "demo", "name": "n", "state": {},
            "metadata": {}}),
        json!({"type": "UpdateSession", "id": "1", "session_id": "s", "name": "n", "state": {}, "summary": {}}),
        json!({"type": "DeleteSession", "id": "1", "session_id": "s", "reply_to": {"correlation_id": "c"}}),
        json!({"type": "CreateSchedule", "id": "1", "user_id": "u", "name": "n", "endpoint": "/agents/demo/runs",
            "cron_expr": "0 9 * * 1-5", "timezone": "UTC", "description": "d", "method": "POST",
            "payload": {"message": "m"}, "timeout_seconds": 60, "max_retries": 1, "retry_delay_seconds": 5,
            "overlap": "queue", "catch_up": "all", "jitter_seconds": 3}),
        json!({"type": "UpdateSchedule", "id": "1", "schedule_id": "s", "name": "n", "endpoint": "/agents/demo/runs",
            "payload": {"message": "m"}}),
        json!({"type": "EnableSchedule", "id": "1", "schedule_id": "s"}),
        json!({"type": "DisableSchedule", "id": "1", "schedule_id": "s"}),
        json!({"type": "TriggerSchedule", "id": "1", "schedule_id": "s"}),
        json!({"type": "DeleteSchedule", "id": "1", "schedule_id": "s"}),
    ]
}

/// The command without each of its fields in turn, with a field of another type, and with one too many.
fn variations(command: &Value) -> Vec<Value> {
    let fields = command.as_object().expect("a command is an object");
    let mut varied = Vec::new();
    for name in fields.keys() {
        let mut without = fields.clone();
        without.remove(name);
        varied.push(Value::Object(without));
        for other in [json!(7), json!([7]), json!({"b": []}), json!("text"), json!(true)] {
            let mut with = fields.clone();
            with.insert(name.clone(), other);
            varied.push(Value::Object(with));
        }
    }
    let mut more = fields.clone();
    more.insert("more".to_owned(), json!(1));
    varied.push(Value::Object(more));
    varied
}

#[test]
fn the_schema_takes_what_the_runtime_takes_and_nothing_else() {
    for command in samples() {
        let kind = command["type"].as_str().expect("a command has a type");
        let schema = jsonschema::validator_for(&schema(kind)).expect("it is a schema");
        schema.validate(&command).unwrap_or_else(|error| panic!("{command}: {error}"));
        let understood = |command: &Value| wire::decode(command.to_string().as_bytes(), Attributes::default());
        understood(&command).unwrap_or_else(|error| panic!("{command}: {error}"));
        for varied in variations(&command) {
            let (fits, understood) = (schema.validate(&varied), understood(&varied));
            // A type that is another kind's is for that kind's schema to say.
            assert_eq!(fits.is_ok(), understood.is_ok(), "{varied}: the schema says {fits:?}, we {understood:?}");
        }
    }
}

#[test]
fn every_kind_has_a_schema_and_no_other_word_does() {
    let Output { stdout, .. } = Product::new().run(&["schema"]);
    let all: Value = serde_json::from_slice(&stdout).expect("JSON");
    for kind in wire::KINDS {
        assert_eq!(all[kind], schema(kind));
        jsonschema::meta::validate(&all[kind]).expect("it is a schema");
    }
    let Output { status, stderr, .. } = Product::new().run(&["schema", "Dance"]);
    assert_eq!(status.code(), Some(1));
    assert!(String::from_utf8_lossy(&stderr).contains("StartRun, CancelRun"));
}
