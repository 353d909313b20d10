//! What a step is: how a model is asked, how a tool is called, and how an agent is declared.
//!
//! [`AgentSteps`] does the steps that runs decide on. It is given all that a step needs and keeps nothing of
//! a run, so a step can be done again by another process from what is journaled.
//!
//! **Guarantees.** One call is one request: nothing here tries again, so the attempts that the runtime counts
//! are the attempts that were made. What a model or a tool sends is never trusted to be well formed, and no
//! answer of theirs, however odd or large, does more harm than a clear error. Keys are read from the
//! environment when a call is made and stand in no specification, error, log line or `Debug` form.
//!
//! **Not here.** When a step is done, again, or not at all (`actors`).
//!
//! Read in this order: [`load_agents`] (agent files), `steps`, `arguments`, `model/protocol`, `tool/http`,
//! [`DirBlobs`].

mod agent_file;
mod arguments;
mod dir_blobs;
mod environment;
mod guardrail;
mod http;
mod key_file;
mod model;
mod output;
mod steps;
mod strict_json;
mod text;
mod tool;

pub use agent_file::{AgentFileError, demo_agent, load_agents, load_agents_with};
pub use dir_blobs::DirBlobs;
pub use environment::Environment;
pub use http::ANSWER_BYTES_MAX;
pub use steps::{AgentSteps, SetupError};
