//! `reenact serve`: binds, restores, serves, and goes down in order.

use std::{io::Write, net::SocketAddr, time::Duration};

use anyhow::{Context, bail};
use axum::{ServiceExt, extract::Request};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{
    config::{Agents, Config},
    http::{router, state::App},
    progress,
    wiring::{self, Deployment},
};

/// Tells the person who started it. Nobody reads a standard output that cannot be written.
macro_rules! say {
    ($($told:tt)*) => { writeln!(std::io::stdout(), $($told)*).unwrap_or_default() };
}

/// How long open connections may take to end after the runs have.
const CONNECTIONS_END: Duration = Duration::from_secs(3);
/// How much longer than the drain window the node may take before it is left as it is: everything
/// acknowledged is durable anyway.
const CLOSE_SLACK: Duration = Duration::from_secs(5);

/// Serves until `shutdown` comes, then goes down within the drain window and ten seconds.
///
/// # Errors
/// When an agent file is wrong, the address is taken or may not be served, or the data directory cannot be
/// used.
pub async fn run(config: Config, shutdown: impl Future<Output = ()> + Send) -> anyhow::Result<()> {
    let agents = wiring::agents(&config)?;
    guard_against_strangers(&config)?;
    let names: Vec<_> = agents.iter().map(|agent| agent.id.to_string()).collect();
    let listener = bind(config.listen).await?;
    let address = listener.local_addr().context("the address that is served is unknown")?;
    let app = wiring::app(&config, agents);
    let connections = serve(listener, &app, &config);
    let mut shutdown = std::pin::pin!(shutdown);
    let restored = tokio::select! {
        biased;
        restored = restore(&config, &app) => restored,
        () = &mut shutdown => {
            say!("stopped before everything was restored; nothing is lost");
            return Ok(());
        }
    };
    let deployment = restored?;
    welcome(&config, address, &names);
    for reason in app.reasons() {
        say!("  not ready   {reason}");
    }
    shutdown.await;
    close(&app, deployment, config.drain).await;
    end(&app, connections).await;
    say!("stopped; what was not finished goes on at the next start");
    Ok(())
}

async fn restore(config: &Config, app: &App) -> anyhow::Result<Deployment> {
    let told = app.clone();
    let _progress = progress::while_alive(move || told.reasons().join("; "));
    wiring::restore(config, app).await
}

/// Nobody is asked who they are in this version, so only this machine is served unless that is wanted.
fn guard_against_strangers(config: &Config) -> anyhow::Result<()> {
    if config.listen.ip().is_loopback() {
        return Ok(());
    }
    if !config.allow_unauthenticated {
        bail!(
            "`{}` can be reached from other machines, and nobody is asked who they are: listen on 127.0.0.1, or say \
             `--allow-unauthenticated true` when a proxy in front of it does the asking",
            config.listen
        );
    }
    tracing::warn!(listen = %config.listen, "EVERYBODY WHO REACHES THIS ADDRESS CAN READ AND CHANGE EVERYTHING");
    Ok(())
}

async fn bind(listen: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(listen).await.with_context(|| {
        format!(
            "cannot listen on `{listen}`: is another `reenact serve` running? Stop it, or choose another `--listen`"
        )
    })
}

fn serve(listener: TcpListener, app: &App, config: &Config) -> JoinHandle<std::io::Result<()>> {
    let service = router::service(app.clone(), &config.cors_origins);
    let make = ServiceExt::<Request>::into_make_service(service);
    let gone = app.gone();
    let serving = axum::serve(listener, make).with_graceful_shutdown(async move { gone.cancelled().await });
    tokio::spawn(serving.into_future())
}

fn welcome(config: &Config, address: SocketAddr, agents: &[String]) {
    let Config { data, durability, agents: from, .. } = config;
    let from = match from {
        Agents::Folder(folder) => format!("from `{}`", folder.display()),
        Agents::FolderOrDemo(folder) if folder.is_dir() => format!("from `{}`", folder.display()),
        Agents::FolderOrDemo(_) => "built in; put your own into `./agents`".to_owned(),
    };
    let first = agents.first().map_or("demo", String::as_str);
    let url = if address.port() == 7777 { String::new() } else { format!(" --url http://{address}") };
    say!("reenact {} listens on http://{address}", env!("CARGO_PKG_VERSION"));
    say!("  agents      {} ({from})", agents.join(", "));
    say!("  data        {} (durability: {})", data.display(), durability.as_str());
    say!("  docs        http://{address}/docs");
    say!("  try it      reenact run {first} \"Hello\"{url}");
}

async fn close(app: &App, deployment: Deployment, drain: Duration) {
    app.leave();
    let (at_work, waiting) = deployment.load();
    tracing::info!(at_work, waiting, drain_s = drain.as_secs(), "shutting down");
    if tokio::time::timeout(drain + CLOSE_SLACK, deployment.close(drain)).await.is_err() {
        tracing::warn!("the node did not stop in time; what it acknowledged is in the log");
    }
}

/// Ends the open streams, and then what else is connected.
async fn end(app: &App, connections: JoinHandle<std::io::Result<()>>) {
    app.gone().cancel();
    let abort = connections.abort_handle();
    match tokio::time::timeout(CONNECTIONS_END, connections).await {
        Ok(Ok(Err(error))) => tracing::warn!(%error, "the connections did not end in order"),
        Ok(_) => {}
        Err(_) => abort.abort(),
    }
}
