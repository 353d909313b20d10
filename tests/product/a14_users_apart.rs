//! A14: one agent serves many users at once, and a tool call of one session received the state of another.

use std::collections::BTreeSet;

use futures::future::join_all;
use reenact_tests::stub::{ModelRequest, Reply};
use serde_json::json;

use crate::world::{World, notes};

/// All at once, each with a session of their own.
const USERS: usize = 30;
const TURNS: usize = 4;

/// Every word that is somebody's secret.
fn secrets(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '-');
    words.filter(|word| word.starts_with("secret-")).map(str::to_owned).collect()
}

fn secret_of(user: &str) -> String {
    format!("secret-{user}")
}

/// The one secret that a request holds.
fn only_secret(request: &ModelRequest) -> String {
    let secrets = secrets(&request.body.to_string());
    let [secret] = &Vec::from_iter(secrets)[..] else { panic!("not one user's secret: {:#}", request.body) };
    secret.clone()
}

/// One turn; the word is in the session's state, which only the first turn brings.
async fn turn(world: &World, user: &str, number: usize) -> serde_json::Value {
    let (session, state) = (format!("of-{user}"), json!({"word": secret_of(user)}).to_string());
    let message = format!("turn {number}");
    let mut fields = vec![("message", &*message), ("session_id", &*session), ("user_id", user), ("stream", "false")];
    if number == 0 {
        fields.push(("session_state", &*state));
    }
    world.product.post("/agents/a/runs", &fields).await.expect(200).json()
}

#[tokio::test]
async fn a14_of_many_users_at_once_every_call_and_every_request_holds_its_own_users_word_only() {
    let world = World::headed("instructions = \"The word is {word}.\"", "[history]\nruns = 2\n").await;
    world.model.rule(|request| {
        let last = request.messages().last()?;
        let word = only_secret(request);
        Some(if last["role"] == "tool" { Reply::text(&word) } else { notes(&[&json!({"word": word}).to_string()]) })
    });
    world.ledger.rule(|call| Some(Reply::raw(200, "text/plain", call.body.clone())));
    let users: Vec<_> = (0..USERS).map(|number| format!("user{number}")).collect();
    join_all(users.iter().map(async |user| {
        for number in 0..TURNS {
            let run = turn(&world, user, number).await;
            assert_eq!((&run["status"], &run["content"]), (&json!("COMPLETED"), &json!(secret_of(user))), "{run:#}");
            assert_eq!((&run["user_id"], secrets(&run.to_string()).len()), (&json!(user), 1), "{run:#}");
        }
    }))
    .await;
    let calls = world.ledger.calls();
    assert_eq!(calls.len(), USERS * TURNS);
    for call in calls {
        let user = call.header("x-reenact-user");
        assert_eq!(secrets(&call.body), BTreeSet::from([secret_of(user)]), "a call of `{user}`");
    }
    world.model.requests().iter().for_each(|request| drop(only_secret(request)));
    reads_are_apart(&world).await;
}

/// Checks that what one user asks for tells nothing of another.
async fn reads_are_apart(world: &World) {
    let (user, other) = ("user0", "user1");
    for path in [format!("/sessions/of-{other}"), format!("/sessions/of-{other}/runs")] {
        let refused = world.product.get(&format!("{path}?user_id={user}")).await.expect(404);
        assert!(secrets(&refused.text()).is_empty(), "{path}: {}", refused.text());
    }
    let listed = world.product.get(&format!("/sessions?user_id={user}")).await.expect(200).json();
    let sessions: Vec<_> = listed["data"].as_array().expect("a page").iter().map(|one| &one["session_id"]).collect();
    assert_eq!(sessions, [&json!(format!("of-{user}"))]);
    let asked = world.model.requests().len();
    let fields = [("message", "go on"), ("session_id", "of-user1"), ("user_id", user), ("stream", "false")];
    world.product.post("/agents/a/runs", &fields).await.expect(404);
    assert_eq!(world.model.requests().len(), asked, "nobody's words reach the model through another's session");
}
