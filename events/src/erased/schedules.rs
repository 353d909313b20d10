//! The events of schedules, without their names and what they say.

use super::{ERASED, Erase};
use crate::{
    ScheduleEvent, ScheduleId,
    event::{AttemptReported, ScheduleCreated, ScheduleDisabled, ScheduleUpdated},
    schedule::ScheduleSpec,
};

impl Erase for ScheduleEvent {
    fn erased(&self) -> Self {
        match self {
            Self::Created(event) => {
                let ScheduleCreated { schedule_id, user_id, spec, next_run_at } = event;
                ScheduleCreated {
                    schedule_id: schedule_id.clone(),
                    user_id: user_id.clone(),
                    spec: of_schedule(schedule_id, spec),
                    next_run_at: *next_run_at,
                }
                .into()
            }
            Self::Updated(event) => {
                let ScheduleUpdated { schedule_id, spec, next_run_at } = event;
                ScheduleUpdated {
                    schedule_id: schedule_id.clone(),
                    spec: of_schedule(schedule_id, spec),
                    next_run_at: *next_run_at,
                }
                .into()
            }
            Self::Disabled(event) => {
                let ScheduleDisabled { schedule_id, reason } = event;
                ScheduleDisabled { schedule_id: schedule_id.clone(), reason: reason.erased() }.into()
            }
            Self::AttemptReported(event) => {
                let AttemptReported { schedule_id, fire_id, attempt, status, error, retry_at } = event;
                AttemptReported {
                    schedule_id: schedule_id.clone(),
                    fire_id: *fire_id,
                    attempt: *attempt,
                    status: *status,
                    error: error.erased(),
                    retry_at: *retry_at,
                }
                .into()
            }
            Self::Enabled(_) | Self::Deleted(_) | Self::Fired(_) | Self::Skipped(_) | Self::AttemptStarted(_) => {
                self.clone()
            }
        }
    }
}

/// An owner's schedules keep names that differ.
fn of_schedule(schedule: &ScheduleId, spec: &ScheduleSpec) -> ScheduleSpec {
    ScheduleSpec { name: format!("{ERASED} {schedule}").into(), ..spec.erased() }
}

impl Erase for ScheduleSpec {
    fn erased(&self) -> Self {
        let Self {
            name,
            description,
            endpoint,
            method,
            payload,
            when,
            timezone,
            timeout_s,
            max_retries,
            retry_delay_s,
            overlap,
            catch_up,
            jitter_s,
        } = self;
        Self {
            name: name.erased(),
            description: description.erased(),
            endpoint: endpoint.clone(),
            method: method.clone(),
            payload: payload.erased(),
            when: when.clone(),
            timezone: timezone.clone(),
            timeout_s: *timeout_s,
            max_retries: *max_retries,
            retry_delay_s: *retry_delay_s,
            overlap: *overlap,
            catch_up: *catch_up,
            jitter_s: *jitter_s,
        }
    }
}
