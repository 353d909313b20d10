//! Servers that a test scripts: a model that answers as oddly as it is told, and a tool that notes every call.
//!
//! They are real HTTP servers on real sockets. The crate `reenact-agents` compiles this file into its own
//! tests too, so it uses nothing else of this one.

pub mod anthropic;
pub mod gemini;
mod ledger;
mod model;
mod reply;
mod server;

pub use ledger::{LedgerStub, ToolRequest};
pub use model::{ModelRequest, ModelStub};
pub use reply::Reply;
