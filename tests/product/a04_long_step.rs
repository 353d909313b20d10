//! A04: a step that took longer than the lease was started again although its first attempt was alive.

use std::time::Duration;

use reenact_tests::stub::Reply;

use crate::world::{World, notes};

/// Longer than twice the time in which a step may begin, after which its start counts as late. On Kafka, where an owner
/// has a session that may time out, `tests/chaos` has the same with three nodes.
const LONG: Duration = Duration::from_secs(11);

#[tokio::test]
async fn a04_a_call_and_an_answer_that_take_long_are_started_once() {
    let world = World::with("").await;
    world.ledger.otherwise(Reply::raw(200, "text/plain", "late").delay(LONG));
    world.model.rule(|request| {
        let slow = request.messages().last().is_some_and(|last| last["content"] == "slow model");
        slow.then(|| Reply::text("late").delay(LONG))
    });
    world.model.push(notes(&["{}"]));
    let tool = world.product.begin("a", "tool", "slow tool").await;
    world.ledger.wait_for(1).await;
    let model = world.product.begin("a", "model", "slow model").await;
    for (run, steps) in [(&tool, 3), (&model, 1)] {
        let output = world.product.settled(run).await;
        assert_eq!(output["status"], "COMPLETED", "{output:#}");
        let of_run = |kind: &str| {
            let events = world.product.events().into_iter();
            events.filter(|event| event["data"]["run_id"] == **run && event["type"] == kind).count()
        };
        assert_eq!(of_run("dev.reenact.run.step.requested.v1"), steps, "each step has one attempt");
        assert_eq!(of_run("dev.reenact.run.step.completed.v1"), steps);
    }
    assert_eq!((world.ledger.calls().len(), world.model.requests().len()), (1, 3));
}
