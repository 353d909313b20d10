//! Virtual environments of our own: for the conformance tests, which drive Agno's own client, with the example that
//! publishes commands; and for the bench that AgentOS itself stands beside.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use crate::place::Place;

/// An environment below `target/tools`.
#[derive(Debug)]
pub(crate) struct Environment {
    folder: &'static str,
    requirements: &'static str,
    /// What can be imported when all is well.
    imports: &'static str,
}

/// What the tests need.
pub(crate) const FOR_TESTS: Environment = Environment {
    folder: "python",
    requirements: include_str!("../python-requirements.txt"),
    imports: "import agno.client, confluent_kafka, duckdb",
};

/// What the bench needs.
pub(crate) const FOR_BENCH: Environment = Environment {
    folder: "agno",
    requirements: include_str!("../agno-requirements.txt"),
    imports: "import agno.os, agno.db.postgres, agno.models.openai, uvicorn",
};

const NO_PYTHON: &str =
    "`python3` is not to be had: install Python 3.9 or newer (Debian: `apt-get install python3 python3-venv`)";
const NO_VENV: &str =
    "`python3 -m venv` failed: install Python's venv module (Debian: `apt-get install python3-venv`) and try again";

impl Environment {
    /// Where the interpreter is, once [`Environment::set_up`] has run.
    pub(crate) fn interpreter(&self, place: &Place) -> PathBuf {
        let folder = if cfg!(windows) { "Scripts" } else { "bin" };
        place.tools(self.folder).join(folder).join(format!("python{}", env::consts::EXE_SUFFIX))
    }

    /// Makes the environment, or leaves it alone when it already has what is asked for.
    pub(crate) fn set_up(&self, place: &Place) -> anyhow::Result<()> {
        let folder = place.tools(self.folder);
        // Written last: an environment without it was interrupted and is made again.
        let installed = folder.join("installed.txt");
        if self.is_current(&installed) {
            println!("`{}` has what is needed", folder.display());
            return Ok(());
        }
        if !place.program("python3").args(&["--version"]).succeeds()? {
            bail!(NO_PYTHON);
        }
        place.program("python3").args(&["-m", "venv", "--clear"]).args(&[&folder]).run().context(NO_VENV)?;
        let wanted = folder.join("requirements.txt");
        write(&wanted, self.requirements)?;
        let python = self.interpreter(place);
        let pip = place.program(&python).args(&["-m", "pip", "install", "--quiet"]);
        let pip = pip.args(&["--disable-pip-version-check", "--no-input", "--requirement"]).args(&[&wanted]);
        pip.run().context("what Python needs could not be installed: is Python's package index reachable?")?;
        place.program(&python).args(&["-c", self.imports]).run()?;
        write(&installed, self.requirements)
    }

    fn is_current(&self, installed: &Path) -> bool {
        // An unreadable file is as good as none: the environment is made again.
        fs::read_to_string(installed).is_ok_and(|text| text == self.requirements)
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("`{}` cannot be written", path.display()))
}
