//! The command line. One file per command; client commands speak HTTP to `--url`, `events`, `replay` and
//! `doctor` look at a log themselves.

mod approvals;
mod audit;
mod client;
mod completions;
mod config;
mod dead_letters;
mod decide;
mod doctor;
mod events;
mod folding;
mod fork;
mod log;
mod log_source;
mod metrics;
mod nodes;
mod options;
mod output;
mod projections;
mod replay;
mod run;
mod runs;
mod schedules;
mod schema;
mod serve;
mod sessions;
mod told;
mod users;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::ConfigError;

/// Event-sourced agents: every run survives a crash and goes on from its last journaled step.
#[derive(Debug, Parser)]
#[command(name = "reenact", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    /// Write JSON: one value; lists write one object a line.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve agents over HTTP.
    Serve(options::Configured),
    /// Run an agent and show its answer as it comes.
    Run(run::Run),
    /// List runs, show one, stop one, let one go on.
    #[command(subcommand)]
    Runs(runs::Runs),
    /// List what waits, or waited, for somebody.
    #[command(subcommand)]
    Approvals(approvals::Approvals),
    /// List sessions, show one, delete one.
    #[command(subcommand)]
    Sessions(sessions::Sessions),
    /// Erase a user whose content is sealed with their key, and read what came of it.
    #[command(subcommand)]
    Users(users::Users),
    /// List and make schedules, fire one, see what became of its due times.
    #[command(subcommand)]
    Schedules(schedules::Schedules),
    /// Read the log of a stopped or running deployment.
    #[command(subcommand)]
    Events(events::Events),
    /// Take the decisions of a recorded run once more, and tell where they come out otherwise.
    Replay(replay::Replay),
    /// List the generations of the views, fold another one beside the live one, swap to it, drop one.
    #[command(subcommand)]
    Projections(projections::Projections),
    /// Prove the rows equal to the log, build them as of a moment, sign and export the log's chain.
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Accept that a log has lost events, so that it is served again.
    #[command(subcommand)]
    Log(log::Log),
    /// List records of the command topic that are no commands, show one, send one again.
    #[command(subcommand)]
    DeadLetters(dead_letters::DeadLetters),
    /// Show runs, tokens and cost by day, as a table or a picture.
    Metrics(metrics::Metrics),
    /// Show the nodes of a deployment and what each owns.
    Nodes(nodes::Nodes),
    /// Show what a command on the topic may look like, as JSON Schema.
    Schema(schema::Schema),
    /// Show the configuration and where each value comes from.
    Config(options::Configured),
    /// Look for what keeps `serve` from working.
    Doctor(options::Configured),
    /// Write a completion script for a shell.
    Completions(completions::Completions),
}

/// Runs the program on the process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let done = runtime.block_on(dispatch(cli));
            // Nothing that is acknowledged waits on a thread: what is left may be cut off.
            runtime.shutdown_timeout(std::time::Duration::from_secs(1));
            finish(done)
        }
        Err(error) => finish(Err(error.into())),
    }
}

async fn dispatch(cli: Cli) -> anyhow::Result<()> {
    let json = cli.json;
    match cli.command {
        Command::Serve(options) => serve::serve(&options).await,
        Command::Run(command) => command.execute(json).await,
        Command::Runs(command) => command.execute(json).await,
        Command::Approvals(command) => command.execute(json).await,
        Command::Sessions(command) => command.execute(json).await,
        Command::Users(command) => command.execute(json).await,
        Command::Schedules(command) => command.execute(json).await,
        Command::Events(command) => command.execute(json).await,
        Command::Replay(command) => command.execute(json).await,
        Command::Audit(command) => command.execute(json).await,
        Command::Projections(command) => command.execute(json).await,
        Command::Log(command) => command.execute(json).await,
        Command::DeadLetters(command) => command.execute(json).await,
        Command::Metrics(command) => command.execute(json).await,
        Command::Nodes(command) => command.execute(json).await,
        Command::Schema(command) => command.write(),
        Command::Config(options) => config::show(&options, json),
        Command::Doctor(options) => doctor::examine(&options, json).await,
        Command::Completions(command) => command.write(),
    }
}

/// Tells what went wrong, and which exit status that is.
fn finish(done: anyhow::Result<()>) -> ExitCode {
    let Err(error) = done else { return ExitCode::SUCCESS };
    // Whoever reads our output may have read enough: `reenact events list | head`.
    let closed = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(closed) {
        return ExitCode::SUCCESS;
    }
    if !error.is::<told::Told>() {
        eprintln!("error: {}", explain(&error));
    }
    let code = error.downcast_ref::<ConfigError>().map_or(1, ConfigError::exit_code);
    ExitCode::from(code)
}

/// The error with its causes, without those that it tells itself.
fn explain(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |told, cause| match cause.to_string() {
        cause if told.contains(&cause) => told,
        cause if told.is_empty() => cause,
        cause => format!("{told}: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_key_is_an_option_of_serve() {
        let cli = Cli::try_parse_from(["reenact", "serve", "--data", "d", "--drain-s", "5", "--json"]).unwrap();
        let Command::Serve(options) = cli.command else { unreachable!() };
        assert_eq!(options.flags["data"], "d");
        assert_eq!(options.flags["drain-s"], "5");
        assert!(cli.json);
    }

    #[test]
    fn an_unknown_option_is_wrong_usage() {
        let error = Cli::try_parse_from(["reenact", "serve", "--dta", "d"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
    }
}
