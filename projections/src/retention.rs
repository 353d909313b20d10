//! Which sessions a rule of retention names. Only what is at rest is named: a run that was accepted ends first.

use reenact_events::{SessionId, UserId};

/// Which sessions are not to be kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// Of this user; without one of everybody.
    pub user_id: Option<UserId>,
    /// That nobody has used since, epoch seconds; without it however long ago they were used.
    pub idle_since: Option<i64>,
    /// That are not among so many of their owner's that were used last; without it any.
    pub beyond_newest: Option<u64>,
}

/// A session that a rule names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resting {
    /// Which.
    pub session_id: SessionId,
    /// When it was last used, epoch seconds.
    pub updated_at: i64,
    /// How many runs it has had. Whoever deletes it says so, and deletes nothing if there are more by then.
    pub runs: u64,
}
