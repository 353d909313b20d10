//! Puts tool calls together from their fragments.
//!
//! A fragment belongs to the call of its `index`. Without one it belongs to the call of its `id`; without
//! either, to the latest call, unless it names a function after that call has arguments. Some servers give
//! every parallel call index 0: a fragment with a name and another id than the call at its index begins a
//! new call.

use std::collections::BTreeMap;

use reenact_actors::step::RequestedCall;

use super::wire::{self, Fragment};

/// The calls of one answer, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<RequestedCall>,
    by_index: BTreeMap<u64, usize>,
}

impl Calls {
    /// Adds a fragment and returns how many bytes it brought.
    pub(super) fn add(&mut self, fragment: &Fragment) -> usize {
        let function = fragment.function.as_ref();
        let id = wire::id(fragment.id.as_ref());
        let name = wire::words(function.and_then(|function| function.name.as_ref()));
        let arguments = function.map(wire::Function::arguments).unwrap_or_default();
        let bytes = id.len() + name.len() + arguments.len();
        let place = self.place(fragment.index, &id, &name);
        if let Some(index) = fragment.index {
            self.by_index.insert(index, place);
        }
        let call = &mut self.calls[place];
        if call.id.is_empty() {
            call.id = id;
        }
        // Names come in pieces, or whole and then again with every fragment.
        if call.name != name {
            call.name.push_str(&name);
        }
        call.arguments.push_str(&arguments);
        bytes
    }

    fn place(&mut self, index: Option<u64>, id: &str, name: &str) -> usize {
        let known = match index {
            Some(index) => self.by_index.get(&index).copied().filter(|place| !self.is_another(*place, id, name)),
            None if !id.is_empty() => self.calls.iter().rposition(|call| call.id == id),
            None => {
                let latest = self.calls.len().checked_sub(1);
                latest.filter(|place| name.is_empty() || self.calls[*place].arguments.is_empty())
            }
        };
        known.unwrap_or_else(|| {
            self.calls.push(RequestedCall { id: String::new(), name: String::new(), arguments: String::new() });
            self.calls.len() - 1
        })
    }

    fn is_another(&self, place: usize, id: &str, name: &str) -> bool {
        let call = &self.calls[place];
        !name.is_empty() && !id.is_empty() && !call.id.is_empty() && call.id != id
    }

    pub(super) fn into_calls(self) -> Vec<RequestedCall> {
        self.calls
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn calls(fragments: &[Value]) -> Vec<(String, String, String)> {
        let mut calls = Calls::default();
        for fragment in fragments {
            calls.add(&serde_json::from_str(&fragment.to_string()).unwrap());
        }
        calls.into_calls().into_iter().map(|call| (call.id, call.name, call.arguments)).collect()
    }

    fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
        (id.to_owned(), name.to_owned(), arguments.to_owned())
    }

    #[test]
    fn fragments_find_their_call_by_index_in_any_order() {
        let fragments = [
            json!({"index": 0, "id": "a", "function": {"name": "add", "arguments": ""}}),
            json!({"index": 1, "id": "b", "function": {"name": "mul"}}),
            json!({"index": 1, "function": {"arguments": "{\"y\":"}}),
            json!({"index": 0, "id": null, "function": {"name": null, "arguments": "{}"}}),
            json!({"index": 1, "id": "b", "function": {"name": "mul", "arguments": "2}"}}),
        ];
        assert_eq!(calls(&fragments), [call("a", "add", "{}"), call("b", "mul", "{\"y\":2}")]);
    }

    #[test]
    fn fragments_without_index_find_their_call() {
        let fragments = [
            json!({"id": "a", "function": {"name": "add", "arguments": "{"}}),
            json!({"function": {"arguments": "}"}}),
            json!({"id": "b", "function": {"name": "mul", "arguments": "{}"}}),
            json!({"function": {"name": "sub", "arguments": "{}"}}),
        ];
        assert_eq!(calls(&fragments), [call("a", "add", "{}"), call("b", "mul", "{}"), call("", "sub", "{}")]);
    }

    #[test]
    fn parallel_calls_that_all_say_index_zero_stay_apart() {
        let fragments = [
            json!({"index": 0, "id": "a", "function": {"name": "add", "arguments": "{}"}}),
            json!({"index": 0, "id": "b", "function": {"name": "add", "arguments": "{}"}}),
        ];
        assert_eq!(calls(&fragments), [call("a", "add", "{}"), call("b", "add", "{}")]);
    }

    #[test]
    fn odd_fragments_are_taken_as_they_are() {
        assert_eq!(calls(&[json!({})]), [call("", "", "")]);
        let object = r#"{"id": 7, "index": 9007199254740993, "function": {"name": "f", "arguments": {"n": 1e400}}}"#;
        let mut odd = Calls::default();
        odd.add(&serde_json::from_str(object).unwrap());
        let taken = odd.into_calls().remove(0);
        assert_eq!((taken.id.as_str(), taken.arguments.as_str()), ("7", r#"{"n": 1e400}"#));
    }
}
