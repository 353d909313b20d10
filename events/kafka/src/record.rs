//! Records on the wire: events, commands and dead letters as `CloudEvents` 1.0 in binary mode.

use chrono::{DateTime, SecondsFormat};
use rdkafka::{
    Message,
    message::{Header, Headers, OwnedHeaders},
};
use reenact_events::{
    Arrival, BatchId, ChainHash, Command, CommandId, DeadLetter, LogError, NewEvent, Offset, PartitionId, Recorded,
    RunId, StreamKey, Term, Timestamp, UserId, wire,
};
use uuid::Uuid;

/// An event as it is read, with what only the log needs.
pub(crate) struct EventRecord {
    pub(crate) recorded: Recorded,
    /// The command cursor when the event was written.
    pub(crate) cursor: Offset,
}

/// Builds the headers of one record.
struct Writer(OwnedHeaders);

impl Writer {
    fn put(self, key: &str, value: &str) -> Self {
        Self(self.0.insert(Header { key, value: Some(value) }))
    }

    fn put_if(self, key: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.put(key, value),
            None => self,
        }
    }
}

/// The headers of an event.
pub(crate) fn event_headers(
    source: &str,
    event: &NewEvent,
    term: Term,
    batch: BatchId,
    chain: ChainHash,
    cursor: Offset,
) -> OwnedHeaders {
    let headers = Writer(OwnedHeaders::new_with_capacity(16))
        .put("ce_specversion", "1.0")
        .put("ce_id", &event.id.to_string())
        .put("ce_source", source)
        .put("ce_type", &event.kind)
        .put("ce_time", &time(event.at))
        .put("ce_partitionkey", event.key.as_str())
        .put("content-type", "application/json")
        .put("ce_rseq", &event.seq.to_string())
        .put("ce_rterm", &term.to_string())
        .put("ce_rbatch", &batch.to_string())
        .put("ce_rcmdnext", &cursor.to_string())
        .put("ce_rchain", &chain.to_string())
        .put_if("ce_subject", event.subject.as_ref().map(RunId::as_str))
        .put_if("ce_rcause", event.cause.as_ref().map(CommandId::as_str))
        .put_if("ce_rowner", event.owner.as_ref().map(UserId::as_str));
    headers.0
}

fn time(at: Timestamp) -> String {
    DateTime::from_timestamp_millis(at.0)
        .map_or_else(|| at.0.to_string(), |time| time.to_rfc3339_opts(SecondsFormat::Millis, true))
}

fn moment(text: &str) -> Option<Timestamp> {
    match DateTime::parse_from_rfc3339(text) {
        Ok(time) => Some(Timestamp(time.timestamp_millis())),
        Err(_) => text.parse().ok().map(Timestamp),
    }
}

/// An event as it was written.
///
/// # Errors
/// [`LogError::Damaged`] when the record is not one of ours.
pub(crate) fn event(message: &impl Message) -> Result<EventRecord, LogError> {
    let (partition, offset) = place(message);
    let damaged = |reason: String| LogError::Damaged { partition, offset, reason: reason.into() };
    let mut fields = Fields::default();
    for header in message.headers().map(|headers| headers.iter()).into_iter().flatten() {
        let value = header.value.map(std::str::from_utf8).transpose();
        let value = value.map_err(|_| damaged(format!("header `{}` is not text", header.key)))?;
        fields.set(header.key, value.unwrap_or_default());
    }
    let data = message.payload().map(std::str::from_utf8).transpose();
    let data = data.map_err(|_| damaged("its value is not text".to_owned()))?.unwrap_or_default();
    fields.recorded(partition, offset, data).map_err(|header| {
        damaged(format!("header `{header}` is missing or unreadable: a record that this runtime did not write"))
    })
}

/// Where a record stands. Neither is ever negative in a record that was read.
pub(crate) fn place(message: &impl Message) -> (PartitionId, Offset) {
    (PartitionId(message.partition().unsigned_abs()), Offset(message.offset().unsigned_abs()))
}

