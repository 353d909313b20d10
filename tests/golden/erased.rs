//! What stays readable of each fact to whoever has no key, shown on every golden file: each text of it is marked in
//! turn, and the places where the mark survives are named here.

use std::collections::BTreeSet;

use reenact_events::{Event, erased::Erase, upcast};
use serde_json::Value;

use crate::store::Store;

const MARK: &str = "a mark";

/// Where a text may stay: ids, and the names of agents, models, tools, guardrails and what went wrong.
const READABLE: &[&str] = &[];

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
    for golden in Store::open().goldens() {
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
