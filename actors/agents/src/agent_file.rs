//! Reads agent files: one TOML file an agent, all files of a folder, all their problems at once.
//!
//! Somebody who starts a server with twelve files wants to see every mistake in one go, each with file, line,
//! column and key, and what would have been allowed. Nothing is ignored silently: an unknown key is a
//! mistake.

mod agent;
mod guardrails;
mod hold;
mod model;
mod problems;
mod schema;
mod section;
#[cfg(test)]
mod tests;
mod tools;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use reenact_events::{
    AgentId, RawJson,
    agent::{AgentSpec, Limits, ModelSpec, QueueSpec},
};

pub use self::problems::AgentFileError;
use self::problems::Problems;
use crate::{environment::Environment, tool::builtin::builtin};

/// Reads every `*.toml` file of a folder, in the order of their names.
///
/// # Errors
/// All that is wrong in any of them.
pub fn load_agents(dir: &Path) -> Result<Vec<AgentSpec>, Vec<AgentFileError>> {
    load_agents_with(dir, &Environment::of_process())
}

/// As [`load_agents`], with environment variables from elsewhere.
///
/// # Errors
/// All that is wrong in any of the files.
pub fn load_agents_with(dir: &Path, environment: &Environment) -> Result<Vec<AgentSpec>, Vec<AgentFileError>> {
    let paths = agent_files(dir).map_err(|error| vec![error])?;
    let mut agents = Vec::with_capacity(paths.len());
    let mut errors = Vec::new();
    let mut files_by_id = BTreeMap::new();
    for path in paths {
        let problems = match fs::read_to_string(&path) {
            Ok(text) => Problems::of(&path, text),
            Err(error) => {
                errors.push(AgentFileError::of_file(&path, &format!("failed to read the file: {error}")));
                continue;
            }
        };
        let parsed = agent::parse(&problems, environment);
        if let Some(id) = &parsed.id
            && let Some(first) = files_by_id.insert(id.clone(), path.clone())
        {
            let message = format!("the id `{id}` is taken by `{}` already; ids must be unique", first.display());
            problems.add("id", parsed.id_span.clone(), message);
        }
        agents.extend(parsed.spec);
        errors.extend(problems.into_errors());
    }
    if errors.is_empty() { Ok(agents) } else { Err(errors) }
}

fn agent_files(dir: &Path) -> Result<Vec<PathBuf>, AgentFileError> {
    let failed = |error| AgentFileError::of_file(dir, &format!("failed to read the folder of agents: {error}"));
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.extension().is_some_and(|extension| extension == "toml") && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The tools of the demo agent.
const DEMO_TOOLS: [&str; 3] = ["calculator", "current_time", "sleep"];

/// The agent that is served when there are no files: `demo`, on the built-in model, with the built-in tools.
#[must_use]
pub fn demo_agent() -> AgentSpec {
    AgentSpec {
        id: AgentId::trusted("demo"),
        name: "Demo".to_owned(),
        description: Some("Shows streams, tools and recovery without a network or a key.".to_owned()),
        instructions: None,
        model: ModelSpec {
            provider: "demo".to_owned(),
            id: "demo".to_owned(),
            base_url: None,
            api_key_env: None,
            api_key_file: None,
            temperature_milli: None,
            max_tokens: None,
            timeout_s: model::TIMEOUT_S,
            retries: model::RETRIES,
        },
        fallbacks: Vec::new(),
        tools: DEMO_TOOLS.iter().filter_map(|name| tools::of_builtin(builtin(name)?).ok()).collect(),
        history_runs: agent::HISTORY_RUNS,
        limits: Limits { tool_calls: agent::TOOL_CALLS, turns: agent::TURNS, timeout_s: agent::TIMEOUT_S },
        queue: QueueSpec::default(),
        output_schema: None,
        session_state: None,
        add_session_state_to_context: false,
        guardrails: Vec::new(),
    }
}

/// A JSON Schema that allows an object with anything in it.
fn any_object() -> Result<RawJson, serde_json::Error> {
    RawJson::parse(r#"{"type":"object","properties":{}}"#)
}
