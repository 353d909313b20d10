//! Stored bytes are read for ever as they were read at first.
//!
//! `data/TYPE/NAME.json` holds a payload byte for byte as it was stored, `data/TYPE/NAME.reads.json` what it was
//! read as, and `data/index.txt` the SHA-256 of each file, so that none changes or disappears unseen. A golden
//! file is never written again: when a type changes, its old files stay and must read to the same facts, and
//! new samples get new names. `REENACT_GOLDEN=add cargo test -p reenact-tests --test golden` writes files for
//! the samples that have none, and touches no other.

mod erased;
mod samples;
mod store;

use std::collections::BTreeSet;

use reenact_events::{Event, event::CURRENT_TYPES, upcast};
use serde_json::Value;

use store::Store;

/// What a payload is read as: the type that it was lifted to, and its fields.
fn reading(kind: &str, input: &str) -> Value {
    let event: Event = upcast::decode(kind, input).unwrap_or_else(|error| panic!("{error:?} in {input}"));
    let fields: Value = serde_json::from_str(&event.encode().expect("encodes")).expect("is JSON");
    serde_json::json!({ "type": event.type_name(), "fields": fields })
}

/// Whether `now` says all that `then` said. A field that came later may only stand empty.
fn says_all_of(now: &Value, then: &Value) -> bool {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => {
            then.iter().all(|(name, value)| now.get(name).is_some_and(|now| says_all_of(now, value)))
                && now.iter().filter(|(name, _)| !then.contains_key(*name)).all(|(_, value)| is_empty(value))
        }
        (Value::Array(now), Value::Array(then)) => {
            now.len() == then.len() && now.iter().zip(then).all(|(now, then)| says_all_of(now, then))
        }
        _ => now == then,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_u64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) => false,
    }
}

#[test]
fn golden_files_are_added_only_when_asked() {
    let Ok(asked) = std::env::var("REENACT_GOLDEN") else { return };
    assert_eq!(asked, "add", "`REENACT_GOLDEN` knows only `add`");
    let store = Store::open();
    for sample in samples::all() {
        let reads = reading(&sample.kind, &sample.input);
        store.add(&sample, &reads);
    }
}

#[test]
fn every_type_and_every_old_version_has_a_golden_file() {
    let kinds: BTreeSet<String> = Store::open().goldens().into_iter().map(|golden| golden.kind).collect();
    let old = upcast::UPCASTERS.iter().map(|(from, ..)| *from);
    let missing: Vec<&str> = CURRENT_TYPES.iter().copied().chain(old).filter(|kind| !kinds.contains(*kind)).collect();
    assert!(missing.is_empty(), "write samples in `tests/golden/samples.rs` for {missing:?}");
}

#[test]
fn every_sample_was_stored() {
    let stored: BTreeSet<(String, String)> =
        Store::open().goldens().into_iter().map(|golden| (golden.kind, golden.name)).collect();
    let fresh: Vec<_> = samples::all()
        .into_iter()
        .map(|sample| (sample.kind, sample.name))
        .filter(|name| !stored.contains(name))
        .collect();
    assert!(fresh.is_empty(), "add them with `REENACT_GOLDEN=add`: {fresh:?}");
}

#[test]
fn no_golden_file_changes_appears_or_disappears_unseen() {
    let wrong = Store::open().differences();
    assert!(wrong.is_empty(), "golden files are never changed, write new ones instead: {wrong:#?}");
}

#[test]
fn every_golden_file_reads_as_it_did() {
    for golden in Store::open().goldens() {
        let now = reading(&golden.kind, &golden.input);
        assert!(
            says_all_of(&now, &golden.reads),
            "{}/{} reads as {now:#}, and was read as {:#}",
            golden.kind,
            golden.name,
            golden.reads
        );
    }
}

#[test]
fn a_field_of_a_later_version_does_not_disturb() {
    for golden in Store::open().goldens() {
        let later = golden.input.replacen('{', r#"{"field_of_a_later_version":{"a":[1,null]},"#, 1);
        assert_eq!(reading(&golden.kind, &later), reading(&golden.kind, &golden.input), "{later}");
    }
}

#[test]
fn what_was_read_is_written_so_that_it_reads_the_same() {
    for golden in Store::open().goldens() {
        let event = upcast::decode(&golden.kind, &golden.input).expect("reads");
        let again = upcast::decode(event.type_name(), &event.encode().expect("encodes")).expect("reads");
        assert_eq!(again, event);
    }
}

#[test]
fn a_later_field_must_be_empty_in_an_old_file() {
    let then = serde_json::json!({"a": [{"b": 1}], "c": null});
    for (now, same) in [
        (r#"{"a": [{"b": 1}], "c": null}"#, true),
        (r#"{"a": [{"b": 1, "new": null}], "c": null, "d": 0}"#, true),
        (r#"{"a": [{"b": 1}], "c": null, "d": 7}"#, false),
        (r#"{"a": [{"b": 2}], "c": null}"#, false),
        (r#"{"a": [{"b": 1}, {}], "c": null}"#, false),
        (r#"{"a": [{"b": 1}]}"#, false),
    ] {
        assert_eq!(says_all_of(&serde_json::from_str(now).expect("is JSON"), &then), same, "{now}");
    }
}
