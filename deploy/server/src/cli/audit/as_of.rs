//! `reenact audit as-of`: the rows as they were.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use reenact_projections::{Loader, audit::Snapshot};
use serde_json::json;

use super::{
    cut::{self, Cut, Moment},
    tables::{TableFormat, write_tables},
};
use crate::cli::{
    folding::{Limit, fold_all},
    log_source::{At, Source},
    output,
};

/// Build the rows as they were at a moment.
///
/// They are folded from the log alone, whatever the live rows say. Nothing of the deployment is changed, and nothing
/// that is there is written over.
#[derive(Debug, Args)]
pub(in crate::cli) struct AsOf {
    /// A time, as 2026-11-30T12:00:00Z, or offsets, as 0=123,1=77: up to and with those.
    #[arg(value_name = "MOMENT")]
    moment: Moment,
    /// The SQLite file, or for the other formats the folder, that is made.
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    /// What is made: a SQLite database, or a file for each table.
    #[arg(long, value_enum, default_value_t = Format::Sqlite)]
    format: Format,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Sqlite,
    Jsonl,
    Csv,
    Parquet,
}

impl Format {
    /// As a file for each table is written; none where all are in one.
    fn of_tables(self) -> Option<TableFormat> {
        match self {
            Self::Sqlite => None,
            Self::Jsonl => Some(TableFormat::Jsonl),
            Self::Csv => Some(TableFormat::Csv),
            Self::Parquet => Some(TableFormat::Parquet),
        }
    }
}

impl AsOf {
    pub(super) fn execute(self, json: bool) -> anyhow::Result<()> {
        refuse_target(&self.to)?;
        let mut source = self.at.open()?;
        let cut = self.moment.cut(&source)?;
        let draft = draft(&self.to)?;
        match self.format.of_tables() {
            None => build(&mut source, &draft, &cut)?,
            Some(format) => {
                fs::create_dir(&draft).with_context(|| unwritable(&draft))?;
                let database = draft.join("rows.db");
                build(&mut source, &database, &cut)?;
                write_tables(&Snapshot::open(&database, source.partitions())?, &draft, format)?;
                fs::remove_file(&database).with_context(|| unwritable(&database))?;
            }
        }
        keep(&draft, &self.to)?;
        let (to, cut) = (self.to.display().to_string(), cut::told(&cut));
        if json {
            return output::json(&json!({ "path": to, "log_id": source.log_id(), "cut": cut }));
        }
        output::lines([format!("written to {to}: the rows as of {cut}")])
    }
}

/// Where something is made before it is whole. What an earlier try left there is removed.
pub(super) fn draft(target: &Path) -> anyhow::Result<PathBuf> {
    let mut name: OsString = target.as_os_str().to_owned();
    name.push(".partial");
    let draft = PathBuf::from(name);
    let removed = if draft.is_dir() { fs::remove_dir_all(&draft) } else { fs::remove_file(&draft) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).with_context(|| unwritable(&draft)),
        _ => Ok(draft),
    }
}

/// Gives what is whole its name.
pub(super) fn keep(draft: &Path, target: &Path) -> anyhow::Result<()> {
    // Somebody may have made it meanwhile.
    refuse_target(target)?;
    fs::rename(draft, target).with_context(|| unwritable(target))
}

pub(super) fn refuse_target(target: &Path) -> anyhow::Result<()> {
    if fs::symlink_metadata(target).is_ok() {
        bail!("`{}` is there already, and nothing is written over: name another path", target.display());
    }
    match target.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        Some(folder) => bail!("there is no folder `{}` to write to: make it first", folder.display()),
        None => Ok(()),
    }
}

pub(super) fn unwritable(path: &Path) -> String {
    format!("`{}` cannot be written", path.display())
}

fn build(source: &mut Source, database: &Path, cut: &Cut) -> anyhow::Result<()> {
    let mut loader = Loader::open(database, source.log_id(), source.partitions())?;
    fold_all(source, &mut loader, cut, Limit::None, "as of")?;
    Ok(loader.close_alone()?)
}
