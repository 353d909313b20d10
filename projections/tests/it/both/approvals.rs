//! The queue of approvals: a row for each wait for somebody.

use reenact_events::{
    Text, Timestamp,
    event::{
        CancellationStage, RunCancelled, RunRequeued, RunStarted, SessionDeleted, StepAnswered, StepHeld, StepInDoubt,
    },
    hold::{Needs, OnExpiry, Verdict},
};
use reenact_projections::{
    Views,
    query::{ApprovalFilter, Paging, Scope},
};
use serde_json::json;

use super::Ground;
use crate::history::{History, held_call, queued, run, session, tool_requested, user};

/// A run of alice's with two held calls.
fn held() -> History {
    let mut history = History::new(1);
    let at = session("s");
    history.create("s", Some("alice"));
    history.push(&at, queued("s", "r", 0, Some("alice"), Text::inline("go")));
    history.start("s", "r");
    for step in 0..2 {
        let (token, call) = held_call("r", step);
        let (needs, expires_at, on_expiry) = (Needs::Confirmation, Some(Timestamp(90_000_000)), OnExpiry::Reject);
        history.push(&at, StepHeld { run_id: run("r"), step, token, call, needs, expires_at, on_expiry });
    }
    history
}

async fn views(history: &History, ground: &Ground) -> Views {
    let views = ground.views(1).await;
    history.fold_into(&views).await;
    views
}

#[tokio::test]
async fn a_wait_is_its_owners_and_closes_with_its_decision_or_its_run() {
    let (ground, mut history, at) = (Ground::new(), held(), session("s"));
    let verdict = Verdict::Rejected { note: Some("no".into()) };
    history.push(&at, StepAnswered { run_id: run("r"), step: 0, verdict, by: Some(user("boss")) });
    let (stage, partial, reason) = (CancellationStage::Executing, None, None);
    history.push(&at, tool_requested("r", 2, 1, "c", Text::inline("{}")));
    history.push(&at, StepInDoubt { run_id: run("r"), step: 2, attempt: 1, reason: "the process ended".into() });
    history.push(&at, RunCancelled { run_id: run("r"), stage, partial, reason });
    let views = views(&history, &ground).await;
    let (all, page) = (ApprovalFilter::default(), Paging { page: 1, limit: 10 });
    let strangers = Scope::User(user("bob"));
    assert_eq!(views.approvals(&strangers, &all, page).await.expect("reads").total, 0);
    assert_eq!(views.approval(&strangers, &held_call("r", 0).0.to_string()).await.expect("reads"), None);
    let mut rows = views.approvals(&Scope::User(user("alice")), &all, page).await.expect("reads").items;
    rows.sort_by_key(|row| row.step);
    let told: Vec<_> = rows.iter().map(|row| (row.status.as_str(), row.pause_type.as_str())).collect();
    assert_eq!(told, [("rejected", "confirmation"), ("cancelled", "confirmation"), ("cancelled", "in_doubt")]);
    assert_eq!((&rows[0].resolved_by, &rows[0].data["resolution_data"]), (&Some(user("boss")), &json!({"note": "no"})));
    assert_eq!((rows[1].expires_at, &rows[1].resolved_by), (Some(90_000), &None));
    let pending = ApprovalFilter { status: Some("pending".to_owned()), ..ApprovalFilter::default() };
    assert_eq!(views.count_approvals(&Scope::Anyone, &pending).await.expect("reads"), 0);
    history.push(&at, SessionDeleted { session_id: at.clone(), reason: None });
    history.fold_into(&views).await;
    assert_eq!(views.count_approvals(&Scope::Anyone, &all).await.expect("reads"), 0, "they go with their session");
}

#[tokio::test]
async fn what_was_cancelled_with_its_run_is_pending_again_once_that_is_queued_again() {
    let (ground, mut history, at) = (Ground::new(), held(), session("s"));
    history.push(&at, StepAnswered { run_id: run("r"), step: 0, verdict: Verdict::no(), by: Some(user("boss")) });
    history.push(&at, tool_requested("r", 2, 1, "c", Text::inline("{}")));
    history.push(&at, StepInDoubt { run_id: run("r"), step: 2, attempt: 1, reason: "the process ended".into() });
    let (stage, partial, reason) = (CancellationStage::Paused, None, None);
    history.push(&at, RunCancelled { run_id: run("r"), stage, partial, reason });
    history.push(&at, RunRequeued { run_id: run("r"), by: None });
    let views = views(&history, &ground).await;
    let told = async || {
        let (all, page) = (ApprovalFilter::default(), Paging { page: 1, limit: 10 });
        let mut rows = views.approvals(&Scope::Anyone, &all, page).await.expect("reads").items;
        rows.sort_by_key(|row| row.step);
        rows.into_iter().map(|row| (row.status, row.expires_at, row.resolved_at.is_some())).collect::<Vec<_>>()
    };
    let row = |status: &str, expires_at, resolved| (status.to_owned(), expires_at, resolved);
    let (first, third) = (row("rejected", Some(90_000), true), row("pending", None, false));
    assert_eq!(told().await, [first.clone(), row("pending", None, false), third.clone()], "no time runs yet");
    history.push(&at, RunStarted { run_id: run("r") });
    let (token, call) = held_call("r", 1);
    let (needs, expires_at, on_expiry) = (Needs::Confirmation, Some(Timestamp(99_000_000)), OnExpiry::Reject);
    history.push(&at, StepHeld { run_id: run("r"), step: 1, token, call, needs, expires_at, on_expiry });
    history.fold_into(&views).await;
    assert_eq!(told().await, [first, row("pending", Some(99_000), false), third]);
    assert_eq!(views.dump().await.expect("dumps"), history.memory().dump());
}
