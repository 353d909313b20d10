//! Who acts: a node owns partitions, a partition routes to sessions, a session keeps its runs.
//!
//! An entity is two pure functions, `decide` and `evolve`; its actor is a thin shell: decide, commit,
//! evolve, perform, reply. Effects begin only after the events that announce them are committed, and what
//! is still owed can be read from the state, so that a killed actor or process costs a restart and nothing
//! else.
//!
//! **Guarantees.** A run whose acceptance was answered ends. A command takes effect once. A step that was
//! requested and has no outcome is asked again only as its declared effect allows. A panic in one run
//! touches no other.
//!
//! **Not here.** What a model or a tool is (`actors/agents`, behind [`step::Steps`]); what is read
//! (`projections`). This crate names no log, store, SQL or HTTP implementation.
//!
//! Read in this order: [`run`], [`session`], [`states`], [`partition`], [`session_actor`], [`run_actor`],
//! [`node`].

pub mod admission;
pub mod answers;
pub mod api;
mod effects;
mod family;
mod gateway;
pub mod keys;
pub mod live;
pub mod node;
pub mod partition;
pub mod run;
pub mod run_actor;
pub mod schedule;
pub mod schedule_actor;
pub mod session;
pub mod session_actor;
pub mod shared;
pub mod states;
pub mod step;

pub use node::NodeHandle;
pub use shared::{ForgetStore, OpenStore, Settings, Shared, Tools};
