//! `POST …/continue` that makes another run: from a message of a run that stays what it is, or in its place.
//!
//! | The form says | What follows |
//! |---|---|
//! | `fork` | another run, from `continue_from`, of a run in any state |
//! | `regenerate` | another run answers anew; the one before is history no more unless `replace_original` is false |
//! | `input`, `continue_from`, of a run that ended with an answer or an error | the same as with `fork` |
//! | nothing, of a run that completed | refused: nothing would follow its answer |
//!
//! A run's own events are never cut off, so what AgentOS does by shortening a run in place is another run here.

use std::sync::Arc;

use axum::response::Response;
use reenact_actors::{api::SubmitError, run::fork::with};
use reenact_events::{
    Command, CommandBody, RunId, Text,
    command::{ForkFrom, ForkRun},
    event::RunStatus,
};

use super::{
    Found,
    start::{self, Request, Wish},
};
use crate::http::{
    error::ApiError,
    fields::Fields,
    ids,
    scope::Caller,
    state::{App, Services},
};

/// What the form says about going on with another run.
#[derive(Debug)]
pub(super) struct Asked {
    from: ForkFrom,
    input: Option<String>,
    fork: bool,
    replaces: bool,
    model: Option<String>,
    instructions: Option<String>,
}

impl Asked {
    /// Reads it, and refuses what does not go together.
    ///
    /// # Errors
    /// 422 with the field.
    pub(super) fn read(fields: &Fields) -> Result<Self, ApiError> {
        let said = |name: &str| fields.text(name);
        let (fork, regenerate) = (fields.truth("fork", false)?, fields.truth("regenerate", false)?);
        let conflict = |name: &str, why: &str| fields.fault(name, "value_error", format!("`{name}` {why}"));
        let replaces = fields.truth("replace_original", true)?;
        if fork && regenerate {
            return Err(conflict("fork", "does not go together with `regenerate`, which makes another run by itself"));
        }
        for name in ["replace_original", "additional_instructions"] {
            if said(name).is_some() && !regenerate {
                return Err(conflict(name, "is for `regenerate=true`"));
            }
        }
        if said("input").is_some() && said("additional_instructions").is_some() {
            return Err(conflict("additional_instructions", "and `input` are the same: send one of the two"));
        }
        let from = match (point(fields)?, regenerate) {
            (ForkFrom::Message(_) | ForkFrom::Step(_), true) => {
                return Err(conflict("continue_from", "is not for `regenerate`, which begins before the answer"));
            }
            (_, true) => ForkFrom::Answer,
            (from, false) => from,
        };
        Ok(Self {
            from,
            input: said("input").or(said("additional_instructions")).map(str::to_owned),
            fork,
            replaces: regenerate && replaces,
            model: said("model").map(str::to_owned),
            instructions: said("instructions").map(str::to_owned),
        })
    }

    /// Whether it asks for another run.
    fn is_other(&self) -> bool {
        let says = self.input.is_some() || self.model.is_some() || self.instructions.is_some();
        self.fork || self.from != ForkFrom::End || says
    }

    /// Whether another run goes on from one that has this status.
    ///
    /// # Errors
    /// 409 when the run is not one to go on from, 422 when the form decides about calls too.
    pub(super) fn applies(&self, fields: &Fields, status: RunStatus) -> Result<bool, ApiError> {
        let ended = matches!(status, RunStatus::Completed | RunStatus::Regenerated);
        let decides = |name: &&str| fields.text(name).is_some_and(|list| list != "[]");
        let decided = ["tools", "requirements"].into_iter().find(decides);
        match (self.is_other(), decided) {
            (false, None) => Ok(ended),
            (false, Some(_)) => Ok(false),
            (true, Some(name)) => Err(fields.fault(
                name,
                "value_error",
                format!("`{name}` decides about calls of this run, and the other fields ask for another run: do one"),
            )),
            (true, None) if self.fork || self.from == ForkFrom::Answer || ended || status == RunStatus::Error => {
                Ok(true)
            }
            (true, None) => Err(not_ended(status)),
        }
    }
}

fn not_ended(status: RunStatus) -> ApiError {
    let text = format!(
        "the run is {}: only one that ended with an answer or an error goes on from a message; `fork=true` goes on \
         from it with another run, and leaves it as it is",
        status.as_str()
    );
    ApiError::conflict(text).named("not_forked")
}

/// Where to begin.
fn point(fields: &Fields) -> Result<ForkFrom, ApiError> {
    if let Some(step) = fields.number("from_step", 0..=u32::MAX)? {
        return match fields.text("continue_from") {
            None | Some("end") => Ok(ForkFrom::Step(step)),
            Some(_) => {
                Err(fields.fault("from_step", "value_error", "`from_step` and `continue_from` exclude each other"))
            }
        };
    }
    match fields.text("continue_from") {
        None | Some("end") => Ok(ForkFrom::End),
        Some("last_user") => Ok(ForkFrom::LastUser),
        Some(text) => {
            let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let count = digits.and_then(|digits| digits.parse().ok());
            let wanted = "Input should be `end`, `last_user`, or how many messages of the run are kept";
            count.map(ForkFrom::Message).ok_or_else(|| fields.fault("continue_from", "value_error", wanted))
        }
    }
}

/// Goes on with another run, and shows that one as the caller wishes.
///
/// # Errors
/// When it is refused, or cannot be shown.
pub(super) async fn go_on(
    app: App,
    services: Arc<Services>,
    caller: Caller,
    found: Found,
    asked: Asked,
    wish: Wish,
) -> Result<Response, ApiError> {
    let session_id = found.row.session_id.clone();
    let input = match &asked.input {
        Some(input) => Some(Text::keep(input, found.row.user_id.as_ref(), &*services.blobs).await?),
        None => None,
    };
    let fork = ForkRun {
        session_id: Some(session_id.clone()),
        run_id: found.row.run_id,
        from: asked.from,
        input,
        replaces: asked.replaces,
        model: asked.model.map(Into::into),
        instructions: asked.instructions.map(Into::into),
        stream: wish.stream,
        background: wish.background,
        asked: 0,
    };
    let agent = with(found.agent?, &fork).map_err(SubmitError::from)?;
    let id = ids::command();
    let run_id = RunId::of_command(&id, &session_id);
    let command = Command::new(id, caller.user_id.clone(), CommandBody::ForkRun(Box::new(fork)));
    let request = Request { command, session_id, run_id, agent };
    start::begin(app, services, caller, request, wish).await
}
