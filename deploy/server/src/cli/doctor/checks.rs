//! The checks. Each looks at one thing and changes nothing that was there.

use std::{io::ErrorKind, path::Path, sync::Arc, time::Duration};

use reenact_embedded::{EmbeddedLog, OpenError, Options};
use reenact_events::{
    EventLog,
    agent::{AgentSpec, ModelSpec},
};

use super::{Finding, Verdict, on_kafka};
use crate::{
    clock::SystemClock,
    config::{Config, LogPlace, ViewsPlace},
    wiring::log,
};

/// Less free space than this is a failure, less than ten times it a warning.
const FREE_BYTES_MIN: u64 = 100 << 20;
const MODEL_WAIT: Duration = Duration::from_secs(5);

/// The database server, where the views are on one.
pub(super) async fn database(config: &Config) -> Option<Finding> {
    const CHECK: &str = "database";
    let ViewsPlace::Postgres(address) = &config.views else { return None };
    Some(match address.server_version().await {
        Ok(version) => Finding::new(CHECK, Verdict::Ok, format!("{address:?} answers: PostgreSQL {version}")),
        Err(error) => Finding::new(CHECK, Verdict::Failure, format!("{error}: correct `--database`")),
    })
}

/// The directory exists and can be written, or can be made.
pub(super) fn data_directory(data: &Path) -> Finding {
    const CHECK: &str = "data directory";
    let shown = data.display();
    let Some(existing) = nearest_existing(data) else {
        return Finding::new(CHECK, Verdict::Failure, format!("`{shown}` cannot be made: no folder above it exists"));
    };
    if !existing.is_dir() {
        let text = format!("`{}` is no folder: choose another `--data`", existing.display());
        return Finding::new(CHECK, Verdict::Failure, text);
    }
    let probe = existing.join(format!(".reenact-doctor-{}", std::process::id()));
    let written = std::fs::write(&probe, b"probe").and_then(|()| std::fs::remove_file(&probe));
    match written {
        Ok(()) if existing == data => Finding::new(CHECK, Verdict::Ok, format!("`{shown}` can be written")),
        Ok(()) => Finding::new(CHECK, Verdict::Ok, format!("`{shown}` will be made")),
        Err(error) => {
            let text = format!("`{}` cannot be written ({error}): change its owner or mode", existing.display());
            Finding::new(CHECK, Verdict::Failure, text)
        }
    }
}

fn nearest_existing(path: &Path) -> Option<&Path> {
    let here = |path: &Path| if path.as_os_str().is_empty() { Path::new(".").exists() } else { path.exists() };
    let found = path.ancestors().find(|path| here(path))?;
    Some(if found.as_os_str().is_empty() { Path::new(".") } else { found })
}

/// There is room.
pub(super) fn free_disk(data: &Path) -> Finding {
    const CHECK: &str = "free disk";
    let Some(existing) = nearest_existing(data) else {
        return Finding::new(CHECK, Verdict::Warning, "unknown: there is no such folder");
    };
    let free = match rustix::fs::statvfs(existing) {
        Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize),
        Err(error) => return Finding::new(CHECK, Verdict::Warning, format!("unknown: {error}")),
    };
    let text = format!("{} MiB", free >> 20);
    match free {
        free if free < FREE_BYTES_MIN => Finding::new(CHECK, Verdict::Failure, format!("{text}: make room")),
        free if free < FREE_BYTES_MIN * 10 => Finding::new(CHECK, Verdict::Warning, format!("{text}: make room soon")),
        _ => Finding::new(CHECK, Verdict::Ok, text),
    }
}

/// The log can be used, wherever it is.
pub(super) async fn log(config: &Config) -> Vec<Finding> {
    match &config.log {
        LogPlace::Embedded => vec![embedded_log(config)],
        LogPlace::Kafka(kafka) => on_kafka::log(config, kafka).await,
    }
}

