//! A06: marks of runs whose workers were dead went on counting, and nothing new was ever started.

use reenact_tests::stub::Reply;
use serde_json::json;

use crate::world::{World, notes};

const SLOTS: usize = 4;

#[tokio::test]
async fn a06_slots_that_were_full_when_the_process_died_are_free_again() {
    let mut world = World::set("", |product| product.set("REENACT_MAX_CONCURRENCY", SLOTS)).await;
    world.model.rule(|request| {
        let begins = request.messages().last().is_some_and(|last| last["role"] == "user");
        begins.then(|| notes(&["{}"]))
    });
    world.ledger.otherwise(Reply::default().hang());
    let mut runs = Vec::new();
    for number in 0..4 * SLOTS {
        runs.push(world.product.begin("a", &number.to_string(), "go").await);
    }
    world.ledger.wait_for(SLOTS).await;
    let stats = world.product.get("/queue/stats").await.expect(200).json();
    assert_eq!((&stats["counts"]["running"], &stats["slots_taken"]), (&json!(SLOTS), &json!(SLOTS)), "{stats}");
    assert!(stats["oldest_queued_age_seconds"].is_u64(), "{stats}");

    world.product.kill_hard();
    world.ledger.otherwise(Reply::raw(200, "text/plain", "done"));
    world.product.start().await;
    runs.push(world.product.begin("a", "new", "go").await);
    for run in &runs {
        assert_eq!(world.product.settled(run).await["status"], "COMPLETED");
    }
    let stats = world.product.get("/queue/stats").await.expect(200).json();
    assert_eq!(stats["counts"], json!({"completed": runs.len()}));
    assert!(stats["oldest_queued_age_seconds"].is_null(), "{stats}");
}
