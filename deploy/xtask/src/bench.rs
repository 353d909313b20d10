//! `cargo xtask bench`: the benches, with what they need beside them.

use clap::Args;

use crate::{packages, place::Place, python, task::Task};

/// Runs the benches, or one of them.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Which one: `log`, `runs`, `serve`, `kafka` or `views`.
    name: Option<String>,
    /// Which parts of it, as `cargo xtask bench runs -- claims`; all without any.
    #[arg(last = true)]
    parts: Vec<String>,
}

impl Bench {
    /// Installs, builds and runs. Only the bench that AgentOS stands beside needs more than a compiler.
    pub(crate) fn run(self, place: &Place) -> anyhow::Result<()> {
        let mut task = place.cargo(&["bench", "--workspace"]);
        task = match &self.name {
            Some(name) => task.args(&["--bench", name]),
            None => task.args(&["--benches"]),
        };
        if self.name.as_deref().is_none_or(|name| name == "serve") {
            task = beside_agent_os(place, task)?;
        }
        task.args(&["--"]).args(&self.parts).run()
    }
}

/// Tells a bench where AgentOS is; the program is built with the features that the bench brings.
fn beside_agent_os(place: &Place, task: Task) -> anyhow::Result<Task> {
    packages::set_up(place, packages::FOR_BENCH)?;
    python::FOR_BENCH.set_up(place)?;
    place.cargo(&["build", "--release", "--workspace", "--bins", "--bench", "serve"]).run()?;
    Ok(task.env("REENACT_AGNO_PYTHON", python::FOR_BENCH.interpreter(place)))
}
