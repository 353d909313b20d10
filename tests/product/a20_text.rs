//! A20: one character that a store cannot take, and the whole run is lost.
//!
//! What is sent is read back equal, with the rules that `ARCHITECTURE.md` names:
//!
//! * bytes that are not UTF-8 and lone surrogates: from a caller 422, from a model or a tool U+FFFD;
//! * a caller's JSON that is none (`NaN`, `Infinity`, 1e400, more than 127 levels): 422; a model's arguments of
//!   that kind, or with a key that stands twice: an error that the model is told, the tool is not called;
//! * of a key that stands twice in a caller's JSON the last value is read; the log keeps both.

use reenact_tests::stub::Reply;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    forms::Part,
    support::Product,
    world::{World, notes},
};

fn deep(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

/// Texts that have broken stores. Those that look like JSON are just texts, too.
fn texts() -> Vec<String> {
    let odd =
        ["a\0b", "a\u{fffe}b", "\u{200f}right", "🙂👩\u{200d}👧", "e\u{301} is not é", "\u{1}\u{7f}\u{85}\u{2028}"];
    let json = [r"\ud83d", "NaN", "Infinity", "-0", "1e400", "9007199254740993", r#"{"a":1,"a":2}"#, r#"{"":1}"#];
    odd.into_iter().chain(json).map(str::to_owned).chain([deep(200)]).collect()
}

#[tokio::test]
async fn a20_what_a_person_a_model_and_a_tool_say_comes_back_as_they_said_it() {
    let mut world = World::with("").await;
    for text in texts() {
        world.model.push(notes(&["{}"]));
        world.ledger.push(Reply::raw(200, "application/json", text.clone()));
        world.model.push(Reply::text(&text));
        let run = world.turn("s", &text).await;
        assert_eq!(run["input"]["input_content"], text);
        assert_eq!(run["tools"][0]["result"], text);
        assert_eq!(run["content"], text);
        let requests = world.model.requests();
        let [.., person, _, tool] = requests.last().expect("it was asked").messages() else { panic!("{requests:?}") };
        assert_eq!((&person["content"], &tool["content"]), (&json!(text), &json!(text)), "what the model is sent");
    }
    world.survives_a_rebuild(&["s"]).await;
}

#[tokio::test]
async fn a20_what_is_no_unicode_is_refused_from_a_caller_and_replaced_from_a_model_or_a_tool() {
    let mut world = World::with("").await;
    for bytes in [b"a\xffb".as_slice(), b"\xed\xa0\xbd", b"\xf0\x9f\x99"] {
        world.form_of(&[Part::Field("message", bytes), Part::Field("session_id", b"s")]).await.expect(422);
        let replaced = String::from_utf8_lossy(bytes);
        let chunk = [br#"data: {"choices":[{"delta":{"content":""#, bytes, br#""},"finish_reason":"stop"}]}"#].concat();
        world.model.push(notes(&["{}"]));
        world.ledger.push(Reply::raw(200, "text/plain", bytes.to_vec()));
        world.model.push(Reply::raw(200, "text/event-stream", [&chunk, b"\n\ndata: [DONE]\n\n".as_slice()].concat()));
        let run = world.turn("s", "hello").await;
        assert_eq!(run["tools"][0]["result"], *replaced);
        assert_eq!(run["content"], *replaced);
    }
    for (escaped, said) in [(r"a\ud83d", "a\u{fffd}"), (r"\ude42b", "\u{fffd}b"), (r"\ud83d\ude42", "🙂")] {
        let chunk = format!(r#"{{"choices":[{{"delta":{{"content":"{escaped}"}},"finish_reason":"stop"}}]}}"#);
        world.model.push(Reply::events([chunk, "[DONE]".to_owned()]));
        assert_eq!(world.turn("s", "hello").await["content"], said);
    }
    assert_eq!(world.product.get("/runs").await.json()["meta"]["total_count"], 6, "what was refused did not begin");
    world.survives_a_rebuild(&["s"]).await;
}

#[tokio::test]
async fn a20_arguments_reach_the_tool_byte_for_byte_or_not_at_all() {
    let mut world = World::with("").await;
    let mut cases: Vec<(String, Option<String>)> = Vec::new();
    for text in texts() {
        let arguments = json!({"text": text}).to_string();
        cases.push((arguments.clone(), Some(arguments)));
    }
    for kept in [r#"{"n":-0}"#, r#"{"n":9007199254740993}"#, r#"{"":1}"#, r#"{ "t" : "\u0000\ufffe\ud83d\ude42" }"#] {
        cases.push((kept.to_owned(), Some(kept.to_owned())));
    }
    cases.push((r#"{"t":"\ud83d","u":"\ude42"}"#.to_owned(), Some(r#"{"t":"\ufffd","u":"\ufffd"}"#.to_owned())));
    for refused in [r#"{"n":NaN}"#, r#"{"n":Infinity}"#, r#"{"n":1e400}"#, r#"{"a":1,"a":2}"#] {
        cases.push((refused.to_owned(), None));
    }
    cases.push((format!(r#"{{"d":{}}}"#, deep(200)), None));
    for (arguments, wanted) in cases {
        let before = world.ledger.calls().len();
        world.model.push(notes(&[&arguments]));
        let run = world.turn("s", "call it").await;
        let calls = world.ledger.calls().split_off(before);
        let got: Vec<_> = calls.iter().map(|call| call.body.as_str()).collect();
        assert_eq!(got, wanted.as_deref().into_iter().collect::<Vec<_>>(), "{arguments}");
        assert_eq!(run["tools"][0]["tool_call_error"], wanted.is_none(), "{arguments}");
        if let Some(wanted) = wanted.filter(|wanted| *wanted == arguments) {
            let wanted: Value = serde_json::from_str(&wanted).expect("it was taken for JSON");
            assert_eq!(run["tools"][0]["tool_args"], wanted);
        }
    }
    world.survives_a_rebuild(&["s"]).await;
}

/// What becomes of a caller's JSON.
enum Fate {
    Kept,
    Becomes(Value),
    Refused,
}

/// JSON values as a caller may write them, with what becomes of each.
fn values() -> Vec<(String, Fate)> {
    let kept =
        [r#""\u0000""#, r#""\ufffe\u200f🙂e\u0301""#, r#""\ud83d\ude42""#, "-0", "9007199254740993", r#"{"":1}"#];
    let refused = [r#""\ud83d""#, r#""\ude42""#, r#""\ude42\ud83d""#, "NaN", "Infinity", "-Infinity", "1e400"];
    let mut values: Vec<_> = kept.into_iter().map(|value| (value.to_owned(), Fate::Kept)).collect();
    values.extend(refused.into_iter().map(|value| (value.to_owned(), Fate::Refused)));
    values.push((r#"{"a":1,"a":2}"#.to_owned(), Fate::Becomes(json!({"a": 2}))));
    values.push((deep(60), Fate::Kept));
    values.push((deep(200), Fate::Refused));
    values
}

#[tokio::test]
async fn a20_state_and_metadata_are_kept_or_refused_before_anything_begins() {
    let mut world = World::with("").await;
    let mut sessions = vec!["posted".to_owned()];
    world.product.post("/agents/a/runs", &[("message", "x"), ("session_id", "posted"), ("stream", "false")]).await;
    for (at, (value, fate)) in values().into_iter().enumerate() {
        // A key is a text: other values stand beside one.
        let key = if value.starts_with('"') { value.clone() } else { r#""k""#.to_owned() };
        let (state, metadata) = (format!(r#"{{"k":{value}}}"#), format!(r#"{{{key}:{value}}}"#));
        let session = format!("s{at}");
        let fields = [
            ("message", "hello"),
            ("stream", "false"),
            ("session_id", session.as_str()),
            ("session_state", state.as_str()),
            ("metadata", metadata.as_str()),
        ];
        let started = world.product.post("/agents/a/runs", &fields).await;
        let body = format!(r#"{{"session_state":{state},"metadata":{metadata}}}"#);
        let patch = world.product.request(Method::PATCH, "/sessions/posted").body(body);
        let patched = Product::ask(patch.header("content-type", "application/json")).await;
        let wanted = match fate {
            Fate::Refused => {
                assert_eq!((started.status, patched.status), (422, 422), "{value}: {}", started.text());
                world.product.get(&format!("/sessions/{session}")).await.expect(404);
                continue;
            }
            Fate::Becomes(wanted) => wanted,
            Fate::Kept => serde_json::from_str(&value).expect("what is kept is JSON"),
        };
        let read_key = serde_json::from_str::<String>(&key).expect("a key is a text");
        assert_eq!(started.expect(200).json()["metadata"], json!({&*read_key: wanted}), "{value}");
        assert_eq!(patched.expect(200).json()["session_state"], json!({"k": wanted}), "{value}");
        let read = world.product.get(&format!("/sessions/{session}")).await.expect(200).json();
        assert_eq!(read["session_state"], json!({"k": wanted}), "{value}");
        sessions.push(session);
    }
    let sessions: Vec<_> = sessions.iter().map(String::as_str).collect();
    world.survives_a_rebuild(&sessions).await;
}

#[tokio::test]
async fn a20_file_names_come_back_and_are_never_paths() {
    let mut world = World::with("").await;
    let names =
        ["\u{200f}right.pdf", "🙂.pdf", "e\u{301}.pdf", "a\u{fffe}b.pdf", "../../etc/passwd", r"\ud83d.pdf", "NaN"];
    for name in names {
        let file = Part::File { name: name.as_bytes(), mime: "application/pdf", bytes: b"%PDF-1.4" };
        let [message, session, stream] = [("message", "look"), ("session_id", "s"), ("stream", "false")]
            .map(|(name, value)| Part::Field(name, value.as_bytes()));
        let run = world.form_of(&[message, session, stream, file]).await.expect(200).json();
        assert_eq!(run["input"]["files"][0]["filename"], name);
    }
    for (written, name) in [(r"a\u0000b", Some("a\0b")), (r"\ud83d\ude42", Some("🙂")), (r"\ud83d", None)] {
        let file = format!(r#"[{{"content":"JVBERg==","mime_type":"application/pdf","filename":"{written}"}}]"#);
        let fields = [("message", "look"), ("session_id", "s"), ("stream", "false"), ("input_files", file.as_str())];
        let answer = world.product.post("/agents/a/runs", &fields).await;
        match name {
            Some(name) => assert_eq!(answer.expect(200).json()["input"]["files"][0]["filename"], name),
            None => drop(answer.expect(422)),
        }
    }
    for name in [b"a\xff.pdf".as_slice(), b"\xed\xa0\xbd.pdf"] {
        let file = Part::File { name, mime: "application/pdf", bytes: b"%PDF-1.4" };
        let answer = world.form_of(&[Part::Field("message", b"look"), file]).await.expect(422);
        assert!(answer.json()["detail"].is_array(), "{}", answer.text());
    }
    world.survives_a_rebuild(&["s"]).await;
}
