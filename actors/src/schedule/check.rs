//! What a schedule may be made of, and the run that it asks for.

use reenact_events::{
    AgentId, Command, CommandBody, RawJson, SessionId, Text,
    command::{AgentRef, StartRun},
    schedule::{ScheduleSpec, ScheduledBy, When, session_of},
};
use serde_json::{Map, Value};

use super::{Unfit, calendar, calendar::Calendar};

const NAME_BYTES_MAX: usize = 255;
const CRON_BYTES_MAX: usize = 128;
const ENDPOINT_BYTES_MAX: usize = 512;
const DESCRIPTION_BYTES_MAX: usize = 4 << 10;
/// It is written again whenever the schedule changes, so it stays small: long texts belong into files.
const PAYLOAD_BYTES_MAX: usize = 64 << 10;
const TIMEOUT_S: (u32, u32) = (1, 86_400);
const RETRIES: (u32, u32) = (0, 10);
const RETRY_DELAY_S: (u32, u32) = (1, 3_600);
const JITTER_S: (u32, u32) = (0, 3_600);
/// What a payload may say.
const PAYLOAD: [&str; 5] = ["message", "session_id", "session_state", "metadata", "output_schema"];
/// What it may say too, as clients of AgentOS do; the schedule decides it.
const DECIDED_HERE: [&str; 3] = ["stream", "background", "version"];

/// What a schedule asks for.
pub(super) struct Target {
    pub(super) agent: AgentId,
    message: String,
    session_id: Option<SessionId>,
    session_state: Option<RawJson>,
    metadata: Option<RawJson>,
    output_schema: Option<RawJson>,
}

/// Checks all but when it is due.
///
/// # Errors
/// The first field that cannot be used.
pub fn checked(spec: &ScheduleSpec) -> Result<Option<Calendar>, Unfit> {
    name(&spec.name)?;
    if spec.description.as_ref().is_some_and(|text| text.len() > DESCRIPTION_BYTES_MAX) {
        return Err(Unfit::new("description", format!("it has more than {DESCRIPTION_BYTES_MAX} bytes")));
    }
    within("timeout_seconds", spec.timeout_s, TIMEOUT_S)?;
    within("max_retries", spec.max_retries, RETRIES)?;
    within("retry_delay_seconds", spec.retry_delay_s, RETRY_DELAY_S)?;
    within("jitter_seconds", spec.jitter_s, JITTER_S)?;
    target(spec)?;
    let zone = calendar::zone(&spec.timezone)?;
    match &spec.when {
        When::OnDemand | When::At(_) => Ok(None),
        When::Cron(fields) if fields.len() > CRON_BYTES_MAX => {
            Err(Unfit::new("cron_expr", format!("it has more than {CRON_BYTES_MAX} bytes")))
        }
        When::Cron(fields) => Calendar::parse(fields, zone).map(Some),
    }
}

fn name(name: &str) -> Result<(), Unfit> {
    let first = name.chars().next().is_some_and(|first| first.is_ascii_alphanumeric());
    let fits = name.chars().all(|char| char.is_ascii_alphanumeric() || " ._-".contains(char));
    if first && fits && name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    let reason = format!(
        "a name has 1 to {NAME_BYTES_MAX} letters, digits, spaces, dots, underscores and hyphens (ASCII), and begins with a letter \
         or a digit"
    );
    Err(Unfit::new("name", reason))
}

fn within(field: &str, value: u32, (least, most): (u32, u32)) -> Result<(), Unfit> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Unfit::new(field, format!("{value} is not between {least} and {most}")))
}

/// What is asked for.
pub(super) fn target(spec: &ScheduleSpec) -> Result<Target, Unfit> {
    if &*spec.method != "POST" {
        return Err(Unfit::new("method", format!("`{}`: a run is asked for with POST", spec.method)));
    }
    let agent = agent(&spec.endpoint)?;
    let Some(payload) = &spec.payload else { return Err(unsaid("it is missing")) };
    if payload.as_str().len() > PAYLOAD_BYTES_MAX {
        return Err(Unfit::new("payload", format!("it has more than {PAYLOAD_BYTES_MAX} bytes")));
    }
    let Value::Object(fields) = payload.value() else {
        return Err(Unfit::new("payload", "it is not a JSON object"));
    };
    let known = |name: &&String| PAYLOAD.contains(&name.as_str()) || DECIDED_HERE.contains(&name.as_str());
    if let Some(other) = fields.keys().find(|name| !known(name)) {
        let reason = format!(
            "it may not say `{other}`: a run of a schedule is asked for with {}, and belongs to the schedule's owner",
            PAYLOAD.join(", ")
        );
        return Err(Unfit::new("payload", reason));
    }
    let message = match fields.get("message") {
        Some(Value::String(message)) if !message.is_empty() => message.clone(),
        _ => return Err(unsaid("it has no text in `message`")),
    };
    let session_id = match fields.get("session_id") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(
            SessionId::parse(id)
                .map_err(|error| Unfit::new("payload", format!("its `session_id` cannot be used: {error}")))?,
        ),
        Some(_) => return Err(Unfit::new("payload", "its `session_id` is no text")),
    };
    Ok(Target {
        agent,
        message,
        session_id,
        session_state: object(&fields, "session_state")?,
        metadata: object(&fields, "metadata")?,
        output_schema: object(&fields, "output_schema")?,
    })
}