/// The log is ours, whole, and free or held by a running server.
fn embedded_log(config: &Config) -> Finding {
    const CHECK: &str = "log";
    let folder = log::folder(&config.data);
    if !folder.exists() {
        return match log::same_as_ever(&config.data, None) {
            Ok(()) => Finding::new(CHECK, Verdict::Ok, "none yet; the first start makes one"),
            Err(error) => Finding::new(CHECK, Verdict::Failure, format!("{error:#}")),
        };
    }
    match EmbeddedLog::open(&folder, Options::new(Arc::new(SystemClock))) {
        Ok(opened) => match log::same_as_ever(&config.data, Some(opened.log_id())) {
            Ok(()) => Finding::new(CHECK, Verdict::Ok, format!("`{}` can be opened", folder.display())),
            Err(error) => Finding::new(CHECK, Verdict::Failure, format!("{error:#}")),
        },
        Err(error @ OpenError::InUse { .. }) => Finding::new(CHECK, Verdict::Warning, error.to_string()),
        Err(error) => Finding::new(CHECK, Verdict::Failure, error.to_string()),
    }
}

/// The address is free, or a server of ours has it.
pub(super) async fn address(config: &Config) -> Finding {
    const CHECK: &str = "address";
    let listen = config.listen;
    match tokio::net::TcpListener::bind(listen).await {
        Ok(_) => Finding::new(CHECK, Verdict::Ok, format!("`{listen}` is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => match asks(&format!("http://{listen}/health")).await {
            Ok(()) => Finding::new(CHECK, Verdict::Warning, format!("`{listen}` is taken by a server that answers")),
            Err(_) => {
                let text = format!("`{listen}` is taken by something else: stop it, or choose another `--listen`");
                Finding::new(CHECK, Verdict::Failure, text)
            }
        },
        Err(error) => Finding::new(CHECK, Verdict::Failure, format!("`{listen}` cannot be served: {error}")),
    }
}

/// An agent's model can be reached and has its key.
pub(super) async fn model(agent: &AgentSpec, model: &ModelSpec) -> Option<Finding> {
    let check = format!("model {}", agent.id);
    if let Some(variable) = model.api_key_env.as_ref().filter(|variable| std::env::var_os(variable).is_none()) {
        let text = format!("the environment variable `{variable}` is not set: set it before `serve`");
        return Some(Finding::new(&check, Verdict::Warning, text));
    }
    let base = model.base_url.as_ref()?;
    Some(match asks(&format!("{}/models", base.trim_end_matches('/'))).await {
        Ok(()) => Finding::new(&check, Verdict::Ok, format!("`{base}` answers")),
        Err(why) => {
            let text = format!("`{base}` does not answer ({why}): start it, or correct `base_url`");
            Finding::new(&check, Verdict::Warning, text)
        }
    })
}

/// Any answer is an answer: whether the request is allowed is not asked here.
async fn asks(url: &str) -> Result<(), String> {
    let client = reqwest::Client::builder().timeout(MODEL_WAIT).build().map_err(|error| error.to_string())?;
    client
        .get(url)
        .send()
        .await
        .map(drop)
        .map_err(|error| if error.is_timeout() { "no answer in time".into() } else { root(&error) })
}

fn root(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_can_be_made_is_fine_and_a_file_in_its_place_is_not() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(data_directory(&folder.path().join("a/b")).verdict, Verdict::Ok);
        assert_eq!(data_directory(folder.path()).verdict, Verdict::Ok);
        std::fs::write(folder.path().join("file"), "x").unwrap();
        assert_eq!(data_directory(&folder.path().join("file/data")).verdict, Verdict::Failure);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[tokio::test]
    async fn a_taken_address_that_does_not_answer_is_a_failure() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = taken.local_addr().unwrap();
        std::thread::spawn(move || while taken.accept().is_ok() {});
        let flags = [("listen", listen.to_string())].into();
        let layers = crate::config::Layers::resolve(&flags, &|_| None, None).unwrap();
        let config = Config::from_layers(&layers).unwrap();
        assert_eq!(address(&config).await.verdict, Verdict::Failure);
    }
}
