//! A13: what is another's is as if it did not exist.

use reenact_events::event::RunStatus;
use reenact_projections::{
    Views,
    query::{Paging, RunFilter, Scope, SessionFilter},
};

use super::Ground;
use crate::history::{History, run, session, user};

const ALL: Paging = Paging { page: 1, limit: 1000 };

/// Alice's and bob's session with a run each, and one that nobody owns. The second run of alice's session
/// was started by nobody in particular.
async fn three_owners() -> (Ground, Views) {
    let ground = Ground::new();
    let mut history = History::new(1);
    for (name, owner) in [("hers", Some("alice")), ("his", Some("bob")), ("shared", None)] {
        history.create(name, owner);
        history.whole_run(name, &format!("run-{name}"), 0, owner);
    }
    history.queue("hers", "run-unnamed", 1, None, "hello");
    let views = ground.views(1).await;
    history.fold_into(&views).await;
    (ground, views)
}

#[tokio::test]
async fn another_users_rows_do_not_exist() {
    let (_ground, views) = three_owners().await;
    let bob = Scope::User(user("bob"));
    assert_eq!(views.session(&bob, &session("hers")).await.expect("reads"), None);
    assert_eq!(views.session(&bob, &session("nobody's")).await.expect("reads"), None);
    for id in ["run-hers", "run-unnamed", "no-such-run"] {
        assert_eq!(views.run(&bob, &run(id)).await.expect("reads"), None);
        assert_eq!(views.run_status(&bob, &run(id)).await.expect("reads"), None);
        assert_eq!(views.run_events(&bob, &run(id), None).await.expect("reads"), Vec::new());
    }
    let runs = views.session_runs(&bob, &session("hers"), &RunFilter::default()).await.expect("reads");
    assert_eq!(runs, Vec::new());
}

#[tokio::test]
async fn naming_another_user_in_a_filter_opens_nothing() {
    let (_ground, views) = three_owners().await;
    let bob = Scope::User(user("bob"));
    let filter = SessionFilter { user_id: Some(user("alice")), ..SessionFilter::default() };
    assert_eq!(views.sessions(&bob, &filter, ALL).await.expect("reads").total, 0);
    let filter = RunFilter { user_id: Some(user("alice")), ..RunFilter::default() };
    assert_eq!(views.runs(&bob, &filter, ALL).await.expect("reads").total, 0);
}

#[tokio::test]
async fn a_user_sees_their_own_and_what_nobody_owns() {
    let (_ground, views) = three_owners().await;
    let alice = Scope::User(user("alice"));
    let sessions = views.sessions(&alice, &SessionFilter::default(), ALL).await.expect("reads");
    let ids: Vec<_> = sessions.items.iter().map(|row| row.session_id.as_str()).collect();
    assert_eq!(ids, ["shared", "hers"]);
    let runs = views.runs(&alice, &RunFilter::default(), ALL).await.expect("reads");
    let ids: Vec<_> = runs.items.iter().map(|row| row.run_id.as_str()).collect();
    assert_eq!(ids, ["run-unnamed", "run-shared", "run-hers"]);
    let status = views.run_status(&alice, &run("run-unnamed")).await.expect("reads");
    assert_eq!(status, Some(RunStatus::Pending));
}

#[tokio::test]
async fn anyone_sees_everything() {
    let (_ground, views) = three_owners().await;
    assert_eq!(views.sessions(&Scope::Anyone, &SessionFilter::default(), ALL).await.expect("reads").total, 3);
    assert_eq!(views.runs(&Scope::Anyone, &RunFilter::default(), ALL).await.expect("reads").total, 4);
}
