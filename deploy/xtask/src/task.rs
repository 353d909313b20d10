//! One command: how it is written, and how it fails.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, bail};

/// A command that is to succeed. It gets no standard input, so nothing can wait for an answer.
#[derive(Debug)]
pub(crate) struct Task {
    command: Command,
}

impl Task {
    /// `program` in the folder `dir`.
    pub(crate) fn new(program: impl Into<OsString>, dir: &Path) -> Self {
        let mut command = Command::new(program.into());
        command.current_dir(dir).stdin(Stdio::null());
        Self { command }
    }

    /// Adds arguments.
    pub(crate) fn args(mut self, args: &[impl AsRef<OsStr>]) -> Self {
        self.command.args(args);
        self
    }

    /// Sets a variable of the environment.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// The command as one would type it.
    pub(crate) fn line(&self) -> String {
        let set = |(name, value): (&OsStr, Option<&OsStr>)| Some(format!("{}={}", name.display(), value?.display()));
        let variables = self.command.get_envs().filter_map(set);
        let program = Path::new(self.command.get_program());
        let name = program.file_name().unwrap_or(program.as_os_str()).display().to_string();
        let args = self.command.get_args().map(|arg| arg.display().to_string());
        variables.chain([name]).chain(args).collect::<Vec<_>>().join(" ")
    }

    /// Runs it, its output going where ours goes.
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        let line = self.line();
        let status = self.command.status().with_context(|| format!("`{line}` did not start"))?;
        if !status.success() {
            bail!("`{line}` failed: {status}");
        }
        Ok(())
    }

    /// Sends its output there instead.
    pub(crate) fn output_to(mut self, file: &File) -> anyhow::Result<Self> {
        let copy = || file.try_clone().context("the file for the output cannot be shared");
        self.command.stdout(copy()?).stderr(copy()?);
        Ok(self)
    }

    /// Whether it runs and succeeds; what it prints is of no interest.
    pub(crate) fn succeeds(mut self) -> anyhow::Result<bool> {
        let line = self.line();
        match self.command.stdout(Stdio::null()).stderr(Stdio::null()).status() {
            Ok(status) => Ok(status.success()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| format!("`{line}` did not start")),
        }
    }
}
