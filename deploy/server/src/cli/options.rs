//! Options that several commands share: the configuration's keys, and where the server is.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use crate::config::{Config, ConfigError, Flags, KEYS, Key, Layers};

/// `--config` and an option per key of the configuration.
#[derive(Debug, Clone, Default)]
pub(super) struct Configured {
    /// What the command line said.
    pub(super) flags: Flags,
    file: Option<PathBuf>,
}

/// Adds `--config` and an option for each of these keys.
pub(super) fn with_keys<'a>(command: Command, keys: impl Iterator<Item = &'a Key>) -> Command {
    let file = Arg::new("config").long("config").value_name("FILE").value_parser(clap::value_parser!(PathBuf));
    let file = file.help("The configuration file [default: ./reenact.toml if it exists] [env: REENACT_CONFIG]");
    let keys = keys.map(|key| {
        let default = if key.default.is_empty() { String::new() } else { format!(" [default: {}]", key.default) };
        let help = format!("{}{default} [env: {}]", key.help, key.variable());
        let arg = Arg::new(key.name).long(key.name).value_name("VALUE").help(help);
        // A switch may stand alone.
        if key.default == "false" { arg.num_args(0..=1).default_missing_value("true") } else { arg }
    });
    command.arg(file).args(keys)
}

impl Args for Configured {
    fn augment_args(command: Command) -> Command {
        with_keys(command, KEYS.iter())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Configured {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Self::default();
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        // A command may have fewer options than there are keys.
        let said = |key: &Key| matches.try_get_one::<String>(key.name).ok().flatten().cloned();
        let said = KEYS.iter().filter_map(|key| Some((key.name, said(key)?)));
        self.flags = said.collect();
        self.file = matches.get_one::<PathBuf>("config").cloned();
        Ok(())
    }
}

impl Configured {
    /// Every key with its value and where that comes from.
    pub(super) fn layers(&self) -> Result<Layers, ConfigError> {
        let environment = |name: &str| std::env::var(name).ok();
        let file = self.file.clone().or_else(|| environment("REENACT_CONFIG").map(PathBuf::from));
        Layers::resolve(&self.flags, &environment, file.as_deref())
    }

    /// The configuration.
    pub(super) fn config(&self) -> Result<Config, ConfigError> {
        Config::from_layers(&self.layers()?)
    }
}

/// Where the server is, and who asks.
#[derive(Debug, Clone, Args)]
pub(super) struct Server {
    /// Where the server is.
    #[arg(long, env = "REENACT_URL", default_value = "http://127.0.0.1:7777")]
    pub(super) url: String,
    /// Who asks: their sessions and runs, and those without an owner.
    #[arg(long, value_name = "USER")]
    pub(super) user: Option<String>,
}
