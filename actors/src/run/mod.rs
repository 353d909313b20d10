//! A run: one message answered, step by step. Pure parts here; the actor is in [`crate::run_actor`].

pub mod decide;
pub mod evolve;
pub mod fork;
pub mod history;
mod instructions;
pub mod reenact;
pub mod state;
pub mod trim;

pub use decide::{Context, ReconcileAnswer, RunCommand, decide, history_lost, not_requeued};
pub use evolve::evolve;
pub use state::{Asked, Origin, RunState, Step, StepState};
