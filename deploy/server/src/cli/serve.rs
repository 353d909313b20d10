//! `reenact serve`.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use super::options::Configured;
use crate::{server, telemetry};

/// Serves until SIGTERM or SIGINT; a second one ends the process at once.
pub(super) async fn serve(options: &Configured) -> anyhow::Result<()> {
    let config = options.config()?;
    telemetry::start(&config, std::env::var("RUST_LOG").ok().as_deref())?;
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be watched")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be watched")?;
    let shutdown = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        eprintln!("stopping: runs at work may end; once more to stop at once");
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            eprintln!("stopped at once; what is in the log goes on at the next start");
            std::process::exit(1);
        });
    };
    server::run(config, shutdown).await
}
