//! Looks for what a rule of retention names.

use reenact_events::{SessionId, event::RunStatus};

use super::{
    database::Database,
    select::Conditions,
    value::{Row, Unreadable, values},
};
use crate::{
    ViewError,
    query::Scope,
    retention::{Resting, Rule},
};

/// Sessions that the rule names, those that have rested longest first, from behind `after` on.
pub(crate) fn resting(
    database: Database<'_>,
    rule: &Rule,
    after: Option<&Resting>,
    limit: u64,
) -> Result<Vec<Resting>, ViewError> {
    let mut conditions = Conditions::within(&Scope::Anyone);
    conditions.and_some("owner = ?", rule.user_id.as_ref().map(|user| user.as_str()));
    conditions.and_some("updated_at < ?", rule.idle_since);
    conditions.and_some(BEYOND, rule.beyond_newest);
    if let Some(after) = after {
        conditions.and_after("updated_at, session_id", values![after.updated_at, after.session_id.as_str()]);
    }
    let at_rest = RunStatus::ALL.into_iter().filter(|status| status.is_end()).map(RunStatus::as_str);
    let at_rest = at_rest.map(|status| format!("'{status}'")).collect::<Vec<_>>().join(", ");
    let sql = format!(
        "SELECT session_id, updated_at,
                (SELECT max(run_index) FROM runs WHERE runs.session_id = sessions.session_id)
         FROM sessions{}
           AND NOT EXISTS (SELECT 1 FROM runs
                           WHERE runs.session_id = sessions.session_id AND status NOT IN ({at_rest}))
         ORDER BY updated_at, session_id LIMIT {limit}",
        conditions.sql(),
    );
    database.query(&sql, &conditions.values, read)
}

/// Behind so many of the same owner.
const BEYOND: &str = "session_id IN (
    SELECT session_id FROM (
        SELECT session_id, row_number() OVER (PARTITION BY owner ORDER BY updated_at DESC, session_id DESC) AS place
        FROM sessions
    ) AS placed WHERE place > ?)";

fn read(row: &Row<'_>) -> Result<Resting, Unreadable> {
    Ok(Resting {
        session_id: SessionId::trusted(&row.text(0)?),
        updated_at: row.get(1)?,
        runs: row.get::<Option<u64>>(2)?.map_or(0, |index| index + 1),
    })
}
