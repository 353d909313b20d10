//! The command that goes on from another run, and the fields of its JSON.

use super::{
    Unreadable, convert,
    fields::{ForkPoint, ForkRun, ForkWord},
    invalid, named,
};
use crate::{
    RunId,
    command::{self, ForkFrom},
};

pub(super) fn read(fields: ForkRun, asked: u32) -> Result<command::ForkRun, Unreadable> {
    let from = match (&fields.continue_from, fields.step, fields.regenerate) {
        (None, None, false) => ForkFrom::End,
        (None, None, true) => ForkFrom::Answer,
        (None, Some(step), false) => ForkFrom::Step(step),
        (Some(ForkPoint::Messages(count)), None, false) => ForkFrom::Message(*count),
        (Some(ForkPoint::Word(ForkWord::End)), None, false) => ForkFrom::End,
        (Some(ForkPoint::Word(ForkWord::LastUser)), None, false) => ForkFrom::LastUser,
        _ => {
            return Err(invalid("only one of the fields `continue_from`, `step` and `regenerate` says where to begin"));
        }
    };
    if fields.replace_original.is_some() && !fields.regenerate {
        return Err(invalid("the field `replace_original` is for `regenerate`: leave it out"));
    }
    Ok(command::ForkRun {
        session_id: fields.session_id.as_deref().map(convert::session).transpose()?,
        run_id: named("run_id", &fields.run_id, RunId::parse)?,
        from,
        input: fields.input.map(|input| convert::text("input", input)).transpose()?,
        replaces: fields.regenerate && fields.replace_original.unwrap_or(true),
        model: fields.model.map(Into::into),
        instructions: fields.instructions.map(Into::into),
        stream: fields.stream,
        background: fields.background,
        asked,
    })
}

pub(super) fn write(fork: &command::ForkRun) -> ForkRun {
    let (continue_from, step, regenerate) = match fork.from {
        ForkFrom::End => (None, None, false),
        ForkFrom::LastUser => (Some(ForkPoint::Word(ForkWord::LastUser)), None, false),
        ForkFrom::Message(count) => (Some(ForkPoint::Messages(count)), None, false),
        ForkFrom::Step(step) => (None, Some(step), false),
        ForkFrom::Answer => (None, None, true),
    };
    ForkRun {
        run_id: fork.run_id.to_string(),
        session_id: fork.session_id.as_ref().map(ToString::to_string),
        continue_from,
        step,
        regenerate,
        replace_original: regenerate.then_some(fork.replaces),
        input: fork.input.as_ref().map(convert::message),
        model: fork.model.as_ref().map(ToString::to_string),
        instructions: fork.instructions.as_ref().map(ToString::to_string),
        stream: fork.stream,
        background: fork.background,
    }
}
