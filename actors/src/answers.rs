//! What the publisher of a command is told, and what a waiting node makes of it: [`rejected`] and
//! [`Told::answer`] write an [`Answer`], [`outcome`] reads it back.

use std::sync::Arc;

use reenact_events::{
    Answer, Command, CommandBody, CommandId, Forward, Offset, Outcome, PartitionId, RunId, ScheduleId, SessionId,
    StreamKey, Token,
    event::RunStatus,
    schedule::{AttemptStatus, Report, ScheduleCommand, ScheduledBy},
};

use crate::{
    api::{Accepted, Refusal, SubmitError},
    partition::{Settlement, Settles},
    schedule::Unfit,
};

/// Who is told how a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// Names the command to whoever published it.
    pub correlation_id: Arc<str>,
    /// The command.
    pub command_id: CommandId,
}

/// A command that came from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumed {
    /// Where it waits.
    pub offset: Offset,
    /// Who is told, if anybody wants to be.
    pub asker: Option<Box<Asker>>,
    /// The schedule that is told, if it asked for a run.
    pub schedule: Option<Box<Scheduled>>,
}

/// An attempt whose run is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduled {
    /// Which.
    by: ScheduledBy,
    /// The run that it would be.
    run_id: RunId,
    /// The partition of its schedule.
    partition: PartitionId,
}

impl Consumed {
    /// The command at `offset`.
    #[must_use]
    pub fn of(offset: Offset, command: &Command, partitions: u32) -> Self {
        let asker = command.reply_to.as_ref().map(|reply_to| {
            let correlation_id = reply_to.correlation_id.clone();
            Box::new(Asker { correlation_id, command_id: command.id.clone() })
        });
        Self { offset, asker, schedule: Scheduled::of(command, partitions).map(Box::new) }
    }

    /// It took effect.
    #[must_use]
    pub fn accepted(&self, told: impl FnOnce() -> Told) -> Settles {
        let answer = self.asker.as_ref().map(|asker| Box::new(told().answer(asker)));
        Settles { offset: self.offset, settlement: Settlement::Decided(answer) }
    }

    /// It did not.
    #[must_use]
    pub fn rejected(&self, error: &SubmitError) -> Settles {
        if let Some(scheduled) = &self.schedule {
            let told = Settlement::Forwarded(Box::new(scheduled.refused(error)));
            return Settles { offset: self.offset, settlement: told };
        }
        let answer = self.asker.as_ref().map(|asker| Box::new(rejected(asker, error)));
        Settles { offset: self.offset, settlement: Settlement::Decided(answer) }
    }
}

impl Scheduled {
    fn of(command: &Command, partitions: u32) -> Option<Self> {
        let CommandBody::StartRun(start) = &command.body else { return None };
        let by = ScheduledBy::clone(start.scheduled_by.as_deref()?);
        let run_id = RunId::of_command(&command.id, &start.session_id);
        let partition = StreamKey::schedules(by.owner.as_ref()).partition_of(partitions);
        Some(Self { by, run_id, partition })
    }

    /// Tells the schedule that the run was refused.
    fn refused(&self, error: &SubmitError) -> Forward {
        let Self { by, run_id, partition } = self.clone();
        let (id, owner) = (by.report_command("refused"), by.owner.clone());
        let error = Some(error.to_string().into());
        let report = Report { by, run_id, status: AttemptStatus::Failed, error };
        let body = CommandBody::Schedule(ScheduleCommand::Report(Box::new(report)));
        Forward { partition, command: Command::new(id, owner, body) }
    }
}

/// What an accepted command is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// It had taken effect before.
    pub duplicate: bool,
    /// The session it is about, if it is about one.
    pub session_id: Option<SessionId>,
    /// The schedule it is about, if it is about one.
    pub schedule_id: Option<ScheduleId>,
    /// The run it is about, with its status after the command.
    pub run: Option<(RunId, RunStatus)>,
}

impl Told {
    /// About a session, or a run of it.
    #[must_use]
    pub fn of_session(session: &SessionId, run: Option<(RunId, RunStatus)>, duplicate: bool) -> Self {
        Self { duplicate, session_id: Some(session.clone()), schedule_id: None, run }
    }

