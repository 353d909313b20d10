//! Which tools the demo model calls next. Pure: the same conversation gives the same plan.

use reenact_events::agent::ToolSpec;
use serde_json::{json, value::RawValue};

use super::conversation::Conversation;

/// A call that the model is going to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) name: String,
    pub(super) arguments: String,
}

/// The calls of the next round; none when all rounds are over.
pub(super) fn next_calls(heard: &Conversation, tools: &[ToolSpec]) -> Vec<Planned> {
    let mut rounds =
        heard.message.split(" then ").map(|stage| calls_in(stage, tools)).filter(|calls| !calls.is_empty());
    rounds.nth(heard.rounds).unwrap_or_default()
}

/// The calls that a part of a message asks for, in the order of this function's rules.
fn calls_in(stage: &str, tools: &[ToolSpec]) -> Vec<Planned> {
    let mut rest = stage.to_owned();
    let mut calls = Vec::new();
    for tool in tools.iter().filter(|tool| !matches!(&*tool.name, "calculator" | "current_time" | "sleep")) {
        while let Some(arguments) = take_named(&mut rest, &tool.name) {
            calls.push(Planned { name: tool.name.clone(), arguments });
        }
    }
    for expression in expressions(&rest) {
        calls.push(Planned { name: "calculator".into(), arguments: json!({"expression": expression}).to_string() });
    }
    if let Some(zone) = zone_asked_for(&rest) {
        let arguments = zone.map_or_else(|| json!({}), |zone| json!({"timezone": zone}));
        calls.push(Planned { name: "current_time".into(), arguments: arguments.to_string() });
    }
    if let Some(seconds) = number_after(&rest, "sleep") {
        calls.push(Planned { name: "sleep".into(), arguments: format!(r#"{{"seconds":{seconds}}}"#) });
    }
    calls.retain(|call| tools.iter().any(|tool| tool.name == call.name));
    calls
}

/// Takes a tool's name and the JSON object behind it out of the text and returns the object.
fn take_named(rest: &mut String, name: &str) -> Option<String> {
    let start = find_word(rest, name)?;
    let after = start + name.len();
    let behind = rest[after..].trim_start();
    let mut values = serde_json::Deserializer::from_str(behind).into_iter::<&RawValue>();
    let object = if behind.starts_with('{') { values.next().and_then(Result::ok) } else { None };
    let arguments = object.map_or_else(|| "{}".to_owned(), |object| object.get().to_owned());
    let taken = object.map_or(0, |object| rest[after..].len() - behind.len() + object.get().len());
    rest.replace_range(start..after + taken, " ");
    Some(arguments)
}

/// Where `word` stands with no letter, digit or `_` beside it.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let part_of_word = |character: Option<char>| character.is_some_and(|it| it.is_alphanumeric() || it == '_');
    let mut places = text.match_indices(word).map(|(start, _)| start);
    places.find(|start| {
        let (before, after) = (&text[..*start], &text[start + word.len()..]);
        !part_of_word(before.chars().next_back()) && !part_of_word(after.chars().next())
    })
}

/// The arithmetic in a text: runs of digits, operators and brackets in which an operator follows a number.
fn expressions(text: &str) -> Vec<String> {
    let arithmetic = |character: char| character.is_ascii_digit() || " .+-*/%^()×÷".contains(character);
    let runs = text.split(|character| !arithmetic(character));
    runs.map(|run| run.trim_matches([' ', '.'])).filter(|run| is_expression(run)).map(str::to_owned).collect()
}

fn is_expression(run: &str) -> bool {
    let mut after_number = false;
    let mut operators = 0;
    for character in run.chars() {
        match character {
            '0'..='9' | ')' => after_number = true,
            '+' | '-' | '*' | '/' | '%' | '^' | '×' | '÷' if after_number => {
                operators += 1;
                after_number = false;
            }
            _ => {}
        }
    }
    operators > 0 && after_number
}

/// `Some` when the time is asked for, with the zone if one is named.
fn zone_asked_for(text: &str) -> Option<Option<String>> {
    let lower = text.to_ascii_lowercase();
    let at = find_word(&lower, "time")?;
    let zone = text[at + "time".len()..].strip_prefix(" in ").and_then(|rest| rest.split_whitespace().next());
    let zone = zone.map(|zone| zone.trim_end_matches(['?', '.', ',', '!'])).filter(|zone| zone.contains('/'));
    Some(zone.map(str::to_owned))
}

/// The number after `words`, for example 5 in `sleep 5`.
pub(super) fn number_after(text: &str, words: &str) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    let behind = lower[find_word(&lower, words)? + words.len()..].trim_start();
    let end = behind.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(behind.len());
    behind[..end].trim_end_matches('.').parse().ok()
}

#[cfg(test)]
mod tests {
    use reenact_events::{
        RawJson,
        agent::{Effect, ToolKind},
    };

    use super::*;

    fn plan(message: &str, rounds: usize) -> Vec<(String, String)> {
        let tools = ["calculator", "current_time", "sleep", "refund"].map(|name| ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters: RawJson::parse("{}").unwrap(),
            effect: Effect::ReadOnly,
            timeout_s: 1,
            kind: ToolKind::Builtin,
            hold: None,
        });
        let heard = Conversation { message: message.into(), messages: 1, rounds, ..Conversation::default() };
        next_calls(&heard, &tools).into_iter().map(|call| (call.name, call.arguments)).collect()
    }

    fn call(name: &str, arguments: &str) -> (String, String) {
        (name.to_owned(), arguments.to_owned())
    }

    #[test]
    fn what_is_asked_for_is_called() {
        for (message, expected) in [
            ("What is 17 * 23?", vec![call("calculator", r#"{"expression":"17 * 23"}"#)]),
            (
                "(2+3)*4 and 1.5/2.",
                vec![
                    call("calculator", r#"{"expression":"(2+3)*4"}"#),
                    call("calculator", r#"{"expression":"1.5/2"}"#),
                ],
            ),
            ("What's the time?", vec![call("current_time", "{}")]),
            ("Time in Europe/Berlin?", vec![call("current_time", r#"{"timezone":"Europe/Berlin"}"#)]),
            ("please sleep 2.", vec![call("sleep", r#"{"seconds":2}"#)]),
            ("refund {\"order\": 9007199254740993} now", vec![call("refund", r#"{"order": 9007199254740993}"#)]),
            ("refund it", vec![call("refund", "{}")]),
            ("refunds, sometimes, 3 apples, well-known", vec![]),
            ("the time and 1+1", vec![call("calculator", r#"{"expression":"1+1"}"#), call("current_time", "{}")]),
        ] {
            assert_eq!(plan(message, 0), expected, "{message}");
        }
    }

    #[test]
    fn what_follows_then_waits_for_its_round() {
        let message = "sleep 1 then nothing then 2*3";
        assert_eq!(plan(message, 0), [call("sleep", r#"{"seconds":1}"#)]);
        assert_eq!(plan(message, 1), [call("calculator", r#"{"expression":"2*3"}"#)]);
        assert_eq!(plan(message, 2), []);
    }
}
