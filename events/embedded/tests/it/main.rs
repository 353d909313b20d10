//! What is the embedded log's own: opening, damage, full disks, kills. The contract is tested in
//! `tests/contract` of the workspace.

mod damage;
mod disk;
mod killing;
mod opening;
mod reading;
mod support;
