//! How the state store is laid out. Keys are a kind, length-prefixed names, and big-endian numbers, so that
//! a scan of a prefix is in the order that the numbers have.
//!
//! What an idle session leaves (its state and its runs that have ended) are neighbours, since whoever wakes it reads
//! them together; what is at work stands apart from it, so that the many that rest are not moved by the few that do
//! not. Runs are found by session and index. Their ids are in no order, so all that stands under one is the place.

use reenact_events::{CommandId, RunId, ScheduleId, SessionId, StreamKey, Timestamp};
use uuid::Uuid;

/// What the stored shapes are called; a change of any of them must change this text, so that a store of
/// another shape is discarded and folded again.
pub const SHAPES: &[&str] = &[
    "head:1",
    "session:4",
    "place:1",
    "origin:4",
    "open:6",
    "step:5",
    "end:10",
    "agent:json:1",
    "indexes:4",
    "taken:1",
    "losses:1",
    "values:json:1",
    "key:1",
    "schedule:1",
];

fn key(kind: u8, names: &[&str]) -> Vec<u8> {
    let mut key = Vec::with_capacity(64);
    key.push(kind);
    for name in names {
        key.extend_from_slice(&u16::try_from(name.len()).unwrap_or(u16::MAX).to_be_bytes());
        key.extend_from_slice(name.as_bytes());
    }
    key
}

