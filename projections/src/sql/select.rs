//! Filters as SQL. The one place where a scope becomes a condition, so that no query can forget it.

use reenact_events::event::RunStatus;

use super::value::Value;
use crate::query::{Order, Paging, RunFilter, Scope, SessionFilter, SessionSort};

/// The most items that a page has.
pub(crate) const LIMIT_MAX: u64 = 1000;

/// A `WHERE` with its values.
#[derive(Debug)]
pub(super) struct Conditions {
    sql: String,
    /// The values, in the order of their question marks.
    pub(super) values: Vec<Value<'static>>,
}

impl Conditions {
    /// What the scope lets through: a user's own and what nobody owns.
    pub(super) fn within(scope: &Scope) -> Self {
        Self::within_by(scope, "owner IN (?, '')")
    }

    /// As [`Conditions::within`], where another index than the owner's leads to fewer rows.
    fn within_few(scope: &Scope) -> Self {
        Self::within_by(scope, "+owner IN (?, '')")
    }

    /// What is the scope's own: what nobody owns is not everybody's here.
    pub(super) fn of_owner(scope: &Scope) -> Self {
        Self::within_by(scope, "user_id = ?")
    }

    fn within_by(scope: &Scope, condition: &str) -> Self {
        let mut conditions = Self { sql: " WHERE true".to_owned(), values: Vec::new() };
        if let Scope::User(user) = scope {
            conditions.and(condition, user.as_str());
        }
        conditions
    }

    /// Narrows to where `condition` holds, which has one question mark for `value`.
    pub(super) fn and<'v>(&mut self, condition: &str, value: impl Into<Value<'v>>) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.push(value.into().into_owned());
    }

    /// Narrows to what comes after a place in the order of two columns.
    pub(super) fn and_after<'v>(&mut self, columns: &str, place: [Value<'v>; 2]) {
        self.sql.push_str(&format!(" AND ({columns}) > (?, ?)"));
        self.values.extend(place.map(Value::into_owned));
    }

    /// Narrows where there is a value.
    pub(super) fn and_some<'v, T: Into<Value<'v>>>(&mut self, condition: &str, value: Option<T>) {
        if let Some(value) = value {
            self.and(condition, value);
        }
    }

    fn and_statuses(&mut self, statuses: &[RunStatus], few: bool) {
        if statuses.is_empty() {
            return;
        }
        let plus = if few { "+" } else { "" };
        let marks = vec!["?"; statuses.len()].join(", ");
        self.sql.push_str(&format!(" AND {plus}status IN ({marks})"));
        self.values.extend(statuses.iter().map(|status| Value::from(status.as_str())));
    }

    /// As SQL.
    pub(super) fn sql(&self) -> &str {
        &self.sql
    }
}

/// The sessions that the filter names. A plus keeps SQLite from walking the sessions of an agent where it can
/// walk those of an owner, which are fewer.
pub(super) fn of_sessions(scope: &Scope, filter: &SessionFilter) -> Conditions {
    let mut conditions = Conditions::within(scope);
    let owned = *scope != Scope::Anyone || filter.user_id.is_some();
    conditions.and_some("session_type = ?", filter.session_type.as_deref());
    let agent = if owned { "+agent_id = ?" } else { "agent_id = ?" };
    conditions.and_some(agent, filter.component_id.as_deref());
    conditions.and_some("owner = ?", filter.user_id.as_ref().map(|user| user.as_str()));
    let name = filter.name.as_ref().map(|name| name.to_lowercase());
    conditions.and_some("instr(title_folded, ?) > 0", name.as_deref());
    conditions
}

/// How the sessions are sorted, and the index that a search by name reads from end to end.
pub(super) fn session_order(filter: &SessionFilter) -> (&'static str, &'static str) {
    let order = match (filter.sort, filter.order) {
        (SessionSort::CreatedAt, Order::Ascending) => " ORDER BY created_at, session_id",
        (SessionSort::CreatedAt, Order::Descending) => " ORDER BY created_at DESC, session_id DESC",
        (SessionSort::UpdatedAt, Order::Ascending) => " ORDER BY updated_at, session_id",
        (SessionSort::UpdatedAt, Order::Descending) => " ORDER BY updated_at DESC, session_id DESC",
    };
    let index = if filter.name.is_some() { " INDEXED BY sessions_by_title" } else { "" };
    (order, index)
}

/// The runs that the filter names. A plus keeps SQLite from an index whose entries are many where another
/// has fewer, or covers the query.
pub(super) fn of_runs(scope: &Scope, filter: &RunFilter) -> Conditions {
    let mut conditions = match &filter.session_id {
        Some(session) => {
            let mut conditions = Conditions::within_few(scope);
            conditions.and("session_id = ?", session.as_str());
            conditions
        }
        None => Conditions::within(scope),
    };
    let of_session = filter.session_id.is_some();
    let few = of_session || *scope != Scope::Anyone || filter.user_id.is_some();
    let agent = if few || !filter.statuses.is_empty() { "+agent_id = ?" } else { "agent_id = ?" };
    conditions.and_some(agent, filter.agent_id.as_deref());
    let owner = if of_session { "+owner = ?" } else { "owner = ?" };
    conditions.and_some(owner, filter.user_id.as_ref().map(|user| user.as_str()));
    let created = if of_session { "+created_at" } else { "created_at" };
    conditions.and_some(&format!("{created} >= ?"), filter.created_after);
    conditions.and_some(&format!("{created} <= ?"), filter.created_before);
    conditions.and_statuses(&filter.statuses, few);
    conditions
}

/// By creation; within a session by place, which a clock that was set back cannot change.
pub(super) fn run_order(filter: &RunFilter) -> &'static str {
    match (&filter.session_id, filter.order) {
        (Some(_), Order::Descending) => " ORDER BY run_index DESC, run_id DESC",
        (Some(_), Order::Ascending) => " ORDER BY run_index, run_id",
        (None, Order::Descending) => " ORDER BY created_at DESC, run_index DESC, run_id DESC",
        (None, Order::Ascending) => " ORDER BY created_at, run_index, run_id",
    }
}

/// `LIMIT` and `OFFSET`; pages count from 1, and no number is too large.
pub(super) fn limit_and_offset(paging: Paging) -> (u64, u64) {
    let limit = paging.limit.clamp(1, LIMIT_MAX);
    (limit, paging.page.saturating_sub(1).saturating_mul(limit))
}
