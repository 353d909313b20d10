//! What a run tells the schedule that asked for it: that it waits for a person, and how it ended. It is sent in the
//! batch that makes it so, and goes through the log like the command that asked for the run.

use reenact_events::{
    Command, CommandBody, Forward, RunEvent, StreamKey,
    schedule::{AttemptStatus, Report, ScheduleCommand},
};

use crate::run::RunState;

/// What these events of the run have to tell.
pub(super) fn of(run: &RunState, events: &[RunEvent], partitions: u32) -> Vec<Forward> {
    let Some(by) = run.origin.scheduled_by.as_deref() else { return Vec::new() };
    let told = events.iter().filter_map(|event| {
        let (status, error) = told(event)?;
        // A run may wait more than once, and end more than once when it is queued again.
        let what = format!("{}:{}:{}", status.as_str(), run.progress.steps, event.type_name());
        let report = Report { by: by.clone(), run_id: run.id().clone(), status, error };
        let body = CommandBody::Schedule(ScheduleCommand::Report(Box::new(report)));
        let command = Command::new(by.report_command(&what), by.owner.clone(), body);
        Some(Forward { partition: StreamKey::schedules(by.owner.as_ref()).partition_of(partitions), command })
    });
    told.collect()
}

fn told(event: &RunEvent) -> Option<(AttemptStatus, Option<std::sync::Arc<str>>)> {
    Some(match event {
        RunEvent::Completed(_) => (AttemptStatus::Success, None),
        RunEvent::Failed(failed) => (AttemptStatus::Failed, Some(failed.error.message.clone())),
        RunEvent::Cancelled(cancelled) => (AttemptStatus::Cancelled, cancelled.reason.clone()),
        RunEvent::Paused(paused) => (AttemptStatus::Paused, Some(paused.reason.clone())),
        _ => return None,
    })
}
