//! The queue of approvals: every call that waits, or waited, for somebody, whatever it waits for.

use reenact_events::{
    RunEvent, RunId, Timestamp, UserId,
    event::{Resolution, StepInDoubt},
    hold::Verdict,
};
use serde_json::{Value, json};

use super::{Rows, holds::resolution_data, run::StepView, tools};
use crate::{ViewError, query::ApprovalRow};

/// Somebody is waited for.
pub const PENDING: &str = "pending";

/// What the queue calls how a wait stands.
pub const STATUSES: [&str; 5] = [PENDING, "approved", "rejected", "expired", "cancelled"];

/// Folds one event of a run that has a row.
pub(super) fn apply(rows: &mut dyn Rows, at: Timestamp, event: &RunEvent) -> Result<(), ViewError> {
    let run = event.run_id();
    match event {
        RunEvent::StepHeld(held) => wait(rows, run, at, held.step, &StepView::held(at, held)),
        RunEvent::StepInDoubt(doubt) => doubted(rows, at, doubt),
        RunEvent::StepAnswered(answered) => {
            let end = End { status: word(&answered.verdict), by: answered.by.clone(), said: Some(&answered.verdict) };
            close(rows, run, at, Some(answered.step), end)
        }
        RunEvent::StepResolved(resolved) => {
            let verdict = match &resolved.resolution {
                Resolution::Retry => Verdict::yes(),
                Resolution::Completed { value } => Verdict::Result { value: value.clone() },
                Resolution::Skip => Verdict::Rejected { note: resolved.note.clone() },
                Resolution::Fail => Verdict::Fail,
            };
            let end = End { status: word(&verdict), by: resolved.by.clone(), said: Some(&verdict) };
            close(rows, run, at, Some(resolved.step), end)
        }
        RunEvent::StepExpired(expired) => {
            close(rows, run, at, Some(expired.step), End { status: "expired", by: None, said: None })
        }
        RunEvent::Requeued(_) => wait_again(rows, run, at),
        _ if event.is_end() => close(rows, run, at, None, End { status: "cancelled", by: None, said: None }),
        _ => Ok(()),
    }
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Confirmed { .. } | Verdict::Result { .. } => "approved",
        Verdict::Rejected { .. } | Verdict::Fail => "rejected",
    }
}

fn doubted(rows: &mut dyn Rows, at: Timestamp, doubt: &StepInDoubt) -> Result<(), ViewError> {
    let view = rows.run_view(&doubt.run_id)?;
    match view.as_ref().and_then(|view| view.steps.get(&doubt.step)) {
        Some(step) => wait(rows, &doubt.run_id, at, doubt.step, step),
        None => Ok(()),
    }
}

/// The run was queued again: what nobody had decided about when it ended waits once more.
fn wait_again(rows: &mut dyn Rows, run: &RunId, at: Timestamp) -> Result<(), ViewError> {
    let Some(view) = rows.run_view(run)? else { return Ok(()) };
    for (number, step) in view.steps.iter().filter(|(_, step)| step.waits()) {
        wait(rows, run, at, *number, step)?;
    }
    Ok(())
}

fn wait(rows: &mut dyn Rows, run: &RunId, at: Timestamp, number: u32, step: &StepView) -> Result<(), ViewError> {
    let (Some(id), Some(requirement), Some(run)) =
        (tools::approval_id(step), tools::requirement(number, step), rows.run(run)?)
    else {
        return Ok(());
    };
    let pause_type = if step.doubt.is_some() { "in_doubt" } else { requirement["kind"].as_str().unwrap_or_default() };
    let row = ApprovalRow {
        id,
        run_id: run.run_id.clone(),
        session_id: run.session_id.clone(),
        agent_id: run.agent_id.clone(),
        user_id: run.user_id.clone(),
        step: number,
        status: PENDING.to_owned(),
        pause_type: pause_type.to_owned(),
        tool_name: requirement["tool_execution"]["tool_name"].as_str().unwrap_or_default().to_owned(),
        created_at: at.seconds(),
        updated_at: None,
        expires_at: requirement["expires_at"].as_i64(),
        resolved_at: None,
        resolved_by: None,
        data: json!({"requirement": requirement, "resolution_data": Value::Null}),
    };
    rows.put_approval(row)
}

struct End<'a> {
    status: &'static str,
    by: Option<UserId>,
    said: Option<&'a Verdict>,
}

/// Closes what waits at a step of the run, or everywhere in it.
fn close(rows: &mut dyn Rows, run: &RunId, at: Timestamp, step: Option<u32>, end: End<'_>) -> Result<(), ViewError> {
    for mut row in rows.pending_approvals(run)? {
        if step.is_some_and(|step| step != row.step) {
            continue;
        }
        row.status = end.status.to_owned();
        row.updated_at = Some(at.seconds());
        row.resolved_at = Some(at.seconds());
        row.resolved_by.clone_from(&end.by);
        row.data["resolution_data"] = end.said.map_or(Value::Null, resolution_data);
        rows.put_approval(row)?;
    }
    Ok(())
}