    /// As an answer; the log adds the position.
    #[must_use]
    pub fn answer(self, asker: &Asker) -> Answer {
        let (run_id, status) = self.run.unzip();
        Answer {
            outcome: if self.duplicate { Outcome::Duplicate } else { Outcome::Accepted },
            run_id,
            session_id: self.session_id,
            schedule_id: self.schedule_id,
            status,
            ..blank(asker)
        }
    }
}

fn blank(asker: &Asker) -> Answer {
    Answer {
        correlation_id: asker.correlation_id.clone(),
        command_id: asker.command_id.clone(),
        outcome: Outcome::Rejected,
        run_id: None,
        session_id: None,
        schedule_id: None,
        status: None,
        reason: None,
        code: None,
        retry_after_s: None,
        position: None,
    }
}

/// The answer to a command that was not taken.
#[must_use]
pub fn rejected(asker: &Asker, error: &SubmitError) -> Answer {
    let mut answer = Answer { reason: Some(error.to_string().into()), code: Some(code(error).into()), ..blank(asker) };
    match error {
        SubmitError::Refused(
            Refusal::SessionExists(session) | Refusal::SessionBusy(session) | Refusal::SessionUsed(session),
        ) => answer.session_id = Some(session.clone()),
        SubmitError::Refused(
            Refusal::StepNotInDoubt { run, .. }
            | Refusal::DecisionUnfit { run, .. }
            | Refusal::DecisionLate { run, .. },
        ) => answer.run_id = Some(run.clone()),
        SubmitError::Refused(
            Refusal::TooLarge(reason)
            | Refusal::OutputSchema(reason)
            | Refusal::NotRequeued(reason)
            | Refusal::NotForked(reason)
            | Refusal::NotCopied(reason)
            | Refusal::ForkPoint(reason)
            | Refusal::ScheduleConflict(reason),
        ) => answer.reason = Some(reason.clone()),
        SubmitError::QueueFull { retry_after_s, .. } => answer.retry_after_s = Some(*retry_after_s),
        SubmitError::Unavailable { reason } => {
            answer.reason = Some(reason.clone());
            answer.retry_after_s = Some(RETRY_AFTER_S);
        }
        SubmitError::Refused(Refusal::ScheduleUnfit(Unfit { field, reason })) => {
            answer.reason = Some(format!("{field}: {reason}").into());
        }
        SubmitError::Refused(
            Refusal::SessionNotFound
            | Refusal::RunNotFound
            | Refusal::AgentNotFound
            | Refusal::ScheduleNotFound
            | Refusal::KeyUsed,
        ) => {}
    }
    answer
}

/// When something that could not be taken may be asked again, seconds.
const RETRY_AFTER_S: u32 = 5;

/// The stable word for it.
#[must_use]
pub fn code(error: &SubmitError) -> &'static str {
    match error {
        SubmitError::Refused(Refusal::SessionNotFound) => "session_not_found",
        SubmitError::Refused(Refusal::RunNotFound) => "run_not_found",
        SubmitError::Refused(Refusal::SessionExists(_)) => "session_exists",
        SubmitError::Refused(Refusal::SessionBusy(_)) => "session_busy",
        SubmitError::Refused(Refusal::SessionUsed(_)) => "session_used",
        SubmitError::Refused(Refusal::StepNotInDoubt { .. }) => "step_not_in_doubt",
        SubmitError::Refused(Refusal::DecisionUnfit { .. }) => "decision_unfit",
        SubmitError::Refused(Refusal::DecisionLate { .. }) => "decision_late",
        SubmitError::Refused(Refusal::AgentNotFound) => "agent_not_found",
        SubmitError::Refused(Refusal::OutputSchema(_)) => "output_schema",
        SubmitError::Refused(Refusal::NotRequeued(_)) => "not_requeued",
        SubmitError::Refused(Refusal::NotForked(_)) => "not_forked",
        SubmitError::Refused(Refusal::NotCopied(_)) => "not_copied",
        SubmitError::Refused(Refusal::ForkPoint(_)) => "fork_point",
        SubmitError::Refused(Refusal::ScheduleNotFound) => "schedule_not_found",
        SubmitError::Refused(Refusal::ScheduleUnfit(_)) => "schedule_unfit",
        SubmitError::Refused(Refusal::ScheduleConflict(_)) => "schedule_conflict",
        SubmitError::Refused(Refusal::KeyUsed) => "key_used",
        SubmitError::Refused(Refusal::TooLarge(_)) => "too_large",
        SubmitError::QueueFull { .. } => "queue_full",
        SubmitError::Unavailable { .. } => "unavailable",
    }
}

