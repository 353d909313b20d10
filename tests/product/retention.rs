//! Sessions that are not to be kept: by age, by number, by user. What goes is gone everywhere, stays gone when all is
//! built again, and what somebody uses stays.

use reenact_tests::stub::Reply;
use serde_json::{Value, json};

use crate::world::World;

const LONG: usize = 200_000;

async fn sessions(world: &World) -> Vec<String> {
    let page = world.product.get("/sessions?limit=100&sort_by=created_at&sort_order=asc").await.expect(200).json();
    let ids = page["data"].as_array().expect("a page").iter().map(|session| session["session_id"].as_str());
    let mut ids: Vec<_> = ids.map(|id| id.expect("an id").to_owned()).collect();
    ids.sort();
    ids
}

async fn turn(world: &World, user: &str, session: &str, message: &str) {
    world.model.push(Reply::text("ok"));
    let fields = [("message", message), ("session_id", session), ("user_id", user), ("stream", "false")];
    let run = world.product.post("/agents/a/runs", &fields).await.expect(200).json();
    assert_eq!(run["status"], "COMPLETED", "{run:#}");
}

async fn purge(world: &World, query: &str) -> Value {
    let url = format!("/retention?{query}");
    let request = world.product.request(reqwest::Method::POST, &url);
    reenact_tests::product::Product::ask(request).await.expect(200).json()
}

#[tokio::test]
async fn what_is_not_to_be_kept_is_gone_everywhere_and_for_good() {
    let mut world = World::set("", |product| product.set("REENACT_BLOB_GRACE_S", 0)).await;
    for session in ["a1", "a2", "a3"] {
        turn(&world, "alice", session, "hello").await;
    }
    turn(&world, "bob", "b1", &"a long story ".repeat(LONG / 13)).await;
    world.model.push(Reply::calls(&[("c", "once", "{}")]));
    world.ledger.push(Reply::raw(200, "text/plain", "late").delay(std::time::Duration::from_secs(3_600)));
    let at_work = world.product.begin("a", "a4", "call it").await;
    world.ledger.wait_for(1).await;

    let dry = purge(&world, "keep_newest=1&user_id=alice&dry_run=true").await;
    assert_eq!((dry["session_ids"].as_array().map(Vec::len), &dry["dry_run"]), (Some(2), &json!(true)), "{dry:#}");
    assert_eq!(sessions(&world).await.len(), 5, "nothing was done");
    let done = purge(&world, "keep_newest=1&user_id=alice").await;
    assert_eq!(done["session_ids"], dry["session_ids"]);
    assert_eq!(purge(&world, "older_than_days=1").await["session_ids"], json!([]), "all were used today");
    let of_bob = world.product.run(&["sessions", "purge", "--user", "bob"]);
    assert!(String::from_utf8_lossy(&of_bob.stdout).contains("1 sessions are deleted"), "{of_bob:?}");

    let left = sessions(&world).await;
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.contains(&"a4".to_owned()), "a run that was accepted ends first");
    for session in done["session_ids"].as_array().expect("ids").iter().chain([&json!("b1")]) {
        let session = session.as_str().expect("an id");
        world.product.get(&format!("/sessions/{session}")).await.expect(404);
        world.product.get(&format!("/sessions/{session}/runs")).await.expect(404);
    }
    world.product.post(&format!("/agents/a/runs/{at_work}/cancel"), &[]).await.expect(200);
    world.product.settled(&at_work).await;
    world.rebuild().await;
    assert_eq!(sessions(&world).await, left, "the log says that they are gone");
    let reasons: Vec<_> = world.deleted_with_reasons();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    assert!(reasons.iter().all(|reason| reason.starts_with("retention: ")), "{reasons:?}");
}

#[tokio::test]
async fn what_the_configuration_does_not_keep_goes_by_itself() {
    let settings = |product: reenact_tests::product::Product| {
        product.set("REENACT_RETENTION_SESSIONS", 1).set("REENACT_RETENTION_PERIOD_S", 1)
    };
    let world = World::set("", settings).await;
    for session in ["s1", "s2", "s3"] {
        turn(&world, "alice", session, "hello").await;
    }
    while sessions(&world).await.len() > 1 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_request_that_names_nothing_deletes_nothing() {
    let world = World::with("").await;
    turn(&world, "alice", "s", "hello").await;
    let refused = [
        ("", 400),
        ("dry_run=false", 400),
        ("older_than_days=-1", 422),
        ("keep_newest=few", 422),
        ("user_id=alice&dry_run=perhaps", 422),
    ];
    for (query, status) in refused {
        let request = world.product.request(reqwest::Method::POST, &format!("/retention?{query}"));
        reenact_tests::product::Product::ask(request).await.expect(status);
    }
    assert_eq!(sessions(&world).await, ["s"]);
    let refused = world.product.run(&["sessions", "purge"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

impl World {
    /// The reasons that the log has for deletions.
    fn deleted_with_reasons(&self) -> Vec<String> {
        let events = self.product.events().into_iter();
        let deleted = events.filter(|event| event["type"] == "dev.reenact.session.deleted.v1");
        deleted.map(|event| event["data"]["reason"].as_str().expect("a reason").to_owned()).collect()
    }
}
