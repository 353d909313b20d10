//! What stays readable of each fact to whoever has no key, shown on every golden file: each text of it is marked in
//! turn, and the places where the mark survives are named here.

use std::collections::BTreeSet;

use reenact_events::{Event, erased::Erase, event::ComponentEvent, upcast};
use serde_json::Value;

use crate::store::Store;

const MARK: &str = "a mark";

/// Where a text may stay: ids, and the names of agents, models, tools, guardrails and what went wrong. Facts that
/// belong to no user are left aside, and so are agents, see below.
const READABLE: &[&str] = &[
    "key.used: session_id",
    "run.cancel_requested: run_id",
    "run.cancelled: run_id",
    "run.completed: run_id",
    "run.continued: run_id",
    "run.failed: error.kind",
    "run.failed: error_id",
    "run.failed: run_id",
    "run.paused: run_id",
    "run.queued: agent_id",
    "run.queued: agent_version",
    "run.queued: fork.run_id",
    "run.queued: fork.session_id",
    "run.queued: run_id",
    "run.queued: scheduled_by.owner",
    "run.queued: scheduled_by.schedule_id",
    "run.queued: session_id",
    "run.queued: user_id",
    "run.regenerated: by",
    "run.regenerated: run_id",
    "run.requeued: by",
    "run.requeued: run_id",
    "run.started: run_id",
    "run.step.answered: by",
    "run.step.answered: run_id",
    "run.step.completed: result.guardrail.blocked.trigger",
    "run.step.completed: result.model.finish_reason",
    "run.step.completed: result.model.tool_calls.id",
    "run.step.completed: result.model.tool_calls.name",
    "run.step.completed: run_id",
    "run.step.expired: run_id",
    "run.step.failed: error.kind",
    "run.step.failed: run_id",
    "run.step.held: call.tool.call_id",
    "run.step.held: call.tool.name",
    "run.step.held: needs.input.fields.description",
    "run.step.held: needs.input.fields.field_type",
    "run.step.held: needs.input.fields.name",
    "run.step.held: run_id",
    "run.step.in_doubt: run_id",
    "run.step.requested: call.guardrail.name",
    "run.step.requested: call.tool.call_id",
    "run.step.requested: call.tool.name",
    "run.step.requested: model.id",
    "run.step.requested: model.provider",
    "run.step.requested: run_id",
    "run.step.resolved: by",
    "run.step.resolved: run_id",
    "run.step.taken_over: call.guardrail.name",
    "run.step.taken_over: call.tool.call_id",
    "run.step.taken_over: call.tool.name",
    "run.step.taken_over: run_id",
    "schedule.attempt.reported: schedule_id",
    "schedule.attempt.started: run_id",
    "schedule.attempt.started: schedule_id",
    "schedule.attempt.started: session_id",
    "schedule.created: schedule_id",
    "schedule.created: spec.endpoint",
    "schedule.created: spec.method",
    "schedule.created: spec.timezone",
    "schedule.created: spec.when.cron",
    "schedule.created: user_id",
    "schedule.deleted: schedule_id",
    "schedule.disabled: schedule_id",
    "schedule.enabled: schedule_id",
    "schedule.fired: schedule_id",
    "schedule.skipped: schedule_id",
    "schedule.updated: schedule_id",
    "schedule.updated: spec.endpoint",
    "schedule.updated: spec.method",
    "schedule.updated: spec.timezone",
    "schedule.updated: spec.when.cron",
    "session.created: agent_id",
    "session.created: forked_from_session_id",
    "session.created: session_id",
    "session.created: user_id",
    "session.deleted: session_id",
    "session.updated: session_id",
    "subject.erased: user_id",
];

/// Changes every text of a payload that may be any text, each alone; tells what is left then, and where the text was.
fn marked(kind: &str, payload: &Value) -> Vec<(String, Value)> {
    let mut places = Vec::new();
    collect(payload, String::new(), &mut places);
    let with = |place: &String| {
        let mut changed = payload.clone();
        *changed.pointer_mut(place)? = Value::from(MARK);
        let event = upcast::decode(kind, &changed.to_string()).ok()?;
        Some((place.clone(), serde_json::from_str(&event.erased().encode().ok()?).ok()?))
    };
    places.iter().filter_map(with).collect()
}

fn collect(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::String(_) => places.push(place),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| collect(item, format!("{place}/{at}"), places));
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                collect(field, format!("{place}/{}", name.replace('~', "~0").replace('/', "~1")), places);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The name of a field with that of its type, without numbers of a list.
fn named(kind: &str, place: &str) -> String {
    let parts = place.split('/').filter(|part| !part.is_empty() && part.parse::<u64>().is_err());
    let kind = kind.trim_start_matches("dev.reenact.").trim_end_matches(".v1");
    format!("{kind}: {}", parts.collect::<Vec<_>>().join("."))
}

#[test]
fn a_fact_without_content_is_a_fact_of_its_type() {
    for golden in Store::open().goldens() {
        let event = upcast::decode(&golden.kind, &golden.input).expect("reads");
        let erased = event.erased();
        let again = Event::decode_current(event.type_name(), &erased.encode().expect("encodes")).expect("reads");
        assert_eq!((&again, &again.erased()), (&erased, &erased), "{}/{}", golden.kind, golden.name);
    }
}

#[test]
fn no_text_survives_but_where_it_is_said_to() {
    let mut survives = BTreeSet::new();
    let of_users = |kind: &str| !["partition", "component"].contains(&kind.split('.').nth(2).unwrap_or_default());
    for golden in Store::open().goldens().into_iter().filter(|golden| of_users(&golden.kind)) {
        let payload: Value = serde_json::from_str(&golden.input).expect("is JSON");
        for (place, left) in marked(&golden.kind, &payload) {
            if left.to_string().contains(MARK) {
                survives.insert(named(&golden.kind, &place));
            }
        }
    }
    let said: BTreeSet<String> = READABLE.iter().map(|place| (*place).to_owned()).collect();
    assert_eq!(survives, said);
}

#[test]
fn of_agents_only_the_instructions_that_a_person_gave_are_erased() {
    let texts = |own: bool| {
        let mut kept = Vec::new();
        for golden in Store::open().goldens() {
            if let Event::Component(ComponentEvent::Registered(registered)) =
                upcast::decode(&golden.kind, &golden.input).expect("reads")
                && registered.own == own
                && registered.spec.instructions.is_some()
            {
                kept.push(registered.erased().spec.instructions == registered.spec.instructions);
            }
        }
        kept
    };
    assert!(!texts(false).is_empty() && texts(false).iter().all(|kept| *kept));
    assert!(!texts(true).is_empty() && texts(true).iter().all(|kept| !kept));
}
