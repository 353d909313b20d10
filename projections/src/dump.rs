//! All rows at once, to compare what two folds of the same log came to.

use std::fmt;

use reenact_events::{AgentId, RunId};
use serde::Serialize;
use serde_json::Value;

use crate::metrics::MetricsRow;
use crate::query::{ApprovalRow, RunEventRow, RunRow, SessionRow, StepRow};
use crate::schedules::{ScheduleRow, ScheduleRunRow};

/// Every row of the views, each table in the order of its key.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Dump {
    /// By session id.
    pub sessions: Vec<SessionRow>,
    /// By run id.
    pub runs: Vec<RunRow>,
    /// By run id, then sequence.
    pub run_events: Vec<(RunId, RunEventRow)>,
    /// By run id, then step.
    pub run_steps: Vec<StepRow>,
    /// By id.
    pub approvals: Vec<ApprovalRow>,
    /// By day, then user.
    pub metrics: Vec<MetricsRow>,
    /// By id.
    pub schedules: Vec<ScheduleRow>,
    /// By the attempt that they are about.
    pub schedule_runs: Vec<ScheduleRunRow>,
    /// By agent id, then version; the specification as JSON text.
    pub components: Vec<(AgentId, String, String)>,
}

/// Equal rows have equal digests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The digest of rows. Row by row, so that it needs no second copy of everything.
///
/// # Errors
/// Never for rows of this crate; the signature is `serde_json`'s.
pub fn digest(dump: &Dump) -> Result<Digest, serde_json::Error> {
    let mut hasher = blake3::Hasher::new();
    table(&mut hasher, &dump.sessions)?;
    table(&mut hasher, &dump.runs)?;
    table(&mut hasher, &dump.run_events)?;
    table(&mut hasher, &dump.run_steps)?;
    table(&mut hasher, &dump.approvals)?;
    table(&mut hasher, &dump.metrics)?;
    table(&mut hasher, &dump.schedules)?;
    table(&mut hasher, &dump.schedule_runs)?;
    table(&mut hasher, &dump.components)?;
    Ok(Digest(*hasher.finalize().as_bytes()))
}

fn table<T: Serialize>(hasher: &mut blake3::Hasher, rows: &[T]) -> Result<(), serde_json::Error> {
    hasher.update(&(rows.len() as u64).to_le_bytes());
    for row in rows {
        // Through a tree, whose keys are sorted: the order in which a fold sets them must not show.
        let json = sorted(serde_json::to_value(row)?).to_string();
        hasher.update(&(json.len() as u64).to_le_bytes());
        hasher.update(json.as_bytes());
    }
    Ok(())
}

/// The same tree with every object's keys in order, also when some crate turns on `serde_json`'s insertion
/// order for the whole build.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|left, right| left.0.cmp(&right.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(sorted).collect()),
        other => other,
    }
}