#[derive(Default)]
struct Fields<'a> {
    id: &'a str,
    kind: &'a str,
    time: &'a str,
    key: &'a str,
    seq: &'a str,
    term: &'a str,
    batch: &'a str,
    cursor: &'a str,
    chain: &'a str,
    subject: Option<&'a str>,
    cause: Option<&'a str>,
    owner: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn set(&mut self, name: &str, value: &'a str) {
        match name {
            "ce_id" => self.id = value,
            "ce_type" => self.kind = value,
            "ce_time" => self.time = value,
            "ce_partitionkey" => self.key = value,
            "ce_rseq" => self.seq = value,
            "ce_rterm" => self.term = value,
            "ce_rbatch" => self.batch = value,
            "ce_rcmdnext" => self.cursor = value,
            "ce_rchain" => self.chain = value,
            "ce_subject" => self.subject = Some(value),
            "ce_rcause" => self.cause = Some(value),
            "ce_rowner" => self.owner = Some(value),
            _ => {}
        }
    }

    /// The event, or the header that is at fault.
    fn recorded(self, partition: PartitionId, offset: Offset, data: &str) -> Result<EventRecord, &'static str> {
        if self.kind.is_empty() {
            return Err("ce_type");
        }
        if self.key.is_empty() {
            return Err("ce_partitionkey");
        }
        let event = NewEvent {
            id: Uuid::parse_str(self.id).map_err(|_| "ce_id")?,
            kind: self.kind.into(),
            key: StreamKey::trusted(self.key),
            seq: self.seq.parse().map_err(|_| "ce_rseq")?,
            at: moment(self.time).ok_or("ce_time")?,
            cause: self.cause.map(CommandId::trusted),
            owner: self.owner.map(UserId::trusted),
            subject: self.subject.map(RunId::trusted),
            data: data.into(),
        };
        let recorded = Recorded {
            partition,
            offset,
            term: Term(self.term.parse().map_err(|_| "ce_rterm")?),
            batch: BatchId(Uuid::parse_str(self.batch).map_err(|_| "ce_rbatch")?),
            chain: chain(self.chain).ok_or("ce_rchain")?,
            event,
            stored: None,
        };
        Ok(EventRecord { recorded, cursor: Offset(self.cursor.parse().map_err(|_| "ce_rcmdnext")?) })
    }
}

fn chain(hex: &str) -> Option<ChainHash> {
    let digits = hex.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(ChainHash(bytes))
}

/// Reads a command. One whose answer is wanted on a topic that is not the deployment's is none: this runtime
/// writes to its own topics only.
pub(crate) fn command<'a>(
    value: &[u8],
    header: impl Fn(&str) -> Option<&'a str>,
    replies: &str,
) -> Result<Command, wire::Unreadable> {
    let is_handed_round = header(HANDED_ROUND).is_some();
    let attributes = wire::Attributes { kind: header("ce_type"), id: header("ce_id"), is_handed_round };
    let command = wire::decode(value, attributes)?;
    match command.reply_to.as_ref().and_then(|reply_to| reply_to.topic.as_deref()) {
        Some(topic) if topic != replies => Err(wire::Unreadable {
            code: "invalid",
            reason: format!("answers go to `{replies}` only: leave `reply_to.topic` out (it is `{topic}`)"),
        }),
        _ => Ok(command),
    }
}

/// What a record of the command topic is.
pub(crate) fn arrival(message: &impl Message, replies: &str) -> Arrival {
    let header = |name: &str| {
        let headers = message.headers()?;
        let found = headers.iter().find(|header| header.key.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value?).ok()
    };
    let unreadable = match command(message.payload().unwrap_or_default(), header, replies) {
        Ok(command) => return Arrival::Command(Box::new(command)),
        Err(unreadable) => unreadable,
    };
    Arrival::Poison(Box::new(letter(message, unreadable.code, &unreadable.reason)))
}

