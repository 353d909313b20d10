//! A27: once the history has reached a model's window, every message to the agent fails.
//!
//! The rule: what is sent is trimmed, at most twice in a run; then the next model is asked; then the run ends with the
//! reason. What is kept is never trimmed.

use futures::future::join_all;
use reenact_tests::stub::{ModelRequest, ModelStub, Reply};
use serde_json::{Value, json};

use crate::{
    ground,
    world::{World, notes},
};

/// What the scripted model's window holds, in bytes of its messages.
const WINDOW: usize = 8_000;

/// How three providers say that it is too much.
fn refusals() -> [Reply; 3] {
    let error = |error: Value| Reply::json(400, &json!({"error": error}));
    [
        error(
            json!({"message": "This model's maximum context length is 8000 tokens. However, your messages resulted in \
            9000 tokens.", "code": "context_length_exceeded"}),
        ),
        error(json!({"type": "invalid_request_error", "message": "prompt is too long: 9000 tokens > 8000 maximum"})),
        error(json!({"message": "The input token count (9000) exceeds the maximum number of tokens allowed (8000)."})),
    ]
}

fn size(request: &ModelRequest) -> usize {
    request.messages().iter().map(|message| message.to_string().len()).sum()
}

/// Refuses what is larger than the window.
fn bound(model: &ModelStub, refusal: &Reply) {
    let refusal = refusal.clone();
    model.rule(move |request| (size(request) > WINDOW).then(|| refusal.clone()));
}

/// A world whose model has the window. The instructions stand before the model's table.
async fn world(refusal: &Reply) -> World {
    let world = World::headed("instructions = \"Be brief.\"", "[history]\nruns = 50").await;
    bound(&world.model, refusal);
    world
}

/// Checks that what was sent begins with the instructions and ends with this message.
fn frames(request: &ModelRequest, message: &str) {
    let messages = request.messages();
    assert_eq!(messages.first().map(|first| &first["role"]), Some(&json!("system")), "{messages:?}");
    let last = messages.iter().rfind(|message| message["role"] == "user").expect("a message");
    assert_eq!(last["content"], message);
}

#[tokio::test]
async fn a27_a_session_that_outgrows_the_window_goes_on_and_is_kept_whole() {
    join_all(refusals().into_iter().map(async |refusal| {
        let mut world = world(&refusal).await;
        let message = |number: usize| format!("message {number} {}", "x".repeat(1_500));
        for number in 0..10 {
            let before = world.model.requests().len();
            if number % 3 == 0 {
                world.model.push(notes(&[r#"{"n":1}"#, r#"{"n":2}"#]));
            }
            world.turn("s", &message(number)).await;
            let requests = world.model.requests().split_off(before);
            let repeats = requests.iter().filter(|request| size(request) > WINDOW).count();
            assert!(repeats <= 2, "{repeats} were refused in turn {number}");
            requests.iter().for_each(|request| frames(request, &message(number)));
        }
        world.all_requests_are_well_formed();
        let runs = world.product.get("/sessions/s/runs").await.expect(200).json();
        let inputs: Vec<_> = runs.as_array().expect("runs").iter().map(|run| run["run_input"].clone()).collect();
        assert_eq!(inputs, (0..10).map(|number| json!(message(number))).collect::<Vec<_>>());
        world.survives_a_rebuild(&["s"]).await;
    }))
    .await;
}

#[tokio::test]
async fn a27_a_message_that_no_trim_makes_fit_ends_with_the_cause_and_the_next_one_works() {
    let world = world(&refusals()[0]).await;
    world.turn("s", "one").await;
    world.turn("s", "two").await;
    for (session, calls) in [("s", 3), ("new", 1)] {
        let before = world.model.requests().len();
        let run = world.product.turn("a", session, &"x".repeat(2 * WINDOW)).await;
        assert_eq!((&run["status"], &run["error"]["kind"]), (&json!("ERROR"), &json!("context_overflow")), "{run:#}");
        assert!(run["content"].as_str().expect("a reason").contains("too long for model `scripted`"));
        let made = world.model.requests().len() - before;
        assert_eq!(made, calls, "in {session}: the same conversation is not sent again");
        assert_eq!(world.turn(session, "small").await["content"], "ok");
    }
    world.all_requests_are_well_formed();
}

#[tokio::test]
async fn a27_a_run_that_outgrows_the_window_by_its_own_results_goes_on() {
    let world = world(&refusals()[1]).await;
    world.ledger.rule(|_| Some(Reply::raw(200, "text/plain", "r".repeat(3_000))));
    for number in 0..6 {
        world.model.push(notes(&[&json!({"n": number}).to_string()]));
    }
    let run = world.turn("s", "note six").await;
    let requests = world.model.requests();
    let refused = requests.iter().filter(|request| size(request) > WINDOW).count();
    assert!((1..=2).contains(&refused), "{refused} were refused");
    requests.iter().for_each(|request| frames(request, "note six"));
    world.all_requests_are_well_formed();
    let last = requests.last().expect("it was asked");
    let results: Vec<_> = last.messages().iter().filter(|message| message["role"] == "tool").collect();
    assert_eq!(results.len(), 6, "every call is still there");
    let results = run["tools"].as_array().expect("tools");
    assert!(results.iter().all(|tool| tool["result"].as_str().is_some_and(|text| text.len() == 3_000)), "kept whole");
    assert_eq!(world.ledger.calls().len(), 6);
}

#[tokio::test]
async fn a27_after_the_trims_a_model_with_a_larger_window_is_asked() {
    let (small, large) = (ModelStub::start().await, ModelStub::start().await);
    bound(&small, &refusals()[2]);
    let model = |id: &str, stub: &ModelStub| {
        format!("provider = \"openai\"\nid = \"{id}\"\nbase_url = \"{}\"\n", stub.base_url())
    };
    let file = format!("[model]\n{}[[model.fallbacks]]\n{}", model("small", &small), model("large", &large));
    let product = ground::product().agent("a", &file).started().await;
    let message = "x".repeat(2 * WINDOW);
    for (earlier, refused) in [(0, 1), (1, 2), (2, 3), (3, 3)] {
        let session = format!("after {earlier}");
        for _ in 0..earlier {
            product.turn("a", &session, "before").await;
        }
        let before = small.requests().len();
        let run = product.turn("a", &session, &message).await;
        assert_eq!((&run["status"], &run["model"]), (&json!("COMPLETED"), &json!("large")), "{run:#}");
        assert_eq!(small.requests().len() - before, refused, "{session}");
    }
}
