//! Commands, without what is said with them: what stands in the topic of commands beside the sealed whole.

use std::sync::Arc;

use super::Erase;
use crate::{
    Command, CommandBody,
    command::{AgentRef, Decision, ForkRun, StartRun},
    schedule::{Report, ScheduleChange, ScheduleCommand},
};

impl Erase for Command {
    fn erased(&self) -> Self {
        let Self { id, user_id, reply_to, key, body, sealed } = self;
        Self {
            id: id.clone(),
            user_id: user_id.clone(),
            reply_to: reply_to.clone(),
            key: key.erased(),
            body: body.erased(),
            sealed: sealed.clone(),
        }
    }
}

impl Erase for CommandBody {
    fn erased(&self) -> Self {
        match self {
            Self::StartRun(start) => Self::StartRun(start.erased()),
            Self::ForkRun(fork) => Self::ForkRun(fork.erased()),
            Self::CancelRun { session_id, run_id, reason, asked } => Self::CancelRun {
                session_id: session_id.clone(),
                run_id: run_id.clone(),
                reason: reason.erased(),
                asked: *asked,
            },
            Self::ContinueRun { session_id, run_id, decisions, decided_by, asked } => {
                let decision = |Decision { tool_call_id, verdict }: &Decision| Decision {
                    tool_call_id: tool_call_id.clone(),
                    verdict: verdict.erased(),
                };
                Self::ContinueRun {
                    session_id: session_id.clone(),
                    run_id: run_id.clone(),
                    decisions: decisions.iter().map(decision).collect(),
                    decided_by: decided_by.clone(),
                    asked: *asked,
                }
            }
            Self::RequeueRun { .. } => self.clone(),
            Self::CreateSession { session_id, agent_id, name, state, metadata } => Self::CreateSession {
                session_id: session_id.clone(),
                agent_id: agent_id.clone(),
                name: name.erased(),
                state: state.erased(),
                metadata: metadata.erased(),
            },
            Self::UpdateSession { session_id, name, state, metadata, summary } => Self::UpdateSession {
                session_id: session_id.clone(),
                name: name.erased(),
                state: state.erased(),
                metadata: metadata.erased(),
                summary: summary.erased(),
            },
            Self::ForkSession { session_id, name, metadata, summary } => Self::ForkSession {
                session_id: session_id.clone(),
                name: name.erased(),
                metadata: metadata.erased(),
                summary: summary.erased(),
            },
            Self::DeleteSession { session_id, runs, reason } => {
                Self::DeleteSession { session_id: session_id.clone(), runs: *runs, reason: reason.erased() }
            }
            Self::Schedule(command) => Self::Schedule(command.erased()),
        }
    }
}

impl Erase for StartRun {
    fn erased(&self) -> Self {
        let Self {
            session_id,
            agent,
            input,
            media,
            metadata,
            session_state,
            stream,
            background,
            output_schema,
            scheduled_by,
        } = self;
        Self {
            session_id: session_id.clone(),
            // Another's content: what it is stands in the deployment's own files.
            agent: AgentRef::Named(agent.id().clone()),
            input: input.erased(),
            media: media.erased(),
            metadata: metadata.erased(),
            session_state: session_state.erased(),
            stream: *stream,
            background: *background,
            output_schema: output_schema.erased(),
            scheduled_by: scheduled_by.clone(),
        }
    }
}

impl Erase for ForkRun {
    fn erased(&self) -> Self {
        let Self { session_id, run_id, from, input, replaces, model, instructions, stream, background, asked } = self;
        Self {
            session_id: session_id.clone(),
            run_id: run_id.clone(),
            from: *from,
            input: input.erased(),
            replaces: *replaces,
            model: model.clone(),
            instructions: instructions.erased(),
            stream: *stream,
            background: *background,
            asked: *asked,
        }
    }
}

impl Erase for ScheduleCommand {
    fn erased(&self) -> Self {
        match self {
            Self::Create(spec) => Self::Create(spec.erased()),
            Self::Update(id, change) => Self::Update(id.clone(), change.erased()),
            Self::Report(report) => Self::Report(report.erased()),
            Self::Enable(_) | Self::Disable(_) | Self::Trigger(_) | Self::Delete(_) | Self::EraseOwner(_) => {
                self.clone()
            }
        }
    }
}

impl Erase for ScheduleChange {
    fn erased(&self) -> Self {
        let erased = |text: &Option<Arc<str>>| text.erased();
        Self {
            name: erased(&self.name),
            description: erased(&self.description),
            payload: self.payload.erased(),
            ..self.clone()
        }
    }
}

impl Erase for Report {
    fn erased(&self) -> Self {
        let Self { by, run_id, status, error } = self;
        Self { by: by.clone(), run_id: run_id.clone(), status: *status, error: error.erased() }
    }
}
