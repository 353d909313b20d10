//! Ids as newtypes, so that a run's id can never stand where a session's is meant.
//!
//! Names that people choose are strings with a checked length; names that we make are UUIDv5 of their
//! cause, so that a retry meets the same one.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The longest id that is accepted, in bytes of UTF-8.
pub const ID_BYTES_MAX: usize = 255;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text was empty.
    #[error("the id is empty")]
    Empty,
    /// The text has more bytes than [`ID_BYTES_MAX`].
    #[error("the id has {bytes} bytes, at most {ID_BYTES_MAX} are allowed")]
    TooLong {
        /// How many bytes it has.
        bytes: usize,
    },
    /// The text holds a control character (NUL and line breaks among them).
    #[error("the id holds the control character U+{code:04X} at byte {at}")]
    Control {
        /// The character's code point.
        code: u32,
        /// Its byte position.
        at: usize,
    },
}

fn check(text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty);
    }
    if text.len() > ID_BYTES_MAX {
        return Err(IdError::TooLong { bytes: text.len() });
    }
    match text.char_indices().find(|(_, character)| character.is_control()) {
        Some((at, character)) => Err(IdError::Control { code: character.into(), at }),
        None => Ok(()),
    }
}

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and takes a text that came from outside.
            ///
            /// # Errors
            /// When it is empty, longer than [`ID_BYTES_MAX`] bytes, or holds a control character.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                check(text)?;
                Ok(Self(text.into()))
            }

            /// Takes a text that this program made or stored itself.
            #[must_use]
            pub fn trusted(text: &str) -> Self {
                Self(text.into())
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }
    };
}

string_id!(
    /// A conversation: all its runs share one stream.
    SessionId
);
string_id!(
    /// One execution of an agent for one message.
    RunId
);
string_id!(
    /// Something that starts runs when it is due.
    ScheduleId
);
string_id!(
    /// Who owns a session, a run or a blob.
    UserId
);
string_id!(
    /// An agent, as named by its file.
    AgentId
);
string_id!(
    /// What a publisher calls its command; the deduplication key.
    CommandId
);
string_id!(
    /// A process that may own partitions.
    NodeId
);

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_id!(
    /// A share of the streams with one owner at a time.
    PartitionId(u32)
);
number_id!(
    /// A place in a partition. Offsets grow but have gaps.
    Offset(u64)
);
number_id!(
    /// One ownership period of a partition: the offset of its claim.
    Term(u64)
);
number_id!(
    /// Names one commit, so that its outcome can be asked for when the answer was lost.
    BatchId(Uuid)
);
number_id!(
    /// Names a log for its whole life; a restored or recreated log has another.
    LogId(Uuid)
);
number_id!(
    /// Names a step across all its attempts; tools see it as `Idempotency-Key`.
    StepToken(Uuid)
);

impl Offset {
    /// The offset that a reader asks for after having read this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

const NAMESPACE: Uuid = Uuid::from_u128(0x7265_656e_6163_7400_0000_0000_0000_0001);

/// The id that follows from a cause: equal parts give an equal id. Parts are length-prefixed, so that
/// `("ab", "c")` and `("a", "bc")` differ.
#[must_use]
pub fn derived(kind: &str, parts: &[&str]) -> Uuid {
    let mut name = String::with_capacity(64);
    for part in std::iter::once(&kind).chain(parts) {
        name.push_str(&part.len().to_string());
        name.push(':');
        name.push_str(part);
    }
    Uuid::new_v5(&NAMESPACE, name.as_bytes())
}

/// What the ids of commands begin with that are unique in the whole deployment because this program made them.
const OWN: &str = "reenact:";

impl CommandId {
    /// The command that follows from a cause which is unique in the whole deployment.
    #[must_use]
    pub fn own(cause: Uuid) -> Self {
        Self::trusted(&format!("{OWN}{cause}"))
    }
}

impl RunId {
    /// The run that a command starts. What a publisher calls its command need be unique in the session only, so
    /// the session is part of it; an id of our own names one run, whatever session a repeat names.
    #[must_use]
    pub fn of_command(command: &CommandId, session: &SessionId) -> Self {
        let own = command.as_str().starts_with(OWN);
        let parts = [session.as_str(), command.as_str()];
        Self::trusted(&derived("run", if own { &parts[1..] } else { &parts }).to_string())
    }
}

impl ScheduleId {
    /// The schedule that a command makes for its owner.
    #[must_use]
    pub fn of_command(command: &CommandId, owner: Option<&UserId>) -> Self {
        let parts: Vec<&str> = std::iter::once(command.as_str()).chain(owner.map(UserId::as_str)).collect();
        Self::trusted(&derived("schedule", &parts).to_string())
    }
}

impl SessionId {
    /// The session that a command makes as a copy of `source`: of the same partition, which has what is copied.
    #[must_use]
    pub fn of_copy(command: &CommandId, source: &Self, partitions: u32) -> Self {
        let wanted = StreamKey::session(source).partition_of(partitions);
        let mut number = 0_u64;
        loop {
            let parts = [source.as_str(), command.as_str(), &number.to_string()];
            let id = Self::trusted(&derived("session", &parts).to_string());
            if StreamKey::session(&id).partition_of(partitions) == wanted {
                return id;
            }
            number += 1;
        }
    }
}

impl StepToken {
    /// The token of the step at `ordinal` in a run, the same for every attempt.
    #[must_use]
    pub fn of_step(run: &RunId, ordinal: u32) -> Self {
        Self(derived("step", &[run.as_str(), &ordinal.to_string()]))
    }
}

/// What orders a set of events: everything under one key is read in the order it was written, and stays in
/// one partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StreamKey(Arc<str>);

impl StreamKey {
    /// A session with all its runs.
    #[must_use]
    pub fn session(session: &SessionId) -> Self {
        Self(format!("session:{session}").into())
    }

