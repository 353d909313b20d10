//! What travels back: answers with the batch that settles their commands, and who owns what.

use futures::{FutureExt, StreamExt};
use reenact_events::{
    Answer, Arrival, Batch, Command, CommandBody, CommandId, CommitOutcome, Forward, NewAnswer, Offset, Outcome,
    ReplyTo, RunId, ScheduleId, SessionId, Token, event::RunStatus, log::EVENT_BYTES_MAX,
};

use crate::{
    support::{FIRST, Writer, claim, commit, last, node, take},
    worlds::World,
};

/// An answer with every field that its batch does not fill in.
fn answer(correlation: &str) -> Answer {
    Answer {
        correlation_id: correlation.into(),
        command_id: CommandId::trusted("c ö"),
        outcome: Outcome::Accepted,
        run_id: Some(RunId::trusted("r")),
        session_id: Some(SessionId::trusted("s")),
        schedule_id: Some(ScheduleId::trusted("x")),
        status: Some(RunStatus::Running),
        reason: Some("why \"not\"\n".into()),
        code: Some("code".into()),
        retry_after_s: Some(7),
        position: None,
    }
}

fn answering(mut batch: Batch, correlation: &str, event: Option<usize>, known: Offset) -> Batch {
    batch.answers.push(NewAnswer { answer: answer(correlation), event, known });
    batch
}

pub(crate) async fn an_answer_comes_with_its_batch_and_its_position(world: &mut impl World) {
    let (log, mut writer) = (world.log(), Writer::default());
    let lease = claim(&*log, last(&*log)).await;
    let mut answers = log.answers();
    assert!(answers.next().now_or_never().is_none(), "nobody was answered yet");
    let batch = answering(writer.some(3), "first", Some(1), Offset(0));
    let batch = answering(batch, "second", None, lease.claim_offset());
    let committed = commit(&*log, &lease, &batch).await;
    let seen = take(&mut answers, 2).await;
    for (seen, (correlation, offset)) in
        seen.iter().zip([("first", committed.offsets[1]), ("second", lease.claim_offset())])
    {
        let token = Token::decode(seen.position.as_deref().expect("has a position")).expect("a token");
        assert_eq!((token.log_id, token.places), (log.log_id(), vec![(lease.partition, offset)]));
        assert_eq!(Answer { position: None, ..seen.clone() }, answer(correlation));
    }
    assert!(answers.next().now_or_never().is_none(), "each once");
}

pub(crate) async fn a_batch_that_is_not_written_answers_nobody(world: &mut impl World) {
    let (log, mut writer) = (world.log(), Writer::default());
    let old = claim(&*log, FIRST).await;
    let lease = claim(&*log, FIRST).await;
    let mut answers = log.answers();
    assert!(answers.next().now_or_never().is_none(), "nobody was answered yet");
    let fenced = answering(Writer::named("fenced").some(1), "fenced", Some(0), Offset(0));
    assert!(matches!(log.commit(&old, &fenced).await, CommitOutcome::Fenced));
    let mut large = Writer::named("large").some(1);
    large.events[0].data = "x".repeat(EVENT_BYTES_MAX + 1).into();
    let large = answering(large, "large", Some(0), Offset(0));
    assert!(matches!(log.commit(&lease, &large).await, CommitOutcome::Rejected { .. }));
    commit(&*log, &lease, &answering(writer.some(1), "written", Some(0), Offset(0))).await;
    assert_eq!(&*take(&mut answers, 1).await[0].correlation_id, "written");
}

pub(crate) async fn answers_come_to_whoever_follows_them_whenever_they_began(world: &mut impl World) {
    let (log, mut writer) = (world.log(), Writer::default());
    let lease = claim(&*log, FIRST).await;
    let mut early = log.answers();
    assert!(early.next().now_or_never().is_none(), "nobody was answered yet");
    commit(&*log, &lease, &answering(writer.some(1), "before", Some(0), Offset(0))).await;
    assert_eq!(&*take(&mut early, 1).await[0].correlation_id, "before");
    let mut late = log.answers();
    assert!(late.next().now_or_never().is_none(), "what was before is not told again");
    commit(&*log, &lease, &answering(writer.some(1), "after", Some(0), Offset(0))).await;
    for answers in [&mut early, &mut late] {
        assert_eq!(&*take(answers, 1).await[0].correlation_id, "after");
    }
}

pub(crate) async fn a_command_keeps_who_asked_wherever_it_goes(world: &mut impl World) {
    let log = world.log();
    let from = claim(&*log, FIRST).await;
    let to = if last(&*log) == FIRST { from.clone() } else { claim(&*log, last(&*log)).await };
    let reply_to = ReplyTo { topic: None, correlation_id: "who \"asked\" ö".into() };
    let body = CommandBody::CancelRun {
        session_id: None,
        run_id: RunId::trusted("r"),
        reason: Some("because".into()),
        asked: 2,
    };
    let command = Command { reply_to: Some(reply_to), ..Command::new(CommandId::trusted("c"), None, body) };
    let mut batch = Writer::default().some(1);
    batch.forwards = vec![Forward { partition: to.partition, command: command.clone() }];
    let mut commands = log.commands(&to);
    commit(&*log, &from, &batch).await;
    assert_eq!(take(&mut commands, 1).await[0].arrival, Arrival::Command(Box::new(command)));
}

pub(crate) async fn the_last_claimant_is_the_owner(world: &mut impl World) {
    let log = world.log();
    assert!(log.owners().await.expect("answers").iter().all(|owner| owner.partition != FIRST), "nobody claimed");
    log.claim(FIRST, node("n1")).await.expect("claims");
    let lease = log.claim(FIRST, node("n2")).await.expect("claims");
    let owners = log.owners().await.expect("answers");
    let owner = owners.iter().find(|owner| owner.partition == FIRST).expect("is owned");
    assert_eq!((owner.term, &owner.node), (lease.term, &lease.node));
}
