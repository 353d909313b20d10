//! The views as their users meet them: real files, real logs, the rules by name.

mod approvals;
mod audit;
mod expand;
mod follow;
mod generator;
mod growth;
mod history;
mod metrics;
mod opening;
mod pages;
mod rebuild;
mod refold;
mod rows;
mod scope;