    /// The partition's own facts (claims).
    #[must_use]
    pub fn partition(partition: PartitionId) -> Self {
        Self(format!("partition:{partition}").into())
    }

    /// An idempotency key of a user.
    #[must_use]
    pub fn idempotency(key: Uuid) -> Self {
        Self(format!("key:{key}").into())
    }

    /// All schedules of one owner, or of nobody. Owners are not named in keys.
    #[must_use]
    pub fn schedules(owner: Option<&UserId>) -> Self {
        let parts: Vec<&str> = owner.iter().map(|owner| owner.as_str()).collect();
        Self(format!("schedules:{}", derived("schedules", &parts)).into())
    }

    /// A stored key.
    #[must_use]
    pub fn trusted(text: &str) -> Self {
        Self(text.into())
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The session that this stream belongs to, if it is a session's.
    #[must_use]
    pub fn as_session(&self) -> Option<SessionId> {
        self.0.strip_prefix("session:").map(SessionId::trusted)
    }

    /// What a Kafka record of this stream is keyed by: the session's id, or the whole key for other streams.
    #[must_use]
    pub fn record_key(&self) -> &str {
        self.0.strip_prefix("session:").unwrap_or(&self.0)
    }

    /// The partition of this stream among `partitions`: Java's murmur2 rule over [`StreamKey::record_key`], so
    /// a publisher that keys its commands by session with Kafka's default partitioner finds it.
    #[must_use]
    pub fn partition_of(&self, partitions: u32) -> PartitionId {
        PartitionId((murmur2(self.record_key().as_bytes()) & 0x7fff_ffff) % partitions.max(1))
    }
}

impl fmt::Display for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Kafka's own hash (`org.apache.kafka.common.utils.Utils.murmur2`).
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash: u32 = 0x9747_b28c ^ u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut chunks = data.chunks_exact(4);
    for chunk in &mut chunks {
        let mut k = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    let rest = chunks.remainder();
    for (index, byte) in rest.iter().enumerate().rev() {
        hash ^= u32::from(*byte) << (8 * index);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publishers_id_names_a_run_of_its_session_and_an_own_id_one_run_everywhere() {
        let (one, two) = (SessionId::trusted("one"), SessionId::trusted("two"));
        let published = CommandId::trusted("order-17");
        assert_ne!(RunId::of_command(&published, &one), RunId::of_command(&published, &two));
        assert_eq!(RunId::of_command(&published, &one), RunId::of_command(&published, &one));
        let own = CommandId::own(derived("test", &["key"]));
        assert_eq!(RunId::of_command(&own, &one), RunId::of_command(&own, &two));
    }

    #[test]
    fn partitions_follow_the_java_client() {
        // Values from Kafka's own UtilsTest.testMurmur2.
        for (text, hash) in
            [("21", -973_932_308_i32), ("foobar", -790_332_482), ("a-little-bit-long-string", -985_981_536)]
        {
            assert_eq!(murmur2(text.as_bytes()), hash.cast_unsigned(), "{text}");
        }
    }

    #[test]
    fn derived_ids_keep_parts_apart() {
        assert_ne!(derived("run", &["ab", "c"]), derived("run", &["a", "bc"]));
        assert_eq!(derived("run", &["ab"]), derived("run", &["ab"]));
    }

    #[test]
    fn ids_refuse_what_cannot_be_printed() {
        assert_eq!(SessionId::parse("a\0b"), Err(IdError::Control { code: 0, at: 1 }));
        assert_eq!(SessionId::parse(""), Err(IdError::Empty));
        assert!(SessionId::parse(&"x".repeat(256)).is_err());
        assert!(SessionId::parse("Zoë 🙂").is_ok());
    }
}
