//! The views as their users meet them: real files, a real server, real logs, the rules by name. What holds for every
//! database stands in `both` once and is run on each.

#![expect(clippy::duplicate_mod, reason = "one suite, run on each database")]

mod audit;
mod expand;
mod generator;
mod history;
mod postgres;
mod rows;
mod sqlite;
