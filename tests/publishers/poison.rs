//! a35: records that are no commands stop nothing, and each is found again among the dead letters.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    commands::outcome,
    deployment::Deployment,
    product::{PATIENCE, POLL},
    publisher::{Record, start_run},
};

/// Each kind of poison: what it is called here, the record, and the code that it is put aside with.
fn poison() -> Vec<(&'static str, Record, &'static str)> {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut command = start_run("never", "never", "never");
        change(&mut command);
        Record::of(command.to_string())
    };
    let oversized = with(&|command| command["message"] = json!("x".repeat(512 * 1024)));
    let foreign = with(&|command| command["reply_to"] = json!({"topic": "payments", "correlation_id": "c"}));
    let long = json!({"correlation_id": "c".repeat(1025)});
    let round = Record::of(r#"{"type":"CancelRun","id":"n","run_id":"r","asked":5}"#);
    vec![
        ("not JSON", Record::of("hello"), "not_json"),
        ("not UTF-8", Record::of(*b"{\"type\":\"StartRun\xff\"}"), "not_json"),
        ("cut off", Record::of("{\"type\":\"StartRun\",\"id\":\"n"), "not_json"),
        ("not an object", Record::of("[1,2]"), "not_json"),
        ("empty", Record::of(""), "not_json"),
        ("a tombstone", Record { value: None, ..Record::of("") }, "not_json"),
        ("a lone surrogate", Record::of(r#"{"type":"StartRun","id":"n","message":"\ud800"}"#), "not_json"),
        ("too deep", Record::of("[".repeat(10_000)), "not_json"),
        ("unknown type", with(&|command| command["type"] = json!("Dance")), "unknown_type"),
        ("unknown type in a header", with(&|_| {}).header("ce_type", b"Dance"), "unknown_type"),
        ("no type", with(&|command| command["type"] = Value::Null), "invalid"),
        ("no id", with(&|command| command["id"] = Value::Null), "invalid"),
        ("an empty id", with(&|command| command["id"] = json!("")), "invalid"),
        ("no session", with(&|command| command["session_id"] = Value::Null), "invalid"),
        ("a number for a text", with(&|command| command["message"] = json!(5)), "invalid"),
        ("a text for a truth", with(&|command| command["stream"] = json!("yes")), "invalid"),
        ("an empty message", with(&|command| command["message"] = json!("")), "invalid"),
        ("a correlation id that is a text", with(&|command| command["reply_to"] = long.clone()), "invalid"),
        ("what only the runtime may say", round, "invalid"),
        ("an unknown field", with(&|command| command["mesage"] = json!("x")), "invalid"),
        ("foreign reply topic", foreign, "invalid"),
        ("under a binary key", Record::of("{}").key(&[0, 0xff, 7]).header("trace", &[0xfe]), "invalid"),
        ("oversized", oversized, "too_large"),
    ]
}

/// All dead letters, once there are so many.
async fn letters(deployment: &Deployment, count: usize) -> Vec<Value> {
    let began = std::time::Instant::now();
    loop {
        let letters = deployment.lines(&["dead-letters", "list", "--json"]);
        if letters.len() >= count {
            return letters;
        }
        assert!(began.elapsed() < PATIENCE, "there are {} of {count}: {letters:#?}", letters.len());
        tokio::time::sleep(POLL).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a35_each_poisoned_record_is_put_aside_once_and_the_rest_goes_on() {
    let mut deployment = Deployment::start(1).await;
    let mut publisher = deployment.publisher();
    let (mut places, mut asked) = (BTreeMap::new(), Vec::new());
    let poison = poison();
    for (number, (name, record, code)) in poison.iter().enumerate() {
        places.insert(publisher.put(record), (*name, record, *code));
        asked.push(publisher.tell(start_run(&format!("good {number}"), &format!("s{number}"), "hello")));
    }
    for asked in &asked {
        let answer = publisher.answer_to(asked);
        assert_eq!(outcome(&answer), ("accepted", ""), "{answer}");
        assert_eq!(deployment.settled(&answer).await["status"], "COMPLETED");
    }
    let found = letters(&deployment, poison.len()).await;
    assert_eq!(found.len(), poison.len(), "one for each: {found:#?}");
    for letter in &found {
        let place = (letter["partition"].as_i64().unwrap_or(-1), letter["offset"].as_i64().unwrap_or(-1));
        let place = (i32::try_from(place.0).expect("small"), place.1);
        let (name, record, code) = places.remove(&place).unwrap_or_else(|| panic!("nothing was put there: {letter}"));
        assert_eq!(letter["code"], code, "{name}: {}", letter["reason"]);
        assert!(letter["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{name}");
        assert_eq!(letter["topic"], deployment.topic("commands"), "{name}");
        let known = record.value.as_ref().and_then(|value| std::str::from_utf8(value).ok());
        assert!(known.is_none() || letter["value"].as_str() == known, "{name}: it is kept as it came");
        assert_eq!(letter["value"].is_null(), record.value.is_none(), "{name}");
    }
    assert!(places.is_empty(), "not put aside: {places:?}");

    // A new owner reads on behind them.
    deployment.nodes[0].crash().await;
    assert_eq!(outcome(&publisher.ask(start_run("after", "after", "hello"))), ("accepted", ""));
    assert_eq!(letters(&deployment, 0).await.len(), poison.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a35_what_is_too_large_for_a_dead_letter_is_put_aside_without_it_and_stops_nothing() {
    let deployment = Deployment::start(1).await;
    let mut publisher = deployment.publisher();
    let huge = || "x".repeat(8_000_000);
    let records = [
        (Record::of(huge()).key(b"k").header("trace", b"17"), "its value of 8000000 bytes is not kept here", 1),
        (Record::of(huge()).key(huge().as_bytes()), "neither are its key and headers", 0),
        (Record::of("{}").header("trace", huge().as_bytes()), "neither are its key and headers", 0),
    ];
    for (number, (record, words, headers)) in records.iter().enumerate() {
        let (partition, offset) = publisher.put(record);
        let asked = start_run(&format!("behind {number}"), &format!("s{number}"), "hello");
        assert_eq!(outcome(&publisher.ask(asked)), ("accepted", ""));
        let found = letters(&deployment, number + 1).await.pop().expect("the newest is the last");
        assert_eq!((&found["partition"], &found["offset"]), (&json!(partition), &json!(offset)));
        assert!(found["reason"].as_str().is_some_and(|reason| reason.contains(words)), "{}", found["reason"]);
        assert_eq!((found["value"].is_null(), found["headers"].as_array().map(Vec::len)), (true, Some(*headers)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a35_a_dead_letter_is_shown_and_goes_on_its_way_once_it_is_mended() {
    let deployment = Deployment::start(1).await;
    let mut publisher = deployment.publisher();
    let mut command = start_run("mended", "s", "hello");
    command["reply_to"] = json!({"correlation_id": "mended"});
    let right = command.to_string();
    let wrong = right.replace("session_id", "session");
    publisher.put(&Record::of(wrong.clone()).key(&[0xff]).header("trace", b"17"));
    let number = letters(&deployment, 1).await[0]["number"].to_string();

    let shown = deployment.lines(&["dead-letters", "show", &number, "--json"]);
    assert_eq!(shown[0]["value"], wrong);
    assert_eq!(shown[0]["key"], json!({"base64": "/w=="}));
    assert_eq!(shown[0]["headers"], json!([["trace", "17"]]));
    let text = deployment.node().run(&["dead-letters", "show", &number]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("reason") && text.contains("session"), "{text}");

    // As it is, it would only come back.
    let redriven = deployment.node().run(&["dead-letters", "redrive", &number]);
    assert_eq!(redriven.status.code(), Some(1));
    let told = String::from_utf8_lossy(&redriven.stderr).into_owned();
    assert!(told.contains("still no command (invalid)") && told.contains("`session`"), "{told}");

    let file = deployment.node().data().with_file_name("mended.json");
    let file = file.display().to_string();
    // Sent once more, it has no further effect.
    for (asked, expected) in [("mended", "accepted"), ("mended again", "duplicate")] {
        let value = right.replace(r#""correlation_id":"mended""#, &format!(r#""correlation_id":"{asked}""#));
        std::fs::write(&file, value).expect("the folder is writable");
        let redriven = deployment.node().run(&["dead-letters", "redrive", &number, "--value", &file]);
        assert!(redriven.status.success(), "{}", String::from_utf8_lossy(&redriven.stderr));
        assert!(String::from_utf8_lossy(&redriven.stdout).contains("command `mended`"));
        let answer = publisher.answer_to(asked);
        assert_eq!(outcome(&answer), (expected, ""), "{answer}");
        assert_eq!(deployment.settled(&answer).await["status"], "COMPLETED");
    }
    assert_eq!(letters(&deployment, 1).await.len(), 1, "it stays where it was, and there is no other");

    let missing = deployment.node().run(&["dead-letters", "redrive", "17"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no dead letter 17"));
}
