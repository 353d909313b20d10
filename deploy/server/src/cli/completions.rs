//! `reenact completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;

/// Write a completion script for a shell.
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// Which shell.
    shell: Shell,
}

impl Completions {
    pub(super) fn write(&self) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "reenact", &mut script);
        std::io::Write::write_all(&mut std::io::stdout().lock(), &script)?;
        Ok(())
    }
}
