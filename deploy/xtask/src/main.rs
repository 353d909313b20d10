//! The project's chores as commands: `cargo xtask verify | simulate | chaos | bench | kafka`.
//!
//! `verify` is what CI runs and all that CI runs. Everything is built with the features of the whole
//! workspace (`--workspace`, never `--package`), so that no dependency is built twice for two feature sets.

mod bench;
mod chaos;
mod deny;
mod java;
mod kafka;
mod packages;
mod place;
mod python;
mod simulate;
mod task;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{bench::Bench, chaos::Storm, kafka::Kafka, place::Place, simulate::Seeds};

/// The chores of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Everything that CI runs, set-up included.
    Verify {
        /// Only these checks, by the names that the summary lists.
        checks: Vec<String>,
    },
    /// Runs the whole system on virtual time, once per seed.
    Simulate(Seeds),
    /// Kills, freezes, adds and removes real nodes and brokers while runs come and go.
    Chaos(Storm),
    /// Runs the benches, or one of them.
    Bench(Bench),
    /// A real Apache Kafka on this machine: up, down, and what can go wrong in between.
    Kafka(Kafka),
}

fn main() -> ExitCode {
    match run(Cli::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> anyhow::Result<()> {
    let place = Place::find()?;
    match chore {
        Chore::Verify { checks } => verify::run(&place, &checks),
        Chore::Simulate(seeds) => seeds.task(&place).run(),
        Chore::Chaos(storm) => storm.run(&place),
        Chore::Bench(bench) => bench.run(&place),
        Chore::Kafka(kafka) => kafka::run(kafka),
    }
}