/// A record of the command topic as a dead letter.
pub(crate) fn letter(message: &impl Message, code: &str, reason: &str) -> DeadLetter {
    let (partition, offset) = place(message);
    let owned = |header: Header<'_, &[u8]>| (header.key.to_owned(), header.value.map(<[u8]>::to_vec));
    DeadLetter {
        partition,
        offset,
        code: code.into(),
        reason: reason.into(),
        key: message.key().map(<[u8]>::to_vec),
        headers: message.headers().map(|headers| headers.iter().map(owned).collect()).unwrap_or_default(),
        value: message.payload().map(<[u8]>::to_vec),
    }
}

/// What the headers begin with that this runtime adds to a record.
pub(crate) const OURS: &str = "reenact_";
/// Marks a command that this runtime itself puts into the topic: what one owner sends on to another, and what is asked
/// of another node.
const HANDED_ROUND: &str = "reenact_handed_round";

/// The headers of such a command.
pub(crate) fn handed_round() -> OwnedHeaders {
    Writer(OwnedHeaders::new_with_capacity(1)).put(HANDED_ROUND, "1").0
}

/// Marks a record that says nothing: its transaction ends one before it.
const NOTHING: &str = "reenact_nothing";

/// The headers of such a record.
pub(crate) fn nothing() -> OwnedHeaders {
    Writer(OwnedHeaders::new_with_capacity(1)).put(NOTHING, "1").0
}

/// Whether a record says nothing.
pub(crate) fn says_nothing(message: &impl Message) -> bool {
    let is_empty = message.payload().is_none();
    is_empty && message.headers().is_some_and(|headers| headers.iter().any(|header| header.key == NOTHING))
}

/// The headers of a dead letter that is sent again: those that it came with, and which one it is.
pub(crate) fn redriven_headers(headers: &[(String, Option<Vec<u8>>)], number: u64) -> OwnedHeaders {
    let mut written = OwnedHeaders::new_with_capacity(headers.len() + 1);
    for (key, value) in headers {
        written = written.insert(Header { key, value: value.as_deref() });
    }
    Writer(written).put("reenact_redriven", &number.to_string()).0
}

/// Says that commands were deleted before anybody took them. There is nobody who could bring them back, so the
/// partition goes on behind them.
pub(crate) fn commands_lost(topic: &str, partition: PartitionId, from: Offset, low: Offset) {
    tracing::error!(
        "COMMANDS WERE LOST: partition {partition} of topic `{topic}` begins at {low}, and those from {from} on were \
         not taken yet; going on with {low}"
    );
}

/// What is said when commands were taken that the topic does not have.
pub(crate) fn commands_missing(topic: &str, cursor: Offset, end: Offset) -> String {
    format!(
        "commands up to offset {cursor} were taken, but topic `{topic}` ends at {end}: it was recreated, or an older \
         broker was restored"
    )
}

/// The headers of a dead letter: those that it came with, then where it stood and why it is here.
pub(crate) fn letter_headers(letter: &DeadLetter, commands: &str) -> OwnedHeaders {
    let mut headers = OwnedHeaders::new_with_capacity(letter.headers.len() + 5);
    for (key, value) in letter.headers.iter().filter(|(key, _)| !key.starts_with(OURS)) {
        headers = headers.insert(Header { key, value: value.as_deref() });
    }
    Writer(headers)
        .put("reenact_topic", commands)
        .put("reenact_partition", &letter.partition.to_string())
        .put("reenact_offset", &letter.offset.to_string())
        .put("reenact_code", &letter.code)
        .put("reenact_reason", &letter.reason)
        .0
}

#[cfg(test)]
mod tests {
    use rdkafka::{Timestamp as KafkaTimestamp, message::OwnedMessage};
    use reenact_events::{CommandBody, ReplyTo, SessionId, ids};

    use super::*;