/// What the answer says, as if the command had been submitted here.
///
/// # Errors
/// When the command was not taken; also when the answer cannot be understood.
pub fn outcome(answer: &Answer) -> Result<Accepted, SubmitError> {
    if answer.outcome == Outcome::Rejected {
        return Err(error(answer));
    }
    let place = answer.position.as_deref().and_then(Token::decode).and_then(|token| token.places.first().copied());
    let Some((partition, offset)) = place else {
        return Err(incomprehensible("it names no position"));
    };
    let duplicate = answer.outcome == Outcome::Duplicate;
    Ok(Accepted {
        session_id: answer.session_id.clone(),
        schedule_id: answer.schedule_id.clone(),
        run_id: answer.run_id.clone(),
        partition,
        offset,
        status: answer.status,
        duplicate,
    })
}

fn error(answer: &Answer) -> SubmitError {
    let reason: Arc<str> = answer.reason.clone().unwrap_or_default();
    let refusal = match answer.code.as_deref() {
        Some("session_not_found") => Some(Refusal::SessionNotFound),
        Some("run_not_found") => Some(Refusal::RunNotFound),
        Some("agent_not_found") => Some(Refusal::AgentNotFound),
        Some("session_exists") => answer.session_id.clone().map(Refusal::SessionExists),
        Some("session_busy") => answer.session_id.clone().map(Refusal::SessionBusy),
        Some("session_used") => answer.session_id.clone().map(Refusal::SessionUsed),
        Some("step_not_in_doubt") => answer.run_id.clone().map(|run| not_in_doubt(run, &reason)),
        Some("not_requeued") => Some(Refusal::NotRequeued(reason.clone())),
        Some("not_forked") => Some(Refusal::NotForked(reason.clone())),
        Some("not_copied") => Some(Refusal::NotCopied(reason.clone())),
        Some("fork_point") => Some(Refusal::ForkPoint(reason.clone())),
        Some("output_schema") => Some(Refusal::OutputSchema(reason.clone())),
        Some("schedule_not_found") => Some(Refusal::ScheduleNotFound),
        Some("schedule_unfit") => {
            reason.split_once(": ").map(|(field, reason)| Refusal::ScheduleUnfit(Unfit::new(field, reason)))
        }
        Some("schedule_conflict") => Some(Refusal::ScheduleConflict(reason.clone())),
        Some("key_used") => Some(Refusal::KeyUsed),
        Some("decision_unfit") => {
            answer.run_id.clone().map(|run| Refusal::DecisionUnfit { run, reason: reason.clone() })
        }
        Some("decision_late") => answer.run_id.clone().map(|run| Refusal::DecisionLate { run, reason: reason.clone() }),
        Some("too_large") => Some(Refusal::TooLarge(reason.clone())),
        Some("queue_full") => return queue_full(&reason, answer.retry_after_s.unwrap_or(1)),
        Some("unavailable") => return SubmitError::Unavailable { reason },
        _ => None,
    };
    refusal.map_or_else(|| incomprehensible(&reason), SubmitError::Refused)
}

/// The call's id is only in the text.
fn not_in_doubt(run: RunId, reason: &str) -> Refusal {
    let end = format!("` of run `{run}` waits for no decision");
    let call = reason.strip_prefix("tool call `").and_then(|rest| rest.strip_suffix(&end));
    Refusal::StepNotInDoubt { run, tool_call_id: call.unwrap_or_default().into() }
}

