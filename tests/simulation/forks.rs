//! From where another run can begin is counted in the messages that the views show.

use std::collections::BTreeMap;

use reenact_actors::run::reenact::Recording;
use reenact_actors::run::{RunState, evolve, evolve::created, fork::cut};
use reenact_events::{RunEvent, RunId, command::ForkFrom, event::RunStatus};
use reenact_projections::{RunView, fold::messages::messages};
use serde_json::Value;

/// Checks each run as it stands at its end.
pub(crate) fn places_are_those_of_the_views(runs: &BTreeMap<RunId, Vec<Recording>>) -> Result<(), String> {
    let agent = crate::steps::agent();
    for (id, recorded) in runs {
        let Some((run, view)) = folded(recorded) else { continue };
        let shown = messages(&view, Some(&agent));
        let count = u32::try_from(shown.len()).expect("few");
        let can = |at| cut(&run, &agent, ForkFrom::Message(at), true).is_ok();
        let ends_whole = |message: &Value| match message["role"].as_str() {
            Some("user" | "tool") => true,
            Some("assistant") => message["tool_calls"].as_array().is_none_or(Vec::is_empty),
            _ => false,
        };
        let wrong = (1..).zip(&shown).find(|(at, message)| can(*at) && !ends_whole(message));
        if let Some((at, message)) = wrong {
            return Err(format!("run `{id}` can be gone on from after message {at}: {message}"));
        }
        if can(0) || can(count + 1) {
            return Err(format!("run `{id}` can be gone on from where it has no message"));
        }
        if matches!(run.progress.status, RunStatus::Completed | RunStatus::Regenerated) && !can(count) {
            let why = cut(&run, &agent, ForkFrom::Message(count), true);
            return Err(format!("run `{id}` cannot be gone on from after its last message {count}: {why:?}"));
        }
    }
    Ok(())
}

fn folded(recorded: &[Recording]) -> Option<(RunState, RunView)> {
    let Recording { at, event: RunEvent::Queued(queued) } = recorded.first()? else { return None };
    let (mut run, mut view) = (created(queued, *at), RunView::new(queued.clone(), *at));
    for Recording { at, event } in &recorded[1..] {
        evolve(&mut run, event, *at);
        view.apply(*at, event);
    }
    Some((run, view))
}
