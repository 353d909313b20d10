//! The schema, step by step: one set of steps for every database.
//!
//! A step that was released is never changed in what it does. They are written as SQLite takes them, with two remarks
//! for PostgreSQL (`postgres::dialect::definition`): `/* json */` behind the type of a column that holds JSON, and
//! `/* sqlite */` before an index that only SQLite needs.

/// Stands behind the type of a column that holds JSON.
pub(crate) const JSON: &str = "/* json */";

/// The steps in order; the number of the last one is the version of the schema.
pub(crate) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/001_views.sql"),
    include_str!("migrations/002_approvals.sql"),
    include_str!("migrations/003_metrics.sql"),
    include_str!("migrations/004_run_steps.sql"),
    include_str!("migrations/005_schedules.sql"),
];