/// The numbers are only in the text.
fn queue_full(reason: &str, retry_after_s: u32) -> SubmitError {
    let mut numbers = reason.split(|char: char| !char.is_ascii_digit()).filter_map(|word| word.parse().ok());
    let (queued, limit) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    SubmitError::QueueFull { queued, limit, retry_after_s }
}

fn incomprehensible(what: &str) -> SubmitError {
    SubmitError::Unavailable {
        reason: format!(
            "the answer of the node that decided the command is not understood here ({what}): are all nodes of one \
             version?"
        )
        .into(),
    }
}

#[cfg(test)]
mod tests {
    use reenact_events::{Committed, LogId, NewAnswer};

    use super::*;

    fn asker() -> Asker {
        Asker { correlation_id: "n/1".into(), command_id: CommandId::trusted("c") }
    }

    #[test]
    fn an_accepted_command_is_read_back_as_if_it_was_submitted_here() {
        for duplicate in [false, true] {
            let run = (RunId::trusted("r"), RunStatus::Running);
            let told = Told::of_session(&SessionId::trusted("s"), Some(run.clone()), duplicate);
            let answer = told.answer(&asker());
            assert_eq!(answer.outcome == Outcome::Duplicate, duplicate);
            let new = NewAnswer { answer, event: Some(1), known: Offset(3) };
            let batch = Committed { offsets: vec![Offset(7), Offset(8)], chain: Vec::new() };
            let answer = new.placed(LogId::default(), PartitionId(2), &batch);
            let expected = Accepted {
                session_id: Some(SessionId::trusted("s")),
                schedule_id: None,
                run_id: Some(run.0),
                partition: PartitionId(2),
                offset: Offset(8),
                status: Some(run.1),
                duplicate,
            };
            assert_eq!(outcome(&answer), Ok(expected));
        }
    }

    #[test]
    fn every_error_is_read_back_as_it_was() {
        let refusals = [
            Refusal::SessionNotFound,
            Refusal::RunNotFound,
            Refusal::AgentNotFound,
            Refusal::KeyUsed,
            Refusal::ScheduleNotFound,
            Refusal::ScheduleUnfit(Unfit::new("cron_expr", "`a: b` cannot be read: it is no cron")),
            Refusal::ScheduleConflict("there is a schedule `a` already".into()),
            Refusal::SessionExists(SessionId::trusted("s 1")),
            Refusal::SessionBusy(SessionId::trusted("s 2")),
            Refusal::SessionUsed(SessionId::trusted("s 3")),
            Refusal::StepNotInDoubt { run: RunId::trusted("r"), tool_call_id: "a `b` of run `x`".into() },
            Refusal::NotRequeued("run `r` is COMPLETED".into()),
            Refusal::NotForked("run `r` is RUNNING".into()),
            Refusal::NotCopied("the session has no run".into()),
            Refusal::ForkPoint("message 3 is no place to go on from".into()),
            Refusal::OutputSchema("the schema is invalid at `/type`".into()),
            Refusal::unfit(&RunId::trusted("r"), "c", "it waits for a confirmation"),
            Refusal::late(&RunId::trusted("r"), "c"),
            Refusal::TooLarge("the event has 9 bytes".into()),
        ];
        let others = [
            SubmitError::QueueFull { queued: 12, limit: 10, retry_after_s: 3 },
            SubmitError::Unavailable { reason: "no room".into() },
        ];
        for error in refusals.into_iter().map(SubmitError::from).chain(others) {
            let answer = rejected(&asker(), &error);
            assert_eq!(answer.outcome, Outcome::Rejected);
            assert_eq!(outcome(&answer), Err(error));
        }
    }

    #[test]
    fn an_answer_of_another_version_is_no_acceptance() {
        let strange = Answer { code: Some("new_word".into()), ..blank(&asker()) };
        assert!(matches!(outcome(&strange), Err(SubmitError::Unavailable { .. })));
        let bare = Answer { outcome: Outcome::Accepted, ..blank(&asker()) };
        assert!(matches!(outcome(&bare), Err(SubmitError::Unavailable { .. })));
    }
}
