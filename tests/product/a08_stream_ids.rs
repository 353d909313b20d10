//! A08: ids of frames came from the clock, so a burst shared one, and a reader who came back skipped or repeated
//! frames. What it says of nested agents waits for teams.

use std::collections::BTreeSet;

use reenact_tests::stub::Reply;
use serde_json::json;

use crate::{
    reader::{Frame, Reader, in_order, indexed, run_of, words},
    world::World,
};

const BURST: usize = 500;

/// A burst of one-character chunks in one write, and how the model's turn ends.
fn burst(letter: char, call: Option<&str>) -> Reply {
    let chunk = |delta: serde_json::Value, end: Option<&str>| {
        let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": end}]});
        format!("data: {chunk}\n\n")
    };
    let mut body = chunk(json!({"content": letter.to_string()}), None).repeat(BURST);
    if let Some(tool) = call {
        let call = json!({"index": 0, "id": "c", "function": {"name": tool, "arguments": "{}"}});
        body += &chunk(json!({"tool_calls": [call]}), Some("tool_calls"));
    } else {
        body += &chunk(json!({}), Some("stop"));
    }
    Reply::raw(200, "text/event-stream", body + "data: [DONE]\n\n")
}

#[tokio::test]
async fn a08_every_frame_has_an_index_of_its_own_across_a_pause_and_a_restart() {
    let sign = "[[tools]]\ntype = \"external_execution\"\nname = \"sign\"\n";
    let mut world = World::with(sign).await;
    world.model.push(burst('x', Some("sign")));
    let before = Reader::begin(&world.product, "s", "go").await.rest().await;
    let names = |frames: &[Frame]| frames.iter().map(|frame| frame.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&before).last().map(String::as_str), Some("RunPaused"));
    assert_eq!(words(&before), "x".repeat(BURST));
    let run = run_of(&before);

    world.product.crash().await;
    world.model.push(burst('y', None));
    let fields = [("tools", r#"[{"tool_call_id": "c", "result": "signed"}]"#), ("stream", "true")];
    let after = Reader::of(world.product.form(&format!("/agents/a/runs/{run}/continue"), &fields)).await.rest().await;
    assert_eq!(names(&after).last().map(String::as_str), Some("RunCompleted"));
    assert_eq!(words(&after), "y".repeat(BURST));

    let all = [indexed(&before), indexed(&after)].concat();
    in_order(&all);
    let indexes: BTreeSet<_> = all.iter().map(Frame::index).collect();
    assert_eq!(indexes.len(), all.len(), "each frame has one of its own");
    // Whoever comes later is shown the same, less the words that went with the process.
    let again = indexed(&Reader::resume(&world.product, &run, None).await.rest().await);
    in_order(&again);
    let events = |frames: &[Frame]| {
        let mut frames = frames.to_vec();
        frames.retain(|frame| frame.name != "RunContent");
        frames
    };
    assert_eq!(names(&events(&again)), names(&events(&all)));
}
