//! The HTTP API, compatible with AgentOS in paths, forms, event names, status words, error body and
//! pagination. One file per resource; a handler turns a request into a command or a query and the answer
//! into JSON, and decides nothing.
//!
//! Where AgentOS is wrong this API is right: `page=0` is 422 and not 500, a full queue says when to come
//! back, a 202 is durable, and every stream, also an inline one, can be resumed.
//!
//! Read in this order: [`router`], [`state`], [`scope`], [`position`], [`runs`], [`frames`], [`feed`].

pub mod about;
pub mod agents;
pub mod approvals;
pub mod audit;
pub mod body;
pub mod cluster;
pub mod described;
pub mod docs;
pub mod error;
pub mod feed;
pub mod fields;
pub mod form;
pub mod frames;
pub mod idempotency;
pub mod ids;
pub mod json_body;
pub mod metrics;
pub mod paging;
pub mod position;
pub mod projections;
pub mod queue;
pub mod retention;
pub mod router;
pub mod runs;
pub mod schedules;
pub mod scope;
pub mod sessions;
pub mod shapes;
pub mod state;
pub mod stream;
pub mod uploads;
pub mod users;
