//! Log lines, to standard error.

use std::io::IsTerminal;

use anyhow::anyhow;
use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat};

/// ractor opens a span per actor; at `warn` an idle actor costs no live span.
const QUIET: &str = "ractor=warn";

/// Begins to write log lines as configured. `RUST_LOG` wins, as everywhere.
///
/// # Errors
/// When the filter cannot be read.
pub fn start(config: &Config, rust_log: Option<&str>) -> anyhow::Result<()> {
    let wanted = rust_log.filter(|filter| !filter.is_empty()).unwrap_or(&config.log_level);
    let filter = EnvFilter::builder()
        .parse(format!("{QUIET},{wanted}"))
        .map_err(|error| anyhow!("`{wanted}` is no log filter: {error}; try `info` or `info,reenact_server=debug`"))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A line that cannot be written is dropped: telling so on the same stream would panic, and a full disk that
    // holds the log file must not take the program with it.
    let lines = lines.with_ansi(std::io::stderr().is_terminal()).log_internal_errors(false);
    let started = match config.log_format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    started.map_err(|error| anyhow!("log lines cannot be written: {error}"))
}
