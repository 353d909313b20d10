//! A07: a reader who came back missed frames, got some twice, or waited for ever for a process that had died.

use futures::future::join_all;
use reenact_tests::stub::Reply;
use serde_json::json;

use crate::{
    reader::{Reader, in_order, indexed, last_index, run_of, words},
    world::World,
};

const CHUNKS: usize = 5_000;

fn text() -> String {
    (0..CHUNKS).map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a07_whoever_leaves_and_comes_back_has_seen_what_the_others_have() {
    let mut world = World::with("").await;
    world.model.push(Reply::text(&text()));
    let whole = indexed(&Reader::begin(&world.product, "s", "count").await.rest().await);
    in_order(&whole);
    // What comes at once is shown at once: there are fewer frames than chunks.
    let shown = whole.iter().filter(|frame| frame.name == "RunContent").count();
    assert!(shown > 4, "{shown}");
    assert_eq!((words(&whole), whole.last().map(|last| last.name.as_str())), (text(), Some("RunCompleted")));
    let run = run_of(&whole);
    join_all([1, 2, shown / 2, shown].map(async |left_after| {
        let mut reader = Reader::resume(&world.product, &run, None).await;
        let mut seen = reader.until("RunContent", left_after).await;
        drop(reader);
        seen.extend(Reader::resume(&world.product, &run, last_index(&seen)).await.rest().await);
        assert_eq!(indexed(&seen), whole, "left after {left_after}");
    }))
    .await;
    // Of a process that died only what was journaled is left, and that tells the same.
    world.product.crash().await;
    let stored = world.product.get(&format!("/runs/{run}")).await.expect(200).json();
    for seen in [None, whole[1].index(), whole[shown / 2].index(), last_index(&whole)] {
        let rest = Reader::resume(&world.product, &run, seen).await.rest().await;
        in_order(&rest);
        assert!(rest.iter().filter_map(|frame| frame.index()).all(|index| Some(index) > seen), "{rest:#?}");
        assert_eq!(seen == last_index(&whole), indexed(&rest).is_empty(), "{rest:#?}");
        if let Some(end) = indexed(&rest).last() {
            assert_eq!((&*end.name, &end.data["content"]), ("RunCompleted", &stored["content"]));
        }
    }
}

#[tokio::test]
async fn a07_a_reader_of_a_process_that_was_killed_is_told_what_is_void_and_sees_the_end() {
    let mut world = World::with("").await;
    let word = |word: &str| json!({"choices": [{"index": 0, "delta": {"content": word}}]}).to_string();
    world.model.push(Reply::events(["one ", "two ", "three "].map(word)).hang());
    world.model.otherwise(Reply::text("all of it"));
    let mut reader = Reader::begin(&world.product, "s", "say").await;
    let mut seen = reader.until("RunContent", 1).await;
    world.product.kill_hard();
    // What was on its way may still come; then the stream breaks off.
    seen.extend(reader.rest().await);
    assert_ne!(seen.last().map(|last| last.name.as_str()), Some("RunCompleted"));
    world.product.start().await;
    let run = run_of(&seen);
    seen.extend(Reader::resume(&world.product, &run, last_index(&seen)).await.rest().await);
    in_order(&seen);
    let end = seen.last().expect("frames");
    assert_eq!((&*end.name, words(&seen)), ("RunCompleted", "all of it".to_owned()), "{seen:#?}");
    assert_eq!(world.product.get(&format!("/runs/{run}")).await.expect(200).json()["content"], "all of it");
}