    fn message(headers: OwnedHeaders, value: &[u8]) -> OwnedMessage {
        let (key, topic) = (Some(b"k".to_vec()), "t".to_owned());
        OwnedMessage::new(Some(value.to_vec()), key, topic, KafkaTimestamp::NotAvailable, 3, 17, Some(headers))
    }

    #[test]
    fn only_a_record_of_ours_without_a_value_says_nothing() {
        let empty =
            |headers| OwnedMessage::new(None, None, "t".to_owned(), KafkaTimestamp::NotAvailable, 3, 17, headers);
        assert!(says_nothing(&empty(Some(nothing()))));
        assert!(!says_nothing(&empty(None)), "a tombstone is poison");
        assert!(!says_nothing(&message(nothing(), b"{}")), "a value is read");
    }

    fn sample(at: i64) -> NewEvent {
        NewEvent {
            id: ids::derived("event", &["x"]),
            kind: "dev.reenact.run.queued.v1".into(),
            key: StreamKey::trusted("session:Zoë"),
            seq: 9,
            at: Timestamp(at),
            cause: Some(CommandId::trusted("c ö")),
            owner: Some(UserId::trusted("u")),
            subject: None,
            data: "{\"a\":\"\\u0000\"}".into(),
        }
    }

    #[test]
    fn an_event_comes_back_as_it_went() {
        for at in [1_700_000_000_123, -5, i64::MAX] {
            let (event, term, batch) = (sample(at), Term(4), BatchId(ids::derived("batch", &["b"])));
            let chain = ChainHash::default().link(&event, term);
            let headers = event_headers("/reenact", &event, term, batch, chain, Offset(7));
            let read = super::event(&message(headers, event.data.as_bytes())).expect("reads");
            assert_eq!(read.cursor, Offset(7));
            let expected =
                Recorded { partition: PartitionId(3), offset: Offset(17), term, batch, chain, event, stored: None };
            assert_eq!(read.recorded, expected);
        }
    }

    #[test]
    fn a_foreign_record_among_the_events_is_damage() {
        let Err(LogError::Damaged { offset, reason, .. }) = event(&message(OwnedHeaders::new(), b"{}")) else {
            panic!("taken for an event");
        };
        assert_eq!(offset, Offset(17));
        assert!(reason.contains("did not write"), "{reason}");
    }

    #[test]
    fn a35_poison_keeps_everything_that_it_came_with() {
        let headers = OwnedHeaders::new()
            .insert(Header { key: "ce_type", value: Some("Dance") })
            .insert(Header { key: "empty", value: None::<&str> });
        let Arrival::Poison(letter) = arrival(&message(headers, b"\xff"), "replies") else {
            panic!("taken for a command");
        };
        assert_eq!((letter.partition, letter.offset), (PartitionId(3), Offset(17)));
        assert_eq!(letter.key.as_deref(), Some(&b"k"[..]));
        assert_eq!(letter.value.as_deref(), Some(&b"\xff"[..]));
        assert_eq!(letter.headers.len(), 2);
        let headers = letter_headers(&letter, "commands");
        assert_eq!(headers.count(), 2 + 5);
    }

    #[test]
    fn answers_go_to_the_deployments_own_topic_only() {
        let body = CommandBody::DeleteSession { session_id: SessionId::trusted("s"), runs: None, reason: None };
        for (topic, is_command) in [(None, true), (Some("replies"), true), (Some("events"), false)] {
            let reply_to = Some(ReplyTo { topic: topic.map(Into::into), correlation_id: "c".into() });
            let command = Command {
                id: CommandId::trusted("1"),
                user_id: None,
                reply_to,
                key: None,
                body: body.clone(),
                sealed: None,
            };
            let arrived = arrival(&message(OwnedHeaders::new(), wire::encode(&command).as_bytes()), "replies");
            assert_eq!(matches!(arrived, Arrival::Command(_)), is_command, "{topic:?}");
        }
    }
}
