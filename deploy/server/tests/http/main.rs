//! The HTTP API against a whole deployment in this process: real log, real views, real agents.

mod asked;
mod bad_input;
mod doubt;
mod life;
mod metrics;
mod runs;
mod schedules;
mod sessions;
mod streams;
mod support;
