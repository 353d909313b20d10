//! Retention: sessions that are not to be kept are deleted through the log, each with the reason, so that a rebuild
//! does not bring them back.
//!
//! The views say which; whoever used one since keeps it, since the command says how many runs were seen. Several
//! nodes may do it at once: the second finds nothing.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc, time::Duration};

use axum::http::StatusCode;
use reenact_events::{Command, CommandBody, CommandId, SessionId, Timestamp, UserId, ids::derived};
use reenact_projections::retention::{Resting, Rule};

use crate::http::{
    error::ApiError,
    position::Token,
    state::{App, Services},
};

const SECONDS_A_DAY: i64 = 86_400;
/// Sessions that are looked for at once.
const BATCH: u64 = 500;
/// The most that one pass deletes, so that a pass ends.
pub const MOST: usize = 10_000;

/// How long sessions are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// Whose; without a user everybody's.
    pub user_id: Option<UserId>,
    /// Those that were used in so many days.
    pub days: Option<u32>,
    /// So many of each owner, those that were used last.
    pub newest: Option<u64>,
}

/// What came of a pass.
#[derive(Debug, Default)]
pub struct Pass {
    /// What was deleted, or would be.
    pub session_ids: BTreeSet<SessionId>,
    /// How many were left because they were used meanwhile.
    pub used: usize,
    /// Whether there is more to delete.
    pub more: bool,
    /// The last deletion.
    pub token: Option<Token>,
}

impl Policy {
    /// Whether it keeps everything for ever.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The rules that follow at a moment, each with what the log is to say. A session goes when any rule names it.
    fn rules(&self, now: Timestamp) -> Vec<(Rule, Arc<str>)> {
        let of_user = Rule { user_id: self.user_id.clone(), ..Rule::default() };
        let days = self.days.map(|days| {
            let idle_since = now.seconds() - i64::from(days) * SECONDS_A_DAY;
            let reason = format!("retention: nobody has used it for {days} days");
            (Rule { idle_since: Some(idle_since), ..of_user.clone() }, reason.into())
        });
        let newest = self.newest.map(|newest| {
            let reason = format!("retention: its owner has {newest} that were used later");
            (Rule { beyond_newest: Some(newest), ..of_user.clone() }, reason.into())
        });
        let rules: Vec<_> = days.into_iter().chain(newest).collect();
        match (rules.is_empty(), &self.user_id) {
            (true, Some(_)) => vec![(of_user, "retention: all sessions of its owner".into())],
            _ => rules,
        }
    }
}

/// Deletes what the policy does not keep, or only says what that is.
///
/// # Errors
/// When the views cannot be read or the node takes nothing; what was deleted by then is.
pub async fn apply(services: &Services, policy: &Policy, now: Timestamp, is_dry: bool) -> Result<Pass, ApiError> {
    let mut pass = Pass::default();
    for (rule, reason) in policy.rules(now) {
        let mut after: Option<Resting> = None;
        loop {
            let batch = services.views.resting(&rule, after.as_ref(), BATCH).await?;
            let Some(last) = batch.last() else { break };
            after = Some(last.clone());
            for resting in batch {
                if pass.session_ids.contains(&resting.session_id) {
                    continue;
                }
                if pass.session_ids.len() >= MOST {
                    return Ok(Pass { more: true, ..pass });
                }
                if is_dry {
                    pass.session_ids.insert(resting.session_id);
                } else {
                    delete(services, resting, reason.clone(), &mut pass).await?;
                }
            }
        }
    }
    Ok(pass)
}

async fn delete(services: &Services, resting: Resting, reason: Arc<str>, pass: &mut Pass) -> Result<(), ApiError> {
    let Resting { session_id, updated_at, runs } = resting;
    let seen = [session_id.as_str(), &updated_at.to_string(), &runs.to_string()];
    let id = CommandId::trusted(&derived("retention", &seen).to_string());
    let body = CommandBody::DeleteSession { session_id: session_id.clone(), runs: Some(runs), reason: Some(reason) };
    match services.submit(Command::new(id, None, body)).await {
        Ok((_, token)) => {
            pass.token = Some(token);
            pass.session_ids.insert(session_id);
        }
        Err(error) if error.status == StatusCode::NOT_FOUND => {}
        Err(error) if error.status == StatusCode::CONFLICT => pass.used += 1,
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Applies the policy now and then, for ever.
pub async fn for_ever(app: App, policy: Policy, period: Duration) -> Infallible {
    loop {
        match app.services() {
            Ok(services) => match apply(&services, &policy, app.now(), false).await {
                Ok(pass) if pass.session_ids.is_empty() => {}
                Ok(pass) => tracing::info!(deleted = pass.session_ids.len(), used = pass.used, "retention"),
                Err(error) => tracing::warn!(error = ?error.body.detail, "retention is tried again later"),
            },
            Err(_) => tracing::debug!("retention waits until everything is restored"),
        }
        tokio::time::sleep(period).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_policy_is_a_rule_of_its_own_and_nothing_names_nothing() {
        let now = Timestamp(100 * SECONDS_A_DAY * 1_000);
        let alice = Some(UserId::trusted("alice"));
        let rules = |policy: &Policy| policy.rules(now).into_iter().map(|(rule, _)| rule).collect::<Vec<_>>();
        assert!(Policy::default().is_empty() && rules(&Policy::default()).is_empty());
        let both = Policy { user_id: alice.clone(), days: Some(90), newest: Some(5) };
        let of_alice = Rule { user_id: alice.clone(), ..Rule::default() };
        let old = Rule { idle_since: Some(10 * SECONDS_A_DAY), ..of_alice.clone() };
        assert_eq!(rules(&both), [old, Rule { beyond_newest: Some(5), ..of_alice.clone() }]);
        assert_eq!(rules(&Policy { user_id: alice, ..Policy::default() }), [of_alice]);
    }
}
