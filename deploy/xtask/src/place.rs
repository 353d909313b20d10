//! Where the repository and its build output are, and the cargo that started us.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use anyhow::Context;

use crate::task::Task;

/// The folders that every chore needs.
#[derive(Debug)]
pub(crate) struct Place {
    cargo: OsString,
    root: PathBuf,
    /// Where cargo puts what it builds in the dev profile; this program is in it.
    built: PathBuf,
}

impl Place {
    /// Finds them from what cargo tells the programs that it runs.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let manifest = env::var_os("CARGO_MANIFEST_DIR").context("start this as `cargo xtask …`")?;
        let root = Path::new(&manifest).ancestors().nth(2).context("this crate is not two folders below the root")?;
        let program = env::current_exe().context("the path of this program is not known")?;
        let built = program.parent().context("this program is in no folder")?;
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Ok(Self { cargo, root: root.to_owned(), built: built.to_owned() })
    }

    /// A cargo command at the root of the repository.
    pub(crate) fn cargo(&self, args: &[&str]) -> Task {
        Task::new(&self.cargo, &self.root).args(args)
    }

    /// Any other command at the root of the repository.
    pub(crate) fn program(&self, program: impl Into<OsString>) -> Task {
        Task::new(program, &self.root)
    }

    /// The product, once it is built.
    pub(crate) fn product(&self) -> PathBuf {
        self.built.join(format!("reenact{}", env::consts::EXE_SUFFIX))
    }

    /// A folder for what set-up installs; it goes when the build output goes.
    pub(crate) fn tools(&self, name: &str) -> PathBuf {
        self.built.parent().unwrap_or(&self.built).join("tools").join(name)
    }
}