fn unsaid(what: &str) -> Unfit {
    Unfit::new("payload", format!("{what}: say what the agent is asked, as `{{\"message\": \"…\"}}`"))
}

fn agent(endpoint: &str) -> Result<AgentId, Unfit> {
    let named = endpoint.strip_prefix("/agents/").and_then(|rest| rest.strip_suffix("/runs"));
    let named = named.filter(|name| endpoint.len() <= ENDPOINT_BYTES_MAX && !name.contains('/'));
    let other = || {
        let reason =
            format!("`{endpoint}`: schedules call `/agents/{{agent_id}}/runs`, and nothing else in this version");
        Unfit::new("endpoint", reason)
    };
    AgentId::parse(named.ok_or_else(other)?).map_err(|error| Unfit::new("endpoint", error.to_string()))
}

fn object(fields: &Map<String, Value>, name: &str) -> Result<Option<RawJson>, Unfit> {
    let wrong = || Unfit::new("payload", format!("its `{name}` is not a JSON object"));
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => RawJson::of(object).map(Some).map_err(|_| wrong()),
        Some(_) => Err(wrong()),
    }
}

impl Target {
    /// The session of a fire.
    pub(super) fn session(&self, by: &ScheduledBy) -> SessionId {
        self.session_id.clone().unwrap_or_else(|| session_of(&by.schedule_id, by.fire_id))
    }

    /// The command that asks for an attempt's run.
    pub(super) fn start(self, by: ScheduledBy) -> Command {
        let (id, owner, session_id) = (by.start_command(), by.owner.clone(), self.session(&by));
        let start = StartRun {
            session_id,
            agent: AgentRef::Named(self.agent),
            input: Text::Inline(self.message.into()),
            media: Vec::new(),
            metadata: self.metadata,
            session_state: self.session_state,
            stream: false,
            background: true,
            output_schema: self.output_schema,
            scheduled_by: Some(Box::new(by)),
        };
        Command::new(id, owner, CommandBody::StartRun(Box::new(start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(payload: &str) -> ScheduleSpec {
        let payload = Some(RawJson::parse(payload).expect("is JSON"));
        ScheduleSpec { payload, ..ScheduleSpec::of("nightly", "/agents/demo/runs") }
    }

    fn unfit(spec: &ScheduleSpec) -> String {
        checked(spec).expect_err("is unfit").field.to_string()
    }

    #[test]
    fn each_limit_names_its_field() {
        let fine = spec(r#"{"message": "hello", "stream": true}"#);
        assert!(checked(&fine).is_ok());
        let bad = |change: &dyn Fn(&mut ScheduleSpec)| {
            let mut spec = fine.clone();
            change(&mut spec);
            unfit(&spec)
        };
        for name in ["", " a", "a/b", "ü", &"x".repeat(256)] {
            assert_eq!(bad(&|spec| spec.name = name.into()), "name");
        }
        for endpoint in ["", "/agents/demo", "/teams/t/runs", "http://x/agents/demo/runs", "/agents/a/b/runs"] {
            assert_eq!(bad(&|spec| spec.endpoint = endpoint.into()), "endpoint");
        }
        assert_eq!(bad(&|spec| spec.method = "GET".into()), "method");
        assert_eq!(bad(&|spec| spec.timeout_s = 0), "timeout_seconds");
        assert_eq!(bad(&|spec| spec.max_retries = 11), "max_retries");
        assert_eq!(bad(&|spec| spec.retry_delay_s = 3_601), "retry_delay_seconds");
        assert_eq!(bad(&|spec| spec.timezone = "Nowhere".into()), "timezone");
        assert_eq!(bad(&|spec| spec.payload = None), "payload");
    }

    #[test]
    fn a_payload_is_what_a_run_may_be_asked_for_with() {
        for payload in [
            r#"{}"#,
            r#"{"message": ""}"#,
            r#"{"message": "m", "user_id": "bob"}"#,
            r#"{"message": "m", "session_id": 5}"#,
        ] {
            assert_eq!(unfit(&spec(payload)), "payload", "{payload}");
        }
    }
}
