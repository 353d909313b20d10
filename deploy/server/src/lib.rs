//! The program `reenact`: HTTP API, command line, configuration and the wiring of the rooms.
//!
//! This is the only place that picks implementations ([`wiring`]) and the only one that knows sockets,
//! signals and environment variables. It holds no rule of the domain: handlers turn a request into a
//! command or a query and the answer into JSON.
//!
//! Read in this order: [`config`], [`wiring`], [`server`], [`http`], [`cli`].

pub mod anchors;
mod chart;
pub mod cli;
pub mod clock;
pub mod config;
pub mod erasure;
pub mod http;
pub mod progress;
pub mod retention;
pub mod scrubs;
pub mod server;
pub mod telemetry;
pub mod wiring;
