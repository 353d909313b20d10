//! A row for each call of a run, and what somebody reads who knows AgentOS's tables.

use reenact_events::{
    Text, Timestamp,
    event::{Failure, StepFailed, StepInDoubt},
    hold::{Needs, OnExpiry},
};
use reenact_projections::query::StepRow;

use super::Ground;
use crate::history::{
    History, agent, call, held_call, model_answered, model_requested, run, session, tool_answered, tool_requested,
    usage,
};

fn begun() -> History {
    let mut history = History::new(1);
    history.create("s", Some("alice"));
    history.register("s", &agent("support"));
    history.queue("s", "r", 0, Some("alice"), "refund 17");
    history.start("s", "r");
    history
}

fn failed(step: u32, attempt: u32, retry_at: Option<Timestamp>) -> StepFailed {
    let error = Failure { kind: "model_unreachable".into(), message: "nobody answers".into(), status: None };
    StepFailed { run_id: run("r"), step, attempt, error, retry_at, usage: Some(usage(3, 0)) }
}

/// Folds what happened so far in batches of one, and of all at once; the steps must be the same.
async fn steps(history: &History) -> Vec<StepRow> {
    let (one, all) = (Ground::new().views(1).await, Ground::new().views(1).await);
    history.fold_into(&all).await;
    for event in history.partition(0) {
        let position = one.stored_position(event.partition).await.expect("reads");
        one.apply(position, vec![event.clone()]).await.expect("folds");
    }
    let (one, all) = (one.dump().await.expect("dumps"), all.dump().await.expect("dumps"));
    assert_eq!(one, all);
    assert_eq!(one, history.memory().dump());
    one.run_steps
}

#[tokio::test]
async fn a_step_has_a_row_that_tells_how_it_went_and_what_it_cost() {
    let mut history = begun();
    let at = session("s");
    history.push(&at, model_requested("r", 0, 1, 0));
    history.push(&at, failed(0, 1, Some(Timestamp(0))));
    history.push(&at, model_requested("r", 0, 2, 0));
    let calls = vec![call("c1", Text::inline("{}")), call("c2", Text::inline("{}"))];
    history.push(&at, model_answered("r", 0, 2, "", calls, Some(usage(10, 4))));
    history.push(&at, tool_requested("r", 1, 1, "c1", Text::inline("{}")));
    history.push(&at, tool_requested("r", 2, 1, "c2", Text::inline("{}")));
    history.push(&at, tool_answered("r", 1, 1, Text::inline("refunded")));
    history.push(&at, StepInDoubt { run_id: run("r"), step: 2, attempt: 1, reason: "the process ended".into() });
    let rows = steps(&history).await;
    let told: Vec<_> = rows.iter().map(|row| (row.step, &*row.kind, &*row.status, row.attempts)).collect();
    assert_eq!(told, [(0, "model", "completed", 2), (1, "tool", "completed", 1), (2, "tool", "in_doubt", 1)]);
    assert_eq!((rows[0].tokens.input_tokens, rows[0].tokens.total_tokens), (Some(13), Some(17)));
    assert_eq!((rows[0].duration_ms, rows[1].duration_ms, rows[2].duration_ms), (Some(900), Some(40), None));
    assert_eq!((rows[1].name.as_deref(), rows[2].error.as_deref()), (Some("refund"), Some("the process ended")));
    assert!(rows[1].completed_at.is_some() && rows[2].completed_at.is_none() && rows[0].error.is_none());
}

#[tokio::test]
async fn a_call_that_waits_for_a_person_is_a_step_too() {
    let mut history = begun();
    let (token, call) = held_call("r", 0);
    let (needs, on_expiry) = (Needs::Confirmation, OnExpiry::Reject);
    let held = reenact_events::event::StepHeld {
        run_id: run("r"),
        step: 0,
        token,
        call,
        needs,
        expires_at: Some(Timestamp(90_000_000)),
        on_expiry,
    };
    history.push(&session("s"), held);
    let rows = steps(&history).await;
    assert_eq!((rows.len(), &*rows[0].status, rows[0].attempts), (1, "held", 0));
}

#[tokio::test]
async fn what_was_written_for_agentos_finds_its_columns() {
    let ground = Ground::new();
    let views = ground.views(1).await;
    let mut history = begun();
    history.complete("s", "r", "Done.");
    history.fold_into(&views).await;
    for (runs, sessions) in [("runs", "sessions"), ("agno_runs", "agno_sessions")] {
        let sql = format!("SELECT run_id, run_data FROM {runs} WHERE session_id = 's' ORDER BY run_index");
        let told = ground.sql(&sql);
        assert!(told.starts_with("r|{") && told.contains("Done."), "{told}");
        let sql = format!("SELECT session_id, user_id, session_type FROM {sessions}");
        assert_eq!(ground.sql(&sql), "s|alice|agent");
    }
}
