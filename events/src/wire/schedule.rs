//! The commands about schedules, and the fields of their JSON. Whoever asks is the owner of what they ask about.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{
    Unreadable,
    convert::{object, raw},
    invalid, named, object_of,
};
use crate::{
    ScheduleId, Timestamp,
    schedule::{CatchUp, Overlap, ScheduleChange, ScheduleCommand, ScheduleSpec, When},
};

/// What a run tells its schedule. Publishers know no such command.
pub(super) const REPORT: &str = "ReportAttempt";
/// What the runtime tells the schedules of a user whose keys it has destroyed. Neither do they know this one.
pub(super) const ERASE: &str = "EraseOwner";

/// A kind's own fields, and those that a schedule is made and changed with alike.
macro_rules! kind {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            $($(#[$field_doc])* $field: $type,)+
            /// Five fields of cron; without it the schedule is due at `at`, or never by itself.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            cron_expr: Option<String>,
            /// Once, in milliseconds since 1970.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            at: Option<i64>,
            /// True: never by itself.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            on_demand: bool,
            /// The IANA zone that `cron_expr` is read in.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            timezone: Option<String>,
            /// What it is for.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            description: Option<String>,
            /// `POST`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            method: Option<String>,
            /// What is sent: `message`, and what else a run may be asked for with.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            payload: Option<Map<String, Value>>,
            /// Seconds that a run may take.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            timeout_seconds: Option<u32>,
            /// How often a failed run is made again.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            max_retries: Option<u32>,
            /// Seconds until then.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            retry_delay_seconds: Option<u32>,
            /// With a run under way: `skip`, `queue`, `allow` or `cancel_previous`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            overlap: Option<Overlap>,
            /// After an absence: `none`, `last` or `all`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            catch_up: Option<CatchUp>,
            /// Seconds that a fire is late, at most.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            jitter_seconds: Option<u32>,
        }

        impl $name {
            fn common(&self) -> Result<ScheduleChange, Unreadable> {
                let when = When::of(self.cron_expr.as_deref(), self.at.map(Timestamp), self.on_demand);
                Ok(ScheduleChange {
                    when: when.map_err(invalid)?,
                    timezone: self.timezone.as_deref().map(Arc::from),
                    description: self.description.as_deref().map(Arc::from),
                    method: self.method.as_deref().map(Arc::from),
                    payload: raw(self.payload.clone())?,
                    timeout_s: self.timeout_seconds,
                    max_retries: self.max_retries,
                    retry_delay_s: self.retry_delay_seconds,
                    overlap: self.overlap,
                    catch_up: self.catch_up,
                    jitter_s: self.jitter_seconds,
                    ..ScheduleChange::default()
                })
            }

            fn with_common(self, of: &ScheduleChange) -> Self {
                let text = |text: &Option<Arc<str>>| text.as_ref().map(ToString::to_string);
                let (cron_expr, at, on_demand) = match &of.when {
                    None => (None, None, false),
                    Some(When::OnDemand) => (None, None, true),
                    Some(When::Cron(cron)) => (Some(cron.to_string()), None, false),
                    Some(When::At(at)) => (None, Some(at.0), false),
                };
                Self {
                    cron_expr,
                    at,
                    on_demand,
                    timezone: text(&of.timezone),
                    description: text(&of.description),
                    method: text(&of.method),
                    payload: object(of.payload.as_ref()),
                    timeout_seconds: of.timeout_s,
                    max_retries: of.max_retries,
                    retry_delay_seconds: of.retry_delay_s,
                    overlap: of.overlap,
                    catch_up: of.catch_up,
                    jitter_seconds: of.jitter_s,
                    ..self
                }
            }
        }
    };
}

kind!(
    /// Makes a schedule of `user_id`, or of nobody; its id follows from the command's and the owner's.
    CreateSchedule {
        /// Its name, unique among the owner's.
        name: String,
        /// What is called: `/agents/{agent_id}/runs`.
        endpoint: String,
    }
);

kind!(
    /// Changes a schedule of `user_id`; what is left out stays.
    UpdateSchedule {
        /// Which.
        schedule_id: String,
        /// Its name, unique among the owner's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// What is called: `/agents/{agent_id}/runs`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        endpoint: Option<String>,
    }
);

/// Something about a schedule of `user_id` that needs nothing but its id.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OneSchedule {
    /// Which.
    schedule_id: String,
}

/// That the owner of schedules is erased.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Erased {
    keys: Vec<Uuid>,
}

fn id(text: &str) -> Result<ScheduleId, Unreadable> {
    named("schedule_id", text, ScheduleId::parse)
}

/// Reads the command of this kind; `None` when it is none about schedules.
pub(super) fn read(
    kind: &str,
    fields: Map<String, Value>,
    is_handed_round: bool,
) -> Result<Option<ScheduleCommand>, Unreadable> {
    use super::convert::read;
    let one = |fields| read::<OneSchedule>(fields).and_then(|one| id(&one.schedule_id));
    Ok(Some(match kind {
        "CreateSchedule" => {
            let fields: CreateSchedule = read(fields)?;
            let change = fields.common()?;
            ScheduleCommand::Create(Box::new(change.over(ScheduleSpec::of(&fields.name, &fields.endpoint))))
        }
        "UpdateSchedule" => {
            let fields: UpdateSchedule = read(fields)?;
            let change = ScheduleChange {
                name: fields.name.as_deref().map(Arc::from),
                endpoint: fields.endpoint.as_deref().map(Arc::from),
                ..fields.common()?
            };
            ScheduleCommand::Update(id(&fields.schedule_id)?, Box::new(change))
        }
        "EnableSchedule" => ScheduleCommand::Enable(one(fields)?),
        "DisableSchedule" => ScheduleCommand::Disable(one(fields)?),
        "TriggerSchedule" => ScheduleCommand::Trigger(one(fields)?),
        "DeleteSchedule" => ScheduleCommand::Delete(one(fields)?),
        ERASE if is_handed_round => {
            let Erased { keys } = read(fields)?;
            ScheduleCommand::EraseOwner(keys)
        }
        REPORT if is_handed_round => ScheduleCommand::Report(read(fields)?),
        _ => return Ok(None),
    }))
}

pub(super) fn write(command: &ScheduleCommand) -> (&'static str, Map<String, Value>) {
    let one = |id: &ScheduleId| object_of(&OneSchedule { schedule_id: id.to_string() });
    match command {
        ScheduleCommand::Create(spec) => {
            let fields = CreateSchedule {
                name: spec.name.to_string(),
                endpoint: spec.endpoint.to_string(),
                ..CreateSchedule::default()
            };
            ("CreateSchedule", object_of(&fields.with_common(&ScheduleChange::to(spec))))
        }
        ScheduleCommand::Update(id, change) => {
            let fields = UpdateSchedule {
                schedule_id: id.to_string(),
                name: change.name.as_ref().map(ToString::to_string),
                endpoint: change.endpoint.as_ref().map(ToString::to_string),
                ..UpdateSchedule::default()
            };
            ("UpdateSchedule", object_of(&fields.with_common(change)))
        }
        ScheduleCommand::Enable(id) => ("EnableSchedule", one(id)),
        ScheduleCommand::Disable(id) => ("DisableSchedule", one(id)),
        ScheduleCommand::Trigger(id) => ("TriggerSchedule", one(id)),
        ScheduleCommand::Delete(id) => ("DeleteSchedule", one(id)),
        ScheduleCommand::EraseOwner(keys) => (ERASE, object_of(&Erased { keys: keys.clone() })),
        ScheduleCommand::Report(report) => (REPORT, object_of(&**report)),
    }
}
