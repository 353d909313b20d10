//! How the state store is laid out. Keys are a kind, length-prefixed names, and big-endian numbers, so that
//! a scan of a prefix is in the order that the numbers have.

use reenact_events::{CommandId, RunId, SessionId, StreamKey};

/// What the stored shapes are called; a change of any of them must change this text, so that a store of
/// another shape is discarded and folded again.
pub const SHAPES: &[&str] =
    &["head:1", "session:2", "run:1", "progress:1", "step:1", "agent:json:1", "indexes:3", "taken:1"];

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

/// A run: all of it, or what it was accepted with.
#[must_use]
pub fn run(run: &RunId) -> Vec<u8> {
    key(b'r', &[run.as_str()])
}

/// Stays of a run whose session was deleted, so that a repeat of its command does not start it again.
#[must_use]
pub fn deleted(run: &RunId) -> Vec<u8> {
    key(b'd', &[run.as_str()])
}

/// Where a run in parts stands.
#[must_use]
pub fn progress(run: &RunId) -> Vec<u8> {
    key(b'p', &[run.as_str()])
}

/// A step of a run in parts.
#[must_use]
pub fn step(run: &RunId, step: u32) -> Vec<u8> {
    numbered(b't', run.as_str(), step.into())
}

/// All steps of a run in parts.
#[must_use]
pub fn steps(run: &RunId) -> Vec<u8> {
    key(b't', &[run.as_str()])
}

/// Stays of a command that took effect and is not known by its run, so that a repeat of it has none.
#[must_use]
pub fn taken(command: &CommandId) -> Vec<u8> {
    key(b'q', &[command.as_str()])
}

/// An agent's version.
#[must_use]
pub fn agent(version: &str) -> Vec<u8> {
    key(b'a', &[version])
}

/// All runs of a session: each has its id in one of these three indexes.
#[must_use]
pub fn runs_of_session(session: &SessionId) -> [Vec<u8>; 3] {
    [key(b'i', &[session.as_str()]), histories_of_session(session), opens_of_session(session)]
}

/// Index: runs of a session that failed or were cancelled, by index.
#[must_use]
pub fn stopped_of_session(session: &SessionId, index: u64) -> Vec<u8> {
    numbered(b'i', session.as_str(), index)
}

/// Index: completed runs of a session, by index: what a model may be shown.
#[must_use]
pub fn history_of_session(session: &SessionId, index: u64) -> Vec<u8> {
    numbered(b'h', session.as_str(), index)
}

/// All entries of [`history_of_session`].
#[must_use]
pub fn histories_of_session(session: &SessionId) -> Vec<u8> {
    key(b'h', &[session.as_str()])
}

/// Index: runs of a session that have not ended, by index.
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

/// The session that an [`OPEN_RUNS`] key names.
#[must_use]
pub fn session_of_open(key: &[u8]) -> Option<SessionId> {
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
