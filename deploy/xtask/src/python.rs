//! The Python that the conformance tests drive Agno's own client with, and that runs the example which publishes
//! commands: a virtual environment of our own.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use crate::place::Place;

const REQUIREMENTS: &str = include_str!("../python-requirements.txt");

const NO_PYTHON: &str =
    "`python3` is not to be had: install Python 3.9 or newer (Debian: `apt-get install python3 python3-venv`)";
const NO_VENV: &str =
    "`python3 -m venv` failed: install Python's venv module (Debian: `apt-get install python3-venv`) and try again";

/// Where the interpreter is, once [`set_up`] has run.
pub(crate) fn interpreter(place: &Place) -> PathBuf {
    let folder = if cfg!(windows) { "Scripts" } else { "bin" };
    place.tools("python").join(folder).join(format!("python{}", env::consts::EXE_SUFFIX))
}

/// Makes the environment, or leaves it alone when it already has what is asked for.
pub(crate) fn set_up(place: &Place) -> anyhow::Result<()> {
    let folder = place.tools("python");
    // Written last: an environment without it was interrupted and is made again.
    let installed = folder.join("installed.txt");
    if is_current(&installed) {
        println!("`{}` has what is needed", folder.display());
        return Ok(());
    }
    if !place.program("python3").args(&["--version"]).succeeds()? {
        bail!(NO_PYTHON);
    }
    place.program("python3").args(&["-m", "venv", "--clear"]).args(&[&folder]).run().context(NO_VENV)?;
    let wanted = folder.join("requirements.txt");
    write(&wanted, REQUIREMENTS)?;
    let pip = place.program(interpreter(place)).args(&["-m", "pip", "install", "--quiet"]);
    let pip = pip.args(&["--disable-pip-version-check", "--no-input", "--requirement"]).args(&[&wanted]);
    pip.run().context("what Python needs could not be installed: is Python's package index reachable?")?;
    place.program(interpreter(place)).args(&["-c", "import agno.client, confluent_kafka"]).run()?;
    write(&installed, REQUIREMENTS)
}

fn is_current(installed: &Path) -> bool {
    // An unreadable file is as good as none: the environment is made again.
    fs::read_to_string(installed).is_ok_and(|text| text == REQUIREMENTS)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("`{}` cannot be written", path.display()))
}