fn numbered(kind: u8, name: &str, number: u64) -> Vec<u8> {
    let mut key = key(kind, &[name]);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The next sequence of a stream that is no session's.
#[must_use]
pub fn head(stream: &StreamKey) -> Vec<u8> {
    key(b'n', &[stream.as_str()])
}

/// A session's state, with the next sequence of its stream.
#[must_use]
pub fn session(session: &SessionId) -> Vec<u8> {
    key(b's', &[session.as_str()])
}

/// The state that a session's runs share, if it has any.
#[must_use]
pub fn values(session: &SessionId) -> Vec<u8> {
    key(b'v', &[session.as_str()])
}

/// Where a run is to be found, by its id.
#[must_use]
pub fn place(run: &RunId) -> Vec<u8> {
    key(b'r', &[run.as_str()])
}

/// What a run in parts was accepted with.
#[must_use]
pub fn origin(session: &SessionId, index: u64) -> Vec<u8> {
    numbered(b'o', session.as_str(), index)
}

/// A step of a run in parts.
#[must_use]
pub fn step(session: &SessionId, index: u64, step: u32) -> Vec<u8> {
    let mut key = steps(session, index);
    key.extend_from_slice(&step.to_be_bytes());
    key
}

/// All steps of a run in parts.
#[must_use]
pub fn steps(session: &SessionId, index: u64) -> Vec<u8> {
    numbered(b't', session.as_str(), index)
}

/// Stays of a command that took effect and is not known by its run, so that a repeat of it has none.
#[must_use]
pub fn taken(command: &CommandId) -> Vec<u8> {
    key(b'q', &[command.as_str()])
}

/// The request that an idempotency key stands for.
#[must_use]
pub fn used_key(id: Uuid) -> Vec<u8> {
    let mut key = vec![b'k'];
    key.extend_from_slice(id.as_bytes());
    key
}

/// A schedule.
#[must_use]
pub fn schedule(id: &ScheduleId) -> Vec<u8> {
    key(b'z', &[id.as_str()])
}

/// Index: a schedule by its name, in the stream of its owner's.
#[must_use]
pub fn schedule_name(stream: &StreamKey, name: &str) -> Vec<u8> {
    key(b'y', &[stream.as_str(), name])
}

/// All entries of [`schedule_name`] in one stream.
#[must_use]
pub fn schedule_names(stream: &StreamKey) -> Vec<u8> {
    key(b'y', &[stream.as_str()])
}

/// Every schedule for which something is to be done, by when.
pub const WAKES: &[u8] = b"w";

/// Index: a schedule by the moment at which something is to be done for it.
#[must_use]
pub fn wake(at: Timestamp, id: &ScheduleId) -> Vec<u8> {
    let mut key = WAKES.to_vec();
    // Moments before 1970 are as good as 1970: they are over.
    key.extend_from_slice(&u64::try_from(at.0).unwrap_or(0).to_be_bytes());
    key.extend_from_slice(id.as_str().as_bytes());
    key
}

/// The moment that a key of [`WAKES`] names.
#[must_use]
pub fn moment_of_wake(key: &[u8]) -> Option<Timestamp> {
    let (moment, _) = key.strip_prefix(WAKES)?.split_first_chunk()?;
    i64::try_from(u64::from_be_bytes(*moment)).ok().map(Timestamp)
}

/// How often a loss of events was accepted in the partition.
pub const LOSSES: &[u8] = b"x";

/// An agent's version.
#[must_use]
pub fn agent(version: &str) -> Vec<u8> {
    key(b'a', &[version])
}

/// All versions that begin so, which are as long as all versions of users' own agents.
#[must_use]
pub fn own_agents(beginning: &str) -> Vec<u8> {
    let mut key = key(b'a', &[&format!("{beginning}{}", Uuid::nil())]);
    key.truncate(key.len() - Uuid::nil().to_string().len());
    key
}

/// All runs of a session: each is in one of these three.
#[must_use]
pub fn runs_of_session(session: &SessionId) -> [Vec<u8>; 3] {
    [ended(session, b'i'), completes_of_session(session), opens_of_session(session)]
}

/// The origins and the steps of all runs in parts of a session.
#[must_use]
pub fn parts_in_session(session: &SessionId) -> [Vec<u8>; 2] {
    [key(b'o', &[session.as_str()]), key(b't', &[session.as_str()])]
}

fn ended(session: &SessionId, how: u8) -> Vec<u8> {
    let mut key = self::session(session);
    key.push(how);
    key
}

/// A run that failed or was cancelled, by index.
#[must_use]
pub fn stopped_of_session(session: &SessionId, index: u64) -> Vec<u8> {
    let mut key = ended(session, b'i');
    key.extend_from_slice(&index.to_be_bytes());
    key
}

/// A completed run, by index: what a model may be shown.
#[must_use]
pub fn complete_of_session(session: &SessionId, index: u64) -> Vec<u8> {
    let mut key = completes_of_session(session);
    key.extend_from_slice(&index.to_be_bytes());
    key
}

/// The index that such a key ends with.
#[must_use]
pub fn index_of(key: &[u8]) -> Option<u64> {
    key.last_chunk().copied().map(u64::from_be_bytes)
}

/// All entries of [`complete_of_session`].
#[must_use]
pub fn completes_of_session(session: &SessionId) -> Vec<u8> {
    ended(session, b'h')
}

/// A run that has not ended, by index: its id and where it stands.
#[must_use]
pub fn open_of_session(session: &SessionId, index: u64) -> Vec<u8> {
    numbered(b'l', session.as_str(), index)
}

/// All entries of [`open_of_session`].
#[must_use]
pub fn opens_of_session(session: &SessionId) -> Vec<u8> {
    key(b'l', &[session.as_str()])
}

/// Every run of the partition that has not ended.
pub const OPEN_RUNS: &[u8] = b"l";

/// The session that a key names, if it is one of [`OPEN_RUNS`].
#[must_use]
pub fn session_of_open(key: &[u8]) -> Option<SessionId> {
    if key.first() != OPEN_RUNS.first() {
        return None;
    }
    let length = usize::from(u16::from_be_bytes([*key.get(1)?, *key.get(2)?]));
    let name = std::str::from_utf8(key.get(3..3 + length)?).ok()?;
    Some(SessionId::trusted(name))
}

/// Index: which sessions refer to a blob.
#[must_use]
pub fn blob_of_session(sha256: &str, session: &SessionId) -> Vec<u8> {
    key(b'b', &[sha256, session.as_str()])
}

/// All entries of [`blob_of_session`] for one blob.
#[must_use]
pub fn sessions_of_blob(sha256: &str) -> Vec<u8> {
    key(b'b', &[sha256])
}

/// Index: the blobs that a session refers to.
#[must_use]
pub fn blob_in_session(session: &SessionId, sha256: &str) -> Vec<u8> {
    key(b'c', &[session.as_str(), sha256])
}

/// All entries of [`blob_in_session`].
#[must_use]
pub fn blobs_in_session(session: &SessionId) -> Vec<u8> {
    key(b'c', &[session.as_str()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_a_prefix_of_another() {
        let short = opens_of_session(&SessionId::trusted("a"));
        let long = open_of_session(&SessionId::trusted("ab"), 1);
        assert!(!long.starts_with(&short));
    }

    #[test]
    fn an_open_run_tells_its_session() {
        let session = SessionId::trusted("sessiön");
        assert_eq!(session_of_open(&open_of_session(&session, 3)), Some(session));
    }
}
